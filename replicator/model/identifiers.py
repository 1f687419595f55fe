"""Names of tables and sets of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from replicator.model.masks import Mask

if TYPE_CHECKING:
    from replicator.model.row_filter import RowFilter


@dataclass(frozen=True, order=True, slots=True)
class TableId:
    """A table of a source, in the source's own spelling (no quoting, no case folding)."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, order=True, slots=True)
class TablePattern:
    """Tables of a database by name: `*` stands for any characters, `?` for one; all others for themselves, case included."""

    database: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.database}.{self.pattern}"

    def matches(self, table: TableId) -> bool:
        """Does the pattern mean this table?"""
        return table.database == self.database and _compiled(self.pattern).fullmatch(table.name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(one) or re.escape(one) for one in pattern), re.DOTALL)


@dataclass(frozen=True)
class TableSet:
    """What a replicator takes: single tables, and whole databases and patterns with the tables that they will get later.

    `excluded` wins over all others; `tables` wins over `excluded_patterns`, and these over `databases` and `patterns`.  `excluded_columns` never names a key column.
    `masks`: by column; `row_filters`: which rows are taken; `salt`: what hashes begin with, a secret (invariant 8).
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

    def __contains__(self, table: object) -> bool:
        """True if the table is to be replicated."""
        if not isinstance(table, TableId) or table in self.excluded:
            return False
        if table in self.tables:
            return True
        if any(one.matches(table) for one in self.excluded_patterns):
            return False
        return table.database in self.databases or any(one.matches(table) for one in self.patterns)

    @property
    def searched(self) -> frozenset[str]:
        """Databases of which more tables than `tables` names may be taken, now or later."""
        return self.databases | {one.database for one in self.patterns}

    def columns_left_out(self, table: TableId) -> frozenset[str]:
        """Names of the columns of `table` that never leave the source."""
        return self.excluded_columns.get(table, frozenset())
