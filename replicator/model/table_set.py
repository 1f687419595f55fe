"""Sets of tables, and how their names are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from replicator.model.computed_rules import ComputedColumns
from replicator.model.identifiers import TableId, TablePattern
from replicator.model.masks import Mask
from replicator.model.row_filter import RowFilter


@dataclass(frozen=True)
class TableSet:
    """What a replicator takes: single tables, and whole databases and patterns with the tables that they will get
    later.

    Databases are as `TableId.above` has them.
    `excluded` wins over all others; `tables` wins over `excluded_patterns`, and these over `databases` and `patterns`.
    `excluded_columns` never names a key column.
    `masks`: by column; `row_filters`: which rows are taken; `salt`: what hashes begin with, a secret (invariant 8).
    `computed`: columns that tables have in the target only, by their present names.
    `halted`: tables that failed and may have another name by now, with their `TableSchema.identity`.
    """

    tables: frozenset[TableId] = frozenset()
    databases: frozenset[str] = frozenset()
    excluded: frozenset[TableId] = frozenset()
    excluded_columns: Mapping[TableId, frozenset[str]] = field(default_factory=dict)
    patterns: frozenset[TablePattern] = frozenset()
    excluded_patterns: frozenset[TablePattern] = frozenset()
    masks: Mapping[TableId, Mapping[str, Mask]] = field(default_factory=dict)
    row_filters: Mapping[TableId, RowFilter] = field(default_factory=dict)
    salt: bytes = field(default=b"", repr=False)
    computed: ComputedColumns = field(default_factory=ComputedColumns)
    halted: Mapping[TableId, str] = field(default_factory=dict)

    def __contains__(self, table: object) -> bool:
        """True if the table is to be replicated."""
        if not isinstance(table, TableId) or table in self.excluded:
            return False
        if table in self.tables:
            return True
        if any(one.matches(table) for one in self.excluded_patterns):
            return False
        return table.above in self.databases or any(one.matches(table) for one in self.patterns)

    @property
    def searched(self) -> frozenset[str]:
        """Databases of which more tables than `tables` names may be taken, now or later."""
        return self.databases | {one.database for one in self.patterns}

    def columns_left_out(self, table: TableId) -> frozenset[str]:
        """Names of the columns of `table` that never leave the source."""
        return self.excluded_columns.get(table, frozenset())

    def followed(self) -> TableSet:
        """The same for the reader of a log, which tells it of names that tables get (`carry`)."""
        return replace(self, excluded_columns=dict(self.excluded_columns))

    def carry(self, old: TableId, new: TableId) -> None:
        """Carry the excluded columns of `old` over to its new name, in addition to those of `new`.

        They stay excluded under the old name, for another table that gets it (invariant 12).  Only for a set that is
        `followed`.
        """
        if moved := self.columns_left_out(old):
            assert isinstance(self.excluded_columns, dict)
            self.excluded_columns[new] = moved | self.columns_left_out(new)


@dataclass(frozen=True)
class NameRule:
    """How a source compares the names of databases and tables.

    Names are put under it where they enter; from there on they are equal or not.

    fold: what the source makes of a name before it compares (None: nothing).
    """

    fold: Callable[[str], str] | None = None

    @property
    def folds(self) -> bool:
        return self.fold is not None

    def name(self, text: str) -> str:
        """Of a database or a table, or a pattern for some."""
        return self.fold(text) if self.fold else text

    def table(self, table: TableId) -> TableId:
        """The table's one name."""
        return TableId(*map(self.fold, (table.database, table.name, table.catalog))) if self.fold else table

    def pattern(self, one: TablePattern) -> TablePattern:
        """The same tables."""
        return TablePattern(self.name(one.database), self.name(one.pattern))

    def selection(self, tables: TableSet) -> TableSet:
        """The same tables under their one name; what is said of a table under several spellings holds together."""
        if self.fold is None:
            return tables
        masks: dict[TableId, dict[str, Mask]] = {}
        for table, columns in tables.masks.items():
            masks.setdefault(self.table(table), {}).update(columns)
        left_out: dict[TableId, frozenset[str]] = {}
        for table, names in tables.excluded_columns.items():
            left_out[self.table(table)] = left_out.get(self.table(table), frozenset()) | names
        filters: dict[TableId, RowFilter] = {}
        for table, one in tables.row_filters.items():
            before = filters.get(self.table(table))
            filters[self.table(table)] = (
                replace(before, conditions=before.conditions + one.conditions) if before else one
            )
        return replace(
            tables,
            tables=frozenset(map(self.table, tables.tables)),
            databases=frozenset(map(self.fold, tables.databases)),
            excluded=frozenset(map(self.table, tables.excluded)),
            excluded_columns=left_out,
            patterns=frozenset(map(self.pattern, tables.patterns)),
            excluded_patterns=frozenset(map(self.pattern, tables.excluded_patterns)),
            masks=masks,
            row_filters=filters,
        )


EXACT_NAMES = NameRule()
