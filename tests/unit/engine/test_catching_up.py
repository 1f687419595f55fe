"""How the log that waited for an initial load is parted into merges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any

import pyarrow as pa
import pytest

from replicator.engine.apply.scheduler import ApplyOptions, run_apply
from replicator.engine.capture.chunk_admitter import _as_reads
from replicator.engine.reporting import Level
from replicator.errors import PositionLost, TargetConflict, TargetTableGone, UnsupportedDdl, ValuesLost
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import UNCHANGED, Column, TableSchema
from replicator.model.types import DataType
from replicator.state.journal import ApplyTable, EventKind, Segment, SegmentKind, TableEvent
from replicator.state.tables import TableState
from replicator.targets.base import ApplyResult, Capabilities, Merge, Position

TABLE = TableId("public", "t")
SCHEMA = TableSchema(TABLE, (Column("id", DataType.parse("int"), False, "int4"),), ("id",), partial=True)


@dataclass
class Journal:
    """An ApplyStore with one streaming table and these items."""

    listed: list[Segment | TableEvent]
    partial: bool = True
    marks: list[int] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    state: TableState = TableState.STREAMING
    over: bool = False
    applied_before: int = 0
    mode: Mode = Mode.MIRROR
    skipped: int = -1

    def tables(self, busy: Any = (), *, without: Any = (), most: int | None = None) -> list[ApplyTable]:
        if self.over or TABLE in {*busy, *without}:
            return []
        target = ("lake", "t")
        return [
            ApplyTable(
                TABLE,
                target,
                self.state,
                0,
                self.applied_before,
                50,
                1,
                True,
                False,
                "L",
                1,
                target_name=target,
                mode=self.mode,
            )
        ]

    def items(self, table: TableId, after: int, *, chunks_only: bool = False) -> list[Segment | TableEvent]:
        assert (table, chunks_only) == (TABLE, False)
        ends = ((item.last_sequence if isinstance(item, Segment) else item.sequence, item) for item in self.listed)
        return [item for end, item in ends if end > after]

    def holders(self, table: TableId, sequences: Any) -> set[str]:
        assert table == TABLE
        segments = [one for one in self.listed if isinstance(one, Segment)]
        return {one.path for one in segments for n in sequences if one.first_sequence <= n <= one.last_sequence}

    def skip(self, upto: int) -> None:
        self.skipped = upto

    def schema(self, table: TableId, version: int) -> TableSchema:
        assert (table, version) == (TABLE, 1)
        return replace(SCHEMA, partial=self.partial)

    def turned(self, lease: Any, table: TableId) -> None:
        self.over = (lease, table) == (None, TABLE)

    def applied(self, lease: Any, result: Any) -> None:
        del lease
        self.marks.append(result.applied)

    def failed(self, lease: Any, table: TableId, error: Exception) -> None:
        del lease, table
        self.failures.append(error)
        self.over = True

    def move(self, lease: Any, table: TableId, state: TableState, target: Any = None) -> None:
        assert (lease, table, target) == (None, TABLE, None)
        self.state = state


@dataclass
class Merges:
    """A Target that holds the load up to 50 and notes what it is given, and into which others wrote `conflicts`
    times.
    """

    conflicts: int = 0
    seen: list[Any] = field(default_factory=list)
    most: int | None = None  # segments of a merge that it does at a time
    kept_busy: list[bool] = field(default_factory=list)
    capabilities = Capabilities()

    def position(self, table: Any) -> Position:
        del table
        return Position(0, 50, 1, "L")

    def apply(self, table: Any, change: Any, seen: str | None = None) -> ApplyResult:
        del table, seen
        if self.conflicts:
            self.conflicts -= 1
            message = "Another worker committed in the meantime."
            raise TargetConflict(message)
        upto = None
        if self.most is not None and len(change.segments) > self.most:
            part = change.segments[: self.most]
            change, upto = replace(change, segments=part), part[-1].last_sequence
        self.seen.append(change)
        return ApplyResult(0, 0, 0, "merge", 0.0, upto)

    def prepare(self) -> None:
        """Nothing to start."""

    def interrupt(self) -> None:
        """Nothing to interrupt."""

    def maintain(self, table: Any, *, busy: bool = False) -> str:
        del table
        self.kept_busy.append(busy)
        return ""


class Silent:
    def log(self, level: Level, text: str, **more: Any) -> None: ...


def segment(first: int, last: int) -> Segment:
    return Segment(TABLE, SegmentKind.LOG, 1, first, last, f"{first}.parquet", 10, 100, updates=10)


def apply(journal: Journal, target: Merges, most: int = 15) -> None:
    options = ApplyOptions(1, most)
    run_apply(target=target, store=journal, lease=None, keep=lambda: True, options=options, report=Silent())  # type: ignore[arg-type, call-arg]


def merges(journal: Journal, conflicts: int = 0) -> list[tuple[list[int], bool]]:
    target = Merges(conflicts)
    apply(journal, target)
    if conflicts < 2:
        assert journal.failures == []
    return [([s.first_sequence for s in one.segments], one.emptied) for one in target.seen if isinstance(one, Merge)]


PARTS = [segment(1, 9), segment(10, 19), segment(20, 49), segment(60, 69), segment(70, 79)]


@pytest.mark.parametrize(
    ("partial", "expected"), [(True, [[1, 10, 20], [60], [70]]), (False, [[1], [10], [20], [60], [70]])]
)
def test_up_to_the_loads_end_the_log_of_a_table_that_leaves_out_values_is_one_merge(
    partial: bool,
    expected: list[list[int]],
) -> None:
    assert [parts for parts, _ in merges(Journal(list(PARTS), partial))] == expected


def test_a_merge_is_told_of_the_truncate_that_follows_it() -> None:
    truncate = TableEvent(TABLE, 50, EventKind.TRUNCATE_TABLE)
    assert merges(Journal([*PARTS[:3], truncate, *PARTS[3:]])) == [([1, 10, 20], True), ([60], False), ([70], False)]


def test_a_merge_of_which_the_target_did_a_part_goes_on_from_there() -> None:
    journal, target = Journal(list(PARTS), partial=False), Merges(most=2)
    apply(journal, target, most=1000)
    assert [[one.first_sequence for one in merge.segments] for merge in target.seen] == [[1, 10], [20, 60], [70]]
    assert journal.marks == [19, 69, 79]


@pytest.mark.parametrize(("seconds", "busy"), [(5, False), (120, True), (None, False)])
def test_the_upkeep_of_a_table_that_is_far_behind_leaves_worn_files_for_later(
    seconds: float | None, busy: bool
) -> None:
    committed = None if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    target = Merges()
    apply(Journal([replace(one, last_commit_ts=committed) for one in PARTS]), target)
    assert target.kept_busy == [busy]


def test_a_conflict_is_a_failure_only_where_it_lasts() -> None:
    """Most often it is the last commit of a worker that lost its lease."""
    assert len(merges(Journal(list(PARTS), partial=False), conflicts=1)) == len(PARTS)
    lasting = Journal(list(PARTS))
    assert merges(lasting, conflicts=2) == []
    assert [type(error) for error in lasting.failures] == [TargetConflict]


@pytest.mark.parametrize("swept", [True, False])
def test_a_sweep_that_the_journal_does_not_know_of_ends_the_reload(swept: bool) -> None:
    """The worker before died between the target's commit and the journal."""
    event = TableEvent(TABLE, 40, EventKind.SWEEP if swept else EventKind.TRUNCATE_TABLE, detail={"below": 9})
    journal, target = Journal([event], state=TableState.RELOADING), Merges()
    target.position = lambda table: Position(40, 50, 1, "L")  # type: ignore[method-assign]
    run_apply(
        target=target,
        store=journal,
        lease=None,
        keep=lambda: True,
        options=ApplyOptions(1, 15),
        report=Silent(),  # type: ignore[arg-type]
    )
    assert (target.seen, journal.marks, journal.failures) == ([], [40], [])
    assert journal.state is (TableState.STREAMING if swept else TableState.RELOADING)


