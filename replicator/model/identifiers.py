"""Names of tables and sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class TableId:
    """A table of a source, in the source's own spelling (no quoting, no case folding)."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True)
class TableSet:
    """What a replicator takes: single tables, and whole databases with the tables that they will get later.

    `excluded` wins over `databases`.  `excluded_columns` never names a key column.
    """

    tables: frozenset[TableId] = frozenset()
    databases: frozenset[str] = frozenset()
    excluded: frozenset[TableId] = frozenset()
    excluded_columns: Mapping[TableId, frozenset[str]] = field(default_factory=dict)

    def __contains__(self, table: object) -> bool:
        """True if the table is to be replicated."""
        if not isinstance(table, TableId) or table in self.excluded:
            return False
        return table in self.tables or table.database in self.databases

    def columns_left_out(self, table: TableId) -> frozenset[str]:
        """Names of the columns of `table` that never leave the source."""
        return self.excluded_columns.get(table, frozenset())
