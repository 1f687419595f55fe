"""The journal: the only truth about progress.

One transaction per `Journal.commit` (invariant 2).  A file in staging without a journal row is garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from replicator.errors import TidemarkError
from replicator.model.change import UndecodableRow
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.state.lease import Lease
from replicator.state.tables import TableState


class SegmentKind(StrEnum):
    LOG = "log"
    CHUNK = "chunk"


@dataclass(frozen=True, slots=True)
class Segment:
    """An immutable staged file: one table, one schema version, a contiguous run of the table's changes.

    `path` is relative to the staging location.  `size` in bytes.  Commit times are the source's.
    replaced: values that could not be kept and became null.

    bare: the file is a chunk as its reader staged it: row columns only (and columns that no schema names).  Its row at
    place i, from 0 in the file's order, is the READ change with number first_sequence + i; all other columns are null.
    without: places in a bare file whose rows are not part of the segment or of `rows`; their numbers are used up.

    journaled_at: when the journal took it, which is the time of the read for its READ rows; None before.
    """

    table: TableId
    kind: SegmentKind
    schema_version: int
    first_sequence: int
    last_sequence: int
    path: str
    rows: int
    size: int
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    reads: int = 0
    first_commit_ts: datetime | None = None
    last_commit_ts: datetime | None = None
    replaced: int = 0
    bare: bool = False
    without: tuple[int, ...] = ()
    journaled_at: datetime | None = None


class EventKind(StrEnum):
    """What stands between a table's segments, by sequence number."""

    CREATE_TABLE = "CREATE_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    TRUNCATE_TABLE = "TRUNCATE_TABLE"
    DROP_TABLE = "DROP_TABLE"
    RENAME_TABLE = "RENAME_TABLE"
    CREATE_DATABASE = "CREATE_DATABASE"
    DROP_DATABASE = "DROP_DATABASE"
    SWEEP = "SWEEP"


