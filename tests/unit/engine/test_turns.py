"""Who has a turn when: the apply loop over several tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from replicator.engine.apply import scheduler
from replicator.engine.apply.scheduler import ApplyOptions, run_apply
from replicator.engine.wake_event import WakeEvent
from replicator.errors import SparkUnavailable, TargetConflict, TargetError
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType
from replicator.state.journal import ApplyTable, Segment, SegmentKind
from replicator.state.tables import TableState
from replicator.targets.base import ApplyResult, Capabilities, Position, TargetTable

A, B, C = (TableId("shop", name) for name in "abc")


@dataclass
class Store:
    """An ApplyStore; `pending` is the number of segments of each table, `order` the order of the turns."""

    pending: dict[TableId, int]
    done: dict[TableId, int] = field(default_factory=dict)
    upto: dict[TableId, int] = field(default_factory=dict)
    order: list[TableId] = field(default_factory=list)
    failures: list[TableId] = field(default_factory=list)
    made: list[TableId] = field(default_factory=list)
    looks: int = 0
    loading: bool = False

    def tables(self, busy: Any = (), *, without: Collection[TableId] = (), most: int | None = None) -> list[ApplyTable]:
        self.looks += 1
        due = [t for t, last in self.pending.items() if last > self.done.get(t, 0) and t not in {*busy, *without}][
            :most
        ]
        self.order += due
        self.upto |= {table: self.pending[table] for table in due}
        state = TableState.RELOADING if self.loading else TableState.STREAMING
        return [ApplyTable(t, (t.database, t.name), state, 0, 0, -1, None, False, False, "L", 1) for t in due]

    def items(self, table: TableId, after: int, *, chunks_only: bool = False) -> list[Segment]:
        assert not chunks_only
        return [Segment(table, SegmentKind.LOG, 1, n, n, f"{n}", 1, 1) for n in range(after + 1, self.upto[table] + 1)]

    def schema(self, table: TableId, version: int) -> TableSchema:
        assert version == 1
        return TableSchema(table, (Column("id", DataType.parse("int"), False, "int4"),), ("id",))

    def applied(self, lease: Any, result: Any) -> None:
        assert lease is None
        self.done[result.table] = result.applied

    def failed(self, lease: Any, table: TableId, error: Exception) -> None:
        assert lease is None
        assert error
        self.failures.append(table)
        self.pending[table] = 0

    def turned(self, lease: Any, table: TableId) -> None:
        assert lease is None
        self.made.append(table)


@dataclass
class Lake:
    """A Target; `merging` is called with the table's name in the midst of a merge."""

    merging: Callable[[str], None] = lambda _: None
    capabilities = Capabilities(commit_seconds=0.0)
    at: dict[str, int] = field(default_factory=dict)

    def position(self, table: TargetTable) -> Position:
        return Position(self.at.get(table.name, 0), -1, 1, "L")

    def apply(self, table: TargetTable, change: Any, seen: str | None = None) -> ApplyResult:
        assert seen == "L"
        self.merging(table.name)
        self.at[table.name] = change.upto
        return ApplyResult(1, 0, 0, "merge", 0.0)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        assert table
        return ""

    def interrupt(self) -> None:
        """Nothing to interrupt."""


class Silent:
    def log(self, *_: Any, **more: Any) -> None: ...


def run(store: Store, lake: Lake, parallel: int = 2, **more: Any) -> int:
    options = {"keep": lambda: True, **more}
    return run_apply(
        target=lake,  # type: ignore[arg-type]
        store=store,  # type: ignore[arg-type]
        lease=None,  # type: ignore[arg-type]
        options=ApplyOptions(parallel),
        report=Silent(),  # type: ignore[arg-type]
        **options,
    )


def test_it_ends_when_nothing_is_left_to_do() -> None:
    store = Store({A: 3, B: 1, C: 2})
    assert run(store, Lake()) == 3
    assert (store.done, sorted(store.made, key=str)) == ({A: 3, B: 1, C: 2}, [A, B, C])


