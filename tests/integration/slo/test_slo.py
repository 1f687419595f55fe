"""Every figure of an objective against a direct computation over the raw events of a seeded month."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replicator.telemetry.slo import FAST, SLOW, Objective, window_start
from tests.browser.factories import make_connection, make_replicator, make_table
from webapp.monitoring.models import LagRow, LagSpan, Standing, TableObjective
from webapp.monitoring.slo.attainment import WINDOWS, Figures, measure, measure_tables
from webapp.monitoring.slo.lag_histograms import Lags, add, drop_old, together
from webapp.monitoring.slo.status import keep_standings, standings
from webapp.replicators.models import Desired, Replicator, ReplicatorTable, SegmentRow, Status
from webapp.replicators.options import ReplicatorOptions

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 31, 14, 37, 21, 500_000, tzinfo=UTC)
MINUTES_5 = 300
OWN = Objective(99.5, 30)
WHOLE = Objective(99.0, MINUTES_5)


@dataclass(frozen=True)
class RawEvent:
    table: ReplicatorTable
    queryable_at: datetime
    lag: timedelta


def make(name: str, **fields: Any) -> Replicator:
    connection = make_connection(name)
    return make_replicator(connection, name, **({"source_ts": NOW - timedelta(seconds=2)} | fields))


def month_of(table: ReplicatorTable, seed: int, batches: int = 160) -> list[RawEvent]:
    """Batches over 30 days, most of them lately, with lags on, just below and just above the objective."""
    dice = random.Random(seed)
    events = []
    for _ in range(batches):
        far = dice.choice(
            (timedelta(minutes=4), timedelta(hours=1), timedelta(days=1), timedelta(days=7), timedelta(days=33))
        )
        at = NOW - far * dice.random()
        limit = dice.choice((30, MINUTES_5))
        lags = [timedelta(seconds=dice.expovariate(1 / 40)) for _ in range(dice.randrange(4))]
        lags += [timedelta(seconds=limit) + timedelta(microseconds=dice.choice((-1, 0, 1))) for _ in range(2)]
        events += [RawEvent(table, at, lag) for lag in lags]
    return events


def write(events: list[RawEvent]) -> None:
    for event_at in sorted({(event.table.pk, event.queryable_at) for event in events}):
        own = [event for event in events if (event.table.pk, event.queryable_at) == event_at]
        lags = Lags()
        for event in own:
            lags.histogram.add_one(event.lag)
        add(own[0].table, {own[0].queryable_at: lags})


def direct(events: list[RawEvent], window: str, objectives_of: dict[int, Objective]) -> tuple[int, int]:
    """Over raw events, one by one."""
    inside = [event for event in events if event.queryable_at >= window_start(window, NOW)]
    good = [e for e in inside if e.lag <= timedelta(seconds=objectives_of.get(e.table.pk, WHOLE).seconds)]
    return len(good), len(inside)


def test_every_figure_is_what_a_count_over_the_raw_events_gives(django_assert_num_queries: Any) -> None:
    one, other = make("one"), make("other")
    orders, items, own = (make_table(one, "orders"), make_table(one, "items"), make_table(one, "own"))
    alone = make_table(other, "alone")
    TableObjective.objects.create(table=own, percent=OWN.percent, seconds=OWN.seconds)
    months = {table: month_of(table, table.pk) for table in (orders, items, own, alone)}
    write([event for events in months.values() for event in events])
    drop_old(NOW)  # what is kept by policy is enough for every window
    with django_assert_num_queries(3):
        found = measure([one, other], NOW)
    assert set(found) == {(one.pk, None), (one.pk, own.pk), (other.pk, None)}
    expected = {
        (one.pk, None): ([*months[orders], *months[items], *months[own]], {own.pk: OWN}, WHOLE),
        (one.pk, own.pk): (months[own], {own.pk: OWN}, OWN),
        (other.pk, None): (months[alone], {}, WHOLE),
    }
    for key, (events, objectives_of, objective) in expected.items():
        figures = found[key]
        assert figures.objective == objective
        for window in WINDOWS:
            good, total = direct(events, window, objectives_of)
            assert total > 0
            assert (figures.tally(window).good, figures.tally(window).total) == (good, total), (key, window)
            assert figures.tally(window).percent == 100 * good / total
            assert figures.burn(window) == pytest.approx((total - good) / total / (1 - objective.percent / 100))
        good, total = direct(events, "30d", objectives_of)
        allowed = total * (1 - objective.percent / 100)
        assert figures.budget_left == pytest.approx(100 * (allowed - (total - good)) / allowed)
        burns = {w: figures.burn(w) for w in ("5m", "30m", "1h", "6h")}
        assert figures.burning(FAST) == (burns["1h"] >= 14.4 and burns["5m"] >= 14.4)
        assert figures.burning(SLOW) == (burns["6h"] >= 6 and burns["30m"] >= 6)
        assert Figures.from_dict(figures.to_dict()) == figures
    with django_assert_num_queries(3):
        of_tables = measure_tables(one, [orders.pk, items.pk, own.pk], now=NOW)
    for table, attained in of_tables.items():
        events = next(events for row, events in months.items() if row.pk == table)
        assert (attained.tally.good, attained.tally.total) == direct(events, "24h", {own.pk: OWN})
        assert (attained.own, attained.objective) == ((True, OWN) if table == own.pk else (False, WHOLE))


def test_the_number_of_queries_does_not_grow(django_assert_max_num_queries: Any) -> None:
    replicators = []
    for number in range(12):
        one = make(f"r{number}")
        replicators.append(one)
        for name in ("a", "b"):
            table = make_table(one, name)
            TableObjective.objects.create(table=table, percent=90, seconds=30)
            write([RawEvent(table, NOW, timedelta(seconds=1))])
    with django_assert_max_num_queries(5):
        keep_standings(replicators, NOW)
    assert Standing.objects.count() == 36
    with django_assert_max_num_queries(5):
        keep_standings(replicators, NOW)
    TableObjective.objects.filter(table__replicator=replicators[0]).update(percent=None, seconds=None)
    keep_standings(replicators, NOW)
    assert len(standings([one.pk for one in replicators])) == 34


def test_hours_become_days_and_what_is_old_goes() -> None:
    one = make("one")
    table = make_table(one, "orders")
    days = [NOW - timedelta(days=days, hours=hours) for days in (0, 1, 5, 40, 41, 500) for hours in (0, 1)]
    write([RawEvent(table, at, timedelta(seconds=n + 1)) for n, at in enumerate(days)])
    for _ in range(2):
        drop_old(NOW)
    kept = {span: LagRow.objects.filter(table=table, span=span) for span in LagSpan}
    assert {row.at.date() for row in kept[LagSpan.MINUTE]} == {days[0].date(), days[2].date()}
    assert together(kept[LagSpan.HOUR]).events == 6
    assert [(row.at.hour, row.events) for row in kept[LagSpan.DAY]] == [(0, 2), (0, 2)]
    assert together(kept[LagSpan.DAY]).sum == sum(range(7, 11)) * 1_000_000
    write([RawEvent(table, days[6], timedelta(seconds=1))])  # one more, long after: its day is there already
    drop_old(NOW)
    assert together(LagRow.objects.filter(table=None, span=LagSpan.DAY)).events == 5


def wait(table: ReplicatorTable, sequence: int, rows: int, oldest: float, newest: float, **fields: Any) -> None:
    """Stage a segment whose events were committed between `oldest` and `newest` seconds ago."""
    SegmentRow.objects.create(
        table=table, kind=fields.pop("kind", "log"), schema_version=1, first_sequence=sequence,
        last_sequence=sequence + rows - 1, path=f"{table.pk}/{sequence}", rows=rows, size=1,
        first_commit_ts=NOW - timedelta(seconds=oldest), last_commit_ts=NOW - timedelta(seconds=newest), **fields,
    )  # fmt: skip


def test_what_waits_for_too_long_counts_as_late_before_it_is_applied() -> None:
    one = make("one")
    table, strict = make_table(one, "orders"), make_table(one, "strict")
    TableObjective.objects.create(table=strict, percent=99, seconds=30)
    write([RawEvent(table, NOW, timedelta(seconds=1))] * 3)
    wait(table, 1000, 10, 301, 300.5)  # all late
    wait(table, 2000, 10, 400, 1)  # its oldest surely is
    wait(table, 3000, 10, 300, 2)  # none
    wait(strict, 1000, 10, 40, 31)  # late by its own objective
    wait(make_table(one, "loading", "loading"), 1000, 10, 4000, 4000)  # no objective yet
    wait(make_table(one, "failed", "failed"), 1000, 10, 4000, 4000)  # no longer followed
    wait(table, 4000, 10, 5000, 5000, applied_at=NOW)
    wait(table, 5000, 10, 5000, 5000, kind="chunk")
    figures = measure([one], NOW)
    whole = figures[one.pk, None]
    assert (whole.waiting, whole.waiting_late) == (40, 21)
    assert (whole.tally("1h").good, whole.tally("1h").total) == (3, 24)
    assert (figures[one.pk, strict.pk].waiting_late, figures[one.pk, strict.pk].tally("5m").total) == (10, 10)
    of_tables = measure_tables(one, [table.pk, strict.pk], now=NOW)
    tallies = [of_tables[row.pk].tally for row in (table, strict)]
    assert [(one.good, one.total) for one in tallies] == [(3, 14), (0, 10)]
    assert whole.behind == NOW - timedelta(seconds=400)
    assert (whole.late_now, whole.state) == (True, "missed")


def test_what_waited_for_the_load_is_late_for_nobody() -> None:
    one = make("one")
    table = make_table(one, "orders")
    TableObjective.objects.create(table=table, since=NOW - timedelta(seconds=600))
    wait(table, 1000, 10, 5000, 601)
    assert measure([one], NOW)[one.pk, None].waiting == 0


def test_an_idle_source_is_current_and_one_that_is_not_read_is_late() -> None:
    """Heartbeats move `source_ts`; without them nothing shows that there was no change."""
    idle, stalled = make("idle"), make("stalled", source_ts=NOW - timedelta(seconds=300 + 660))
    paused = make("paused", source_ts=NOW - timedelta(hours=3), desired=Desired.PAUSED, status=Status.PAUSED)
    new = make("new", source_ts=None, status=Status.CREATED, desired=Desired.STOPPED)
    found = {one.name: measure([one], NOW)[one.pk, None] for one in (idle, stalled, paused, new)}
    assert {name: figures.state for name, figures in found.items()} == {
        "idle": "idle", "stalled": "late", "paused": "unwatched", "new": "unwatched"
    }  # fmt: skip
    assert found["idle"].burn("5m") == 0
    late = found["stalled"]
    assert late.unproven == NOW - timedelta(seconds=660)
    assert late.burn("5m") == pytest.approx(100)
    assert late.burn("1h") == pytest.approx(100 * 660 / (3600 + 21.5))
    assert late.burning(FAST)
    assert found["paused"].unproven is None


def test_a_objective_that_cannot_burn_so_fast_alerts_earlier() -> None:
    assert FAST.reached(Objective(99.9, 60)) == 14.4
    assert FAST.reached(Objective(90, 60)) == pytest.approx(8)
    one = make("one", options=ReplicatorOptions(slo_percent=100).to_dict())
    table = make_table(one, "orders")
    write([RawEvent(table, NOW, timedelta(seconds=1))] * 3)
    figures = measure([one], NOW)[one.pk, None]
    assert (figures.state, figures.budget_left) == ("kept", 100)
    write([RawEvent(table, NOW, timedelta(seconds=301))])
    figures = measure([one], NOW)[one.pk, None]
    assert (figures.state, figures.burning(FAST)) == ("missed", True)


def test_while_nothing_happens_standings_are_seldom_written() -> None:
    """With heartbeats alone, standings are written every two minutes; with a change, at once."""
    one = make("one")
    table = make_table(one, "orders")

    def round_after(seconds: float) -> datetime:
        now = NOW + timedelta(seconds=seconds)
        Replicator.objects.update(source_ts=now)
        keep_standings(list(Replicator.objects.all()), now)
        return Standing.objects.get().at

    assert [round_after(seconds) for seconds in (0, 30, 60, 90)] == [NOW] * 4
    assert round_after(120) == NOW + timedelta(seconds=120)
    write([RawEvent(table, NOW + timedelta(seconds=130), timedelta(seconds=1))])
    assert round_after(150) == NOW + timedelta(seconds=150)
