"""The port that every target implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from replicator.errors import TargetError, TidemarkError
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.model.types import DataType
from replicator.state.journal import DDL_OPERATIONS, Segment

NO_TABLE = "(none)"  # in the place of a load: there was no table
FOREIGN_TABLE = (  # a remedy
    "Drop or rename that table in the target, then select Retry. Or remove the table from this replicator, add a"
    " routing rule that gives its copy another name, and add the table again."
)
COMMIT_SECONDS = 0.7  # more commits make nothing fresher by more than that, and each is files and a snapshot


@dataclass(frozen=True, order=True, slots=True)
class TargetTable:
    """A table of the target: namespace and name, any characters.

    part: `column=value`, where several source tables share the table and `column` tells whose its rows are; all that is
    said and done of the table (position, generation, changes) is then of this part alone.
    """

    namespace: str
    name: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}" + (f" ({self.part})" if self.part else "")

    @property
    def tenant(self) -> tuple[str, str]:
        """Column and value of the part."""
        column, _, value = self.part.partition("=")
        return column, value

    @property
    def whole(self) -> TargetTable:
        """With all its parts."""
        return TargetTable(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Position:
    """What the target itself says it holds (invariant 3).

    applied: last sequence number applied; loaded: last chunk row appended in the initial load `load`;
    schema_version: the version its columns were last made equal to; mode: the one it was made in.
    item: which of the journal's items was applied last (`item_of`), or has the number that was: a journal that was
    restored gives its numbers again; empty: not known.
    error: the table can only be made again: why a change of its columns that was begun cannot be made, or, where `load`
    is empty, why the position is not known.
    """

    applied: int
    loaded: int
    schema_version: int
    load: str
    mode: Mode = Mode.MIRROR
    item: str = field(default="", compare=False)
    error: TidemarkError | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Create:
    """Make the table for initial load `load`, in `mode` for good; an older table of this replicator is dropped
    first.  Of a shared table, the part: the table is made with its first part, and older rows of the part go.

    Afterwards position = (applied, -1, version, load).  A table that is not this replicator's raises TargetConflict
    (not retried).
    """

    schema: TableSchema
    version: int
    applied: int
    load: str
    mode: Mode = Mode.MIRROR


@dataclass(frozen=True)
class Evolve:
    """Make the columns those of `schema`, renames first; idempotent (skipped when the table has `version` already).

    Columns are converted in place where `model.types.widens` allows it; others are dropped and added again (their
    values come back with the reload that accompanies it).  With `keep_dropped`, columns that are no longer in the
    source stay, and are null in new rows.
    """

    schema: TableSchema
    version: int
    renamed: Mapping[str, str] = field(default_factory=dict)
    keep_dropped: bool = False


@dataclass(frozen=True)
class Append:
    """Initial load: add the READ rows of these segments, without looking at the table.  Atomic with `loaded`.

    Idempotent against a stale worker doing the same: rows of one sequence number are never there twice.
    """

    segments: Sequence[Segment]
    schema: TableSchema
    loaded: int


@dataclass(frozen=True)
class Merge:
    """Fold these segments (all of one schema) and apply the result in one commit, atomic with `upto`.

    A target may apply only the first segments, and then reports how far it came (`ApplyResult.upto`).  It must not stop
    before a segment that begins at or below `whole_to`: the initial load read rows at different times, so that only all
    of the log up to its end makes a state that the source had.

    emptied: a TRUNCATE follows directly, so rows with unknown values need not be reported.
    """

    segments: Sequence[Segment]
    schema: TableSchema
    upto: int
    emptied: bool = False
    whole_to: int = -1


@dataclass(frozen=True)
class Replace:
    """Keyless table: its rows are exactly the READ rows of these segments; atomic with applied, loaded and load.

    A changelog gets them, and a marker: what is not above `applied` is over.
    """

    segments: Sequence[Segment]
    schema: TableSchema
    version: int
    applied: int
    loaded: int
    load: str


@dataclass(frozen=True)
class DeleteBelow:
    """TRUNCATE and sweep: rows whose sequence number is below `below` go, in the way of the table's mode.

    Atomic with `upto`.

    operation: the event's kind; at: its time in the source, or when it was found out; item: the event's token.
    """

    below: int
    upto: int
    operation: str = "TRUNCATE_TABLE"
    at: datetime | None = None
    item: str = ""


@dataclass(frozen=True)
class Drop:
    """Remove the table with its data; no error where it does not exist.

    Of a shared table, the part's rows; the table itself goes with its last part, or, `whole`, with all of them.
    """

    whole: bool = False


@dataclass(frozen=True)
class Rename:
    """Give the table another name; idempotent."""

    new: TargetTable


RowChange = Append | Merge | Replace | DeleteBelow
TargetChange = RowChange | Create | Evolve | Drop | Rename


def item_of(change: RowChange) -> str:
    """What `Position.item` says once it is applied: the last segment's path, or the event's token."""
    if isinstance(change, DeleteBelow):
        return change.item
    return change.segments[-1].path if change.segments else ""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Rows that the commit put in or took out of the table, how it was done (append, merge, …), seconds it took.

    upto: of a merge that did the first of its segments only: their last sequence number.
    """

    inserted: int
    updated: int
    deleted: int
    how: str
    seconds: float
    upto: int | None = None


