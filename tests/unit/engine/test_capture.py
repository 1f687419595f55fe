"""Commits under way while the log is read on: what is written, journaled, confirmed, in which order, and what faults
leave of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replicator import faults
from replicator.engine.capture import capture as module
from replicator.engine.capture.capture import CaptureOptions, run_capture
from replicator.errors import (
    LogCorrupt,
    SourcePermissionDenied,
    SourceReplaced,
    StorageFull,
    TableDisappeared,
    TableError,
    TidemarkError,
    UnsupportedType,
    ValueDoesNotFit,
)
from replicator.model.change import (
    Cascade,
    CascadesAdded,
    ChangeBatch,
    Commit,
    Ddl,
    LogMessage,
    Operation,
    SchemaChange,
    TableFailed,
    UndecodableRow,
    UndecodableRows,
)
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import BINARY, INT
from replicator.sources.base import SourceState
from replicator.staging import writer as writer_module
from replicator.staging.storage import Storage
from replicator.state.journal import (
    CapturePlan,
    Checkpoint,
    DdlAction,
    JournalEntry,
    SchemaVersion,
    TrackedTable,
)
from replicator.state.lease import Lease
from replicator.state.tables import TableState

A, B = TableId("shop", "a"), TableId("shop", "b")
ROWS = 10
Script = Callable[[int], Sequence[LogMessage | Exception]]


def schema(table: TableId) -> TableSchema:
    columns = (Column("k", INT, False, "int"), Column("b", BINARY, True, "blob"))
    return TableSchema(table, columns, ("k",))


@dataclass(frozen=True, order=True)
class Place:
    """A position in the log: the number of transactions before it."""

    at: int

    def to_dict(self) -> dict[str, Any]:
        return {"at": self.at}


def batch(table: TableId, first: int, rows: int = ROWS, value: bytes = b"") -> ChangeBatch:
    arrow = schema(table).change_arrow
    values = {"_operation": ["INSERT"] * rows, "b": [value] * rows}
    numbers = list(range(first, first + rows))
    arrays = [
        pa.array(numbers if f.name in {"_sequence_num", "k"} else values.get(f.name, [None] * rows), f.type)
        for f in arrow
    ]
    return ChangeBatch(table, schema(table), pa.RecordBatch.from_arrays(arrays, schema=arrow))


@dataclass
class World:
    """A source whose log is a script, and a journal in memory; all that happens is in `seen`, in order."""

    folder: Path
    script: list[Script]
    seen: list[str] = field(default_factory=list)
    entries: list[JournalEntry] = field(default_factory=list)
    plan_number: int = 1
    stopped: bool = False
    allocated: int = 0
    has_gaps: bool = False
    ends: int = 10**9
    new: frozenset[TableId] = frozenset({A, B})

    # the source, its catalog, its log

    tables: Any = None

    def catalog(self) -> World:
        return self

    def describe(self, tables: Any) -> dict[TableId, TableSchema]:
        return {table: schema(table) for table in tables}

    def log(self, replicator: str) -> World:
        return self

    def log_reader(self, replicator: str, options: Any) -> World:
        return self

    def prepare(self, tables: Any, *, first: bool, waiting: Any = None) -> SourceState:
        return self.state_of_log()

    def state_of_log(self) -> SourceState:
        return SourceState(Place(self.ends), "server", None, has_gaps=self.has_gaps)  # type: ignore[arg-type]

    def read(self, start: Place, tables: Any, schemas: Any) -> Iterator[LogMessage]:
        ordinal = 0
        for at in range(start.at, len(self.script)):
            for message in self.script[at](ordinal):
                self.allocated = max(self.allocated, pa.total_allocated_bytes())
                if isinstance(message, Exception):
                    raise message
                self.seen.append(f"read {at}")
                ordinal += message.data.num_rows if isinstance(message, ChangeBatch) else 0
                ordinal += isinstance(message, SchemaChange)
                ordinal += len(message.rows) if isinstance(message, UndecodableRows) else 0
                yield message
            yield Commit(Place(at + 1), None)
        while True:
            time.sleep(0.001)
            yield Commit(Place(len(self.script)), None)

    def confirm(self, durable: Place) -> None:
        self.seen.append(f"confirmed {durable.at}")

    def close(self) -> None:
        """Nothing is open."""

    # the journal

    def plan(self) -> CapturePlan:
        versions = {one.schema.table: one for entry in self.entries for one in entry.schemas}
        tracked = tuple(
            TrackedTable(table, TableState.STREAMING, versions.get(table), None, followed=self.follows(table))
            for table in (A, B)
        )
        checkpoint = self.entries[-1].checkpoint if self.entries else Checkpoint({"at": 0}, 0, "")
        return CapturePlan(self.plan_number, wanted=True, tables=TableSet(tables=frozenset({A, B})), tracked=tracked,
                           checkpoint=checkpoint)  # fmt: skip

    def follows(self, table: TableId) -> bool:
        return table not in self.new or any(table in entry.tracking for entry in self.entries)

    def plan_version(self) -> int:
        return self.plan_number

    def commit(self, lease: Lease, entry: JournalEntry) -> None:
        assert all((self.folder / segment.path).stat().st_size == segment.size for segment in entry.segments)
        self.entries.append(entry)
        self.seen.append(f"journaled {entry.checkpoint.offset['at']}")

    def state(self, table: TableId | None = None) -> Any:
        """The journal's of a table; the log's."""
        if table is None:
            return self.state_of_log()
        self.seen.append("asked")
        return TableState.STREAMING

    # everything else

    def raw(self, chunk: int, attempt: str) -> None:
        return None

    def table_of(self, chunk: int, attempt: str) -> None:
        return None

    def log_line(self, *_: Any, **__: Any) -> None:
        """Of no interest."""

    def keep(self) -> bool:
        end = {"at": len(self.script)}
        return not self.stopped and not (self.entries and self.entries[-1].checkpoint.offset == end)

    def run(self, hurried: Callable[[], bool] | None = None) -> None:
        """Until all of the log is in the journal."""
        stand: Any = self
        reporter: Any = type("R", (), {"log": self.log_line})()
        run_capture(
            replicator="r", source=stand, parse_offset=lambda data: Place(data["at"]), journal=stand, chunks=stand,
            storage=Storage(self.folder.as_uri()), lease=Lease("r", "r", 1), keep=self.keep,
            options=CaptureOptions(flush_rows=ROWS, flush_seconds=0.05), report=reporter, hurried=hurried,
        )  # fmt: skip

    def run_again_and_again(self) -> list[TidemarkError]:
        """As workers do; returns what it ended with, each time but the last."""
        errors = []
        while True:
            try:
                self.run()
            except TidemarkError as error:
                errors.append(error)
            else:
                return errors

    def staged(self) -> list[tuple[int, int]]:
        """Sequence number and key of all rows that the journal names, as they are in the files."""
        found = []
        for segment in (one for entry in self.entries for one in entry.segments):
            with Storage(self.folder.as_uri()).open(segment.path) as file:
                rows = file.read(columns=["_sequence_num", "k"]).to_pydict()
            assert len(rows["k"]) == segment.rows
            assert (rows["_sequence_num"][0], rows["_sequence_num"][-1]) == (
                segment.first_sequence,
                segment.last_sequence,
            )
            found += list(zip(rows["_sequence_num"], rows["k"], strict=True))
        return found

    def garbage(self) -> set[str]:
        """Files that the journal does not name."""
        named = {segment.path for entry in self.entries for segment in entry.segments}
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")} - named


def transaction(number: int) -> Script:
    """Its rows have the keys that follow those of the one before; half of them are of each table."""
    half = ROWS // 2

    def messages(ordinal: int) -> list[LogMessage | Exception]:
        return [_keyed(batch(table, ordinal + at, half), number * ROWS + at) for table, at in ((A, 0), (B, half))]

    return messages


def _keyed(one: ChangeBatch, first: int) -> ChangeBatch:
    place = one.data.schema.get_field_index("k")
    keys = pa.array(range(first, first + one.data.num_rows), pa.int32())
    return ChangeBatch(one.table, one.schema, one.data.set_column(place, one.data.schema.field(place), keys))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Nine transactions; no commit is waited for."""
    monkeypatch.setattr(module, "SMALL_SECONDS", 0)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    yield World(tmp_path, [transaction(number) for number in range(9)])
    faults.disarm()


