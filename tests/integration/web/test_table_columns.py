"""Which columns of a table are taken: its page shows the effect first, and applies it on request."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tests.browser.factories import Installation
from tests.pages import page_text
from webapp.replicators.models import ReplicatorTable, TableSelection

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]


@pytest.fixture
def orders(made: Installation) -> ReplicatorTable:
    return ReplicatorTable.objects.get(replicator=made.replicators["shop to lakehouse"], name="orders")


def test_the_effect_is_shown_before_it_is_applied(browser: Client, orders: ReplicatorTable) -> None:
    page = reverse("replicators:table_columns", args=[orders.replicator_id, orders.pk])
    shown = browser.get(page)
    columns = [line.name for line in shown.context["columns"]]
    place = next(line.place for line in shown.context["columns"] if not line.key and "hash" in dict(line.kinds))
    values = {"column": columns, f"mask-{place}": "hash"}
    asked = browser.post(page, values)
    assert f"{columns[place]} is masked (hashed with salt)" in " ".join(asked.context["effects"])
    assert not TableSelection.objects.exclude(masks={}).exists()
    applied = browser.post(page, values | {"apply": "1"})
    assert applied.status_code == 302
    line = TableSelection.objects.exclude(masks={}).get()
    assert (line.table, line.masks) == ("orders", {columns[place]: {"kind": "hash"}})
    wrong = browser.post(page, values | {"row_filter": "nothing = 1", "apply": "1"})
    assert "column nothing of the row filter does not exist" in wrong.content.decode()
    browser.post(page, values | {"row_filter": "id>5", "apply": "1"})
    assert TableSelection.objects.exclude(row_filter="").get().row_filter == "id > 5"
    again = browser.get(page).context["columns"][place]
    assert (again.kind, again.kept) == ("hash", True)
    assert "no longer masked" in " ".join(browser.post(page, {"column": columns}).context["effects"])


def test_a_mask_that_does_not_fit_is_said_beside_its_column(browser: Client, orders: ReplicatorTable) -> None:
    page = reverse("replicators:table_columns", args=[orders.replicator_id, orders.pk])
    lines = browser.get(page).context["columns"]
    number = next(line for line in lines if not line.key and line.column.type.kind in {"int", "bigint", "decimal"})
    values = {"column": [line.name for line in lines], f"mask-{number.place}": "fixed", f"value-{number.place}": "x"}
    answer = browser.post(page, values | {"apply": "1"})
    assert answer.status_code == 200
    assert "is not a valid value of" in answer.context["columns"][number.place].error
    assert "is not a valid value of" in answer.content.decode()
    assert not TableSelection.objects.exclude(masks={}).exists()


def test_the_wizard_keeps_masks_in_the_draft(browser: Client, made: Installation) -> None:
    panel = reverse("replicators:columns", args=[made.draft.pk])
    table = {"of": "shop", "table": "orders", "slug": "x"}
    lines = browser.get(panel, table).context["columns"]
    place = next(line.place for line in lines if "partial" in dict(line.kinds))
    values = table | {"column": [line.name for line in lines], f"mask-{place}": "partial", f"last-{place}": "2"}
    values["row_filter"] = "id >= 7"
    assert browser.post(panel, values).context["masked"] == 1
    made.draft.refresh_from_db()
    mask = {"kind": "partial", "first": 0, "last": 2}
    assert made.draft.data["selection"]["masks"] == [["shop", "orders", {lines[place].name: mask}]]
    assert made.draft.data["selection"]["filters"] == [["shop", "orders", "id >= 7"]]
    assert browser.get(panel, table).context["columns"][place].last == "2"
    values["column"] = [line.name for line in lines if line.place != place]
    assert browser.post(panel, values).context["masked"] == 0


def test_a_pattern_shows_what_it_matches_and_is_added_to_the_draft(browser: Client, made: Installation) -> None:
    preview = reverse("replicators:pattern", args=[made.draft.pk])
    shown = page_text(browser.get(preview, {"pattern": "crm.note_?"}))
    assert "<b>8</b> tables of crm match now: <span" in shown
    assert "note_1" in shown
    assert "has neither * nor ?" in browser.get(preview, {"pattern": "crm.note_1"}).content.decode()
    assert browser.get(preview, {"pattern": ""}).content.strip() == b""
    pick = reverse("replicators:pick", args=[made.draft.pk])
    for text in ("crm.note_*", "!crm.note_7"):
        values = {"op": "pattern", "on": "1", "pattern": text if text[0] != "!" else "!crm.*_7"}
        assert browser.post(pick, values).status_code == 200
    made.draft.refresh_from_db()
    assert made.draft.data["selection"]["patterns"] == [["crm", "note_*", False, False], ["crm", "*_7", True, True]]
    answer = browser.post(pick, {"op": "pattern", "on": "0", "pattern": "crm.*_7"})
    assert "crm.note_*" in answer.content.decode()
    made.draft.refresh_from_db()
    assert len(made.draft.data["selection"]["patterns"]) == 1
