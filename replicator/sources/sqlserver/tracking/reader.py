"""Change Tracking as a log: windows of versions, each read under SNAPSHOT isolation as of one moment
(learn.microsoft.com/sql/relational-databases/track-changes/work-with-change-tracking-sql-server).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from replicator.errors import (
    LogPurged,
    SourceUnreachable,
    TableBusy,
    TableDisappeared,
    TableError,
    TableNotRead,
    TidemarkError,
)
from replicator.model import change as messages
from replicator.model.change import Heartbeat, LogMessage, TableFailed, Watermark
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession, connect
from replicator.sources.sqlserver.dialect import literal, table_name
from replicator.sources.sqlserver.offset import VersionOffset
from replicator.sources.sqlserver.stream import log_status
from replicator.sources.sqlserver.stream.polled_reader import PolledReader, with_rows
from replicator.sources.sqlserver.tracking import change_tracking
from replicator.sources.sqlserver.tracking.rows import Part
from replicator.sources.sqlserver.tracking.tracked_tables import TrackedTables

POLL_SECONDS = 0.5
LOOK_SECONDS = 2.0
FORGET_SECONDS = 10.0
_MOST_REPEATS = 20  # of a window whose tables are altered again and again
_MAX_BATCHES = 4  # held until the definitions are known to have stayed
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
_FROM = "SELECT object_id, CHANGE_TRACKING_MIN_VALID_VERSION(object_id) FROM sys.change_tracking_tables"


class _Altered(Exception):
    """A definition is not what it was at the last look."""


class ChangeTrackingReader(PolledReader):
    """See `PolledReader`.

    A window is all that changed up to the newest version, each row once, as of that version; it ends with one Commit.
    So intermediate changes of a key are not reported, and nothing of the window counts before its Commit.
    """

    def __init__(self, config: SqlServerConfig, options: ReadOptions, replicator: str) -> None:
        super().__init__(config, options, replicator)
        self._durable = self._position = self._repeats = 0
        self._marks: list[tuple[int, str]] = []  # that were read, with their versions
        self._forgot = 0.0

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """As the port says."""
        assert isinstance(start, VersionOffset)
        control = self._control = connect(self._config)
        reading = self._reading = connect(self._config)
        change_tracking.require_tracking(control)
        reading.run(_SNAPSHOT, reading.where)
        self._position = self._durable = start.version
        self._tracked = TrackedTables(control, tables, schemas)
        self._old_marks(reading)
        looked: float | None = None
        while True:
            if looked is None or time.monotonic() - looked > LOOK_SECONDS:
                yield from self._tell(self._tracked.look(self._position))
                looked = time.monotonic()
            newest, at = change_tracking.newest_version(control)
            if newest < self._position:
                said = f"ends at version {newest}, and was read up to {self._position}"
                raise log_status.replaced(control, said)
            if newest > self._position:
                try:
                    yield from self._window(reading)
                    self._repeats = 0
                except _Altered:
                    self._repeats += 1
                    looked = None
            else:
                self._as_of = at
                self._forget_marks(control)
                yield Heartbeat(self._offset(), at)
                time.sleep(POLL_SECONDS)

    def confirm(self, durable: Offset) -> None:
        """Nothing is kept for us: cleanup goes by age.  Marks up to there are not needed any more."""
        assert isinstance(durable, VersionOffset)
        self._durable = max(self._durable, durable.version)

    def _offset(self) -> VersionOffset:
        return VersionOffset(self._position)

    # ---- one window

    def _window(self, reading: SqlServerSession) -> Iterator[LogMessage]:
        """_Altered before anything was given, where a definition did not stay."""
        told, touched = False, set[TableId]()
        try:
            reading.run("BEGIN TRANSACTION", reading.where)
            end, at = change_tracking.newest_version(reading)  # the moment that is read
            found, held, size = self._rows(reading, end, at, touched), list[LogMessage](), 0
            for message in found:
                yield Heartbeat(None, None)  # the consumer may want to stop
                held.append(message)
                size += message.data.nbytes if isinstance(message, messages.ChangeBatch) else 0
                if size > self._options.batch_bytes * _MAX_BATCHES:
                    break
            self._require_unchanged(touched)
            for message in held:
                told = True
                yield message
            for message in found:
                yield message
            if size > self._options.batch_bytes * _MAX_BATCHES:
                self._require_unchanged(touched)
            reading.run("COMMIT TRANSACTION", reading.where)
        except (TableBusy, TableDisappeared, TableNotRead, _Altered) as error:
            self._roll_back(reading)
            if told or self._repeats > _MOST_REPEATS:  # reading begins again at the last commit
                said = f"{reading.where}: a table was altered while its changes were read."
                raise SourceUnreachable(said) from None
            raise _Altered from error
        self._position, self._as_of = end, at
        if self._tracked.begun(end):  # reported before any position up to there is
            yield from self._tell(self._tracked.look(end))
        offset = VersionOffset(end)
        yield messages.Commit(offset, at) if told else Heartbeat(offset, at)

    def _rows(self, reading: SqlServerSession, end: int, at: datetime, touched: set[TableId]) -> Iterator[LogMessage]:
        """Changes and marks, the marks between the versions before and after them."""
        low = self._position
        tables = with_rows(
            reading,
            self._valid(reading),
            lambda one: change_tracking.changes(one.schema.table, max(low, one.since or 0)),
        )
        touched |= {one.schema.table for one in tables}
        for version, token in [*self._new_marks(reading), (end, "")]:
            for description in tables:
                yield from self._part(reading, Part(description, self._position, low, version), at)
            if token:
                self._marks.append((version, token))
                yield Watermark(token, VersionOffset(version))
            low = version

    def _part(self, reading: SqlServerSession, part: Part, at: datetime) -> Iterator[LogMessage]:
        table, options = part.description.schema.table, self._options
        if part.low >= part.high or self._tracked.schema(table) is None:  # it failed before
            return
        try:
            for deleted, sql in ((True, part.deleted_sql), (False, part.present_sql)):
                for rows in reading.batches(sql, table, options.batch_rows, options.batch_bytes):
                    if rows.num_rows:
                        data = part.batch(rows, self._ordinal, at, deleted=deleted)
                        self._ordinal += rows.num_rows
                        yield messages.ChangeBatch(table, part.description.schema, data)
        except (TableBusy, TableDisappeared, TableNotRead):
            raise
        except TableError as error:
            self._tracked.fail(table)
            yield TableFailed(table, error, self._offset())

    def _valid(self, reading: SqlServerSession) -> list[TableDescription]:
        """Tables of which all changes are there.  LogPurged; _Altered where one is not tracked any more."""
        least = {int(number): version for number, version in reading.rows(_FROM, reading.where)}
        described = self._tracked.described
        for one in described:
            version = least.get(one.number)
            if version is None:
                raise _Altered
            if max(self._position, one.since or 0) < int(version):
                if not self._tracked.unchanged([one.schema.table]):  # it was truncated
                    raise _Altered
                raise _purged(one.schema.table, int(version), self._position)
        return described

    def _require_unchanged(self, touched: set[TableId]) -> None:
        if not self._tracked.unchanged(touched):
            raise _Altered

    def _roll_back(self, reading: SqlServerSession) -> None:
        with suppress(TidemarkError):
            reading.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION", reading.where)

    # ---- marks

    def _new_marks(self, reading: SqlServerSession) -> list[tuple[int, str]]:
        rows = reading.rows(
            f"SELECT ct.SYS_CHANGE_VERSION, ct.token FROM {self._marks_after(self._position)} "
            f"WHERE ct.SYS_CHANGE_OPERATION <> N'D' AND ct.replicator = {literal(self._replicator)} "
            "ORDER BY ct.SYS_CHANGE_VERSION",
            reading.where,
        )
        return [(int(version), str(token)) for version, token in rows]

    def _old_marks(self, reading: SqlServerSession) -> None:
        """Those that were read before: they are in the table and not among the changes."""
        name = table_name(change_tracking.marks_table(self._config.watermark_schema))
        rows = reading.rows(
            f"SELECT m.token FROM {name} AS m WHERE m.replicator = {literal(self._replicator)} AND m.token <> N'' AND "
            f"NOT EXISTS (SELECT 1 FROM {self._marks_after(self._position)} "
            "WHERE ct.replicator = m.replicator AND ct.token = m.token)",
            reading.where,
        )
        self._marks = [(self._position, str(token)) for (token,) in rows]

    def _marks_after(self, version: int) -> str:
        return change_tracking.changes(change_tracking.marks_table(self._config.watermark_schema), version)

    def _forget_marks(self, control: SqlServerSession) -> None:
        now = time.monotonic()
        if now - self._forgot > FORGET_SECONDS:
            self._forgot = now
            tokens = [token for version, token in self._marks if version <= self._durable]
            change_tracking.forget_marks(control, self._config.watermark_schema, self._replicator, tokens)
            self._marks = [one for one in self._marks if one[0] > self._durable]


def _purged(table: TableId, least: int, position: int) -> LogPurged:
    return LogPurged(
        f"Cleanup has removed changes of {table}: they are kept from version {least} on, and reading is at {position}.",
        remedy="Restart the replicator from scratch (resnapshots all its tables), and keep changes longer: "
        "ALTER DATABASE CURRENT SET CHANGE_TRACKING (CHANGE_RETENTION = 7 DAYS);",
    )
