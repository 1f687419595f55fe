"""Failures of one replicator and of the fleet: what is shown, counted and filtered, what it costs, what can be done."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from replicator.errors import SourceBusy
from tests.browser.factories import Installation, make_replicator, make_table
from tests.pages import page_text
from webapp.monitoring.models import Failure, LogLine, Stage
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.worker.failure.failures import stage_waits

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
HTMX = {"HTTP_HX_REQUEST": "true"}


def fail(replicator: Replicator, table: ReplicatorTable | None, hours: float, **values: Any) -> Failure:
    now = timezone.now()
    over = values.pop("over", False)
    one = Failure.objects.create(
        replicator=replicator, table=table, stage=values.pop("stage", "apply"), code=values.pop("code", "target"),
        message=values.pop("message", "m"), resolved_at=now if over else None, **values,
    )  # fmt: skip
    Failure.objects.filter(pk=one.pk).update(at=now - timedelta(hours=hours))
    return one


@pytest.fixture
def one(made: Installation) -> Replicator:
    Failure.objects.all().delete()
    return make_replicator(made.connection, "failing")


@pytest.fixture
def tables(one: Replicator) -> list[ReplicatorTable]:
    return [make_table(one, name) for name in ("a", "b")]


def shown(browser: Client, address: str, **query: str) -> set[int]:
    page = browser.get(address, query, **HTMX)
    return {line.failure.pk for line in page.context["lines"]}


def test_failures_are_filtered_and_open_ones_never_too_old(
    browser: Client, one: Replicator, tables: list[ReplicatorTable]
) -> None:
    first, second = tables
    old_open = fail(one, first, 400)
    old_over = fail(one, first, 30, over=True, code="staging")
    recent = fail(one, second, 0.5, over=True, stage="capture")
    whole = fail(one, None, 2, code="source_unreachable", stage="capture")
    page = reverse("monitoring:failures", args=[one.pk])
    everything = {old_open.pk, old_over.pk, recent.pk, whole.pk}
    assert shown(browser, page) == everything - {old_over.pk}
    assert shown(browser, page, since="1h") == {old_open.pk, recent.pk, whole.pk}
    assert shown(browser, page, since="all") == shown(browser, page, since="30d") == everything
    assert shown(browser, page, since="7d", state="over") == {old_over.pk, recent.pk}
    assert shown(browser, page, since="7d", table=str(first.pk)) == {old_open.pk, old_over.pk}
    assert shown(browser, page, since="7d", table="0") == {whole.pk}
    assert shown(browser, page, since="7d", code="target", stage="capture") == {recent.pk}
    assert shown(browser, page, since="∞", table="x'", code="", stage="none", state="?") == everything - {old_over.pk}


def test_what_only_a_restart_from_scratch_mends_offers_it(browser: Client, one: Replicator) -> None:
    scratch = reverse("replicators:act", args=[one.pk, "start-anew"])
    page = reverse("monitoring:failures", args=[one.pk])
    fail(one, None, 1, code="source_unreachable", stage="capture")
    assert scratch not in browser.get(page).content.decode()
    lost = fail(one, None, 1, code="log_purged", stage="capture")
    assert browser.get(page).content.decode().count(scratch) == 1
    Failure.objects.filter(pk=lost.pk).update(resolved_at=timezone.now())
    assert scratch not in browser.get(page, {"state": "all"}).content.decode()


def test_what_waits_for_others_is_not_told_as_stopped(browser: Client, one: Replicator) -> None:
    replicator = one
    stage_waits(replicator.pk, Stage.CAPTURE, SourceBusy("A new slot waits for pid 7.", remedy="End it."))
    stage_waits(replicator.pk, Stage.CAPTURE, SourceBusy("A new slot waits for pid 8.", remedy="End it."))
    page = page_text(browser.get(reverse("monitoring:failures", args=[replicator.pk]), **HTMX))
    assert "waits for pid 8" in page
    assert "waits for pid 7" not in page
    assert "resumes automatically when the blocking transaction ends" in page
    assert "Stopped" not in page
    assert "retries exhausted" not in page


def test_counts_are_those_of_the_range(browser: Client, one: Replicator, tables: list[ReplicatorTable]) -> None:
    made = []
    for number in range(40):
        table, code = (*tables, None)[number % 3], ("target", "staging")[number % 2]
        over, hours = number % 5 == 0, number * 1.5
        fail(one, table, hours, code=code, over=over)
        made.append((str(table) if table else "", code, over, hours))
    within = [row for row in made if row[3] < 24 or not row[2]]
    attempts = Counter((table, code) for table, code, _, _ in within)
    opened = Counter((table, code) for table, code, over, _ in within if not over)
    page = browser.get(reverse("monitoring:failures", args=[one.pk]), **HTMX)
    found = [line.count for line in page.context["counts"]]
    assert {(c.table, c.code): c.attempts for c in found} == dict(attempts)
    assert {(c.table, c.code): c.open for c in found if c.open} == dict(opened)
    assert [c.attempts for c in found] == sorted(attempts.values(), reverse=True)
    for line in page.context["counts"]:  # each leads to what it counts
        address = f"{page.request['PATH_INFO']}?{line.query}"
        assert browser.get(address, **HTMX).context["pager"].total == line.count.attempts


def test_the_page_of_the_fleet_has_those_of_all(
    browser: Client, made: Installation, one: Replicator, tables: list[ReplicatorTable]
) -> None:
    other = made.replicators["erp"]
    mine, theirs = fail(one, tables[0], 1), fail(other, None, 1, stage="capture")
    page = reverse("monitoring:all_failures")
    assert shown(browser, page) == {mine.pk, theirs.pk}
    assert shown(browser, page, replicator=str(other.pk)) == {theirs.pk}
    assert shown(browser, reverse("monitoring:failures", args=[one.pk]), replicator=str(other.pk)) == {mine.pk}


@pytest.mark.parametrize("number", [3, 300])
def test_what_the_pages_cost_does_not_grow(
    browser: Client, one: Replicator, number: int, django_assert_max_num_queries: Any
) -> None:
    tables = [make_table(one, f"t{place:03}") for place in range(number)]
    Failure.objects.bulk_create(
        Failure(replicator=one, table=table, stage="apply", code=code, message="m") for table in tables for code in "xy"
    )
    with django_assert_max_num_queries(6):
        page = page_text(browser.get(reverse("monitoring:failures", args=[one.pk]), **HTMX))
    assert ("at least <b>200</b>" in page) is (number == 300)
    with django_assert_max_num_queries(5):
        assert browser.get(reverse("monitoring:all_failures"), **HTMX).status_code == 200
    with django_assert_max_num_queries(13):
        assert browser.get(reverse("replicators:head", args=[one.pk]), **HTMX).status_code == 200


def test_a_failure_says_where_what_and_when_next(
    browser: Client, one: Replicator, tables: list[ReplicatorTable]
) -> None:
    fail(
        one, tables[0], 0.1, message="<b>1e400</b> does not fit", remedy="Widen it.", attempt=7, first_sequence=1200,
        last_sequence=1300, offset_after="binlog.000214:100", offset_until="binlog.000214:900",
        next_retry_at=timezone.now() + timedelta(seconds=50),
    )  # fmt: skip
    page = page_text(browser.get(reverse("monitoring:failures", args=[one.pk]), **HTMX))
    for text in (
        "&lt;b&gt;1e400&lt;/b&gt; does not fit", "Widen it.", "attempt 7", "next retry",
        "binlog.000214:100 to binlog.000214:900",
        "changes 1,200 to 1,300 wait",
    ):  # fmt: skip
        assert text in page
    assert "<b>1e400" not in page


def test_a_table_is_skipped_and_resumed_from_the_row(
    browser: Client, one: Replicator, tables: list[ReplicatorTable]
) -> None:
    table = tables[0]
    fail(one, table, 1)
    page = reverse("monitoring:failures", args=[one.pk])

    def offered() -> set[str]:
        text = browser.get(page, **HTMX).content.decode()
        act = reverse("replicators:act_on_table", args=[one.pk, table.pk, "x"]).removesuffix("x/")
        return {name for name in ("retry", "resnapshot", "skip", "resume") if f'"{act}{name}/"' in text}

    assert offered() == {"retry", "resnapshot", "skip"}
    skip = reverse("replicators:act_on_table", args=[one.pk, table.pk, "skip"])
    assert Client().post(skip).status_code == 302  # not without signing in
    assert browser.post(skip, **HTMX).status_code == 204
    table.refresh_from_db()
    assert table.state == "skipped"
    assert offered() == {"resume"}
    assert "Resolved" in browser.get(page, **HTMX).content.decode()
    browser.post(reverse("replicators:act_on_table", args=[one.pk, table.pk, "resume"]), **HTMX)
    table.refresh_from_db()
    assert table.state in {"loading", "reloading"}


def test_logs_are_filtered_by_stage_and_fold_the_stack_away(browser: Client, one: Replicator) -> None:
    stack = "java.lang.ArithmeticException: overflow\n\tat org.apache.spark.Foo"
    LogLine.objects.create(replicator=one, level="error", stage="apply", message="overflow", detail={"stack": stack})
    LogLine.objects.create(replicator=one, level="info", stage="capture", message="committed")
    address = reverse("monitoring:logs", args=[one.pk])
    page = browser.get(address, {"stage": "apply"}, **HTMX).content.decode()
    assert "committed" not in page
    assert (
        page.index("overflow")
        < page.index("<details")
        < page.index("at org.apache.spark.Foo")
        < page.index("</details>")
    )
    assert "newest 20,000" in page
    files = reverse("monitoring:download", args=[one.pk])
    text = b"".join(browser.get(files, {"stage": "apply"}).streaming_content).decode().splitlines()
    assert [text[0].endswith("ERROR   apply overflow"), *text[1:]] == [
        True, "    | java.lang.ArithmeticException: overflow", "    | \tat org.apache.spark.Foo"
    ]  # fmt: skip