def test_what_was_seen_after_the_lease_ran_out_is_left_alone() -> None:
    """The worker stood still before it looked: another owner's table would be taken for one of an older load, and made
    again.
    """
    target, ours = Merges(), chain([True, True], repeat(False))  # asked by the loop, by the turn, and after it looked
    target.position = lambda table: Position(0, 50, 1, "another load")  # type: ignore[method-assign]
    journal = Journal(list(PARTS))
    run_apply(
        target=target,
        store=journal,
        lease=None,
        keep=lambda: next(ours),
        options=ApplyOptions(1, 15),
        report=Silent(),  # type: ignore[arg-type]
    )
    assert (target.seen, journal.failures) == ([], [])


def test_rows_of_a_chunk_leave_nothing_out() -> None:
    reads = _as_reads(pa.record_batch({"id": pa.array([1, 2], pa.int32())}), SCHEMA, 7)
    assert reads.schema == SCHEMA.change_arrow
    assert reads.column(UNCHANGED).to_pylist() == [None, None]


def ahead(journal: Journal, item: str, applied: int = 79) -> Merges:
    """One turn with a target that has applied up to there, and says that `item` was the last."""
    target = Merges()
    target.position = lambda table: Position(applied, 50, 1, "L", item=item)  # type: ignore[method-assign]
    run_apply(target=target, store=journal, lease=None, keep=lambda: True, options=ApplyOptions(1, 15), report=Silent())  # type: ignore[arg-type, call-arg]
    return target


