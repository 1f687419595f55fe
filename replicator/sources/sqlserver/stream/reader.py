"""The change tables as a log: windows of whole transactions, in the order of their commits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import LogCorrupt, SourceUnreachable, TableDisappeared, TableError
from replicator.model import change as messages
from replicator.model.change import HEARTBEAT, Heartbeat, LogMessage, Notice, TableFailed, Watermark
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.sqlserver import availability
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.config import ReadFrom, SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession, connect
from replicator.sources.sqlserver.offset import LSN_BYTES, CommitPoint, LsnOffset, lsn_text
from replicator.sources.sqlserver.rows.change_rows import Framed, Transactions, change_batch, framed, sort_keys
from replicator.sources.sqlserver.stream import capture_instances, log_status
from replicator.sources.sqlserver.stream.followed_tables import FollowedTables
from replicator.sources.sqlserver.stream.polled_reader import PolledReader
from replicator.sources.sqlserver.stream.windows import ChangeSource, LogWindow, WindowReader
from replicator.sources.sqlserver.watermark import create_statements, watermark_table, write_mark

POLL_SECONDS = 0.2
LOOK_SECONDS = 2.0
BEGIN_SECONDS = 10.0  # for which a new table's capture instance is waited for; the capture job looks every 5 s
MARK_SECONDS = 10.0  # a quiet log gets a mark so often: what was committed before it is known to be read
STALLED_SECONDS = 60.0
MOST_COMMITS = 5_000  # in one window
_BEAT = f"{HEARTBEAT}|"
_DEFINED = "SELECT (SELECT COUNT(*) FROM cdc.ddl_history), (SELECT COUNT(*) FROM cdc.change_tables)"
_STARTS = "SELECT object_id, start_lsn FROM cdc.change_tables"


class ChangeTableReader(PolledReader):
    """See `PolledReader`: what is read are change tables."""

    def __init__(self, config: SqlServerConfig, options: ReadOptions, replicator: str) -> None:
        super().__init__(config, options, replicator)
        self._durable = bytes(LSN_BYTES)
        self._point: CommitPoint | None = None
        self._marked_at = self._moved_at = time.monotonic()
        self._stalled = self._behind = False  # behind: the replica lacks what the primary captured
        self._replica: SqlServerSession | None = None  # that is read; None: the primary
        self._seen: tuple[object, ...] = ()  # how many definitions there were at the last look

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """As the port says."""
        assert isinstance(start, LsnOffset)
        control = self._control = connect(self._config)
        availability.require_primary(control)
        self._reading = connect(self._config.of_reading)
        log_status.require_cdc(control)
        log_status.check_past(control, start)
        if self._config.read_from is ReadFrom.SECONDARY:
            self._replica = self._reading
            if not availability.is_secondary(self._reading):
                yield Notice(f"{self._reading.where} takes writes: change tables are read from a primary replica.")
        self._point, self._position = start.commit, start.lsn
        self._zone = log_status.ServerZone(control)
        self._marks = self._mark_source(control)
        self._followed = FollowedTables(control, tables, schemas, start.lsn)
        self._windows = WindowReader(self._reading, self._options)
        self._marked_at = 0.0
        yield from self._messages(control)

    def confirm(self, durable: Offset) -> None:
        """Nothing is kept for us: the cleanup job goes by age."""
        assert isinstance(durable, LsnOffset)
        self._durable = max(self._durable, durable.lsn)

    def _mark_source(self, control: SqlServerSession) -> ChangeSource:
        table = watermark_table(self._config.watermark_schema)
        found = SqlServerCatalog(control).details([table]).get(table)
        if not isinstance(found, TableDescription) or found.newest is None:
            making = create_statements(table.database)
            making += (capture_instances.enable_statement(table, f"{table.database}_{table.name}"),)
            raise LogCorrupt(
                f"{self._config.where}: the watermark table {table} is not captured.",
                remedy="".join(f"{one};\n" for one in making),
            )
        return ChangeSource(found, found.newest)

    def _messages(self, control: SqlServerSession) -> Iterator[LogMessage]:
        looked = waiting = 0.0
        holding = False
        while True:
            end = self._end(control)  # before the definitions that hold up to there are counted
            counts = control.rows(_DEFINED, control.where)[0]
            due = holding or self._followed.begun(self._position)
            if due or counts != self._seen or time.monotonic() - looked > LOOK_SECONDS:
                yield from self._tell(self._followed.look(self._position))
                yield from self._tell(self._followed.take_over(self._position))
                yield from self._told()
                self._retire(control)
                self._seen, looked = counts, time.monotonic()
            waiting = (waiting or time.monotonic()) if self._followed.unestablished else 0.0
            holding = bool(waiting) and time.monotonic() - waiting < BEGIN_SECONDS
            if holding:
                # No position is reported meanwhile: all changes up to a reported position must include this table's.
                yield Heartbeat(None, None)
                time.sleep(POLL_SECONDS)
            elif end > self._position:
                try:
                    yield from self._window(control, end)
                except TableError as error:  # of a change table: reading begins again at the last commit
                    raise SourceUnreachable(error.message, remedy=error.remedy) from None
                yield from self._tell(self._followed.take_over(self._position))
            else:
                yield from self._quiet(control)

    def _end(self, control: SqlServerSession) -> bytes:
        """Up to which can be read: of another replica what both have.

        It shows what committed in the order of the log: with an entry of `cdc.lsn_time_mapping` all rows of change
        tables up to there (ADR 52).
        """
        captured = log_status.captured_end(control)
        if self._replica is None:
            return captured
        redone = log_status.captured_end(self._replica)
        self._behind = redone < captured
        return min(captured, redone)

    def _quiet(self, control: SqlServerSession) -> Iterator[LogMessage]:
        now = time.monotonic()
        if now - self._marked_at > MARK_SECONDS:
            write_mark(control, self._config.watermark_schema, self._replicator, f"{_BEAT}{time.time_ns()}")
            self._marked_at = now
        if now - self._moved_at > STALLED_SECONDS and not self._stalled:
            self._stalled = True
            yield Notice(self._standstill(control, now - self._moved_at))
        yield Heartbeat(self._offset(), self._as_of)
        time.sleep(POLL_SECONDS)

    def _standstill(self, control: SqlServerSession, seconds: float) -> str:
        """Why nothing came for so long.  SourceBusy where it is the capture job that is missing."""
        if self._replica is not None and self._behind:
            why = availability.standing_still(self._replica) or "it has not redone what the primary replica has"
            name = self._replica.where
            return f"The secondary replica {name} has shown nothing new for {seconds:.0f} s: {why}."
        log_status.require_job(control)
        return log_status.stalled(control, seconds)

    def _offset(self) -> LsnOffset:
        return LsnOffset(self._position, self._point)

    # ---- one window

    def _window(self, control: SqlServerSession, end: bytes) -> Iterator[LogMessage]:
        self._moved_at, self._stalled = time.monotonic(), False
        if (switch := self._followed.next_switch(self._position)) is not None:
            end = min(end, switch)
        commits = self._commits(control, end)
        if len(commits) == MOST_COMMITS:
            end = commits[-1].lsn
        if not commits:
            self._position = end
            return
        sources = [self._marks, *self._followed.sources]
        try:
            window = self._windows.read(self._position, [one.lsn for one in commits], sources)
        except TableDisappeared:  # with its change table, since the catalog was looked at
            self._seen = ()
            return
        self._followed.require_whole(self._position, self._starts(control))
        if window.large or window.end < commits[-1].lsn:
            end = window.end
        transactions = Transactions.of({one.lsn: one.at for one in commits})
        told = False
        found = self._large(window, sources, transactions) if window.large else self._rows(window, transactions)
        for message in found:
            told = True
            yield message
        if window.large:
            self._followed.require_whole(self._position, self._starts(control))
        last = [one for one in commits if one.lsn <= end][-1]
        self._position, self._point, self._as_of = end, last.point, last.at
        if self._followed.begun(end):
            yield from self._tell(self._followed.look(end))
        if told:
            yield messages.Commit(self._offset(), last.at)
        else:
            yield Heartbeat(self._offset(), self._as_of)

    def _commits(self, control: SqlServerSession, end: bytes) -> list[log_status.LoggedCommit]:
        """The next ones up to `end`.

        SourceReplaced where the log has one between the last that was read and the place of reading, which is beyond it
        where a capture instance took over: there was none.  SourceUnreachable where another replica has
        one that the primary does not have: the same last commit is the same past.
        """
        read = self._point.lsn if self._point is not None else self._position
        found = log_status.commits_after(self._replica or control, read, end, MOST_COMMITS, self._zone)
        if found and self._replica is not None and not log_status.has_commit(control, found[-1].point):
            said = f"{self._replica.where} has another past than the primary replica."
            remedy = f"After a forced failover: {availability.resume(self._config.database)}"
            raise SourceUnreachable(said, remedy=remedy)
        if found and found[0].lsn <= self._position:
            said = f"has a transaction at {lsn_text(found[0].lsn)}, where it had none when it was read"
            raise log_status.replaced(control, said)
        return found

    def _starts(self, control: SqlServerSession) -> dict[int, bytes]:
        rows = control.rows(_STARTS, control.where)
        return {int(number): bytes(start) for number, start in rows if start is not None}

    def _rows(self, window: LogWindow, transactions: Transactions) -> Iterator[LogMessage]:
        """Changes and marks, in the order of the log."""
        marks: list[tuple[int, str]] = []
        found: list[tuple[ChangeSource, Framed, np.ndarray]] = []
        for source, rows in window.rows:
            table = source.description.schema.table
            places = _places(rows, transactions)
            if source is self._marks:
                marks = list(self._tokens(rows, places))
                continue
            try:
                one = framed(rows, str(table))
            except TableError as error:
                yield self._failed(table, error)
                continue
            found.append((source, one, places[one.at]))
        first = 0
        for place, token in [*marks, (len(transactions.lsns), "")]:
            parts = [(source, *_between(one, places, first, place)) for source, one, places in found]
            yield from self._batches([part for part in parts if len(part[1])], transactions)
            first = place
            if token and not token.startswith(_BEAT):
                yield Watermark(token, LsnOffset(transactions.lsns[place].as_py()))

    def _batches(
        self, parts: list[tuple[ChangeSource, Framed, np.ndarray]], transactions: Transactions
    ) -> Iterator[LogMessage]:
        """A batch of each table; ordinals are in the order of the log over all of them."""
        if not parts:
            return
        keys = [
            np.concatenate(same)
            for same in zip(*([key[one.at] for key in sort_keys(one.rows)] for _, one, _ in parts), strict=True)
        ]
        order = np.lexsort(keys)
        ordinals = np.empty(len(order), np.int64)
        ordinals[order] = np.arange(self._ordinal, self._ordinal + len(order))
        self._ordinal += len(order)
        start = 0
        for source, one, _ in parts:
            yield from self._batch(source, one, ordinals[start : start + len(one)], transactions)
            start += len(one)

    def _large(
        self, window: LogWindow, sources: Iterable[ChangeSource], transactions: Transactions
    ) -> Iterator[LogMessage]:
        """One large transaction, table by table; it has no marks."""
        for source in sources:
            if source is self._marks:
                continue
            for rows in self._windows.stream(source, window.end):
                try:
                    one = framed(rows, str(source.description.schema.table))
                except TableError as error:
                    yield self._failed(source.description.schema.table, error)
                    break
                ordinals = np.arange(self._ordinal, self._ordinal + len(one))
                self._ordinal += len(one)
                yield from self._batch(source, one, ordinals, transactions)

    def _batch(
        self, source: ChangeSource, one: Framed, ordinals: np.ndarray, transactions: Transactions
    ) -> Iterator[LogMessage]:
        table = source.description.schema.table
        if self._followed.schema(table) is None:  # it failed before
            return
        try:
            data = change_batch(one, source.description, source.instance, ordinals, transactions)
        except TableError as error:
            yield self._failed(table, error)
            return
        yield messages.ChangeBatch(table, source.description.schema, data)

    def _tokens(self, rows: pa.Table, places: np.ndarray) -> Iterator[tuple[int, str]]:
        """Places and tokens of our marks: rows that an insert or an update has left."""
        operations = rows.column(3).to_pylist()
        names, tokens = (rows.column(at).to_pylist() for at in (5, 6))
        for place, operation, name, token in zip(places.tolist(), operations, names, tokens, strict=True):
            if name == self._replicator and operation in {2, 4}:
                yield place, str(token)

    # ---- schemas

    def _failed(self, table: TableId, error: TableError) -> TableFailed:
        """The table is passed over from here on (invariant 7)."""
        self._followed.fail(table)
        return TableFailed(table, error, self._offset())

    def _told(self) -> Iterator[LogMessage]:
        notices, self._followed.notices = self._followed.notices, []
        yield from map(Notice, notices)

    def _retire(self, control: SqlServerSession) -> None:
        """Instances of ours that another has taken over from, unless another replicator may still read them."""
        old = self._followed.superseded(self._durable)
        if not old:
            return
        marks = watermark_table(self._config.watermark_schema)
        rows = control.rows(f"SELECT COUNT(*) FROM [{marks.database}].[{marks.name}]", control.where)
        if int(rows[0][0]) <= 1:
            for table, instance in old:
                capture_instances.disable(control, table, instance.name)


def _places(rows: pa.Table, transactions: Transactions) -> np.ndarray:
    """Of each row, that of its transaction among these."""
    lsns = rows.column(0).combine_chunks().cast(pa.binary(LSN_BYTES))
    found = pc.index_in(lsns, value_set=transactions.lsns)
    if found.null_count:
        raise LogCorrupt("A change table has a transaction that cdc.lsn_time_mapping does not have.")
    places: np.ndarray = found.to_numpy()
    return places


def _between(one: Framed, places: np.ndarray, first: int, last: int) -> tuple[Framed, np.ndarray]:
    """Changes of the transactions from `first` on, before `last`."""
    begin, end = np.searchsorted(places, [first, last])
    part = slice(int(begin), int(end))
    return Framed(one.rows, one.at[part], one.before[part]), places[part]