@dataclass(frozen=True)
class Counts:
    """Rows."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


def remaining(
    change: RowChange, at: Position, table: TargetTable, there: Mapping[str, DataType | None]
) -> tuple[RowChange, Position] | None:
    """What a table that stands at `at` lacks of the change, and where it stands afterwards; None where it lacks
    nothing (invariant 3).

    Segments that are in whole are left out.  Of one that is in by half, its reader leaves rows out: up to `at.loaded`
    of an Append, up to `at.applied` of a Merge.

    there: the table's columns.  TargetError where they are not those of the segments: an Evolve must come first.
    """
    item = item_of(change)
    match change:
        case Append():
            done, held = at.loaded >= change.loaded, at.loaded
            after = replace(at, loaded=change.loaded, item=item)
        case Replace():
            done, held = at.load == change.load and at.loaded >= change.loaded, -1
            after = replace(at, applied=change.applied, loaded=change.loaded, load=change.load, item=item)
        case Merge() | DeleteBelow():
            done, held = at.applied >= change.upto, at.applied
            after = replace(at, applied=change.upto, item=item)
    if done:
        return None
    if isinstance(change, DeleteBelow):
        return change, after
    change = replace(change, segments=[one for one in change.segments if one.last_sequence > held])
    wrong = [one.name for one in change.schema.columns if there.get(one.name) != one.type]
    if wrong and (change.segments or not isinstance(change, Merge)):
        raise TargetError(f"{table} is not at the changes' schema: {', '.join(wrong)}", table=str(table))
    return change, after


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a kind of target can do.  Anything else is refused before a replicator is created, or stops the table.

    modes: those that a table can be written in; empty: it has none, and keeps every change.
    ddl: changes of a table that it follows (`DDL_OPERATIONS`); others stop the table.
    exactly_once: what makes a position atomic with its rows.
    renames: a user can rename its tables.
    unfolded: it takes every change in sequence order, a load's rows among the log's, and keeps no rows.  So an initial
    load of a table with a key is applied as it comes (nothing waits), a reload begins by emptying the table, and
    `Position.loaded` is never behind `applied`.
    verified: verification has a reader of its tables; upkeep: `maintain` must be called for idle tables, too.
    jvm: it works in the process's JVM; staged_urls: it reads staged files itself, at a URL that it can reach.
    commit_seconds: least time from the begin of a table's turn that commits to that of its next: each commit costs.
    shared_modes: those of tables that several source tables share (`TargetTable.part`); empty: it has no such tables.
    """

    modes: frozenset[Mode] = frozenset(Mode)
    ddl: frozenset[str] = frozenset(DDL_OPERATIONS)
    exactly_once: str = "snapshot property"
    renames: bool = True
    unfolded: bool = False
    verified: bool = False
    upkeep: bool = False
    jvm: bool = False
    staged_urls: bool = False
    commit_seconds: float = COMMIT_SECONDS
    shared_modes: frozenset[Mode] = frozenset()


class Target(Protocol):
    """Where the copy lives.  Thread-safe: several tables are applied at a time."""

    @property
    def capabilities(self) -> Capabilities: ...

    def prepare(self) -> None:
        """Start what takes its time to start; for who knows that there will be something to apply soon.

        Raises TargetError.
        """
        ...

    def position(self, table: TargetTable) -> Position | None:
        """Read from the target itself; None where the table does not exist."""
        ...

    def apply(self, table: TargetTable, change: TargetChange, seen: str | None = None) -> ApplyResult:
        """Apply one change, atomically with its position.  Raises TargetError, TableError.

        seen: the load of the table whose position the caller goes by, or NO_TABLE.  TargetConflict where another table
        has its place by now: a stale worker must not change, drop or replace what its successor has made.  None: any
        table.
        """
        ...

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        """Compact, expire snapshots and remove orphans if due; a sentence of what was done, or an empty one.

        busy: all rows are being read again, or the table is far behind its source.  Files with many deleted rows are
        left for later then: they soon change again, or are gone.
        """
        ...

    def interrupt(self) -> None:
        """End the work under way soon, with an error.  The work has no effect unless it is about to be visible.

        Raises nothing.
        """
        ...

    def close(self) -> None:
        """Release all resources; the target is not used afterwards."""
        ...