@pytest.mark.parametrize("item", ["", PARTS[-1].path])
def test_a_target_ahead_of_the_journal_is_gone_by(item: str) -> None:
    """The worker before died between the two; positions of older versions do not say what was last."""
    journal = Journal(list(PARTS))
    assert ahead(journal, item).seen == []
    assert (journal.marks, journal.failures, journal.skipped) == ([79], [], -1)


@pytest.mark.parametrize(("item", "lost"), [(PARTS[-1].path, False), (PARTS[0].path, True), ("of-another-past", True)])
def test_a_target_in_the_midst_of_an_item_is_of_this_past_only_if_it_names_it(item: str, lost: bool) -> None:
    journal = Journal(list(PARTS))
    target = ahead(journal, item, 75)
    assert [type(error) for error in journal.failures] == [ValuesLost] * lost
    assert journal.marks[:1] == ([] if lost else [75])
    assert [one.segments for one in target.seen] == ([] if lost else [[PARTS[-1]]])


def test_a_target_that_holds_what_the_journal_never_had_is_read_anew() -> None:
    """The metadata database was restored: number 79 is another change there, or none."""
    for parts in (PARTS, PARTS[:3]):
        journal = Journal(list(parts))
        assert ahead(journal, "of-another-past.parquet").seen == []
        assert ([type(error) for error in journal.failures], journal.marks, journal.skipped) == ([ValuesLost], [], 79)


@pytest.mark.parametrize(
    ("mode", "error"), [(Mode.MIRROR, ValuesLost), (Mode.HISTORY, TargetTableGone), (Mode.SOFT_DELETE, TargetTableGone)]
)
@pytest.mark.parametrize(
    "there",
    [None, Position(70, 50, 1, "another load"), Position(-1, -1, 0, "", error=PositionLost("Its snapshots expired."))],
)
def test_a_table_that_lost_its_rows_in_the_target_is_read_anew(
    there: Position | None, mode: Mode, error: type[Exception]
) -> None:
    """The table was dropped or replaced in the target, and the journal keeps applied changes for some hours only.

    A table that kept rows which the source no longer has is not resnapshotted automatically: the catalog may be the
    wrong one.
    """
    journal, target = Journal(list(PARTS), applied_before=59, mode=mode), Merges()
    target.position = lambda table: there  # type: ignore[method-assign, assignment, return-value]
    run_apply(target=target, store=journal, lease=None, keep=lambda: True, options=ApplyOptions(1, 15), report=Silent())  # type: ignore[arg-type, call-arg]
    assert (target.seen, [type(one) for one in journal.failures]) == ([], [error])


def test_a_definition_that_cannot_be_made_stops_its_own_load() -> None:
    journal, target = Journal(list(PARTS), applied_before=59), Merges()
    refused = UnsupportedDdl("Its key has 17 columns.")
    target.position = lambda table: Position(70, 50, 1, "L", error=refused)  # type: ignore[method-assign]
    run_apply(target=target, store=journal, lease=None, keep=lambda: True, options=ApplyOptions(1, 15), report=Silent())  # type: ignore[arg-type, call-arg]
    assert (target.seen, journal.failures) == ([], [refused])