@dataclass(frozen=True, slots=True)
class TableEvent:
    """One DDL or engine event in the order of sequence numbers.

    detail: ALTER_TABLE `renamed_columns` {old: new}, `statement`, `decision`, `reload`; RENAME_TABLE `new` [database,
    table]; SWEEP `below` (rows with a smaller sequence number are gone from the source), `run` (if all of its chunks
    are admitted). `table` of a database event has an empty name.  token: the journal's, for this one event; empty
    before it is journaled.
    """

    table: TableId
    sequence: int
    kind: EventKind
    schema_version: int | None = None
    commit_ts: datetime | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    token: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Durable progress of capture.  `offset` is the source's `to_dict` form; `identity` names the server."""

    offset: Mapping[str, Any]
    next_sequence: int
    identity: str = ""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """Versions count from 1 per table.  `begins`: the sequence number from which it holds; -1: from before the entry.

    `known`: the version is there; only what the source tells the table by (`TableSchema.same_as`) is another now.
    """

    version: int
    schema: TableSchema
    begins: int = field(default=-1, compare=False)
    known: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class TrackedTable:
    """What capture knows of one table at a start.

    live_from: log changes up to this sequence number are covered by the snapshot and never applied.
    run: the present snapshot run, or None.
    followed: False where capture does not follow it yet (again): its log was not read up to here.
    dead_letters: rows of it that are dead letters and wait, without those that its present run brings anyway.
    """

    table: TableId
    state: TableState
    schema: SchemaVersion | None
    run: int | None
    live_from: int = -1
    followed: bool = True
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class ClosedChunk:
    """A chunk that capture admitted into the sequence; `segment` is None where no row was left."""

    chunk: int
    run: int
    attempt: str
    segment: Segment | None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ReloadRequest:
    """The table must be read again.

    fresh: its load so far is worthless (a DDL fell into the initial load): throw the target's rows away; otherwise old
    rows stay readable until the sweep.  Changes up to `sequence` are covered by the new snapshot when fresh.
    again: a run that is under way is not cancelled; another follows it.
    """

    table: TableId
    sequence: int
    fresh: bool
    reason: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class DdlSeen:
    """A statement that leaves neither a schema version nor a table's coming, going or renaming; `decision` in words."""

    table: TableId
    operation: str
    statement: str
    decision: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that was left out of its segment, because it cannot be decoded; its sequence number is used up."""

    table: TableId
    sequence: int
    row: UndecodableRow


@dataclass(frozen=True, slots=True)
class Signal:
    """A row that was inserted into the signalling table; `data` is the text of a JSON object."""

    id: str
    type: str
    data: str


@dataclass(frozen=True)
class JournalEntry:
    """Everything one journal transaction makes durable.

    checkpoint            where to resume
    segments, events      the table's run, in sequence order per table
    schemas               new versions (a version is written before anything that names it)
    tracking              tables that capture newly follows from here on
    closed, reopened      chunks admitted / (chunk, attempt) to be re-read
    bases                 keyless tables: (run, attempt) → sequence number that its rows stand for
    plans                 tokens of the plan marks that were met
    unplanned             runs to begin again: their plan's mark is not in the log before those of their chunks
    reloads               tables to resnapshot
    failures              tables to stop, with their error
    dead_letters          rows to keep as bytes until a user decides about them
    seen                  statements that are recorded nowhere else
    signals               rows of the signalling table, to be executed once
    created, dropped      tables that came into / left the selection by DDL; `renamed` is old → new
    carried               old → new names, also of tables that are recreated under the new one: what protects the old
                          one protects the new one, too
    source_ts             the source is known to be read up to this moment
    """

    checkpoint: Checkpoint
    segments: tuple[Segment, ...] = ()
    events: tuple[TableEvent, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    tracking: frozenset[TableId] = frozenset()
    closed: tuple[ClosedChunk, ...] = ()
    reopened: tuple[tuple[int, str], ...] = ()
    bases: Mapping[tuple[int, str], int] = field(default_factory=dict)
    plans: frozenset[str] = frozenset()
    unplanned: frozenset[int] = frozenset()
    reloads: tuple[ReloadRequest, ...] = ()
    failures: tuple[tuple[TableId, TidemarkError], ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    seen: tuple[DdlSeen, ...] = ()
    signals: tuple[Signal, ...] = ()
    created: tuple[TableId, ...] = ()
    dropped: tuple[TableId, ...] = ()
    renamed: tuple[tuple[TableId, TableId], ...] = ()
    carried: tuple[tuple[TableId, TableId], ...] = ()
    source_ts: datetime | None = None


DDL_OPERATIONS = (
    "add_column",
    "drop_column",
    "rename_column",
    "change_type",
    "truncate",
    "drop_table",
    "rename_table",
)


class DdlAction(StrEnum):
    """What a policy says to do with one kind of DDL."""

    APPLY = "apply"
    IGNORE = "ignore"
    STOP = "stop"


@dataclass(frozen=True)
class CapturePlan:
    """What capture has to do; read at the start of a slice and whenever `version` changed.

    signals: the signalling table, which is followed whether it is selected or not; None: there is none.
    gone: newest schema version of each table that was dropped or has halted: made again, it goes on from there.
    failed: the tables that have failed, with that version; None where it was never described.
    """

    version: int
    wanted: bool
    tables: TableSet
    tracked: tuple[TrackedTable, ...]
    checkpoint: Checkpoint | None
    ddl_policy: Mapping[str, DdlAction] = field(default_factory=dict)
    signals: TableId | None = None
    gone: Mapping[TableId, int] = field(default_factory=dict)
    failed: Mapping[TableId, SchemaVersion | None] = field(default_factory=dict)

    @property
    def followed(self) -> TableSet:
        """What is read from the log."""
        halted = {table: version.schema.identity for table, version in self.failed.items() if version is not None}
        found = replace(self.tables, halted=halted)
        if self.signals is None or self.signals in self.tables:
            return found
        tables, excluded = self.tables.tables | {self.signals}, self.tables.excluded - {self.signals}
        return replace(found, tables=tables, excluded=excluded)


class Journal(Protocol):
    """Capture's view of the state store, bound to one replicator."""

    def plan(self) -> CapturePlan: ...

    def plan_version(self) -> int:
        """Cheap; changes whenever desired state, selection or table states were changed from outside of capture."""
        ...

    def commit(self, lease: Lease, entry: JournalEntry) -> None:
        """Atomic.  Raises FenceLost if `lease` is no longer the live one."""
        ...

    def state(self, table: TableId) -> TableState | None:
        """The table's present state; the apply loop ends loads behind capture's back."""
        ...

    def remaining_chunks(self, run: int) -> int | None:
        """Chunks of the run that are not admitted yet; None while planning goes on."""
        ...


