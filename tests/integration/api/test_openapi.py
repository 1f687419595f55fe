"""The OpenAPI document and its page."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema


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
