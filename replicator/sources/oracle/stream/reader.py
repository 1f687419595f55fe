"""The redo log, read by LogMiner in ranges of SCNs that follow each other.

A range ends at the SCN of a moment at which a commit of ours was written: the log writer writes in order, so all that
was committed up to that SCN is in the files.  Where LogMiner keeps rows of open transactions back, each range begins
where the oldest transaction began that was open at the end of the one before, and LogMiner leaves out what was
committed up to there.  Where Tidemark keeps them, ranges do not overlap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from replicator.errors import (
    SourcePermissionDenied,
    SourceReplaced,
    SourceUnreachable,
    TableError,
    TableNotRead,
    TidemarkError,
)
from replicator.model.change import Heartbeat, LogMessage
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import LogReader, ReadOptions
from replicator.sources.oracle.catalog.catalog import OracleCatalog
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.config import Committed, OracleConfig
from replicator.sources.oracle.connection import ARRAY_ROWS, Connection, close, connect, read_rows, translated
from replicator.sources.oracle.offset import ScnOffset
from replicator.sources.oracle.stream.large_objects import LargeObjects
from replicator.sources.oracle.stream.log_files import LogRange
from replicator.sources.oracle.stream.mining_session import MiningSession
from replicator.sources.oracle.stream.open_transactions import CommittedTransactions, OpenTransactions
from replicator.sources.oracle.stream.redo_frame import RedoFrame
from replicator.sources.oracle.stream.table_registry import Present, agree
from replicator.sources.oracle.stream.transaction_assembler import TransactionAssembler
from replicator.sources.oracle.watermark import WatermarkTable
from replicator.sources.shared.date_policy import date_policy

_BEAT = 0.4  # seconds
_POLL = 0.4
_QUIET = 2.0  # the longest time without mining, regardless of the log's end
MAX_LOOKS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INCARNATION = "SELECT resetlogs_change#, prior_resetlogs_change# FROM v$database"


class LogMinerReader(LogReader):
    """A LogReader (replicator.sources.base)."""

    def __init__(self, config: OracleConfig, options: ReadOptions, replicator: str) -> None:
        self._config, self._options = config, options
        self._marks = WatermarkTable(config, replicator)
        self._session: MiningSession | None = None
        self._control: Connection | None = None
        self._open = OpenTransactions(options.batch_bytes)
        self._grouped = CommittedTransactions(options.batch_bytes)
        self._low = 0
        self._opened = self._prior = 0  # RESETLOGS_CHANGE# of this incarnation, and of the one before
        self._begun = 0  # the SCN at which the last range began
        self._idle = False  # had it nothing?
        self._written: object = None  # where the log ended then; None: not asked
        self._mined = 0.0  # when
        self._observed: list[tuple[int, int]] = []  # SCNs, and at which the oldest transaction had begun that was open
        self._closed = threading.Event()
        self._assembler: TransactionAssembler | None = None
        self._tables = TableSet()
        self._started = 0  # the SCN at the start; 0: read
        self._unsure: set[TableId] = set()  # what is known of them is not what the catalog has

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """As the port says."""
        assert isinstance(start, ScnOffset)
        self.close()
        self._closed.clear()
        self._tables = tables = tables.followed()
        self._session = session = MiningSession(self._config)
        self._control = connect(self._config)
        start = self._recognised(start)
        assembler = self._assembler = TransactionAssembler(
            tables, schemas, self._options, start, self._marks, Present(self._describe, self._named, self._now),
            LargeObjects(self._selected, self._options.batch_bytes),
        )  # fmt: skip
        assembler.registry.part_identities()
        self._started, self._unsure = self._now(), set()
        try:
            while not self._closed.is_set():
                begun = time.monotonic()
                if self._written and begun - self._mined < _QUIET and session.written() == self._written:
                    yield Heartbeat(assembler.boundary, None)
                else:
                    yield from self._range(session, assembler)
                took = time.monotonic() - begun
                # what LogMiner keeps back is mined again and again: of the server's time, half at most
                again = not self._low and assembler.boundary.low <= self._begun
                self._closed.wait(max(_POLL - took, took if again else 0.0, 0.01))
        finally:
            self.close()
        message = "The log's reader was closed."
        raise SourceUnreachable(message)

    def _range(self, session: MiningSession, assembler: TransactionAssembler) -> Iterator[LogMessage]:
        done = assembler.boundary
        end, oldest, now, ahead = session.position()
        self._observed.append((end, oldest))
        assert self._control is not None
        self._marks.flush(self._control, end)
        written = session.written()
        self._written = written if self._idle else None
        self._idle, self._mined = True, time.monotonic()
        low = done.low if self._config.committed is Committed.SERVER or not done.scn else self._next_low(done)
        if done.scn + 1 >= self._opened:
            low = max(low, self._opened)
        self._begun = low
        found = session.range(low, end, written, opened=self._opened, prior=self._prior)
        if found is None or found.end <= done.scn:
            yield Heartbeat(assembler.boundary, None if found is None else _EPOCH + timedelta(microseconds=now))
            return
        beat = time.monotonic()
        for part in self._committed(session.mine(found, self._owners(assembler), done.scn), done.scn):
            if part is not None:
                assembler.feed(part, ahead)
            for message in assembler.take_out():
                beat, self._idle = time.monotonic(), False
                yield message
            if time.monotonic() - beat > _BEAT:
                beat = time.monotonic()
                yield Heartbeat(None, None)
        restart = self._restart(found)
        if self._config.committed is Committed.TIDEMARK:
            self._low = found.end + 1
            restart = min(self._open.oldest or found.end + 1, found.end + 1)
        quiet = not assembler.unsettled
        assembler.reached(ScnOffset(found.end, restart, done.incarnation))
        if 0 < self._started <= found.end:
            self._started, self._unsure = 0, self._misplaced(assembler)
        self._unsure = {table for table in self._unsure if not assembler.registry.doubt(table)}
        assembler.settle()
        last = assembler.take_out()
        self._idle = self._idle and not last
        yield from last
        at = _EPOCH + timedelta(microseconds=now) if found.end == end else None
        yield Heartbeat(assembler.boundary, at if quiet else None)

    def _committed(self, frames: Iterator[RedoFrame], after: int) -> Iterator[RedoFrame | None]:
        """Rows of whole transactions; None now and then where there are none."""
        server = self._config.committed is Committed.SERVER
        for frame in frames:
            yield from self._grouped.feed(frame) if server else self._open.feed(frame, after)
            yield None
        if server:
            yield from self._grouped.end()

    def _next_low(self, done: ScnOffset) -> int:
        """The first range begins where the oldest open transaction did, all others behind the one before."""
        return self._low or done.low

    def _restart(self, found: LogRange) -> int:
        """The SCN at which the oldest transaction began that was open at the range's end, or an earlier one.

        What was open at the last look before that, or has begun since: both began no earlier than the look says.
        """
        usable = [oldest for end, oldest in self._observed if end <= found.end]
        del self._observed[: max(len(usable) - 1, 0)]
        if len(self._observed) > MAX_LOOKS:
            del self._observed[1::2]
        return usable[-1] if usable else found.low

    def _recognised(self, start: ScnOffset) -> ScnOffset:
        """The place in the database's present incarnation.

        OPEN RESETLOGS, after a failover or a restore, begins another log: it goes on where the old one was read up to
        no later than its end.  A copy of the files that is opened as it is goes on with the same SCNs: its row of the
        watermark table says how far it was read.  SourceReplaced where the log that was read is not this one's.
        """
        assert self._session is not None
        assert self._control is not None
        where = self._config.where
        found = read_rows(self._session.connection, _INCARNATION, where)[0]
        self._opened, self._prior = (int(one or 0) for one in found)
        known = start.incarnation in {0, self._opened}
        if not known and (start.incarnation != self._prior or start.scn >= self._opened):
            message = (
                f"{where} was opened with RESETLOGS at SCN {self._opened:,}; the log was read up to SCN {start.scn:,}"
                " of an earlier incarnation, which this database does not have."
            )
            raise SourceReplaced(message)
        flushed = self._marks.flushed(self._control) if start.incarnation == self._opened else None
        if flushed is not None and flushed < start.scn:
            message = (
                f"{where} was set back: the log was read up to SCN {start.scn:,}, and {self._marks.table} has SCN"
                f" {flushed:,} as the last that was to be read."
            )
            raise SourceReplaced(message)
        return ScnOffset(start.scn, start.restart, self._opened)

    def _owners(self, assembler: TransactionAssembler) -> set[str]:
        known = {table.database for table in (*self._tables.tables, *assembler.registry.known)}
        return known | self._tables.searched | {self._marks.table.database}

    def _now(self) -> int:
        assert self._control is not None
        return int(read_rows(self._control, "SELECT current_scn FROM v$database", self._config.where)[0][0])

    def _catalog(self, connection: Connection) -> OracleCatalog:
        dates = date_policy(self._options)
        return OracleCatalog(connection, lobs=self._config.lobs, zero_dates=dates, left_out=self._tables)

    def _selected(self, sql: str, table: TableId) -> pa.Table:
        """What the server has against it is said where the table is read again, then."""
        assert self._control is not None
        try:
            with translated(table):
                found = self._control.fetch_df_batches(sql, size=ARRAY_ROWS, fetch_decimals=True)
                return pa.concat_tables([pa.table(one) for one in found], promote_options="permissive")
        except (TableError, SourcePermissionDenied) as error:
            raise TableNotRead(error.message, remedy=error.remedy, table=str(table)) from None

    def _misplaced(self, assembler: TransactionAssembler) -> set[TableId]:
        """Tables of the selection that are not known, or by another's number.

        At the start they are described as the catalog has them, which may be ahead of the log: names that were given
        to others in between were then taken for theirs.  Now the log has come by.
        """
        assert self._control is not None
        catalog, known = self._catalog(self._control), assembler.registry.known
        names = {*self._tables.tables, *catalog.names(self._tables.searched)}
        found = catalog.details(sorted(one for one in names if assembler.registry.wants(one)))
        return {
            table for table, described in found.items()
            if isinstance(described, TableDescription)
            and (table not in known or known[table].identity != described.schema.identity)
        }  # fmt: skip

    def _describe(self, table: TableId) -> TableDescription | TableError | None:
        for attempt in (1, 2):
            try:
                assert self._control is not None
                found = self._catalog(self._control).details([table]).get(table)
                if not isinstance(found, TableNotRead):
                    return found
            except SourceUnreachable:
                if attempt == 2 or self._closed.is_set():  # noqa: PLR2004
                    raise
            close(self._control)
            self._control = connect(self._config)
        return None

    def _named(self, number: str) -> TableId | None:
        assert self._control is not None
        return self._catalog(self._control).table_of_object(int(number))

    def confirm(self, durable: Offset) -> None:
        """Do nothing: Oracle retains its log by its own rules, regardless of its readers."""

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        """Rows under another schema wait for the log, which tells of every statement: unless what is known is wrong."""
        if agree(shown, known):
            return known
        if self._assembler is None:
            return None
        registry = self._assembler.registry
        if shown == known and agree(shown, registry.known.get(shown.table)):
            return shown
        registry.doubt(shown.table)
        return None

    def close(self) -> None:
        """Ends the session; a `read` under way ends with SourceUnreachable."""
        self._closed.set()
        self._open.close()
        self._grouped.close()
        self._low, self._idle, self._written = 0, False, None
        self._observed = []
        session, self._session = self._session, None
        control, self._control = self._control, None
        with suppress(TidemarkError):
            if session is not None:
                session.close()
        close(control)
