"""The fleet page: replicators that need a user come first, with the reason; the filter; the number of queries."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.browser.factories import Installation, fail_table, make_replicator, make_table
from tests.pages import page_text
from webapp.alerts.models import Alert
from webapp.console.presenters.fleet import fleet
from webapp.monitoring.models import Failure
from webapp.replicators.models import Desired, Replicator, Status

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
HTMX = {"HTTP_HX_REQUEST": "true"}


def shown(browser: Client, **asked: str) -> list[str]:
    page = browser.get(reverse("replicators:fleet_rows"), asked, **HTMX).content.decode()
    return re.findall(r'class="strong fleet-name"[^>]*>([^<]+)<', page)


def test_those_that_need_somebody_come_first_then_those_that_may_soon(browser: Client, made: Installation) -> None:
    Alert.objects.all().delete()
    quiet = made.replicators["reference data"]
    late = make_replicator(made.connection, "late", source_ts=quiet.created_at.replace(year=2020))
    make_table(late, "t")
    lost = make_replicator(made.connection, "lost", log_concern="lost")
    make_table(lost, "t")
    found = {line.replicator.name: (line.show, line.reason) for line in fleet().lines}
    assert found["billing"] == (
        "person",
        "The source no longer has binlog.000117, where this replicator would go on.",
    )
    assert found["shop to lakehouse"] == ("person", "1 table has failed.")
    assert found["lost"] == ("person", "The source no longer has the log to resume from.")
    assert found["erp"] == ("person", "The server erp.internal:3306 does not answer: connection refused."), "for long"
    assert (found["late"], found["reference data"]) == (("busy", ""), ("fine", ""))
    assert found["new one"] == ("off", "")
    order = [line.show for line in fleet().lines]
    assert order == ["person"] * 4 + ["busy"] + ["fine"] + ["off"] * 2
    assert fleet().lines[0].replicator.name == "billing"


def test_an_alert_or_failed_tables_need_somebody_whatever_else(made: Installation) -> None:
    paused = made.replicators["analytics of a department with a rather long name"]
    assert next(line.show for line in fleet().lines if line.replicator == paused) == "off"
    for number in range(2):
        fail_table(make_table(paused, f"broken {number}"))
    [line] = [line for line in fleet().lines if line.replicator == paused]
    assert (line.show, line.reason) == ("person", "2 tables have failed.")
    quiet = made.replicators["reference data"]
    rule = quiet.alert_rules.get(kind="lag")
    now = quiet.created_at
    Alert.objects.create(rule=rule, replicator=quiet, summary="late", since=now, seen_at=now, fired_at=now)
    [line] = [line for line in fleet().lines if line.replicator == quiet]
    assert (line.show, line.reason) == ("person", "1 alert fires.")


def test_a_long_reason_is_cut_and_secrets_are_not_in_it(made: Installation) -> None:
    one = made.replicators["billing"]
    one.error_message = "password=hunter22 " + "x" * 500
    one.save()
    [line] = [line for line in fleet().lines if line.replicator == one]
    assert (len(line.reason), "hunter22" in line.reason) == (120, False)


def test_the_filter_shows_some_and_counts_all(browser: Client, made: Installation) -> None:
    people = {line.replicator.name for line in fleet().lines if line.show == "person"}
    assert set(shown(browser, show="person")) == people
    assert len(shown(browser)) == len(made.replicators)
    assert shown(browser, show="nonsense") == shown(browser)
    assert shown(browser, show="person", q="billing") == ["billing"]
    assert shown(browser, show="fine", q="billing") == []
    page = browser.get(reverse("replicators:fleet"), {"show": "fine", "q": "billing"}).content.decode()
    assert f"{len(people)} of {len(made.replicators)} need" in page
    assert "No replicator matches" in page
    assert 'name="show" id="fleet-show" value="fine"' in page
    assert {choice.show: choice.count for choice in fleet(QueryDict("q=billing&show=fine")).choices}[""] == len(
        made.replicators
    )
    Replicator.objects.update(desired=Desired.PAUSED, status=Status.PAUSED, log_concern="")
    Alert.objects.all().delete()
    made.replicators["shop to lakehouse"].tables.all().delete()
    assert "All healthy" in browser.get(reverse("replicators:fleet")).content.decode()


def test_a_source_that_is_away_for_a_moment_is_told_and_needs_nobody_yet(browser: Client, made: Installation) -> None:
    Replicator.objects.exclude(name="erp").delete()
    erp = made.replicators["erp"]
    erp.first_failure_at = timezone.now()
    erp.save()
    for attempt, stage in ((1, "capture"), (2, "capture"), (1, "snapshot")):
        Failure.objects.create(replicator=erp, stage=stage, code="source_unreachable", message="away", attempt=attempt)
    [line] = fleet().lines
    assert (line.show, line.failures) == ("busy", 1), "one outage, however often it was tried"
    page = browser.get(reverse("replicators:fleet")).content.decode()
    assert "All healthy" not in page
    assert "1 of 1 is retrying or late" in page


def test_tables_of_a_failed_replicator_do_not_stream(browser: Client, made: Installation) -> None:
    one = made.replicators["billing"]
    make_table(one, "t")
    page = browser.get(reverse("replicators:overview", args=[one.pk])).content.decode()
    assert "1 halted" in page
    assert "streaming</span>" not in page


def test_a_fleet_is_shown_in_pages_and_a_calm_one_is_not_sent_again(browser: Client, made: Installation) -> None:
    for number in range(70):
        make_replicator(made.connection, f"more {number:02}", desired=Desired.STOPPED, status=Status.STOPPED)
    first, second = (shown(browser, show="off", page=page) for page in "12")
    assert (len(first), len(second)) == (50, 22)
    assert not set(first) & set(second)
    asked = {"path": reverse("replicators:fleet_rows"), "data": {"q": "more 0"}}
    answer = browser.get(**asked, **HTMX, headers={"accept-encoding": "gzip"})
    assert (answer.status_code, answer["Content-Encoding"]) == (200, "gzip")
    again = browser.get(**asked, **HTMX, headers={"if-none-match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    Replicator.objects.filter(name="more 01").update(status=Status.PAUSED)
    assert browser.get(**asked, **HTMX, headers={"if-none-match": answer["ETag"]}).status_code == 200


def test_it_costs_the_same_whatever_the_number_of_replicators(
    browser: Client, made: Installation, django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        make_table(make_replicator(made.connection, f"more {number}"), "t")
    with django_assert_max_num_queries(9):
        assert len(shown(browser)) == 40 + len(made.replicators)


def test_one_is_one_row_and_not_rows(browser: Client, made: Installation) -> None:
    one = make_replicator(made.connection, "small", next_sequence=1)
    make_table(one, "t", rows_inserted=1, rows_updated=0, rows_deleted=0, rows_read=0)
    page = page_text(browser.get(reverse("replicators:overview", args=[one.pk]), **HTMX))
    assert "1 row<" in page
    assert "0 rows<" in page
    assert "1 change in all" in page
    assert not re.search(r"\b1 (rows|changes|tables|segments)\b", page)
