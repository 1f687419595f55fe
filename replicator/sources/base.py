"""Ports that every source implements.  Starting point: DESIGN.md "Ports"."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from replicator.errors import KeyChanged, SourceBusy, TableError
from replicator.model.change import Cascade, LogMessage
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import NameRule, TableSet


class CheckStatus(StrEnum):
    """Outcome of one named check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the connection test.  `remedy` is SQL to paste (or a sentence), empty where the check is ok.

    of_tables: of the tables that are read; where it failed, the server itself can still be used.
    """

    name: str
    title: str
    status: CheckStatus
    detail: str
    remedy: str = ""
    of_tables: bool = False


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a connection's form.  `secret` fields are stored encrypted and never shown again.

    keeps_secret: it says neither where a secret is sent nor how; a change of any other field asks for the secrets again
    (invariant 8).
    main: shown at once, as required and secret ones are.
    when: other fields with values of each; the field has a meaning, is shown and can be required only where all of them
    have one of these.
    """

    name: str
    label: str
    kind: str = "text"  # text, number, password, choice, textarea
    required: bool = True
    default: str = ""
    help: str = ""
    secret: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    keeps_secret: bool = False
    main: bool = False
    when: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def meant(self, form: Sequence[FormField], values: Mapping[str, Any]) -> bool:
        """Has it a meaning with these values of the form?"""
        by_name = {one.name: one for one in form}
        return all(
            str(values.get(name) or by_name[name].default) in wanted and by_name[name].meant(form, values)
            for name, wanted in self.when
        )


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """A database of the source with the number of its base tables and their size in bytes (estimates)."""

    name: str
    tables: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What discovery lists of a table; `rows` and `bytes` are estimates.

    `key`: how rows are identified ("primary", "unique", "").
    `notes`: sentences on what the source's log has of this table, for a user who is about to select it.
    `absent`: columns that the log does not have and that schemas leave out.
    """

    table: TableId
    rows: int
    bytes: int
    key: str
    engine: str = ""
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """How rows are read, the same for log and snapshot so that both give equal values.

    values: what the user chose of the kind's `value_options`, by name.
    keep_undecodable: a row of the log that cannot be decoded is handed on as its bytes (`UndecodableRows`), and does
    not stop its table.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    batch_rows: int = 20_000
    batch_bytes: int = 32 * 1024 * 1024
    keep_undecodable: bool = False


class Catalog(Protocol):
    """Discovery."""

    def databases(self) -> list[DatabaseInfo]: ...

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """One page of base tables ordered by database and name, and the number of all that match."""
        ...

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        """The same of these tables, as far as they exist; the cost follows their number, not the catalog's size."""
        ...

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """Present schemas; tables that do not exist are absent; an error where a column's type is unknown."""
        ...

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        """Would the server read them?  Reads none.

        Raises ConditionRefused with the server's words; TableDisappeared where the table is known to be gone.
        """
        ...


@runtime_checkable
class CascadeCatalog(Catalog, Protocol):
    """Of a source whose log does not show what foreign keys do to other rows."""

    def cascades(self, tables: Collection[TableId]) -> list[Cascade]:
        """Foreign keys of these tables, and of those that they refer to, with actions."""
        ...


def cascades_of(catalog: Catalog, tables: Collection[TableId]) -> list[Cascade]:
    """Foreign keys whose actions the log does not show."""
    return catalog.cascades(tables) if isinstance(catalog, CascadeCatalog) else []