Place = tuple[str, ...]  # namespace, name, and part (`targets.base.TargetTable`) where the table shares one


def own_names(table: TableId) -> Place:
    """Namespace and name that are the source's own."""
    return table.database, table.name


@dataclass(frozen=True, slots=True)
class ApplyTable:
    """What the apply loop knows of a table.

    run_complete: every chunk of the present run is admitted.
    load: names the target table's generation; it changes when the table must be recreated
    (`targets.base.Create.load`).
    schema_version: the newest version known (0: none yet).
    applied, loaded: as far as the journal knows; the target may be ahead of it (invariant 3).
    target_name: the name in the target that follows from the table's present name or, `own`, that a user chose; a load
    that begins again goes there.  target_name_as: the one that would follow from another name of the source's table.
    others: loads of the replicator's other tables; this table must not replace a target table of one of them.
    mode: of this load.
    reload_from: the sequence number at which the present run began; -1 where there is none.
    collected: the last sequence number of changes that were applied and are no longer in the journal.
    made: the target has had a load of this table.  Otherwise a target table under its name belongs to the table that
    had the name before, whose schema versions are different ones.
    """

    table: TableId
    target: Place
    state: TableState
    live_from: int
    applied: int
    loaded: int
    run: int | None
    run_complete: bool
    keyless: bool
    load: str
    schema_version: int
    attempt: int = 0
    target_name: Place = ("", "")
    target_name_as: Callable[[TableId], Place] = field(default=own_names, compare=False)
    own: bool = False
    others: Container[str] = frozenset()
    mode: Mode = Mode.MIRROR
    reload_from: int = -1
    made: bool = True
    collected: int = -1


@dataclass(frozen=True, slots=True)
class Applied:
    """Where the target stands after a commit, for the journal's mark; what it newly covers, the journal counts itself.

    Durations in seconds.  gone: the target has no table of this generation any more, and gets none.
    state: the table moves there with it, as by `ApplyStore.move`.
    """

    table: TableId
    applied: int
    loaded: int
    seconds: float
    how: str
    queryable_at: datetime
    gone: bool = False
    state: TableState | None = None


class ApplyStore(Protocol):
    """The apply loop's view of the state store, bound to one replicator."""

    def tables(
        self, busy: Collection[TableId] = (), *, without: Collection[TableId] = (), most: int | None = None
    ) -> list[ApplyTable]:
        """Tables with something to do now (pending items, a finished run), those first whose changes wait longest.

        Not those whose retry time is ahead.  Each begins a turn, which covers what is journaled now.
        Of tables that share a target table one has a turn at a time.
        busy: tables whose turns are not over, by the names that these began with.  None is returned while the
        replicator's tables are not those (by name, load, target) that they were when the busy ones began: who has which
        name must be one picture.
        """
        ...

    def turned(self, lease: Lease, table: TableId) -> None:
        """Its turn is over, and did not fail: what there was to do for it is done, though nothing may have been
        applied.
        """
        ...

    def items(self, table: TableId, after: int, *, chunks_only: bool = False) -> list[Segment | TableEvent]:
        """In sequence order: everything with a last sequence number above `after`, bounded to some thousands.

        chunks_only: only segments of kind CHUNK (the initial load appends them while log segments wait).
        """
        ...

    def holders(self, table: TableId, sequences: Collection[int]) -> set[str]:
        """What `targets.base.item_of` says of the table's items that have one of these numbers."""
        ...

    def skip(self, upto: int) -> None:
        """No number up to this one is given (again): a target that is ahead of this journal has them."""
        ...

    def schema(self, table: TableId, version: int) -> TableSchema: ...

    def applied(self, lease: Lease, result: Applied) -> None: ...

    def superseded(self, table: TableId) -> bool:
        """The generation that the turn began with is over: made again since, gone with its source, or removed."""
        ...

    def move(self, lease: Lease, table: TableId, state: TableState, target: Place | None = None) -> None:
        """Move the table's state (LOADING → STREAMING…), or rename its target."""
        ...

    def failed(self, lease: Lease, table: TableId, error: TidemarkError) -> None:
        """Count the failure; the store decides by the retry policy between a later retry and FAILED."""
        ...
