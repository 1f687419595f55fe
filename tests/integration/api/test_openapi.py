"""The OpenAPI document and its page."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from webapp.replicators.models import Replicator


def document() -> dict[str, Any]:
    GENERATOR_STATS.reset()
    found: dict[str, Any] = SchemaGenerator(urlconf="webapp.console.api.urls").get_schema(request=None, public=True)
    return found


def test_the_document_is_valid_and_made_without_a_warning() -> None:
    schema = document()
    assert not GENERATOR_STATS, GENERATOR_STATS.emit_summary()
    validate_schema(schema)


def test_every_operation_says_what_it_does_and_how_it_fails() -> None:
    operations = [operation for path in document()["paths"].values() for operation in path.values()]
    assert len(operations) > 40
    assert not [o["operationId"] for o in operations if not o.get("description")]
    documented = [o for o in operations if "v1" in str(o) or "401" in o["responses"]]
    assert all("400" in o["responses"] for o in documented)


def test_the_page_needs_no_network(user: User) -> None:
    browser = Client()
    browser.force_login(user)
    page = browser.get("/api/docs/")
    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.content.decode())
    assert loaded
    assert not [address for address in loaded if "//" in address]


def test_every_address_answers_the_method_options(client: APIClient, replicator: Replicator) -> None:
    table = replicator.tables.first()
    values = {
        "replicator": str(replicator.pk),
        "id": str(table.pk if table else 1),
        "table": "1",
        "name": "s",
        "group": "g",
    }
    asked = []
    for path in document()["paths"]:
        address = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "1"), path)
        asked.append((client.options(f"/api{address}").status_code, path))
    assert len(asked) > 50
    assert not [(code, path) for code, path in asked if code != 200]