class LogReader(Protocol):
    """A stream of the log.  One thread."""

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """Yield everything in the log after `start`; `schemas` are those that held at `start`.

        Columns that `tables` leaves out of a table stay left out under its next names (`TableSet.carry`).  That
        includes a table that is resnapshotted under a new name (`SchemaChange.was`) or had failed before
        (`TableSet.halted`).

        Raises SourceUnreachable, LogPurged, SourceReplaced, LogCorrupt.
        """
        ...

    def confirm(self, durable: Offset) -> None:
        """Nothing before `durable` will be asked for again (invariant 1)."""
        ...

    def shows(self, evidence: str, transaction: str) -> bool:
        """Do rows read with this `Chunk.evidence` show the transaction (`_txn_id`)?

        Asked for evidence that is not empty only.
        """
        del evidence, transaction
        return False

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        """Reconcile the schema of snapshot rows (`shown`) with the log's schema at the last message (`known`).

        Returns `known`, completed with what only the rows show of the table; the reader goes on with it.  Returns None
        if the log has to report the change first, and with it what became of rows read before, or that this is another
        table by now.  This default suits a log that reports every statement: a schema that differs waits for the log.
        """
        return known if shown == known else None

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows with `lower` < key <= `upper`, compared by the database.  None: no bound on that side.

    Key values are text literals in the source's own SQL, made by the source, opaque to everybody else.
    keys: of these, rows with these keys only (empty: all), as texts that people read (`replicator.snapshot.keys`).
    condition: of these, rows for which this SQL of the user's is true (empty: all); see
    `replicator.sources.shared.conditions`.
    """

    lower: tuple[str, ...] | None = None
    upper: tuple[str, ...] | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    condition: str = ""

    @property
    def bounded(self) -> bool:
        """Is it read along the key?"""
        return self.lower is not None or self.upper is not None or bool(self.keys)

    @property
    def asked(self) -> bool:
        """Is there anything of the user's in it?"""
        return bool(self.keys or self.condition)

    def require_fit(self, schema: TableSchema) -> None:
        """KeyChanged where the table has another key than when the bounds were planned."""
        bounds = [bound for bound in (self.lower, self.upper, *self.keys) if bound is not None]
        if any(len(bound) != len(schema.key) for bound in bounds):
            message = f"{schema.table} no longer has the key for which its chunks were planned."
            raise KeyChanged(message, table=str(schema.table))


@dataclass(frozen=True)
class Chunk:
    """Rows of one range.  `schema` held during the SELECT; `batches` have `schema.row_arrow` and are read lazily.

    `replaced()`: for each row of the last batch, how many values could not be kept and became null (int32; None if
    there were none).
    `evidence`: which transactions the rows show, for `LogReader.shows`.  Empty: they show those before the low mark;
    for transactions between the marks this is not known.
    """

    schema: TableSchema
    batches: Iterator[pa.RecordBatch]
    replaced: Callable[[], pa.Array | None] = lambda: None
    evidence: str = ""


