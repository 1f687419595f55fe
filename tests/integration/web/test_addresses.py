"""Every page of the product is one that the browser tests look at: at both widths, in both colour schemes, by keyboard,
with axe.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import resolve

from tests.addresses import addresses
from tests.browser.factories import Installation
from tests.browser.test_pages import pages
from webapp.accounts.models import ApiToken
from webapp.alerts.models import Channel

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
# Another test covers the sign-in; the API's documentation is drf-spectacular's page, not ours.
ELSEWHERE, NOT_OURS = ["/login/"], {"api-docs"}


def is_page(response: Any) -> bool:
    """A whole one: fragments for htmx have no doctype."""
    html = response.headers.get("Content-Type", "").startswith("text/html")
    return bool(html and response.status_code == 200 and b"<!doctype html" in response.content[:200].lower())


def test_every_page_is_among_those_that_the_browser_tests_visit(browser: Client, made: Installation) -> None:
    busy = made.replicators["shop to lakehouse"]
    channel, rule = Channel.objects.first(), busy.alert_rules.first()
    assert channel is not None
    assert rule is not None
    filled = {
        "connections:*.pk": made.connection.pk, "connections:*.kind": "mysql",
        "destinations:*.pk": busy.destination_id, "destinations:*.kind": "kafka",
        "api-destination*.pk": busy.destination_id,
        "accounts:*.pk": ApiToken.objects.get().pk,
        "accounts:*.token": "none", "alerts:channel.pk": channel.pk, "alerts:delete.pk": channel.pk,
        "alerts:test.pk": channel.pk, "alerts:snooze.pk": rule.pk, "*.table": busy.tables.get(name="orders").pk,
        "api-*.kind": "lag", "*.pk": busy.pk, "*.replicator": busy.pk, "*.draft": made.draft.pk, "*.step": "source",
        "*.action": "pause", "*.row": 0,
        "*stream*.name": "everything", "api-stream*.group": "billing",
    }  # fmt: skip
    seen = set()
    for name, path in addresses(filled):
        for client in (browser, Client()):
            response: HttpResponse = client.get(path)
            if is_page(response):
                seen.add(name)
    visited = {resolve(path.partition("?")[0]).view_name for path in (*pages(made), *ELSEWHERE)}
    assert len(seen) > 20
    assert seen - visited - NOT_OURS == set()
