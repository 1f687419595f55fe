"""Reading tables for snapshots: what is the same for every server that is asked by SQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from replicator.errors import TableDisappeared, TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import Chunk, KeyRange, ReadOptions
from replicator.sources.shared.conditions import watched
from replicator.sources.shared.descriptions import Description, schemas
from replicator.sources.shared.source import Closable

D = TypeVar("D", bound=Description)
C = TypeVar("C", bound=Closable)


class SqlSnapshotReader(ABC, Generic[D, C]):
    """Two connections, opened when first used: one reads, the other writes marks.  One thread.

    A connection that failed, or whose rows were not read to the end, is replaced at the next call.
    """

    def __init__(self, options: ReadOptions, tables: TableSet | None) -> None:
        """`tables`: its excluded columns are never selected."""
        self._options, self._tables = options, tables
        self._reading: C | None = None
        self._marking: C | None = None
        self._known: dict[TableId, D] = {}
        self._described: dict[TableId, D] = {}
        self.replaced = 0  # values that became null, so far

    @abstractmethod
    def _connection(self) -> C:
        """The one that reads, with nothing under way."""

    @abstractmethod
    def _found(self, connection: C, tables: Sequence[TableId]) -> Mapping[TableId, D | TableError]:
        """What the catalog has of them."""

    @abstractmethod
    def _has_bounds(self, description: D) -> bool:
        """Can ranges of the key be expressed exactly, and read by an index?"""

    @abstractmethod
    def _first_key(self, description: D, rows: KeyRange, order: str, passed: int = 0) -> list[tuple[Any, ...]]:
        """Return the key of one of these rows in this order, after skipping `passed` rows; empty if there is none."""

    @abstractmethod
    def _read_key(self, description: D, row: Sequence[Any]) -> tuple[str, ...]:
        """A row of `_first_key` as literals."""

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """In a few statements for all of them; the next `end_key` of each goes by what was found."""
        found = self._details(tables)
        self._described = {table: one for table, one in found.items() if not isinstance(one, TableError)}
        return schemas(found)

    def end_key(self, table: TableId, condition: str = "") -> tuple[str, ...] | None:
        """Return the greatest key now.

        None if there is no such row, or if the key has no bounds: the table is then read as one chunk.
        """
        description = self._described.pop(table, None) or self._describe(table)
        if not self._has_bounds(description):
            return None
        found = self._first_key(description, KeyRange(condition=condition), "DESC")
        return self._read_key(description, found[0]) if found else None

    def next_bound(
        self, table: TableId, after: tuple[str, ...] | None, end: tuple[str, ...], rows: int, condition: str = ""
    ) -> tuple[str, ...]:
        """The key `rows` rows after `after`, at most `end`."""
        description = self._known.get(table) or self._describe(table)
        found = self._first_key(description, KeyRange(after, end, condition=condition), "ASC", max(rows, 1) - 1)
        return self._read_key(description, found[0]) if found else end

    def _as_asked(self, chunk: Chunk, table: TableId, bounds: KeyRange) -> Chunk:
        """Report errors in rows that the user asked for as a fault of that request."""
        return replace(chunk, batches=watched(chunk.batches, table, asked=bounds.asked)) if bounds.asked else chunk

    def _details(self, tables: Sequence[TableId]) -> Mapping[TableId, D | TableError]:
        connection = self._connection()
        try:
            found = self._found(connection, tables)
        except TidemarkError:
            connection.close()
            raise
        for table in tables:
            self._known.pop(table, None)
        self._known |= {table: one for table, one in found.items() if not isinstance(one, TableError)}
        return found

    def _describe(self, table: TableId) -> D:
        found = self._details([table]).get(table)
        if isinstance(found, TableError):
            raise found
        if found is None:
            message = f"{table} no longer exists."
            raise TableDisappeared(message, table=str(table))
        return found