def test_a_slow_table_does_not_hold_up_the_next_turns_of_the_others() -> None:
    store, slow = Store({A: 1, B: 1}), threading.Event()

    def merging(name: str) -> None:
        if name == "a":
            assert slow.wait(10)
        elif store.pending[B] < 5:
            store.pending[B] += 1
        else:
            slow.set()

    assert run(store, Lake(merging)) == 6
    assert store.order == [A, B, B, B, B, B]


def test_what_is_journaled_while_a_merge_goes_on_is_begun_with_at_the_bell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "POLL_SECONDS", 60.0)
    store, wake, begun = Store({A: 1}), WakeEvent(), threading.Event()

    def merging(name: str) -> None:
        if name == "b":
            begun.set()
            return
        time.sleep(0.1)  # the loop has looked, and waits
        store.pending[B] = 1
        wake.set()
        assert begun.wait(30)

    assert run(store, Lake(merging), wake=wake) == 2


def test_a_name_that_another_table_has_still_is_waited_for() -> None:
    """`a` can be applied once `b` was; with one turn at a time it comes first all the same."""
    store, lake = Store({A: 1, B: 1}), Lake()

    def merging(name: str) -> None:
        if name == "a" and not lake.at.get("b"):
            message = "b has its name"
            raise TargetConflict(message)

    lake.merging = merging
    assert run(store, lake, parallel=1) == 2
    assert (store.order, store.failures) == ([A, B, A], [])


def test_a_conflict_that_lasts_is_told_and_stops_nobody() -> None:
    store = Store({A: 1, B: 1})

    def merging(name: str) -> None:
        if name == "a":
            message = "for ever"
            raise TargetConflict(message)

    assert run(store, Lake(merging)) == 1
    assert (store.failures, store.made) == ([A], [B])


def test_a_tables_failure_is_the_tables_and_sparks_is_everybodys() -> None:
    def merging(name: str) -> None:
        if name == "a":
            raise error

    error: Exception = TargetError("a's")
    store = Store({A: 1, B: 1})
    assert run(store, Lake(merging)) == 1
    assert (store.failures, store.done) == ([A], {B: 1})
    error = SparkUnavailable("gone")
    with pytest.raises(SparkUnavailable):
        run(Store({A: 1, B: 1}), Lake(merging))


def test_when_it_is_to_stop_no_turn_begins_and_those_under_way_end() -> None:
    wanted = threading.Event()
    wanted.set()
    store = Store({A: 1, B: 1, C: 1})
    assert run(store, Lake(lambda _: wanted.clear()), parallel=1, keep=wanted.is_set) == 1
    assert (list(store.done), store.made) == ([A], [])


def test_a_merge_that_takes_long_is_interrupted_when_it_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE_SECONDS", 0.05)
    wanted, interrupted = threading.Event(), threading.Event()
    wanted.set()

    def merging(_: str) -> None:
        wanted.clear()
        assert interrupted.wait(20)
        raise TargetError("cancelled")

    store, lake = Store({A: 1}), Lake(merging)
    lake.interrupt = interrupted.set  # type: ignore[method-assign]
    assert run(store, lake, keep=wanted.is_set) == 0
    assert (store.failures, store.done, store.made) == ([], {}, [])


def test_a_merge_that_outlasts_the_time_ends_by_itself_and_others_have_turns_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE_SECONDS", 0.05)
    time_left, followed, interrupted = threading.Event(), threading.Event(), threading.Event()
    time_left.set()

    def merging(name: str) -> None:
        if name == "a":
            time_left.clear()
            store.pending[B] = 1
            assert followed.wait(20)
        else:
            followed.set()
            time.sleep(0.2)  # it outlasts the other

    store, lake = Store({A: 1}), Lake(merging)
    lake.interrupt = interrupted.set  # type: ignore[method-assign]
    assert run(store, lake, keep=time_left.is_set, hurried=lambda: False) == 2
    assert (store.done, store.made) == ({A: 1, B: 1}, [B])  # whether there was more of `a` was not looked at
    assert not interrupted.is_set()


