"""The binary log, live: from the server's packets to messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime

from replicator.errors import LogPurged, SourceUnreachable, TableError, TableNotRead
from replicator.model.change import Heartbeat, LogMessage
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.check.log_continuity import check_past, log_events
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, connect, server_is_mariadb, translated
from replicator.sources.mysql.names import names_of
from replicator.sources.mysql.offset import BinlogOffset, PreparedXa
from replicator.sources.mysql.stream.event_runs import PLAIN, plain_run
from replicator.sources.mysql.stream.log_status import log_end
from replicator.sources.mysql.stream.resume_point import find_start
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.table_registry import Marks
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.binlog_dump import begin_dump
from replicator.sources.mysql.wire.events import EventParser
from replicator.sources.mysql.wire.packet_stream import PacketStream
from replicator.sources.mysql.wire.stream_error import OK, stream_error
from replicator.sources.mysql.wire.transaction_payload import open_payload
from replicator.sources.shared.date_policy import date_policy

_SETTLE = 0.3  # seconds that rows wait for more at most
_BEAT = 0.45


class BinlogReader:
    """A LogReader (replicator.sources.base)."""

    def __init__(self, config: MySqlConfig, options: ReadOptions, replicator: str, watermark_table: TableId) -> None:
        self._config, self._options, self._replicator = config, options, replicator
        self._marks = Marks(watermark_table, replicator)
        self._server_id = config.server_id_for(replicator)
        self._log: Connection | None = None
        self._control: Connection | None = None
        self._interpreter: TransactionAssembler | None = None

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """As the port says.

        Rows wait for at most 0.3 s, so that a transaction's end is a batch's end wherever possible.
        """
        assert isinstance(start, BinlogOffset)
        self.close()
        self._control = connect(self._config)
        where = find_start(self._control, start)
        if where.past is not None:
            check_past(self._config, self._server_id, where.past)
        names = names_of(self._control)
        tables, marks = names.selection(tables).followed(), replace(self._marks, table=names.table(self._marks.table))
        known = LogSchemas(tables, schemas, self._options, self._describer(tables), self._leads_further)
        interpreter = self._interpreter = TransactionAssembler(tables, known, self._options, start, marks, names)
        for one in start.prepared:
            if interpreter.xa.wanted(one):
                self._recall(one, interpreter)
        self._log = begin_dump(
            self._config, self._server_id, where.file, where.position,
            gtid=where.gtid, mariadb=where.mariadb, follow=True,
        )  # fmt: skip
        stream = PacketStream(self._log)
        try:
            parser = EventParser(start.file, start.position)
            yield from _Loop(stream, parser, interpreter, self._options.batch_bytes).messages()
        finally:
            self.close()

    def _recall(self, one: PreparedXa, interpreter: TransactionAssembler) -> None:
        """Where the log has it no more, its tables are read again when it is committed."""
        if one.start >= e.WRAP:
            return
        found = log_events(self._config, self._server_id, one.file, one.start)
        with closing(found), suppress(LogPurged):
            interpreter.xa.recall(one, _unpacked(found))

    def confirm(self, durable: Offset) -> None:
        """Do nothing: MySQL retains its log by time and size, regardless of its readers."""

    def shows(self, evidence: str, transaction: str) -> bool:
        """Chunks have no evidence here: the log's order is that of visibility (see the check binlog_order_commits)."""
        raise NotImplementedError(evidence, transaction)

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        """The next statement alters this one."""
        if self._interpreter is not None and shown != known:
            self._interpreter.tables.learned(shown)
        return known

    def close(self) -> None:
        """Ends the stream; a `read` under way ends with SourceUnreachable."""
        log, self._log = self._log, None
        control, self._control = self._control, None
        for connection in (log, control):
            if connection is not None and connection.open:
                with suppress(Exception):
                    connection.close()

    def _describer(self, tables: TableSet) -> Callable[[TableId], TableDescription | TableError | None]:
        def describe(table: TableId) -> TableDescription | TableError | None:
            try:
                found = self._catalog(tables).details([table]).get(table)
                if not isinstance(found, TableNotRead):
                    return found
            except SourceUnreachable:
                pass
            self._reconnect()
            return self._catalog(tables).details([table]).get(table)

        return describe

    def _leads_further(self, tables: Collection[TableId], calls: Collection[str]) -> bool:
        try:
            return self._catalog(TableSet()).leads_further(tables, calls)
        except SourceUnreachable:
            self._reconnect()
        return self._catalog(TableSet()).leads_further(tables, calls)

    def _catalog(self, tables: TableSet) -> MySqlCatalog:
        assert self._control
        return MySqlCatalog(self._control, zero_dates=date_policy(self._options), left_out=tables)

    def _reconnect(self) -> None:
        if self._control is not None and self._control.open:
            with suppress(Exception):
                self._control.close()
        self._control = connect(self._config)


