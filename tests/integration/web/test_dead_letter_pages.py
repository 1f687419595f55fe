"""The page of dead-letter rows: what is shown, what it costs, and what a click does."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.browser.factories import Installation
from tests.pages import page_text
from webapp.console.presenters.fleet import fleet
from webapp.monitoring.dead_letters.selectors import dump
from webapp.monitoring.models import DeadLetterRow
from webapp.replicators.models import Replicator, ReplicatorTable

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def busy(made: Installation) -> Replicator:
    return made.replicators["shop to lakehouse"]


@pytest.fixture
def reviews(busy: Replicator) -> ReplicatorTable:
    return busy.tables.get(name="reviews")


def test_bytes_are_shown_as_people_read_them() -> None:
    lines = dump(b"\0A review\xff\n~" + b"zz" * 5).splitlines()
    assert lines == [
        "0000  00 41 20 72 65 76 69 65 77 ff 0a 7e 7a 7a 7a 7a  .A review..~zzzz",
        "0010  7a 7a 7a 7a 7a 7a                                zzzzzz",
    ]


def test_the_page_shows_place_reason_and_bytes(browser: Client, busy: Replicator, reviews: ReplicatorTable) -> None:
    page = reverse("monitoring:dead_letters", args=[busy.pk])
    text = page_text(browser.get(page))
    for said in ("binlog.000214:88120077", "0-1-99120000", "contains text that is not valid Unicode", "00 11 22 00 00"):
        assert said in text
    assert "92,057 bytes, of which 2,057 are stored" in text
    assert [line.row.sequence for line in browser.get(page, **HTMX).context["lines"]] == [
        99_100_002,
        99_100_001,
        99_100_000,
    ]
    assert [line.row.sequence for line in browser.get(page, {"state": "over"}, **HTMX).context["lines"]] == [99_100_003]
    other = busy.tables.get(name="orders")
    for query, number in (
        ({"table": str(reviews.pk)}, 3),
        ({"table": str(other.pk)}, 0),
        ({"table": "x'", "state": ""}, 4),
    ):
        assert len(browser.get(page, query, **HTMX).context["lines"]) == number


def test_a_full_page_costs_as_much_as_an_empty_one(browser: Client, busy: Replicator, reviews: ReplicatorTable) -> None:
    page = reverse("monitoring:dead_letters", args=[busy.pk])
    browser.get(page)
    with CaptureQueriesContext(connection) as few:
        browser.get(page)
    rows = [DeadLetterRow(replicator=busy, table=reviews, sequence=n, operation="INSERT", code="c", message="m",
            offset="x:1",
                      data=bytes(60_000), size=60_000) for n in range(200)]  # fmt: skip
    DeadLetterRow.objects.bulk_create(rows)
    with CaptureQueriesContext(connection) as many:
        answer = browser.get(page)
    assert len(many) == len(few)
    assert len(answer.content) < 400_000


def test_the_bytes_are_downloaded_whole(browser: Client, busy: Replicator) -> None:
    row = DeadLetterRow.objects.get(sequence=99_100_001)
    answer = browser.get(reverse("monitoring:dead_letter_bytes", args=[busy.pk, row.pk]))
    assert answer.content == bytes(row.data)
    assert answer["Content-Disposition"] == 'attachment; filename="dead-letter-99100001.bin"'
    assert browser.get(reverse("monitoring:dead_letter_bytes", args=[busy.pk + 1, row.pk])).status_code == 404


def act(browser: Client, busy: Replicator, sequence: int, action: str) -> int:
    row = DeadLetterRow.objects.get(sequence=sequence)
    return browser.post(reverse("monitoring:act_on_dead_letter", args=[busy.pk, row.pk, action]), **HTMX).status_code


def test_rows_are_discarded_and_tables_replayed(browser: Client, busy: Replicator, reviews: ReplicatorTable) -> None:
    assert act(browser, busy, 99_100_000, "forget") == 404
    assert act(browser, busy, 99_100_000, "discard") == 204
    reviews.refresh_from_db()
    row = DeadLetterRow.objects.get(sequence=99_100_000)
    assert (reviews.dead_letters, row.resolution, str(row.resolved_by)) == (2, "discarded", "ada")
    assert act(browser, busy, 99_100_001, "replay") == 204
    reviews.refresh_from_db()
    assert (reviews.state, reviews.dead_letters) == ("loading", 2)
    page = browser.get(reverse("monitoring:dead_letters", args=[busy.pk])).content.decode()
    assert "Resnapshot running" in page
    assert act(browser, busy, 99_100_001, "discard-all") == 204
    reviews.refresh_from_db()
    assert reviews.dead_letters == 0


def test_a_table_that_is_not_exact_says_so_everywhere(
    browser: Client, busy: Replicator, reviews: ReplicatorTable
) -> None:
    tables = browser.get(reverse("replicators:tables", args=[busy.pk])).content.decode()
    assert "3 dead-letter rows" in tables
    assert browser.get(reverse("replicators:overview", args=[busy.pk])).context["header"].dead_letters == 3
    busy.tables.filter(state="failed").update(state="streaming")
    busy.alert_rules.all().delete()
    line = next(line for line in fleet().lines if line.replicator == busy)
    assert (line.reason, line.show) == ("3 dead-letter rows are missing in the target.", "person")