def test_a_failure_that_outlasts_the_time_is_told() -> None:
    time_left = threading.Event()
    time_left.set()

    def merging(_: str) -> None:
        time_left.clear()
        raise TargetError("at last")

    store = Store({A: 1})
    assert run(store, Lake(merging), keep=time_left.is_set, hurried=lambda: False) == 0
    assert store.failures == [A]


def test_a_table_that_has_something_to_do_and_does_nothing_does_not_spin() -> None:
    store = Store({A: 1}, upto={A: 0})
    store.items = lambda *_, **__: []  # type: ignore[method-assign]
    assert run(store, Lake()) == 0
    assert store.order == [A]
    assert store.looks <= 3


def test_each_thread_lets_go_of_the_store_once_also_after_a_failure() -> None:
    left: list[int] = []

    def merging(name: str) -> None:
        if name == "c":
            message = "gone"
            raise SparkUnavailable(message)

    with pytest.raises(SparkUnavailable):
        run(Store({A: 1, B: 1, C: 1}), Lake(merging), released=lambda: left.append(threading.get_ident()))
    assert len(left) == len(set(left)) == 2


def test_a_table_that_follows_the_log_has_no_two_turns_within_a_short_time_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From begin to begin."""
    began: list[float] = []
    begin = scheduler._TableScheduler.begin

    def noted(turns: scheduler._TableScheduler, *given: Any, **more: Any) -> None:
        began.append(time.monotonic())
        begin(turns, *given, **more)

    monkeypatch.setattr(scheduler._TableScheduler, "begin", noted)
    store, lake = Store({A: 1}), Lake()
    lake.capabilities = Capabilities(commit_seconds=0.3)

    def merging(name: str) -> None:
        assert name == "a"
        store.pending[A] = min(store.pending[A] + 1, 3)

    lake.merging = merging
    assert run(store, lake) == 3
    assert [after - before >= 0.3 for before, after in pairwise(began)] == [True, True]
    assert store.done == {A: 3}


@pytest.mark.parametrize(("took", "rests"), [(0.3, 0.3 * scheduler.REST_FACTOR), (100.0, scheduler.MOST_REST_SECONDS)])
def test_a_table_rests_longer_after_a_long_turn(took: float, rests: float) -> None:
    """Where turns are long the machine is busy: fewer commits that are larger cost it less."""
    resting = dict[TableId, float]()
    turns = scheduler._TableScheduler(Store({}), None, 2, WakeEvent(), resting, 0.01)  # type: ignore[arg-type]
    before = time.monotonic()
    turns._began[A] = before - took
    turns._rest(A, scheduler.ApplyTask(commits=1))
    assert before + rests <= resting[A] <= time.monotonic() + scheduler.MOST_REST_SECONDS


@pytest.mark.parametrize("loading", [False, True])
def test_only_a_table_that_follows_the_log_rests_for_a_short_time(*, loading: bool) -> None:
    store, lake, resting = Store({A: 1}, loading=loading), Lake(), dict[TableId, float]()
    lake.capabilities = Capabilities(commit_seconds=0.9)
    rested: list[bool] = []
    stop = threading.Event()

    def turned() -> None:
        rested.append(A in resting)
        stop.set()

    assert run(store, lake, resting=resting, turned=turned, keep=lambda: not stop.is_set()) == 1
    assert rested == [not loading]


def test_a_table_rests_between_commits_where_each_costs() -> None:
    """The rest lasts across calls with the same `resting`; a table that has not committed begins at once."""
    store, lake, resting = Store({A: 1}), Lake(), dict[TableId, float]()
    lake.capabilities = Capabilities(commit_seconds=60.0)
    before = time.monotonic()
    assert run(store, lake, resting=resting) == 1
    assert before + 60.0 <= resting[A] <= time.monotonic() + 60.0
    store.pending |= {A: 2, B: 1}
    assert run(store, lake, resting=resting) == 1
    assert store.done == {A: 1, B: 1}
    resting[A] = time.monotonic()
    assert run(store, lake, resting=resting) == 1
    assert store.done == {A: 2, B: 1}
    store.pending[A] = 3
    assert run(store, Lake(), resting={}) == 1
