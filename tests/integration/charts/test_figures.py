"""Every figure of a chart against a direct computation over the raw merges, events and looks of a seeded month."""

from __future__ import annotations

import importlib
import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection

from replicator.model.identifiers import TableId
from replicator.state.journal import Applied
from tests.browser.factories import make_connection, make_replicator, make_table
from webapp.monitoring.charts import history, ranges
from webapp.monitoring.charts.history import Point
from webapp.monitoring.charts.ranges import Range
from webapp.monitoring.charts.rollups import drop_old_rows
from webapp.monitoring.models import Failure, GaugeRow, MetricMinute, MetricRow
from webapp.monitoring.slo.gauges import look
from webapp.monitoring.slo.lag_histograms import Lags, add, drop_old
from webapp.replicators.models import Replicator, ReplicatorTable, SegmentRow
from webapp.worker.store.applied_segments import AppliedBatch, Marked
from webapp.worker.store.counters import count_applied

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 31, 14, 37, 21, 500_000, tzinfo=UTC)
SUMS = ("inserts", "updates", "deletes", "reads", "bytes", "merges")


@dataclass
class Merge:
    """One target commit, as it was."""

    table: ReplicatorTable
    at: datetime
    seconds: float
    inserts: int
    updates: int
    deletes: int
    reads: int
    bytes: int
    lags: list[timedelta] = field(default_factory=list)
    merges: int = 1


def month_of(table: ReplicatorTable, seed: int, number: int = 250) -> list[Merge]:
    """Most of them lately, some beyond what is kept by the hour."""
    dice = random.Random(seed)
    found = []
    for _ in range(number):
        far = dice.choice(
            (timedelta(minutes=50), timedelta(hours=5), timedelta(days=1), timedelta(days=6), timedelta(days=50))
        )
        counts = [dice.randrange(50) for _ in range(4)]
        lags = [timedelta(microseconds=int(dice.lognormvariate(14, 2))) for _ in range(dice.randrange(30))]
        at = NOW - far * dice.random()
        found.append(Merge(table, at, dice.random() * 4, *counts, dice.randrange(10**6), lags))
    return found


def write(merges: list[Merge]) -> None:
    """As the marks do."""
    for one in merges:
        marked = Marked("log", "", 0, one.inserts, one.updates, one.deletes, one.reads, None, None, one.bytes)
        result = Applied(TableId("shop", one.table.name), 1, -1, one.seconds, "merge", one.at)
        count_applied(one.table, AppliedBatch.of([marked]), result)
        late = Lags()
        for lag in one.lags:
            late.histogram.add_one(lag)
        add(one.table, {one.at: late})


def make() -> tuple[Replicator, list[ReplicatorTable]]:
    replicator = make_replicator(make_connection(), "one")
    Replicator.objects.update(created_at=NOW - timedelta(days=90))
    replicator.refresh_from_db()
    return replicator, [make_table(replicator, name) for name in ("orders", "items")]


def shown(monkeypatch: pytest.MonkeyPatch, **query: str) -> Range:
    monkeypatch.setattr(ranges.timezone, "now", lambda: NOW)
    return ranges.asked(query, NOW)


def inside(point: Point, seconds: int, at: datetime) -> bool:
    return point.at <= at < point.at + timedelta(seconds=seconds)


def check(point: Point, merges: list[Merge]) -> None:
    """`merges`: those of the point's time."""
    for name in SUMS:
        assert getattr(point, name) == sum(getattr(one, name) for one in merges), (point.at, name)
    assert point.merge_seconds == pytest.approx(sum(one.seconds for one in merges))
    assert point.merge_longest == pytest.approx(max((one.seconds for one in merges), default=0))
    lags = sorted(lag for one in merges for lag in one.lags)
    for percent in (50, 95, 99):
        told = point.lag(percent)
        if not lags:
            assert told is None
            continue
        true = lags[math.ceil(len(lags) * percent / 100) - 1].total_seconds()
        assert told is not None
        assert true <= told <= max(true + 0.05, true * 1.05), (
            point.at,
            percent,
        )  # never flattering, and as near as is said


QUERIES: list[dict[str, str]] = [
    {"range": "1h"},
    {"range": "6h"},
    {"range": "24h"},
    {"range": "7d"},
    {"range": "30d"},
    {"from": "2026-03-30T08:15", "to": "2026-03-30T20:00Z"},
    {"from": "2026-03-20T00:00", "to": "2026-03-24T12:00"},
    {"from": "2026-02-01T00:00"},
]