def test_the_log_is_read_on_while_a_commit_is_under_way(world: World) -> None:
    faults.arm([faults.Fault("storage.sync.before", "pause", seconds=0.5)])
    world.run()
    first = next(at for at, what in enumerate(world.seen) if what.startswith("journaled") and what != "journaled 0")
    assert world.seen.index("read 8") < first
    assert world.seen[first] == "journaled 1"  # and nothing that was read meanwhile is in it
    assert [one for one in world.seen if not one.startswith("read")] == [
        "journaled 0", "journaled 1", "confirmed 1", "journaled 9", "confirmed 9",
    ]  # fmt: skip
    assert sorted(world.staged()) == [(number, number) for number in range(9 * ROWS)]
    assert not world.garbage()


POINTS = (
    "storage.open.before", "segment.spill.before", "segment.spill.after", "segment.close.before", "storage.sync.before",
    "segment.close.after", "capture.journal.before", "capture.journal.after", "capture.confirm.after",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_a_failure_with_a_commit_under_way_loses_and_doubles_nothing(world: World, point: str) -> None:
    """Each hit in turn, so that files of the commit, of what comes after it, and the commit itself are struck."""
    slow = "segment.spill.before" if point == "storage.sync.before" else "storage.sync.before"
    for hit in range(1, 5):
        faults.arm([faults.Fault(slow, "pause", seconds=0.05), faults.Fault(point, "fail", hit=hit)])
        world.entries = []
        errors = world.run_again_and_again()
        assert [error.code for error in errors] in (["fault"], [])  # not all are hit so often
        assert sorted(world.staged()) == [(number, number) for number in range(9 * ROWS)]
        if point != "capture.journal.before":
            assert not world.garbage()
        for path in world.folder.rglob("*.parquet"):
            path.unlink()


def test_a_full_disk_is_said_as_such_by_the_thread(world: World) -> None:
    faults.arm([faults.Fault("segment.close.before", "full")])
    with pytest.raises(StorageFull):
        world.run()
    assert not world.garbage()


def test_what_was_read_before_the_log_broke_is_kept(world: World) -> None:
    world.script[1] = lambda _: [LogCorrupt("gibberish")]
    faults.arm([faults.Fault("storage.sync.before", "pause", seconds=0.2)])
    with pytest.raises(LogCorrupt):
        world.run()
    assert world.entries[-1].checkpoint == Checkpoint({"at": 1}, ROWS)


def test_the_journal_is_asked_when_it_has_what_is_known_here(world: World) -> None:
    """A DDL is under way to the journal when another one comes that has to ask about the table."""
    again = SchemaChange(0, Ddl.ALTER_TABLE, A, Place(1), None, schema(A), reload=True)
    world.script[2:] = [
        lambda ordinal: [SchemaChange(ordinal, Ddl.ALTER_TABLE, A, Place(3), None, schema(A), reload=True)],
        lambda ordinal: [batch(B, ordinal), SchemaChange(ordinal + ROWS, *_rest(again))],
    ]
    faults.arm([faults.Fault("storage.sync.before", "pause", hit=hit, seconds=0.2) for hit in (1, 3)])
    world.run()
    asked = [at for at, what in enumerate(world.seen) if what == "asked"]
    reloads = [at for at, entry in enumerate(world.entries) if entry.reloads]
    assert len(reloads) == 2
    assert world.seen.index("journaled 3") < asked[-1]


def _rest(change: SchemaChange) -> tuple[Any, ...]:
    return (change.operation, change.table, change.offset, change.commit_ts, change.schema, None, {}, change.reload)


def test_a_failed_table_is_in_the_commit_of_its_transaction(world: World) -> None:
    error = UnsupportedType("what is a FROB?")
    world.script[4] = lambda ordinal: [batch(B, ordinal), TableFailed(A, error, Place(4))]
    faults.arm([faults.Fault("storage.sync.before", "pause", seconds=0.3)])
    world.run()
    failed = next(entry for entry in world.entries if entry.failures)
    assert failed.failures == ((A, error),)
    assert error.place == (str(Place(4)), str(Place(4)))
    assert failed.checkpoint.offset == {"at": 5}


@pytest.mark.parametrize("failed", [True, False])
def test_foreign_keys_of_the_log_are_followed_from_there_on(world: World, *, failed: bool) -> None:
    """Of a parent that failed here, too, while the log still has its rows."""
    rule = Cascade(A, B, ("k",), on_delete=True, on_update=False)

    def deleted(ordinal: int) -> list[LogMessage | Exception]:
        rows = batch(A, ordinal, 1)
        place = rows.data.schema.get_field_index("_operation")
        operations = pa.array(["DELETE"], rows.data.schema.field(place).type)
        return [replace(rows, data=rows.data.set_column(place, rows.data.schema.field(place), operations))]

    failing: Script = lambda _: [TableFailed(A, TableError("damaged"), Place(1))] if failed else []
    world.script = [deleted, failing, lambda _: [CascadesAdded((rule,))], deleted]
    world.run()
    asked = [(request.table, request.sequence) for entry in world.entries for request in entry.reloads]
    assert [table for table, _ in asked] == [B]


def dead_letters(table: TableId, first: int, rows: int) -> UndecodableRows:
    error = ValueDoesNotFit("no text", column="b")
    made = [UndecodableRow(first + n, Operation.UPDATE, None, "t", f"x:{n}", error, b"bytes", 5) for n in range(rows)]
    return UndecodableRows(table, tuple(made), Place(1))


@pytest.mark.parametrize("has_gaps", [True, False])
def test_of_a_new_table_a_log_with_gaps_is_believed_from_where_it_ended(world: World, *, has_gaps: bool) -> None:
    """Messages before that position are ignored: rows, failures, the CREATE TABLE."""

    def created(ordinal: int) -> list[LogMessage | Exception]:
        return [
            SchemaChange(ordinal, Ddl.CREATE_TABLE, B, Place(0), None, schema=schema(B)),
            TableFailed(B, TableError("damaged", table=str(B)), Place(0)),
        ]

    world.has_gaps, world.ends, world.new = has_gaps, 3, frozenset({B})
    rows = [lambda ordinal: [batch(A, ordinal, 1), batch(B, ordinal + 1, 1)]] * 5
    world.script = [*([created] if has_gaps else []), *rows]
    world.run()
    whole = [s.rows for entry in world.entries for s in entry.segments if s.table == A]
    assert sum(whole) == 5
    first = next(entry for entry in world.entries if B in entry.tracking)
    assert sum(s.rows for entry in world.entries for s in entry.segments if s.table == B) == (3 if has_gaps else 5)
    assert first.checkpoint.offset == {"at": 3 if has_gaps else 0}
    assert not any(entry.failures or entry.created for entry in world.entries)


def test_dead_letter_rows_are_in_the_entry_of_their_transaction_and_use_their_numbers_up(world: World) -> None:
    def messages(ordinal: int) -> list[LogMessage | Exception]:
        return [
            batch(A, ordinal, 2),
            dead_letters(A, ordinal + 2, 3),
            batch(A, ordinal + 5, 1),
            batch(B, ordinal + 6, 1),
        ]

    world.script = [messages]
    world.run()
    found = [one for entry in world.entries for one in entry.dead_letters]
    assert [(one.table, one.sequence, one.row.offset) for one in found] == [(A, 2, "x:0"), (A, 3, "x:1"), (A, 4, "x:2")]
    entry = next(entry for entry in world.entries if entry.dead_letters)
    assert [(s.first_sequence, s.last_sequence, s.rows) for s in entry.segments if s.table == A] == [(0, 5, 3)]
    assert not any(entry.failures for entry in world.entries)


def test_a_table_with_too_many_dead_letters_rows_stops(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DEAD_LETTERS", 4)
    world.script = [lambda ordinal: [dead_letters(A, ordinal, 3), batch(B, ordinal + 3, 1)],
        lambda ordinal: [dead_letters(A, ordinal, 2)],
                    lambda ordinal: [dead_letters(A, ordinal, 2), batch(B, ordinal + 2, 1)]]  # fmt: skip
    world.run()
    failed = [(table, error.code) for entry in world.entries for table, error in entry.failures]
    assert failed == [(A, "too_many_dead_letters")]
    assert [one.sequence for entry in world.entries for one in entry.dead_letters] == [0, 1, 2, 4, 5]
    assert world.entries[-1].checkpoint.next_sequence == 9


def test_a_stop_does_not_wait_for_a_disk_that_stands_still(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATIENCE_SECONDS", "DISK_SECONDS"):
        monkeypatch.setattr(module, name, 0.1)
    monkeypatch.setattr(writer_module, "ABANDON_SECONDS", 0.1)
    faults.arm([faults.Fault("storage.sync.before", "pause", seconds=2.5)])
    begun = time.monotonic()
    threading.Timer(0.2, lambda: setattr(world, "stopped", True)).start()
    world.run()
    assert time.monotonic() - begun < 1.5
    assert [entry.checkpoint.offset["at"] for entry in world.entries] == [0]
    assert world.garbage()
    for _ in range(60):  # the writer thread runs on: once the disk answers, it deletes the abandoned files
        time.sleep(0.1)
        if not world.garbage():
            break
    assert not world.garbage()


@pytest.mark.parametrize("hurried", [True, False])
def test_only_who_is_hurried_gives_a_transaction_up_that_does_not_end(
    world: World, monkeypatch: pytest.MonkeyPatch, hurried: bool
) -> None:
    for name in ("PATIENCE_SECONDS", "POLL_SECONDS"):
        monkeypatch.setattr(module, name, 0.05)

    def long(ordinal: int) -> Iterator[LogMessage]:
        world.stopped = True
        for n in range(20):
            time.sleep(0.02)
            yield batch(A, ordinal + n, 1, b"x")

    world.script[:] = [long]  # type: ignore[list-item]
    world.run(lambda: hurried)
    assert len(world.staged()) == (0 if hurried else 20)


def test_a_slow_disk_slows_the_reader_before_memory_grows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction of 40 MiB with a bound of some 3 MiB."""
    size, count = 2**20 // 4, 160
    for name in ("GROUP_BYTES", "SPILL_BYTES", "QUEUE_BYTES"):
        monkeypatch.setattr(writer_module, name, 2**20)
    before = pa.total_allocated_bytes()

    def large(ordinal: int) -> Iterator[LogMessage]:
        return (batch(A, ordinal + n, 1, b"x" * size) for n in range(count))

    world.script[:] = [large]  # type: ignore[list-item]
    faults.arm([faults.Fault("segment.spill.before", "pause", hit=hit, seconds=0.2) for hit in range(1, 6)])
    begun = time.monotonic()
    world.run()
    assert time.monotonic() - begun > 0.9
    assert world.allocated - before < 8 * 2**20
    assert len(world.staged()) == count


@dataclass
class Vanished(World):
    """A and B are to be followed again, and the catalog shows neither.

    told: the known schema of A has an identity; that of B never has.
    """

    action: DdlAction = DdlAction.APPLY
    others: tuple[TrackedTable, ...] = ()
    failed: frozenset[TableId] = frozenset()
    hidden: frozenset[TableId] = frozenset()
    told: bool = True

    def describe(self, tables: Any) -> dict[TableId, TableSchema]:
        return {table: schema(table) for table in tables if table not in {A, B} | self.failed}

    def try_rows(self, table: TableId, rows: Any) -> None:
        message = f"{table} is not shown."
        raise SourcePermissionDenied(message) if table in self.hidden else TableDisappeared(message)

    def plan(self) -> CapturePlan:
        plan = super().plan()
        versions = {A: replace(schema(A), identity="1/1" if self.told else ""), B: schema(B)}
        tracked = tuple(replace(one, schema=SchemaVersion(3, versions[one.table])) for one in plan.tracked)
        everything = TableSet(databases=frozenset({"shop"}))
        tracked += self.others
        policy = {"drop_table": self.action}
        return replace(plan, tracked=tracked, tables=everything, ddl_policy=policy, failed=dict.fromkeys(self.failed))


@pytest.mark.parametrize(("action", "gone"), [(DdlAction.APPLY, (A,)), (DdlAction.IGNORE, (A,)), (DdlAction.STOP, ())])
def test_a_copy_goes_only_where_the_source_is_known_to_tell_of_all_tables(
    tmp_path: Path, action: DdlAction, gone: tuple[TableId, ...]
) -> None:
    """A right that is taken from the account hides a MySQL table as a DROP does."""
    world = Vanished(tmp_path, [], action=action, hidden=frozenset({B}))
    world.run()
    assert world.entries[0].dropped == gone
    assert [event.detail["keep"] for event in world.entries[0].events] == [action is DdlAction.IGNORE] * len(gone)


def test_a_table_that_was_never_described_goes_where_the_source_tells_of_all_tables(tmp_path: Path) -> None:
    """It came, was refused, and is gone."""
    world = Vanished(tmp_path, [], failed=frozenset({TableId("shop", "refused")}), hidden=frozenset({B}))
    world.run()
    assert world.entries[0].dropped == (A, TableId("shop", "refused"))


def test_a_failed_table_goes_where_the_source_says_that_it_is_gone_and_not_that_it_is_hidden(tmp_path: Path) -> None:
    """The log of a failed table is not read, so a DROP is not seen there; MySQL's tables have no identity."""
    failed = {name: TableId("shop", name) for name in ("dropped", "hidden")}
    world = Vanished(tmp_path, [], failed=frozenset(failed.values()), hidden=frozenset({failed["hidden"], A, B}))
    world.told = False
    world.run()
    assert world.entries[0].dropped == (failed["dropped"],)


def test_a_failed_table_that_is_read_again_is_gone_where_the_source_says_so(tmp_path: Path) -> None:
    """It was renamed while it had failed: the RENAME lies before the checkpoint, where the log is not read again."""
    followed = TrackedTable(
        TableId("shop", "c"), TableState.STREAMING, SchemaVersion(1, schema(A)), None, followed=True
    )
    world = Vanished(tmp_path, [], others=(followed,), told=False)
    world.run()
    assert world.entries[0].dropped == (A, B)


@pytest.mark.parametrize("followed", [False, True])
def test_a_replicator_that_starts_anew_takes_what_is_gone_for_dropped(tmp_path: Path, *, followed: bool) -> None:
    """The log that would show a DROP is gone, so a missing table counts as dropped.

    Where another table is still followed, a missing table without an identity does not.
    """
    other = TableId("shop", "c")
    others = (TrackedTable(other, TableState.STREAMING, SchemaVersion(1, schema(other)), None, followed=followed),)
    world = Vanished(tmp_path, [], others=others, hidden=frozenset({B}))
    world.run()
    assert world.entries[0].dropped == ((A,) if followed else (A, B))


def test_a_source_that_went_back_is_refused_before_anything_is_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy from before a slot was made has none: that the log was not kept would be the wrong thing to say."""
    world, made = World(tmp_path, [], ends=-1), list[str]()
    monkeypatch.setattr(world, "prepare", lambda *_, **__: made.append("a slot"))
    with pytest.raises(SourceReplaced, match="older state"):
        world.run()
    assert not made
