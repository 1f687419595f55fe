"""Events in their order → messages: transactions, rows, marks, schemas.  The same for a live stream and for files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from replicator.errors import LogCorrupt, RowImageIncomplete, SourceError, TableError
from replicator.model.change import ChangeBatch, Commit, LogMessage, TableFailed, Watermark
from replicator.model.identifiers import TableId, TableSet
from replicator.model.schema import Column, TableSchema
from replicator.model.types import STRING
from replicator.sources.base import ReadOptions
from replicator.sources.mysql import ddl
from replicator.sources.mysql import events as e
from replicator.sources.mysql.charsets import charset_name, decoder
from replicator.sources.mysql.column_arrays import Places
from replicator.sources.mysql.ddl_effects import DdlEffects
from replicator.sources.mysql.events import Event
from replicator.sources.mysql.log_schema import LogSchemas, positional
from replicator.sources.mysql.offset import BinlogOffset, GtidPosition
from replicator.sources.mysql.pending import Pending
from replicator.sources.mysql.plain_events import KnownTables
from replicator.sources.mysql.row_image import DUMMY_TABLE, Run, TableRows
from replicator.sources.mysql.table_map import LogColumn, TableMap, parse_table_map, table_id
from replicator.sources.mysql.xa import PreparedTransactions

FORMAT_REMEDY = "SET GLOBAL binlog_format = 'ROW'; then reconnect the writing sessions and resnapshot the table."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEQUENCE_COLUMN = "next_not_cached_value"  # a SEQUENCE of MariaDB is written like a table
_MOST_KNOWN = 128  # tables at a time whose rows are read in runs
_SPILL = 4  # rows inside one transaction may be this many batches before they are handed on


@dataclass(frozen=True)
class Marks:
    """Where snapshot readers write their marks, and which are ours."""

    table: TableId
    replicator: str


@dataclass(slots=True)
class _Target:
    """What a table id of the log stands for; `rows` None: not wanted."""

    body: bytes
    rows: TableRows | None = None
    marks: bool = False


def moment(microseconds: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return _EPOCH + timedelta(microseconds=microseconds)


class Interpreter:
    """`feed` takes events; what they amount to is in `out`, which the caller empties."""

    def __init__(
        self,
        tables: TableSet,
        schemas: LogSchemas,
        options: ReadOptions,
        start: BinlogOffset,
        marks: Marks | None = None,
    ) -> None:
        self.out: list[LogMessage] = []
        self.schemas = schemas
        self.pending = Pending()
        self.mariadb = False
        self.in_transaction = False
        self.gtid = GtidPosition(start.gtid)
        self._tables, self._options, self._marks = tables, options, marks
        self._effects = DdlEffects(self, tables)
        self._xa = PreparedTransactions(options.batch_bytes)
        self._targets: dict[int, _Target] = {}
        self._known: KnownTables | None = None
        self._failed: set[TableId] = set()
        self._boundary = (start.file, start.position)
        self._committed = self._boundary
        self._commit_us = 0
        self._stamped = False
        self._txn = self._gtid = ""
        self._last_commit: datetime | None = None

    # ---- what the caller asks for

    @property
    def boundary(self) -> BinlogOffset:
        """Reading can resume here and miss nothing."""
        return BinlogOffset(*self._boundary, str(self.gtid))

    @property
    def commit_ts(self) -> datetime:
        """Commit time of the transaction under way."""
        return moment(self._commit_us)

    @property
    def resumable(self) -> bool:
        """False inside a transaction, and while a prepared one waits for its end."""
        return not self.in_transaction and not self._xa.waiting

    @property
    def unsettled(self) -> bool:
        """True where `settle` has something to hand on."""
        return self._boundary != self._committed or bool(self.pending.rows)

    def settle(self) -> None:
        """Hand on all rows, and a Commit where one is possible."""
        self.flush()
        if self.resumable and self._boundary != self._committed:
            self._committed = self._boundary
            self.out.append(Commit(self.boundary, self._last_commit))
            self._last_commit = None

    def passed(self, file: str, position: int) -> None:
        """Reading stands here: a quiet log's checkpoint moves on.  Never back: a stream by GTID may begin earlier."""
        here = BinlogOffset(file, position)
        if not self.in_transaction and not self._stamped and BinlogOffset(*self._boundary) < here:
            self._boundary = (file, position)

    def flush(self) -> None:
        """Hand on all rows."""
        for found in self.pending.flush(inside=self.in_transaction):
            if isinstance(found, ChangeBatch):
                self.out.append(found)
            else:
                self._skip(*found)

    def take_out(self) -> list[LogMessage]:
        """What there is in `out`, which is empty then."""
        messages, self.out[:] = list(self.out), []
        return messages

    # ---- events

    def feed(self, event: Event) -> None:
        """One event, a TRANSACTION_PAYLOAD's inner ones one by one (`payload.open_payload`)."""
        kind = event.type
        if kind == e.TABLE_MAP or kind in e.ROWS:
            if self._xa.recording is not None:
                self._xa.record(event)
            elif kind == e.TABLE_MAP:
                self._table_map(event)
            else:
                self._rows(event)
        elif kind == e.XID:
            self._end(event)
        elif kind in (e.QUERY, e.QUERY_COMPRESSED):
            self._query(event)
        else:
            self._control(event)

    def _control(self, event: Event) -> None:
        kind = event.type
        if kind in (e.GTID, e.ANONYMOUS_GTID, e.TAGGED_GTID, e.MARIADB_GTID):
            self._begin_gtid(event)
        elif kind in (e.PREVIOUS_GTIDS, e.GTID_LIST):
            if not self.gtid.known and not event.artificial:
                self.gtid.reset(e.parse_previous_gtids(event) if kind == e.PREVIOUS_GTIDS else e.parse_gtid_list(event))
        elif kind == e.ROTATE:
            self.passed(*e.rotation(event.body))  # artificial ones too: a server that goes down writes none
        elif kind == e.FORMAT_DESCRIPTION:
            self.mariadb = b"MariaDB" in event.body[2:52]
            if self.in_transaction and not event.artificial:
                self._gtid = ""  # the server went down: the rest was never written, and its GTID is given again
                self._rollback(event)
        elif kind == e.XA_PREPARE:
            self._xa_prepare(event)
        elif kind == e.INCIDENT:
            message = f"The source says that changes are missing from its log at {event.file}:{event.start}."
            raise SourceError(message, remedy="Resnapshot all tables of the replicator.")
        elif kind == e.EXECUTE_LOAD_QUERY:
            self._query(event)
        elif kind not in e.HARMLESS and kind not in e.TOLERATED and not event.flags & e.IGNORABLE_FLAG:
            message = f"The log holds an event of type {kind} at {event.file}:{event.start}, which is unknown here."
            raise SourceError(message)

    def _begin_gtid(self, event: Event) -> None:
        gtid = e.parse_gtid(event)
        if self.in_transaction:  # never half (invariant 6)
            message = f"The log's transaction {self._txn} does not end before the next one begins at {event.file}:{event.start}."
            raise LogCorrupt(message)
        self.pending.begin()
        self._gtid = gtid.text
        self._txn = gtid.text or f"{event.file}:{event.start}"
        self._commit_us, self._stamped = gtid.commit_us, True
        if event.type == e.MARIADB_GTID:
            self.in_transaction = not gtid.standalone
            if gtid.prepares:
                self._xa.start()

    def _begin(self, event: Event) -> None:
        self.in_transaction = True
        if not self._stamped:
            self.pending.begin()
            self._txn, self._commit_us = f"{event.file}:{event.start}", event.timestamp * 1_000_000

    def _end(self, event: Event) -> None:
        """The transaction's end, whatever it came to."""
        if not self._stamped:
            self._commit_us = event.timestamp * 1_000_000
            self.pending.restamp(self._commit_us)
        if self._gtid:
            self.gtid.add(self._gtid)
        self.pending.begin()
        self.in_transaction = self._stamped = False
        self._gtid = self._txn = ""
        self._boundary = (event.file, event.end)
        self._last_commit = moment(self._commit_us)
        if self.pending.rows >= self._options.batch_rows or self.pending.bytes >= self._options.batch_bytes:
            self.settle()

    def _rollback(self, event: Event) -> None:
        for table in self.pending.rollback():
            self._effects.reload(table, event, "ROLLBACK")
        self._xa.abandon()
        self._end(event)

    # ---- rows

    def _table_map(self, event: Event) -> None:
        number = table_id(event.body)
        target = self._targets.get(number)
        if target is None or target.body != event.body:
            self._targets.pop(number, None)
            self._targets[number] = self._target(event)
            self._known = None

    def _target(self, event: Event) -> _Target:
        found = parse_table_map(event.body, mariadb=self.mariadb)
        table = found.table
        if self._marks and table == self._marks.table:
            return _Target(
                event.body, TableRows(_marks_schema(table, found), _positions(found), ReadOptions()), marks=True
            )
        if not self.wants(table) or found.columns[0].name == _SEQUENCE_COLUMN:
            return _Target(event.body)
        try:
            rows = self._rows_for(found, event)
        except TableError as error:
            self.fail(table, error)
            return _Target(event.body)
        return _Target(event.body, rows if self.wants(table) else None)

    def _rows_for(self, found: TableMap, event: Event) -> TableRows:
        resolved = self.schemas.resolve(found)
        if resolved.changed:
            self._effects.unannounced(resolved, event)
        columns = self.schemas.columns(found.table)
        rows = self.pending.of(found.table)
        if rows is None or rows.schema != resolved.schema or rows.log_columns != columns:
            rows = TableRows(resolved.schema, columns, self._options)
            self.flush()
            self.pending.put(rows)
        return rows

    def wants(self, table: TableId) -> bool:
        """True for a table of the selection that has not failed."""
        return table in self._tables and table not in self._failed

    def fail(self, table: TableId, error: TableError) -> None:
        """Skip the table from here on (invariant 7)."""
        self.flush()
        if table not in self._failed:
            self._skip(table, error)

    def _skip(self, table: TableId, error: TableError) -> None:
        self._failed.add(table)
        self.forget_targets()
        error.table = error.table or str(table)
        if str(table) not in error.message:
            error.message = f"{table}: {error.message}"
        self.out.append(TableFailed(table, error, self.boundary))

    def revive(self, table: TableId) -> None:
        """A table of that name is made anew."""
        self._failed.discard(table)
        self.forget_targets()

    def learned(self, schema: TableSchema) -> None:
        """Of a table that may have no rows by which the log would tell."""
        if self.wants(schema.table) and schema.table in self.schemas.current:
            self.schemas.current[schema.table] = schema
            self.forget_targets()

    def forget_targets(self) -> None:
        """Look at the next TABLE_MAP of every table again; rows before that are of a table that failed."""
        self._known = None
        for target in self._targets.values():
            target.body = b""
            if target.rows is not None and target.rows.schema.table in self._failed:
                target.rows = None

    def _rows(self, event: Event) -> None:
        number = table_id(event.body)
        target = self._targets.get(number)
        if target is None:
            if number == DUMMY_TABLE:
                return
            raise IndexError("rows of an unknown table")
        rows = target.rows
        if rows is None:
            return
        if target.marks:
            self._mark(rows, event)
            return
        mark = self.pending.touch(rows)
        try:
            count = rows.add(event, self.pending.ordinal, self._commit_us, self._txn)
        except TableError as error:
            rows.truncate(mark)
            self.fail(rows.schema.table, error)
            return
        self.pending.added(count, rows.bytes - mark.bytes)
        if self.schemas.empty:
            self.schemas.empty.discard(rows.schema.table)
        if self._is_large(rows):
            self.flush()

    def known(self) -> KnownTables | None:
        """The tables whose rows `feed_run` takes; None where rows are to be fed one by one."""
        if self._xa.recording is not None:
            return None
        if self._known is None:
            newest = [target for target in self._targets.values() if target.body][-_MOST_KNOWN:]
            self._known = KnownTables([(target.body, target.rows, target.marks) for target in newest])
        return self._known

    def feed_run(self, known: KnownTables, run: Run) -> None:
        """Many rows events at once: of the transaction under way, or of whole ones."""
        if self.in_transaction:
            owners, txns, times = np.zeros_like(run.slots), [self._txn], np.array([self._commit_us])
            self._gather(known, run, owners, txns, times)
            return
        committed = run.committed
        self.pending.begin()
        owners = np.repeat(np.arange(len(committed.gtids)), np.diff(committed.ends, prepend=0))
        self._gather(known, run, owners, committed.gtids, committed.times)
        self.pending.begin()
        for gtid in committed.gtids:
            self.gtid.add(gtid)
        self._boundary = (run.file, int(committed.places[-1]))
        self._last_commit = moment(int(committed.times[-1]))
        if self.pending.rows >= self._options.batch_rows or self.pending.bytes >= self._options.batch_bytes:
            self.settle()

    def _gather(self, known: KnownTables, run: Run, owners: Places, txns: Sequence[str], times: Places) -> None:
        """`owners`: of each event its transaction, by its place in `txns` and `times`."""
        counts = np.zeros(len(run.slots), np.int64)
        gathered: list[tuple[TableRows, Places]] = []
        size = 0
        for slot in np.unique(run.slots).tolist():
            rows = known.rows[slot]
            assert rows is not None
            chosen = np.nonzero(run.slots == slot)[0]
            mark = self.pending.touch(rows)
            counts[chosen] = rows.add_run(run, chosen, owners, txns, times)
            size += rows.bytes - mark.bytes
            gathered.append((rows, chosen))
            self.schemas.empty.discard(rows.schema.table)
        ordinals = self.pending.ordinal + np.cumsum(counts) - counts
        for rows, chosen in gathered:
            rows.number(ordinals[chosen])
        self.pending.added(int(counts.sum()), size)
        if any(self._is_large(rows) for rows, _ in gathered):
            self.flush()

    def _is_large(self, rows: TableRows) -> bool:
        return rows.bytes >= self._options.batch_bytes or rows.rows >= _SPILL * self._options.batch_rows

    def _mark(self, rows: TableRows, event: Event) -> None:
        """Marks are no changes: they take no ordinal."""
        rows.add(event, 0, self._commit_us, self._txn)
        batch = rows.take()
        assert self._marks
        wanted = self._marks.replicator
        for operation, replicator, token in zip(*(batch.column(i).to_pylist() for i in (1, 5, 6)), strict=True):
            if operation != "DELETE" and replicator == wanted:
                self.flush()
                self.out.append(Watermark(token, self.boundary))

    # ---- statements

    def _query(self, event: Event) -> None:
        query = e.parse_query(event)
        if query.sql == b"BEGIN":
            self._begin(event)
        elif query.sql == b"COMMIT":
            self._end(event)
        else:
            self._statement(event, query)

    def _statement(self, event: Event, query: e.Query) -> None:
        text = _text(query)
        statement = ddl.parse(text, query.database, query.sql_mode, mariadb=self.mariadb)
        if isinstance(statement, ddl.Transaction):
            self._transaction(event, statement)
            return
        if isinstance(statement, ddl.Dml):
            self._statement_rows(statement)
        else:
            if not self._stamped:
                self._commit_us = event.timestamp * 1_000_000
            if self.mariadb and isinstance(statement, ddl.CreateTable | ddl.AlterTable):
                self.schemas.declare(statement.table, ddl.opaque_columns(text, query.sql_mode))
            self._effects.apply(statement, event, text)
        if not self.in_transaction:
            self._end(event)

    def _statement_rows(self, statement: ddl.Dml) -> None:
        for table in statement.tables:
            if self.wants(table) and (table in self.schemas.current or table in self._tables.tables):
                message = f"{statement.verb} of {table} is in the log as a statement, not as rows."
                self.fail(table, RowImageIncomplete(message, remedy=FORMAT_REMEDY))

    def _transaction(self, event: Event, statement: ddl.Transaction) -> None:
        verb = statement.verb
        if verb == "BEGIN":
            self._begin(event)
        elif verb == "COMMIT":
            self._end(event)
        elif verb == "ROLLBACK":
            self._rollback(event)
        elif verb == "SAVEPOINT":
            self.pending.savepoint(statement.name)
        elif verb == "ROLLBACK TO":
            for table in self.pending.rollback(statement.name):
                self._effects.reload(table, event, "ROLLBACK TO SAVEPOINT")
        elif verb == "XA START":
            self._begin(event)
            self._xa.start()
        elif verb == "XA COMMIT":
            for recorded in self._xa.commit(statement.name):
                self.feed(recorded)
            self._end(event)
        elif verb == "XA ROLLBACK":
            self._xa.rollback(statement.name)
            self._end(event)

    def _xa_prepare(self, event: Event) -> None:
        one_phase, name = e.parse_xa_prepare(event)
        recorded = self._xa.prepare(name, keep=not one_phase)
        for earlier in recorded if one_phase else ():
            self.feed(earlier)
        self._end(event)


def _text(query: e.Query) -> str:
    try:
        return decoder(charset_name(query.charset))(query.sql)
    except (TableError, UnicodeDecodeError):
        return query.sql.decode("utf-8", "replace")


def _marks_schema(table: TableId, found: TableMap) -> TableSchema:
    """The first two columns are the replicator and the token, whatever the log says of their names."""
    names = [column.name for column in _positions(found)[:2]]
    return TableSchema(table, tuple(Column(name, STRING, nullable=True, source_type="varchar") for name in names))


def _positions(found: TableMap) -> tuple[LogColumn, ...]:
    return positional(found).columns