def test_every_point_is_what_a_count_over_the_raw_merges_gives(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any, subtests: pytest.Subtests
) -> None:
    replicator, tables = make()
    months = {table.pk: month_of(table, table.name.__len__()) for table in tables}
    write([one for month in months.values() for one in month])
    drop_old(NOW)  # what is kept by policy is enough for every range
    drop_old_rows(NOW)
    for query, table in product(QUERIES, (None, *tables)):
        with subtests.test(query=query, table=table):
            asked = shown(monkeypatch, **query)
            own = [one for pk, month in months.items() if table is None or pk == table.pk for one in month]
            with django_assert_max_num_queries(5):
                points = history.read(replicator, asked, table=table)
            assert 2 <= len(points) <= 300
            assert points[0].at <= max(asked.begin, NOW - timedelta(days=90))
            seen = 0
            for point in points:
                there = [one for one in own if inside(point, asked.step, one.at)]
                seen += len(there)
                check(point, there)
            begin = points[0].at
            until = asked.points[-1] + timedelta(seconds=asked.step)
            assert seen == sum(begin <= one.at < until for one in own) > 0


def test_hours_and_days_are_the_sums_of_their_minutes() -> None:
    """At the mark, when hours grow old, and when a late round finds a day that is there already."""
    replicator, tables = make()
    merges = [one for table in tables for one in month_of(table, table.pk)]
    write(merges)

    def kept(span: int, table: ReplicatorTable | None) -> dict[datetime, tuple[int, ...]]:
        rows = MetricRow.objects.filter(replicator=replicator, span=span, table=table)
        return {row.at: tuple(getattr(row, name) for name in SUMS) for row in rows}

    def direct(
        span: int, table: ReplicatorTable | None, until: datetime, since: datetime
    ) -> dict[datetime, tuple[int, ...]]:
        found: dict[datetime, tuple[int, ...]] = {}
        for one in merges:
            at = datetime.fromtimestamp(one.at.timestamp() // span * span, UTC)
            if since <= at < until and table in (None, one.table):
                sums = found.get(at, (0,) * len(SUMS))
                found[at] = tuple(a + getattr(one, name) for a, name in zip(sums, SUMS, strict=True))
        return found

    ever, never = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    for table in (None, *tables):
        assert kept(3600, table) == direct(3600, table, never, ever)
    assert kept(60, None) == direct(60, None, never, ever)
    assert kept(60, tables[0]) == {}
    for now in (NOW - timedelta(days=9), NOW, NOW + timedelta(hours=30)):
        drop_old_rows(now)
        edge = (now - timedelta(days=35)).replace(hour=0, minute=0, second=0, microsecond=0)
        for table in (None, *tables):
            assert kept(86_400, table) == direct(86_400, table, edge, ever)
            assert kept(3600, table) == direct(3600, table, never, edge)
    assert kept(60, None) == direct(60, None, never, NOW + timedelta(hours=30) - timedelta(days=3))


def test_what_was_counted_before_is_put_together_by_the_migration() -> None:
    replicator, tables = make()
    write([one for table in tables for one in month_of(table, table.pk)])
    names = (*SUMS, "table_id", "span", "at")
    hours = set(MetricRow.objects.filter(span=3600).values_list(*names))
    assert len(hours) > 100
    MetricRow.objects.all().delete()
    MetricMinute.objects.create(replicator=replicator, table=None, minute=NOW, inserts=5, events=5)  # capture's
    migration = importlib.import_module("webapp.monitoring.migrations.0005_charts")
    with connection.cursor() as cursor:
        cursor.execute(migration.FILL)
    assert set(MetricRow.objects.filter(span=3600).values_list(*names)) == hours


def test_what_waits_is_looked_at_and_an_idle_replicator_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    replicator, (orders, items) = make()
    other = make_table(make_replicator(make_connection("other"), "other"), "alone")
    at = NOW - timedelta(minutes=10)
    assert look(at) == 0
    committed = {orders: [90, 30], items: [45], other: [600]}
    for table, ages in committed.items():
        for place, age in enumerate(ages):
            made = {
                "kind": "log",
                "schema_version": 1,
                "path": f"{table.pk}/{place}",
                "rows": 100 + age,
                "size": 1000 * age,
            }
            first = 501 + 10 * place
            then = at - timedelta(seconds=age)
            SegmentRow.objects.create(
                table=table,
                first_sequence=first,
                last_sequence=first + 9,
                first_commit_ts=then,
                last_commit_ts=at,
                **made,
            )
    with django_assert_num_queries(3):  # with the savepoint around it
        look(at)
    SegmentRow.objects.filter(table=orders, path__endswith="/0").update(applied_at=at)
    look(at + timedelta(seconds=30))  # within the same minute less waits: the most of it stays
    look(at + timedelta(minutes=2))
    SegmentRow.objects.update(applied_at=at)
    rows = GaugeRow.objects.count()
    assert look(at + timedelta(minutes=3)) == 0
    assert GaugeRow.objects.count() == rows
    asked = shown(monkeypatch, range="1h")
    for table, first, then in (
        (None, (190 + 130 + 145, 165_000, 90.0), (130 + 145, 75_000, 165.0)),
        (orders, (190 + 130, 120_000, 90.0), (130, 30_000, 150.0)),
        (items, (145, 45_000, 75.0), (145, 45_000, 165.0)),
    ):
        points = {point.at: point for point in history.read(replicator, asked, table=table)}
        minute = at.replace(second=0, microsecond=0)
        for when, expected in ((minute, first), (minute + timedelta(minutes=2), then)):
            found = points[when]
            assert (found.waiting_rows, found.waiting_bytes, found.waiting_seconds) == pytest.approx(expected)
        assert (
            points[minute + timedelta(minutes=1)].waiting_rows
            == points[minute + timedelta(minutes=3)].waiting_rows
            == 0
        )


def test_what_the_source_keeps_is_written_where_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks with news, and before the first point, it is what it was."""
    replicator, _ = make()
    mib = 1 << 20

    def seen(minutes_ago: int, size: int) -> int:
        at = NOW - timedelta(minutes=minutes_ago)
        Replicator.objects.update(log_held_bytes=size, log_held_at=at)
        return look(at)

    assert seen(300, 500 * mib) == 2
    assert seen(299, 500 * mib + mib // 2) == 0  # hardly any news
    assert seen(298, 504 * mib) == 0  # less than a hundredth
    assert seen(40, 700 * mib) == 2
    assert seen(20, 10 * mib) == 2
    Replicator.objects.update(log_held_at=NOW - timedelta(hours=1))
    assert look(NOW) == 0  # the source was not measured since
    points = history.read(replicator, shown(monkeypatch, range="1h"))
    assert [point.log_kept for point in points] == [500 * mib] * 20 + [700 * mib] * 20 + [10 * mib] * 20
    hours = history.read(replicator, shown(monkeypatch, range="7d"))
    assert [point.log_kept for point in hours[-7:]] == [None, *[500 * mib] * 4, 700 * mib, 10 * mib]
    drop_old_rows(NOW + timedelta(days=40))
    assert [row.log_kept for row in GaugeRow.objects.filter(span=86_400)] == [700 * mib]


def test_failures_and_retries_are_those_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    replicator, (orders, items) = make()
    for table, ago, retried in (
        (orders, 5.2, True),
        (orders, 5.5, False),
        (items, 5.7, True),
        (None, 30, True),
        (orders, 90, True),
    ):
        at = NOW - timedelta(minutes=ago)
        made = Failure.objects.create(
            replicator=replicator, table=table, stage="apply", code="x", next_retry_at=at if retried else None
        )
        Failure.objects.filter(pk=made.pk).update(at=at)
    asked = shown(monkeypatch, range="1h")
    told = [(p.failures, p.retries) for p in history.read(replicator, asked) if p.failures]
    assert told == [(1, 1), (2, 1), (1, 1)]
    assert [(p.failures, p.retries) for p in history.read(replicator, asked, table=orders) if p.failures] == [
        (1, 0),
        (1, 1),
    ]


def test_the_minute_that_has_begun_is_shown_once_something_is_known_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    replicator, (orders, _) = make()
    asked = shown(monkeypatch, range="1h")
    minute = NOW.replace(second=0, microsecond=0)
    assert history.read(replicator, asked)[-1].at == minute - timedelta(minutes=1)
    write([Merge(orders, NOW, 1.0, 43, 0, 0, 0, 0)])
    last = history.read(replicator, asked)[-1]
    assert (last.at, last.inserts, last.seconds) == (minute, 43, 21.5)


def test_before_a_replicator_was_there_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    replicator, _ = make()
    Replicator.objects.update(created_at=NOW - timedelta(minutes=10))
    replicator.refresh_from_db()
    points = history.read(replicator, shown(monkeypatch, range="1h"))
    assert [point.known for point in points] == [False] * 50 + [True] * 10