class SnapshotReader(Protocol):
    """One connection to the source; one thread."""

    def mark(self, token: str) -> None:
        """Write a watermark into the log; returns when it is committed."""
        ...

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """As `Catalog.describe`; the next `end_key` of each table goes by it."""
        ...

    def end_key(self, table: TableId, condition: str = "") -> tuple[str, ...] | None:
        """The greatest key now of the rows for which the condition is true (None: there is none)."""
        ...

    def next_bound(
        self, table: TableId, after: tuple[str, ...] | None, end: tuple[str, ...], rows: int, condition: str = ""
    ) -> tuple[str, ...]:
        """The key `rows` such rows after `after`, at most `end`."""
        ...

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        """Rows committed by some moment between the call and the last batch's arrival (one SELECT).

        Raises TableDisappeared.
        """
        ...

    def read_table(self, table: TableId, opened: str) -> Chunk:
        """For a table without key: all its rows as of one moment; writes the mark `opened` right after that moment."""
        ...

    def cancel(self) -> None:
        """By any thread: what is under way ends at the server, and with an error here.  Raises SourceUnreachable."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SourceState:
    """Where the log ends now, and who the server is.  `identity` tells one server's log from another's.

    `has_gaps`: it has only what was asked for in its time, so that what it says of a table that is new to it is whole
    from here on.
    """

    offset: Offset
    identity: str
    at: datetime
    version: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    has_gaps: bool = False


@dataclass(frozen=True, slots=True)
class LogHeld:
    """What the source retains of its log for a replicator: `bytes`, None if it does not say.

    `status`: the source's own word for how safe the log is; `lost`, `threatened`: it is gone, or may soon be.
    `limit`: bytes that the connection allows; `left`: bytes that may be added before the source itself drops the log.
    """

    bytes: int | None
    status: str
    lost: bool = False
    threatened: bool = False
    limit: int | None = None
    left: int | None = None

    @property
    def beyond(self) -> bool:
        """More than the connection allows."""
        return self.bytes is not None and self.limit is not None and self.bytes > self.limit

    @property
    def most(self) -> int | None:
        """Bytes at which it is lost: by the connection's limit or the source's own, whichever comes first."""
        own = None if self.left is None else (self.bytes or 0) + max(self.left, 0)
        return min((limit for limit in (self.limit, own) if limit is not None), default=None)


@dataclass(frozen=True, slots=True)
class SourceLoad:
    """What a source is busy with: statements under way now, snapshot readers' included, and how far its replicas are
    behind.

    replica_lag_seconds: the farthest one's; None where it has none, or does not know.
    """

    running: int
    replica_lag_seconds: float | None = None


@dataclass(frozen=True)
class SourceWait:
    """How something that has to end on the source first is waited for.

    stopped: no longer (invariant 10).  on_busy: gets a SourceBusy that names what is waited for, now and then.
    """

    stopped: Callable[[], bool] = lambda: False
    on_busy: Callable[[SourceBusy], None] = lambda _: None


WITHOUT_END = SourceWait()


class SourceLog(Protocol):
    """The log as a whole, for one replicator: where it ends, and what has to be there for it to be read."""

    def state(self) -> SourceState:
        """SourceMisconfigured where the source writes no log."""
        ...

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """Make what is missing on the source for these tables to be read from the log.

        `first`: nothing was read yet; `state.offset` is then where reading begins.  LogPurged where what was kept for
        the replicator is gone.  Raises SourcePermissionDenied, SourceMisconfigured; SourceBusy where it was waited in
        vain.
        """
        ...

    def load(self) -> SourceLoad:
        """How busy the server is at this moment; a source that does not know is not."""
        return SourceLoad(0)

    def remove(self) -> None:
        """Remove all that `prepare`, marks and reading have left on the source; missing objects are not an error."""
        ...


@runtime_checkable
class MeasuredLog(SourceLog, Protocol):
    """Of a source that tells how much of its log there is."""

    def held(self, checkpoint: Offset | None) -> LogHeld | None:
        """What there is from `checkpoint` on, where the replicator would go on; None where that is nothing, or is not
        known.
        """
        ...


@runtime_checkable
class RetainedLog(MeasuredLog, Protocol):
    """Of a source that keeps its log for this one replicator (a replication slot)."""

    def give_up(self) -> bool:
        """Where more is kept than the connection allows: keep nothing any more.

        True where that was done: `prepare` then raises LogPurged, and with `first` begins again.  What the user has
        brought is left alone.
        """
        ...


class Source(Protocol):
    """What a plugin gives to the engine and the control plane; `registry.SourceKind.open` makes it.

    `tables`, where set, names the columns that schemas and snapshots leave out; `options` say how values are read, on
    which the types in schemas depend.
    """

    tables: TableSet | None
    options: ReadOptions

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test; never raises for what it tests."""
        ...

    def names(self) -> NameRule:
        """How the source compares names; those that it gives are put under it already.  Raises SourceUnreachable."""
        ...

    def catalog(self) -> Catalog: ...

    def log(self, replicator: str) -> SourceLog: ...

    def log_reader(self, replicator: str, options: ReadOptions) -> LogReader: ...

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> SnapshotReader: ...

    def cancel(self) -> None:
        """By any thread: what the catalog or the log's status is asking ends at the server, and with an error here.

        Raises SourceUnreachable.
        """
        ...

    def close(self) -> None: ...