class _Loop:
    """Packets → messages, with the clock."""

    def __init__(
        self, stream: PacketStream, parser: EventParser, interpreter: TransactionAssembler, batch_bytes: int
    ) -> None:
        self._stream, self._parser, self._interpreter = stream, parser, interpreter
        self._batch_bytes = batch_bytes
        self._settled_at = self._beat_at = time.monotonic()
        self._quiet_since: datetime | None = None
        self._server_stands: tuple[str, int] | None = None
        self._cut = False

    def messages(self) -> Iterator[LogMessage]:
        stream = self._stream
        while True:
            new = stream.fill(self._patience(), more=self._cut)
            with self._parser.guard():
                while True:
                    if stream.kind() in PLAIN:
                        yield from self._take_plain()
                        if new and self._cut:
                            break  # the rest of the transaction is on its way: whole, it is less work
                    event = self._next_event()
                    if event is None:
                        break
                    messages = iter(self._take(event))
                    del event  # it may be large
                    yield from messages
                yield from self._tick(time.monotonic())

    def _take_plain(self) -> Iterable[LogMessage]:
        """Plain events from here on, as long as nothing else comes."""
        stream, parser = self._stream, self._parser
        self._cut = False
        known = self._interpreter.known() if parser.plain else None
        if known is None:
            return ()
        found = plain_run(stream, parser, known, self._batch_bytes, inside=self._interpreter.in_transaction)
        self._cut = found.cut and stream.roomy
        if found.run is None:
            return ()
        self._quiet_since = None
        self._interpreter.feed_run(known, found.run, found.whole)
        return self._drain() if self._interpreter.ready else ()

    def _tick(self, now: float) -> Iterator[LogMessage]:
        if now - self._settled_at >= _SETTLE:
            self._settled_at = now
            yield from self._interpreter.xa.notices()
            if self._interpreter.unsettled and not self._interpreter.in_transaction:
                self._interpreter.settle()
                yield from self._drain()
        if now - self._beat_at >= _BEAT:
            self._beat_at = now
            yield self._heartbeat()

    def _patience(self) -> float:
        """Seconds until the clock asks for something."""
        due = min(self._settled_at + _SETTLE, self._beat_at + _BEAT)
        return max(due - time.monotonic(), 0.005)

    def _drain(self) -> Iterator[LogMessage]:
        """What there is to hand on; what was handed on is not kept."""
        self._beat_at = time.monotonic()
        messages = self._interpreter.take_out()[::-1]
        while messages:
            yield messages.pop()

    def _heartbeat(self) -> Heartbeat:
        interpreter = self._interpreter
        still = not interpreter.in_transaction and not interpreter.unsettled
        return Heartbeat(interpreter.boundary if still else None, self._quiet_since if still else None)

    def _next_event(self) -> e.BinlogEvent | None:
        """None where it has not wholly arrived."""
        packet = self._stream.next()
        if packet is None:
            return None
        if packet[:1] != OK:
            raise stream_error(bytes(packet))
        return self._parser.parse(memoryview(packet)[1:])

    def _take(self, event: e.BinlogEvent) -> Iterable[LogMessage]:
        kind = event.type
        if kind == e.TRANSACTION_PAYLOAD:
            return self._take_payload(event)
        if kind in (e.HEARTBEAT, e.HEARTBEAT_V2):
            self._server_says_quiet(event.end)
            self._interpreter.passed(self._parser.file, event.end)
            return ()
        if not event.artificial and kind != e.FORMAT_DESCRIPTION:
            self._quiet_since = None
        self._interpreter.feed(event)
        return self._drain() if self._interpreter.ready else ()

    def _take_payload(self, payload: e.BinlogEvent) -> Iterator[LogMessage]:
        """One event after the other, so that what they amount to does not pile up (invariant 9)."""
        for event in open_payload(payload):
            self._interpreter.feed(event, payload)
            if self._interpreter.ready:
                yield from self._drain()

    def _server_says_quiet(self, end: int) -> None:
        """A heartbeat is also sent while the server skips events: only where it has not moved is it at the log's
        end.
        """
        stands = (self._parser.file, end)
        if stands in (self._server_stands, (self._parser.file, self._parser.position % e.WRAP)):
            self._quiet_since = datetime.now(UTC)
        self._server_stands = stands


def _unpacked(events: Iterator[e.BinlogEvent]) -> Iterator[e.BinlogEvent]:
    for event in events:
        yield from open_payload(event) if event.type == e.TRANSACTION_PAYLOAD else (event,)


def current_offset(connection: Connection) -> BinlogOffset:
    """Return the log's end now; SourceMisconfigured if the server writes no log."""
    file, position, executed = log_end(connection, "The source")
    if server_is_mariadb(connection):
        with translated("The source"), connection.cursor() as cursor:
            cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (file, position))
            executed = str((cursor.fetchone() or ("",))[0] or "")
    return BinlogOffset(file, position, executed)


def identity(connection: Connection) -> str:
    """Tells one server from another: MySQL's server_uuid.

    MariaDB has nothing like it; its server_id stands for it, which replication needs to be unique anyway, but which a
    copy of the server shares.
    """
    mariadb = server_is_mariadb(connection)
    with translated("The source"), connection.cursor() as cursor:
        cursor.execute(f"SELECT {'@@server_id' if mariadb else '@@server_uuid'}")
        value = str((cursor.fetchone() or ("",))[0])
    return f"mariadb-{value}" if mariadb else value
