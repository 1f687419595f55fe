"""Rows of committed transactions, in commit order → messages: changes, marks, schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
from pyarrow import RecordBatch

from replicator.errors import (
    EventUndecodable,
    LogPurged,
    RowImageIncomplete,
    TableError,
    TableNotRead,
)
from replicator.model.change import (
    ChangeBatch,
    Commit,
    Ddl,
    LogMessage,
    Notice,
    SchemaChange,
    TableFailed,
    UndecodableRows,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.oracle.offset import ScnOffset
from replicator.sources.oracle.rows.redo_rows import LOCATED, RedoLayout, RedoRun, TableRows
from replicator.sources.oracle.stream.ddl_applier import DdlEffects
from replicator.sources.oracle.stream.large_objects import LargeObjects
from replicator.sources.oracle.stream.mining_session import UNKNOWN
from replicator.sources.oracle.stream.redo_frame import DDL, LOBS, MISSING, UNSUPPORTED, RedoFrame
from replicator.sources.oracle.stream.table_registry import LogTables, Present
from replicator.sources.oracle.types import ColumnDefinition, value_type
from replicator.sources.oracle.watermark import WatermarkTable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OBJECT = "OBJ# "  # before the number of a table that the online catalog does not know as it was
_CHANGES = 3  # INSERT, DELETE, UPDATE are 1 to 3
_MIN_ROWS = 1_000  # rows of a table that make a batch worth its while
_MAX_BATCHES = 4
_TEXT = value_type(ColumnDefinition("", "VARCHAR2"), TableId("", ""))


class TransactionAssembler:
    """`feed` takes rows, `reached` says that all up to an SCN were fed; what they amount to is in `out`."""

    def __init__(
        self,
        tables: TableSet,
        schemas: Mapping[TableId, TableSchema],
        options: ReadOptions,
        start: ScnOffset,
        marks: WatermarkTable,
        present: Present,
        lobs: LargeObjects,
    ) -> None:
        self._lobs = lobs
        self.out: list[LogMessage] = []
        self.boundary = start
        self.registry = LogTables(self, tables, schemas, options, present)
        self._effects = DdlEffects(self, self.registry, tables)
        self._options, self._marks = options, marks
        self._mark_names = (marks.table.database, marks.table.name)
        self._mark_rows = _mark_rows(marks.table)
        self._ordinal = self._rows = self._bytes = 0
        self._last_scn = 0
        self._commit_us: int | None = None
        self._strange = False

    # ---- what the caller asks for

    @property
    def unsettled(self) -> bool:
        """Has something come that no Commit was given for?"""
        return bool(self._rows) or self._commit_us is not None or bool(self.out)

    def take_out(self) -> list[LogMessage]:
        """What there is in `out`, which is empty then."""
        messages, self.out = self.out, []
        return messages

    def feed(self, frame: RedoFrame, ahead_us: int) -> None:
        """Rows with their commits; ahead_us: by which the server's clock is ahead of UTC."""
        scns = frame.commit_scns
        whole = int(np.searchsorted(scns, scns[-1])) if len(scns) else 0  # before the last SCN, which may go on
        frame = frame._replace(times=frame.times - ahead_us)
        self._passed(int(scns[0]) - 1)
        if self._due() and int(scns[0]) > self._last_scn:
            self.settle()
        self._last_scn = int(scns[-1])
        if whole:
            self._feed(frame.at(slice(0, whole)))
            self._passed(int(scns[whole - 1]))
            if self._due():
                self.settle()
        rest = frame.at(slice(whole, None))
        self._passed(int(scns[-1]) - 1)
        self._feed(rest)
        if self._crowded():
            self.flush()

    def reached(self, offset: ScnOffset) -> None:
        """All transactions up to here were fed."""
        self.boundary = offset

    def settle(self) -> None:
        """Hand on all rows, and a Commit where there was something."""
        self.flush()
        if self._commit_us is not None:
            self.out.append(Commit(self.boundary, _moment(self._commit_us)))
            self._commit_us = None

    def _passed(self, scn: int) -> None:
        if scn > self.boundary.scn:
            self.boundary = ScnOffset(scn, self.boundary.low, self.boundary.incarnation)

    def _due(self) -> bool:
        """Later where there are few rows of each of many tables: small batches are dear."""
        if self._rows < self._options.batch_rows or self._crowded():
            return self._crowded()
        return self._rows >= _MIN_ROWS * len(self.registry.gathered)

    def _crowded(self) -> bool:
        return self._bytes >= self._options.batch_bytes or self._rows >= _MAX_BATCHES * self._options.batch_rows

    # ---- rows

    def _feed(self, frame: RedoFrame) -> None:
        if not frame:
            return
        special = np.array([self._special(*names) for names in frame.names])
        plain = (frame.operations <= _CHANGES) | (frame.operations == LOCATED)
        stops = np.flatnonzero(~plain | frame.invalid | special[frame.tables])
        begin = 0
        for place in [*stops.tolist(), len(frame.begins)]:
            self._changes(frame, begin, place)
            if place < len(frame.begins):
                self._one(frame, place)
            begin = place + 1

    def _special(self, owner: str, name: str) -> bool:
        return owner == UNKNOWN or name.startswith(_OBJECT) or (owner, name) == self._mark_names

    def _changes(self, frame: RedoFrame, begin: int, end: int) -> None:
        """Plain ones: table by table."""
        if begin == end:
            return
        part = frame.at(slice(begin, end))
        self._commit_us = int(part.times[-1])
        present = np.unique(part.tables).tolist()
        targets = {place: self.registry.target(frame.names[place], frame.objects[place]) for place in present}
        # Asking for one may have failed or reloaded another: what holds is what is known now.
        targets = {place: self.registry.target(frame.names[place], frame.objects[place]) for place in targets}
        wanted = np.isin(part.tables, [place for place, rows in targets.items() if rows is not None])
        without = [place for place, rows in targets.items() if rows is not None and not rows.layout.schema.partial]
        wanted &= (part.operations != LOCATED) | ~np.isin(part.tables, without)  # of columns that are left out
        ordinals = self._ordinal + np.cumsum(wanted) - 1
        self._ordinal += int(wanted.sum())
        for place, rows in targets.items():
            if rows is None:
                continue
            mine = (
                slice(None) if len(present) == 1 and wanted.all() else np.flatnonzero((part.tables == place) & wanted)
            )
            if not isinstance(mine, slice) and not len(mine):
                continue
            before = rows.bytes
            rows.add(_run(part.at(mine)), ordinals[mine])
            self._bytes += rows.bytes - before
        self._rows += int(wanted.sum())

    def _one(self, frame: RedoFrame, row: int) -> None:
        """Handle a row that is not a plain change."""
        owner, name = frame.names[frame.tables[row]]
        operation = int(frame.operations[row])
        if operation == MISSING:
            message = f"LogMiner reports that redo is missing at SCN {int(frame.scns[row])}."
            raise LogPurged(message)
        if (owner, name) == self._mark_names:
            if operation <= _CHANGES:
                self._mark(frame, row)
            return
        self._commit_us = int(frame.times[row])
        if operation == DDL:
            self._effects.apply(TableId(owner, name), frame.statement(row).rstrip("; \n\0"))
        elif owner == UNKNOWN or name.startswith(_OBJECT):
            table = self.registry.of_object(name.removeprefix(_OBJECT).strip())
            if table is not None and self.registry.wants(table):
                self.registry.reload(table, int(frame.scns[row]))
        else:
            of_object = self.registry.of_object(frame.objects[frame.tables[row]])
            table = of_object or self.registry.holder((owner, name)) or TableId(owner, name)
            if not self.registry.wants(table) or table not in self.registry.known:
                return
            if operation in LOBS:
                if self.registry.known[table].partial:
                    self.registry.read_again(table)
            elif operation != UNSUPPORTED:  # of another definition than that in the catalog
                self.registry.reload(table, int(frame.scns[row]))
            else:
                message = f"LogMiner cannot show a change of {table}."
                self.registry.fail(table, EventUndecodable(message, remedy="Exclude the table from the replicator."))

    def _mark(self, frame: RedoFrame, row: int) -> None:
        """Emit a mark, which is not a change and takes no ordinal."""
        try:
            self._mark_rows.add(_run(frame.at(slice(row, row + 1))), np.zeros(1, np.int64))
            found = self._mark_rows.take().to_pylist()[0]
        except TableError as error:
            self._mark_rows.forget()
            if not self._strange:
                self._strange = True
                self.out.append(Notice(f"Ignored rows in the watermark table that Tidemark did not write: {error}"))
            return
        token = self._marks.token_of(found["REPLICATOR"] or "", found["TOKEN"] or "")
        if token and found["_operation"] != "DELETE":
            self._commit_us = int(frame.times[row])
            self.flush()
            self.out.append(Watermark(token, self.boundary))

    # ---- messages

    def flush(self) -> None:
        """Hand on all rows."""
        again: list[TableId] = []
        unread: list[TableId] = []
        failed: list[tuple[TableId, TableError]] = []
        self._rows = self._bytes = 0
        for table, rows in list(self.registry.gathered.items()):
            if not rows.rows:
                continue
            older = self.registry.older(table, rows.first_scn)
            try:
                batches = self._batches(table, rows)
            except TableError as error:
                if rows.last_scn <= self.registry.lost.get(table, -1):
                    continue
                gone = isinstance(error, TableNotRead)  # raised when large objects are read
                undecodable = isinstance(error, EventUndecodable | RowImageIncomplete)
                drifted = (gone or undecodable) and (older or self.registry.changed_since(rows))
                again += [table] * drifted
                unread += [table] * (gone and not drifted)
                failed += [(table, error)] * (not drifted and not gone)
                continue
            if rows.undecodable:
                if older:
                    again.append(table)
                    continue
                self.out.append(UndecodableRows(table, tuple(rows.undecodable), self.boundary))
            for place, data in enumerate(batches):
                if data.num_rows:
                    self.out.append(ChangeBatch(table, rows.layout.schema, data, rows.zero_dates * (not place)))
        for table, found in failed:
            self.registry.skip(table, found)
        for table in again:
            self.registry.reload(table, self.boundary.scn)
        for table in unread:
            self.registry.read_again(table)

    def _batches(self, table: TableId, rows: TableRows) -> list[RecordBatch]:
        taken = rows.take()
        if not rows.layout.schema.partial:
            return [taken]
        described = self.registry.described[table]
        return self._lobs.filled(taken, rows.layout, described, rows.located, self.boundary.scn)

    def emit(
        self,
        operation: Ddl,
        table: TableId,
        schema: TableSchema | None = None,
        *,
        new: TableId | None = None,
        renamed: Mapping[str, str] | None = None,
        reload: bool = False,
        statement: str = "",
    ) -> None:
        """A SchemaChange, behind all rows so far."""
        self.flush()
        stamp = None if self._commit_us is None else _moment(self._commit_us)
        was = self.registry.was.pop(table, None) if operation in {Ddl.CREATE_TABLE, Ddl.ALTER_TABLE} else None
        self.out.append(
            SchemaChange(
                self._ordinal,
                operation,
                table,
                self.boundary,
                stamp,
                schema,
                new,
                renamed or {},
                reload,
                statement,
                was,
            )
        )
        self._ordinal += 1

    def failed(self, message: TableFailed) -> None:
        """Hand it on."""
        self.out.append(message)


def _run(frame: RedoFrame) -> RedoRun:
    return RedoRun(
        frame.data, frame.begins, frame.ends, frame.operations, frame.xids, frame.commit_scns, frame.times,
        frame.touched,
    )  # fmt: skip


def _mark_rows(table: TableId) -> TableRows:
    """The watermark table as Tidemark makes it."""
    columns = tuple(Column(name, _TEXT.type, nullable=True, source_type="VARCHAR2") for name in ("REPLICATOR", "TOKEN"))
    schema = TableSchema(table, columns)
    return TableRows(RedoLayout(schema, (_TEXT, _TEXT), schema.names), "null")


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
