"""Events in their order → messages: transactions, rows, marks, schemas.  The same for a live stream and for files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from replicator.errors import LogCorrupt, LogPurged, LogUnreadable, TableError
from replicator.model.change import ChangeBatch, Commit, LogMessage, UndecodableRows
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.ddl.parser import UnseenRows
from replicator.sources.mysql.log_identity import closed_by, closed_by_xid
from replicator.sources.mysql.offset import BinlogOffset, GtidPosition, Past
from replicator.sources.mysql.rows.row_events import RowEventRun
from replicator.sources.mysql.rows.table_map import signs_years
from replicator.sources.mysql.stream.ddl_applier import DdlEffects
from replicator.sources.mysql.stream.event_runs import KnownTables, WholeTransactions
from replicator.sources.mysql.stream.query_events import Statements
from replicator.sources.mysql.stream.row_buffer import Pending
from replicator.sources.mysql.stream.schema_tracker import LogSchemas, Resolved
from replicator.sources.mysql.stream.table_registry import LogTables, Marks
from replicator.sources.mysql.stream.xa_transactions import Decided, PreparedTransactions
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire import frame_kernel as f
from replicator.sources.mysql.wire.events import BinlogEvent

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return _EPOCH + timedelta(microseconds=microseconds)


class TransactionAssembler:
    """`feed` takes events, `feed_run` many at once; what they amount to is in `out`, which the caller empties.

    It keeps transactions; its parts see to their contents.
    """

    def __init__(
        self,
        tables: TableSet,
        schemas: LogSchemas,
        options: ReadOptions,
        start: BinlogOffset,
        marks: Marks | None = None,
        names: NameRule = EXACT_NAMES,
    ) -> None:
        """`names`: under which `tables`, `schemas` and `marks` have theirs."""
        self.names = names
        self.out: list[LogMessage] = []
        self._past = start.past
        self._file: Past | None = None
        self._payload: BinlogEvent | None = None
        self.schemas = schemas
        self.pending = Pending()
        self.mariadb = False
        self.signs_years: bool | None = None
        self.in_transaction = False
        self.idle = False
        self.gtid = GtidPosition(start.gtid)
        self.txn = ""
        self.commit_us = 0
        self.tables = LogTables(self, tables, options, marks)
        self._effects = DdlEffects(self, self.tables, tables)
        self.xa = PreparedTransactions(tables, names, options.batch_bytes, start.prepared)
        self._statements = Statements(self, self.tables, tables, self._effects)
        self._options = options
        self._boundary = (start.file, start.position)
        self._committed = self._boundary
        self._stamped = False
        self._began = 0
        self._gtid = ""
        self._last_commit: datetime | None = None

    # ---- what the caller asks for

    @property
    def boundary(self) -> BinlogOffset:
        """Reading can resume here and miss nothing."""
        return BinlogOffset(*self._boundary, str(self.gtid), self._past, self.xa.prepared)

    @property
    def commit_ts(self) -> datetime:
        """Commit time of the transaction under way."""
        return moment(self.commit_us)

    @property
    def unsettled(self) -> bool:
        """True where `settle` has something to hand on."""
        return self._boundary != self._committed or bool(self.pending.rows)

    def settle(self) -> None:
        """Hand on all rows, and a Commit where one is possible."""
        self.flush()
        if not self.in_transaction and self._boundary != self._committed:
            self._committed = self._boundary
            self.out.append(Commit(self.boundary, self._last_commit))
            self._last_commit = None

    def passed(self, file: str, position: int) -> None:
        """Reading stands here: a quiet log's checkpoint moves on.  Never back: a stream by GTID may begin earlier."""
        here = BinlogOffset(file, position)
        if not self.in_transaction and not self._stamped and BinlogOffset(*self._boundary) < here:
            self._boundary = (file, position)
            if self._file is not None and self._file.file == file != (self._past and self._past.file):
                self._past = self._file

    def flush(self) -> None:
        """Hand on all rows."""
        for found in self.pending.flush(inside=self.in_transaction):
            if isinstance(found, ChangeBatch):
                self.out.append(found)
                continue
            table, bad = found
            if isinstance(bad, TableError):
                self.tables.skip(table, bad)
            else:
                self.out.append(UndecodableRows(table, tuple(bad), self.boundary))

    def unannounced(self, resolved: Resolved, event: BinlogEvent) -> None:
        """A TABLE_MAP shows a schema that no statement explained."""
        self._effects.unannounced(resolved, event)

    @property
    def ready(self) -> bool:
        """Is there something to take out?  To be asked after each event, when that is gone: it may be large."""
        return bool(self.out) or self.pending.crowded

    def take_out(self) -> list[LogMessage]:
        """What there is in `out`, which is empty then."""
        if self.pending.crowded:
            self.flush()
        messages, self.out[:] = list(self.out), []
        return messages

    # ---- events

    def feed(self, event: BinlogEvent, payload: BinlogEvent | None = None) -> None:
        """One event, a TRANSACTION_PAYLOAD's inner ones one by one (`payload.open_payload`)."""
        kind, self._payload = event.type, payload
        if kind == e.TABLE_MAP or kind in e.ROWS:
            if self.xa.recording:
                self.xa.record(event)
            elif kind == e.TABLE_MAP:
                self.tables.table_map(event)
            else:
                self.tables.add(event)
        elif kind == e.XID:
            self.end(event)
        elif kind in (e.QUERY, e.QUERY_COMPRESSED):
            self._statements.apply(event)
        else:
            self._control(event)

    def _control(self, event: BinlogEvent) -> None:
        kind = event.type
        if kind in (e.GTID, e.ANONYMOUS_GTID, e.TAGGED_GTID, e.MARIADB_GTID):
            self._begin_gtid(event)
        elif kind in (e.PREVIOUS_GTIDS, e.GTID_LIST):
            if not self.gtid.known and not event.artificial:
                self.gtid.reset(e.parse_previous_gtids(event) if kind == e.PREVIOUS_GTIDS else e.parse_gtid_list(event))
        elif kind == e.ROTATE:
            self.passed(*e.rotation(event.body))  # artificial ones too: a server that goes down writes none
        elif kind == e.FORMAT_DESCRIPTION:
            version = event.body[2:52].decode("ascii", "replace")
            self.mariadb, self.signs_years = "MariaDB" in version, signs_years(version)
            self._file = Past(event.file, event.timestamp)
            self.passed(event.file, event.end)
            if not event.artificial:
                self._statements.hidden.forget()
            if self.in_transaction and not event.artificial:
                self._gtid = ""  # the server went down: the rest was never written, and its GTID is given again
                self.rollback(event)
        elif kind == e.XA_PREPARE:
            self._xa_prepare(event)
        elif kind == e.INCIDENT:
            message = f"The source reports that changes are missing in its log at {event.file}:{event.start}."
            raise LogPurged(message)
        elif kind == e.EXECUTE_LOAD_QUERY:
            self._statements.apply(event)
        elif kind not in e.HARMLESS and kind not in e.TOLERATED and not event.flags & e.IGNORABLE_FLAG:
            message = f"The log holds an event of type {kind} at {event.file}:{event.start}, which is not supported."
            raise LogUnreadable(message)

    def _begin_gtid(self, event: BinlogEvent) -> None:
        gtid = e.parse_gtid(event)
        if self.in_transaction:  # never half (invariant 6)
            message = (
                f"The log's transaction {self.txn} does not end before the next one begins at"
                f" {event.file}:{event.start}."
            )
            raise LogCorrupt(message)
        self.pending.begin()
        self._gtid, self._began = gtid.text, event.start
        self.txn = gtid.text or f"{event.file}:{event.start}"
        self.commit_us, self._stamped, self.idle = gtid.commit_us, True, gtid.idle
        if event.type == e.MARIADB_GTID:
            self.in_transaction = not gtid.standalone
            if gtid.prepares:
                self.begin_xa(event)

    def stamp(self, event: BinlogEvent) -> None:
        """The transaction under way, where nothing said it before, is of this event's time."""
        if not self._stamped:
            self.commit_us = event.timestamp * 1_000_000

    def begin(self, event: BinlogEvent) -> None:
        """A transaction begins, unless its GTID said so before."""
        self.in_transaction = True
        if not self._stamped:
            self.pending.begin()
            self.txn, self.commit_us = f"{event.file}:{event.start}", event.timestamp * 1_000_000

    def end(self, event: BinlogEvent) -> None:
        """End the transaction, committed or not."""
        self.stamp(event)
        if not self._stamped:
            self.pending.restamp(self.commit_us)
        if self._gtid:
            self.gtid.add(self._gtid)
        self.pending.begin()
        self.in_transaction = self._stamped = self.idle = False
        self._gtid = self.txn = ""
        self._boundary = (event.file, event.end)
        if self._file is not None:
            self._past = closed_by(self._file, self._payload or event)
        self._last_commit = moment(self.commit_us)
        if self.pending.due(self._options):
            self.settle()

    def rollback(self, event: BinlogEvent) -> None:
        """The transaction's end: it never was."""
        for table in self.pending.rollback():
            self._effects.reload(table, event, "ROLLBACK")
        self.xa.abandon()
        self.end(event)

    def _xa_prepare(self, event: BinlogEvent) -> None:
        one_phase, name = e.parse_xa_prepare(event)
        self.decide(event, self.xa.prepare(name, keep=not one_phase))

    def begin_xa(self, event: BinlogEvent) -> None:
        """What comes until XA PREPARE counts later, if at all."""
        self.xa.start(event.file, self._began if self._stamped else event.start, event.timestamp)

    def decide(self, event: BinlogEvent, decided: Decided) -> None:
        """The end of an XA transaction, with what it comes to."""
        payload = self._payload
        for earlier in decided.events:
            self.feed(earlier)
        self._payload = payload
        for table in tuple(self.schemas.current) if decided.again is None else decided.again:
            if self.tables.wants(table) and table in self.schemas.current:
                self._effects.reload(table, event, "XA COMMIT")
            elif self.tables.wants(table):
                self._effects.apply(UnseenRows(frozenset({table})), event, "XA COMMIT")
        self.end(event)

    # ---- runs of events

    def known(self) -> KnownTables | None:
        """The tables whose rows `feed_run` takes; None where rows are to be fed one by one."""
        return None if self.xa.recording else self.tables.known()

    def feed_run(self, known: KnownTables, run: RowEventRun, whole: WholeTransactions | None) -> None:
        """Rows events of the transaction under way, or `whole` ones."""
        if whole is None:
            run.events[f.RANGE], run.events[f.NUMBER], run.events[f.TIME] = 0, -1, self.commit_us
            self.tables.add_run(known, run._replace(names=[self.txn]))
            return
        self.pending.begin()
        self.tables.add_run(known, run)
        self.pending.begin()
        for gtids in whole.gtids:
            self.gtid.add_range(*gtids)
        self._boundary = (run.file, whole.end)
        if self._file is not None:
            self._past = closed_by_xid(self._file, whole.tail, whole.end, checksum=whole.checksum)
        self._last_commit = moment(whole.commit_us)
        if self.pending.due(self._options):
            self.settle()
