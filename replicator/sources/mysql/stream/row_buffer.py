"""Rows that were decoded and not yet handed on, with what a rollback needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from replicator.errors import TableError
from replicator.model.change import ChangeBatch, UndecodableRow
from replicator.model.identifiers import TableId
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows.row_events import GatheringMark, TableRows

_MIN_ROWS = 1_000  # rows of a table
_MAX_BATCHES = 4  # batches' rows
_KEPT_BYTES = 1 << 26  # of memory that stays for the next rows, of all tables


@dataclass
class _Savepoint:
    ordinal: int
    marks: dict[TableRows, GatheringMark]


@dataclass
class Pending:
    """Rows by table.

    `ordinal` is the next change's; `spilled`: tables of which rows of the open transaction are gone already.

    `crowded`: they have become too many to wait for the transaction's end.
    """

    ordinal: int = 0
    rows: int = 0
    bytes: int = 0
    crowded: bool = False
    spilled: set[TableId] = field(default_factory=set)
    _tables: dict[TableId, TableRows] = field(default_factory=dict)
    _touched: dict[TableRows, GatheringMark] = field(default_factory=dict)
    _savepoints: dict[str, _Savepoint] = field(default_factory=dict)
    _began_at: int = 0

    def of(self, table: TableId) -> TableRows | None:
        """Where the changes of a table are gathered."""
        return self._tables.get(table)

    def put(self, rows: TableRows) -> None:
        """`rows` takes the changes of its table from now on; the one before must have been flushed."""
        self._tables[rows.schema.table] = rows

    def touch(self, rows: TableRows) -> GatheringMark:
        """Before rows are added: where they will begin."""
        mark = rows.mark()
        self._touched.setdefault(rows, mark)
        return mark

    def added(self, count: int, size: int) -> None:
        """Count rows and bytes that were added; each row takes an ordinal."""
        self.ordinal += count
        self.rows += count
        self.bytes += size

    def look(self, options: ReadOptions) -> None:
        """Is it too much?  What one transaction has is not kept whole, however long it is (invariant 9)."""
        self.crowded = self.bytes >= options.batch_bytes or self.rows >= _MAX_BATCHES * options.batch_rows

    def due(self, options: ReadOptions) -> bool:
        """At a transaction's end: is it time to hand on?

        Later where there are few rows of each of many tables: small batches are dear.
        """
        if self.rows < options.batch_rows or self.crowded:
            return self.crowded
        tables = sum(1 for rows in self._tables.values() if rows.rows)
        return self.rows >= _MIN_ROWS * tables

    def take_ordinal(self) -> int:
        """Return the ordinal of a message that is not a row; all rows before it must have been flushed."""
        ordinal = self.ordinal
        self.ordinal = self._began_at = ordinal + 1
        return ordinal

    def flush(self, *, inside: bool) -> Iterator[ChangeBatch | tuple[TableId, TableError | list[UndecodableRow]]]:
        """All rows as batches.  `inside`: a transaction is open, whose rows so far cannot be taken back any more.

        A table and an error in the place of rows that are lost: one of their values turned out to be none; or, by
        option, a table and those of its rows that are not in its batch for this reason.
        """
        if inside:
            self.spilled.update(rows.schema.table for rows in self._touched)
        self._touched.clear()
        self._savepoints.clear()
        self._began_at = self.ordinal
        self.rows = self.bytes = 0
        self.crowded = False
        for table, rows in self._tables.items():
            if not rows.rows:
                continue
            try:
                data = rows.take()
            except TableError as error:
                yield table, error
                continue
            if rows.undecodable:
                yield table, rows.undecodable
            if data.num_rows:
                yield ChangeBatch(table, rows.schema, data, rows.zero_dates)
        if sum(rows.room for rows in self._tables.values()) > _KEPT_BYTES:
            for rows in self._tables.values():
                rows.clear(release=True)

    def begin(self) -> None:
        """A transaction begins, or the one before has ended well."""
        self._touched.clear()
        self._savepoints.clear()
        self.spilled.clear()
        self._began_at = self.ordinal

    def restamp(self, commit_us: int) -> None:
        """The open transaction's commit time, known at its end only."""
        for rows, mark in self._touched.items():
            rows.restamp(mark, commit_us)

    def savepoint(self, name: str) -> None:
        self._savepoints[name.casefold()] = _Savepoint(self.ordinal, {rows: rows.mark() for rows in self._touched})

    def rollback(self, savepoint: str | None = None) -> set[TableId]:
        """Take back the open transaction's rows, all or those since a savepoint; returns the tables to read again.

        Servers compare the names of savepoints without case and accents.  One that is not known is from before the last
        flush, or is spelled in another way.
        """
        kept = self._savepoints.get(savepoint.casefold()) if savepoint is not None else None
        again = self.spilled | {rows.schema.table for rows in self._touched if savepoint is not None}
        for rows, mark in self._touched.items():
            rows.truncate(kept.marks.get(rows, mark) if kept else mark)
        self.ordinal = kept.ordinal if kept else self._began_at
        self.rows = sum(rows.rows for rows in self._tables.values())
        self.bytes = sum(rows.bytes for rows in self._tables.values())
        return set() if kept else again
