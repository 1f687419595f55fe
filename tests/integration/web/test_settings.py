"""The settings page says of every option when a change of it takes effect."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from django.test import Client
from django.urls import reverse

from tests.browser.factories import Installation
from webapp.console.presenters.forms import OptionsForm
from webapp.replicators.options import ReplicatorOptions

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
# Options that share a sentence under another name; pausing snapshots is a separate button, which says it.
UNDER = {"slo_percent": "slo", "slo_minutes": "slo", "ddl_policy": "ddl", "zero_dates": "values"}
ELSEWHERE = {"snapshot_paused"}


def test_every_option_says_when_a_change_takes_effect(browser: Client, made: Installation) -> None:
    page = browser.get(reverse("replicators:settings", args=[made.replicators["erp"].pk])).content.decode()
    for option in fields(ReplicatorOptions):
        if option.name not in ELSEWHERE:
            said = OptionsForm.effects[UNDER.get(option.name, option.name)]
            assert said.startswith("Takes effect "), option.name
            assert said in page, option.name
    for part in ("objectives", "alerts", "quiet"):  # the other cards say it in their heads
        head = page.split(f'id="{part}"')[1].split("</div>")[0]
        assert "effect" in head, part


def form_of(page: str, marker: str) -> dict[str, str]:
    """What a browser would send of the form with this text in it, but for what people enter."""
    form = next(one for one in page.split("<form")[1:] if marker in one.partition("</form>")[0]).partition("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="(as_of)" value="(\w+)"', form))


def test_two_tabs_do_not_undo_each_other_in_silence(browser: Client, made: Installation) -> None:
    one = made.replicators["shop to lakehouse"]
    path = reverse("replicators:settings", args=[one.pk])
    first = second = form_of(browser.get(path).content.decode(), "Save settings")
    assert first["as_of"]
    given = {
        "slo_percent": "99", "slo_minutes": "5", "on_table_failure": "stop", "on_log_lost": "stop",
        "on_decode_error": "dead_letter",
        "retention_warn_percent": "60", "zero_dates": "text", "snapshot_parallel": "4", "snapshot_chunk_seconds": "1",
        "snapshot_chunk_rows": "5000",
        "snapshot_delay_seconds": "1", "snapshot_most_running": "40", "snapshot_most_lag_seconds": "2.5",
        "mode": "mirror", "merge_parallel": "2",
        "ddl_preset": "strict",
    }  # fmt: skip
    assert browser.post(path, {**given, **first, "retry_minutes": "7"}).status_code == 302
    answer = browser.post(path, {**given, **second, "retry_minutes": "30"})
    page = answer.content.decode()
    assert "These settings were changed after the page was opened." in page
    one.refresh_from_db()
    assert one.parsed_options.retry_minutes == 7
    assert 'value="30"' in page, "what was entered is still there"
    assert browser.post(path, {**given, **form_of(page, "Save settings"), "retry_minutes": "30"}).status_code == 302
    one.refresh_from_db()
    assert one.parsed_options.retry_minutes == 30


def test_neither_do_rules_masks_and_connections(browser: Client, made: Installation) -> None:
    one = made.replicators["shop to lakehouse"]
    stale = {"as_of": "0" * 18}
    rules = reverse("alerts:save_rules", args=[one.pk])
    assert "These settings were changed" in browser.post(rules, stale, follow=True).content.decode()
    connection = reverse("connections:edit", args=[made.connection.pk])
    assert "These settings were changed" in browser.post(connection, stale).content.decode()
    taking = reverse("replicators:table_columns", args=[one.pk, one.tables.get(name="orders").pk])
    columns = {"column": ["id"], "apply": "1"}
    assert "These settings were changed" in browser.post(taking, columns | stale).content.decode()
    for path, marker in ((connection, "Save"), (taking, "columns-show")):
        assert form_of(browser.get(path).content.decode(), marker)["as_of"]
    page = browser.get(reverse("replicators:settings", args=[one.pk])).content.decode()
    assert form_of(page, "Save alerts")["as_of"]
