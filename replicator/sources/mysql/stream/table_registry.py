"""The tables of the log: what its table ids stand for, and their rows, event by event and in runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from replicator.errors import TableError
from replicator.model.change import Notice, TableFailed, Watermark
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import STRING
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows.row_events import DUMMY_TABLE, RowEventRun, TableRows
from replicator.sources.mysql.rows.table_map import LogColumn, TableMap, parse_table_map, table_id, table_name
from replicator.sources.mysql.stream.assembly import Assembly
from replicator.sources.mysql.stream.event_runs import KnownTables
from replicator.sources.mysql.stream.schema_tracker import positional
from replicator.sources.mysql.wire import frame_kernel as f
from replicator.sources.mysql.wire.events import BinlogEvent, undecodable

_SEQUENCE_COLUMN = "next_not_cached_value"  # a SEQUENCE of MariaDB is written like a table, but never described as one
_MAX_KNOWN = 4096  # table ids: a server gives new ones whenever it opens a table again


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


class LogTables:
    """Part of the assembler: TABLE_MAPs and rows events."""

    def __init__(self, assembly: Assembly, tables: TableSet, options: ReadOptions, marks: Marks | None) -> None:
        self._assembly, self._tables, self._options, self._marks = assembly, tables, options, marks
        self._targets: dict[int, _Target] = {}
        self._known: KnownTables | None = None
        self._failed: set[TableId] = set()
        self._warned = False

    # ---- what is wanted

    def wants(self, table: TableId) -> bool:
        """True for a table of the selection that has not failed."""
        return table in self._tables and table not in self._failed

    def fail(self, table: TableId, error: TableError) -> None:
        """Skip the table from here on (invariant 7)."""
        self._assembly.flush()
        if table not in self._failed:
            self.skip(table, error)

    def skip(self, table: TableId, error: TableError) -> None:
        """As `fail`, where no rows have to be handed on before."""
        self._failed.add(table)
        self.forget_targets()
        error.table = error.table or str(table)
        if str(table) not in error.message:
            error.message = f"{table}: {error.message}"
        self._assembly.out.append(TableFailed(table, error, self._assembly.boundary))

    def revive(self, table: TableId) -> None:
        """A table of that name is made again."""
        self._failed.discard(table)
        self.forget_targets()

    def learned(self, schema: TableSchema) -> None:
        """Of a table that may have no rows by which the log would tell."""
        current = self._assembly.schemas.current
        if self.wants(schema.table) and schema.table in current:
            current[schema.table] = schema
            self.forget_targets()

    def forget_targets(self) -> None:
        """Look at the next TABLE_MAP of every table again; rows before that are of a table that failed."""
        self._known = None
        for target in self._targets.values():
            target.body = b""
            if target.rows is not None and target.rows.schema.table in self._failed:
                target.rows = None

    # ---- TABLE_MAP

    def table_map(self, event: BinlogEvent) -> None:
        """The rows events that follow with its number are of this table."""
        number = table_id(event.body)
        target = self._targets.get(number)
        if target is None or target.body != event.body:
            self._targets.pop(number, None)
            if len(self._targets) >= _MAX_KNOWN:  # the oldest: a statement's TABLE_MAPs come with it
                del self._targets[next(iter(self._targets))]
            self._targets[number] = self._target(event)
            self._known = None

    def _target(self, event: BinlogEvent) -> _Target:
        table = self._assembly.names.table(table_name(event.body))
        if self._marks and table == self._marks.table:
            return _Target(event.body, self._rows_of_marks(table, event), marks=True)
        if not self.wants(table):  # no more of it is looked at than its name
            return _Target(event.body)
        try:
            with undecodable(table, f"{event.file}:{event.start}"):
                rows = self._rows_for(self._parse(event), event)
        except TableError as error:
            self.fail(table, error)
            return _Target(event.body)
        return _Target(event.body, rows if self.wants(table) else None)

    def _rows_of_marks(self, table: TableId, event: BinlogEvent) -> TableRows | None:
        """None: it has another form than Tidemark gave it."""
        try:
            with undecodable(table, f"{event.file}:{event.start}"):
                found = self._parse(event)
                return TableRows(_marks_schema(table, found), _positions(found), ReadOptions())
        except TableError as error:
            self._strange(error)
        return None

    def _strange(self, error: Exception) -> None:
        """Who may write into the table of marks may spoil snapshots, and nothing else."""
        if not self._warned:
            self._warned = True
            message = f"Ignored rows in the watermark table that Tidemark did not write: {error}"
            self._assembly.out.append(Notice(message))

    def _parse(self, event: BinlogEvent) -> TableMap:
        assembly = self._assembly
        found = parse_table_map(event.body, mariadb=assembly.mariadb, years=assembly.signs_years)
        return replace(found, table=assembly.names.table(found.table))

    def _rows_for(self, found: TableMap, event: BinlogEvent) -> TableRows | None:
        assembly = self._assembly
        if found.columns[0].name == _SEQUENCE_COLUMN and found.table not in assembly.schemas.current:
            return None
        resolved = assembly.schemas.resolve(found)
        if resolved.changed:
            assembly.unannounced(resolved, event)
        columns = assembly.schemas.columns(found.table)
        rows = assembly.pending.of(found.table)
        if rows is None or rows.schema != resolved.schema or rows.log_columns != columns:
            rows = TableRows(resolved.schema, columns, self._options)
            assembly.flush()
            assembly.pending.put(rows)
        return rows

    # ---- rows

    def add(self, event: BinlogEvent) -> None:
        """One rows event."""
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
        assembly, pending = self._assembly, self._assembly.pending
        mark = pending.touch(rows)
        try:
            with undecodable(rows.schema.table, f"{event.file}:{event.start}"):
                count = rows.add(event, pending.ordinal, assembly.commit_us, assembly.txn)
        except TableError as error:
            rows.truncate(mark)
            self.fail(rows.schema.table, error)
            return
        pending.added(count, rows.bytes - mark.bytes)
        assembly.schemas.empty.discard(rows.schema.table)
        pending.look(self._options)

    def known(self) -> KnownTables:
        """The tables whose rows `add_run` takes."""
        if self._known is None:
            targets = [target for target in self._targets.values() if target.body]
            self._known = KnownTables([(target.body, target.rows, target.marks) for target in targets])
        return self._known

    def add_run(self, known: KnownTables, run: RowEventRun) -> None:
        """Rows events of the tables that were known: table by table."""
        slots = run.events[f.SLOT]
        if not len(slots):
            return
        pending, size, order = self._assembly.pending, 0, None
        failed: list[tuple[TableId, TableError]] = []
        ordered, bounds = run, [0, len(slots)]
        if (slots != slots[0]).any():
            order = np.argsort(slots, kind="stable")
            ordered = run._replace(events=run.events.take(order, axis=1))
            bounds[1:1] = (np.flatnonzero(np.diff(slots[order])) + 1).tolist()
        for first, last in itertools.pairwise(bounds):
            rows = known.rows[ordered.events[f.SLOT, first]]
            assert rows is not None
            mark, place = pending.touch(rows), f"{run.file}:{ordered.events[f.PLACE, first]} or later"
            try:
                with undecodable(rows.schema.table, place):
                    rows.add_run(ordered, first, last)
            except TableError as found:
                rows.truncate(mark)
                ordered.events[f.ROWS, first:last] = 0
                failed.append((rows.schema.table, found))
                continue
            size += rows.bytes - mark.bytes
            self._assembly.schemas.empty.discard(rows.schema.table)
        counts = ordered.events[f.ROWS].copy()
        if order is not None:
            counts[order] = ordered.events[f.ROWS]
        firsts = pending.ordinal + np.cumsum(counts) - counts
        ordered.events[f.FIRST] = firsts if order is None else firsts[order]
        pending.added(int(counts.sum()), size)
        pending.look(self._options)
        for table, error in failed:
            self.fail(table, error)

    def _mark(self, rows: TableRows, event: BinlogEvent) -> None:
        """Emit our marks; they are not changes and take no ordinal."""
        assembly = self._assembly
        assert self._marks
        wanted, mark = self._marks.replicator, rows.mark()
        try:
            with undecodable(rows.schema.table, f"{event.file}:{event.start}"):
                rows.add(event, 0, assembly.commit_us, assembly.txn)
                batch = rows.take()
                found = list(zip(*(batch.column(i).to_pylist() for i in (1, 5, 6)), strict=True))
        except (TableError, TypeError) as error:  # the latter of columns that hold no text
            rows.truncate(mark)
            self._strange(error)
            return
        for operation, replicator, token in found:
            if operation != "DELETE" and replicator == wanted and token is not None:
                assembly.flush()
                assembly.out.append(Watermark(token, assembly.boundary))


def _marks_schema(table: TableId, found: TableMap) -> TableSchema:
    """Return a schema whose first two columns are the replicator and the token, regardless of the log's names."""
    names = [column.name for column in _positions(found)[:2]]
    return TableSchema(table, tuple(Column(name, STRING, nullable=True, source_type="varchar") for name in names))


def _positions(found: TableMap) -> tuple[LogColumn, ...]:
    return positional(found).columns
