"""The page of a table's snapshots: what is asked, what is answered, what it costs."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.browser.factories import Installation
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable, SnapshotRun

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
QUERIES = 30


@pytest.fixture
def table(made: Installation) -> ReplicatorTable:
    """Streams."""
    return made.replicators["shop to lakehouse"].tables.get(name="orders")


@pytest.fixture
def page(table: ReplicatorTable) -> str:
    return reverse("replicators:table_snapshots", args=[table.replicator_id, table.pk])


def parts(table: ReplicatorTable) -> list[tuple[str, int]]:
    return list(table.runs.exclude(scope="whole").order_by("id").values_list("scope", "chunks__keys"))


def test_keys_come_typed_or_from_a_file(browser: Client, table: ReplicatorTable, page: str) -> None:
    answer = browser.post(page, {"by_keys": "1", "keys": "1\n2"}, follow=True)
    assert "2 keys of shop.orders are read" in answer.content.decode()
    file = SimpleUploadedFile("keys.csv", "\ufeff7\n[8]\n".encode())
    browser.post(page, {"by_keys": "1", "keys": "", "file": file})
    assert parts(table) == [("keys", [["1"], ["2"]]), ("keys", [["7"], ["8"]])]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"by_keys": "1", "keys": "1\nx"}, "Line 2: &#x27;x&#x27; is not a valid value of id"),
        ({"by_keys": "1", "keys": " "}, "Either enter keys"),
        ({"by_condition": "1", "where": "nothing = 1"}, "names nothing, which is not a replicated column"),
        ({"by_condition": "1", "where": "id = 1; DROP"}, "Invalid condition"),
        ({"by_condition": "1", "where": ""}, "This field is required"),
    ],
)
def test_a_wrong_request_is_answered_and_what_was_typed_stays(
    browser: Client, table: ReplicatorTable, page: str, asked: dict[str, str], said: str
) -> None:
    answer = browser.post(page, asked).content.decode()
    assert said in answer
    assert (asked.get("where") or asked.get("keys", "")).partition("\n")[0].strip() in answer
    assert parts(table) == []


def test_a_file_that_is_no_text_is_answered(browser: Client, table: ReplicatorTable, page: str) -> None:
    file = SimpleUploadedFile("keys.bin", b"\xff\xfe\x00")
    assert "not valid UTF-8" in browser.post(page, {"by_keys": "1", "file": file}).content.decode()
    assert parts(table) == []


def test_what_is_read_is_shown_paused_and_stopped(browser: Client, table: ReplicatorTable, page: str) -> None:
    run = services.read_rows(table=table, condition="id < 10")
    act = {name: reverse("replicators:act_on_table",
            args=[table.replicator_id, table.pk, f"{name}-snapshot"]) for name in ("pause", "resume",
            "stop")}  # fmt: skip
    live = {"HTTP_HX_REQUEST": "true"}
    assert "Reading" in browser.get(page, **live).content.decode()
    assert "id &lt; 10" in browser.get(page).content.decode()
    browser.post(act["pause"])
    assert SnapshotRun.objects.get(pk=run.pk).paused
    assert "Paused" in browser.get(page, **live).content.decode()
    browser.post(act["resume"])
    for _ in range(2):
        assert browser.post(act["stop"], **live).status_code == 204
    assert "Stopped" in browser.get(page, **live).content.decode()


def test_a_table_that_does_not_stream_says_so(browser: Client, table: ReplicatorTable, page: str) -> None:
    table.state = "failed"
    table.save()
    answer = browser.get(page).content.decode()
    assert "requires a resnapshot" in answer
    assert "Start snapshot" not in answer


def test_its_queries_do_not_grow_with_what_was_read(browser: Client, table: ReplicatorTable, page: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            browser.get(page)
        return len(found)

    before = queries()
    for number in range(25):
        services.read_keys(table=table, keys=[number])
    assert queries() <= before < QUERIES
