"""Names of tables and sets of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from replicator.model.masks import Mask

if TYPE_CHECKING:
    from replicator.model.row_filter import RowFilter


@dataclass(frozen=True, order=True, slots=True)
class TableId:
    """A table of a source: no quoting; case as `NameRule` leaves it, so that equal names are the same table to the source."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


_QUOTED = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`'
_WRITTEN = re.compile(rf"({_QUOTED}|[^.\"`][^.]*)\.({_QUOTED}|.+)", re.DOTALL)


def parse_name(text: str) -> tuple[TableId, bool] | None:
    """The table that people write as `shop.orders`, or, as a source would, `"my.shop"."orders"` or with `back quotes`; None for no name.

    Without quotes the database ends at the first dot.  A quote is doubled inside quotes.  True: the table's name is quoted, so `*` and `?`
    in it stand for themselves.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    return TableId(*map(_unquoted, found.groups())), _is_quoted(found[2])


def written_name(table: TableId) -> str:
    """As `parse_name` reads it: quoted only where it has to be."""
    name = _quoted(table.name) if _is_quoted(table.name) or set(table.name) & set("*?") else table.name
    return f"{written_database(table.database)}.{name}"


def written_database(name: str) -> str:
    """As `parse_name` reads what stands before a table's name, or a pattern."""
    return _quoted(name) if "." in name or name[:1] in {'"', "`", "!"} else name


def _is_quoted(part: str) -> bool:
    return re.fullmatch(_QUOTED, part, re.DOTALL) is not None


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def _unquoted(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0]) if _is_quoted(part) else part


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
    """What stands between two stars is taken where it is found first, and never again: so it takes no longer than text times pattern."""
    first, *others = ("".join("." if one == "?" else re.escape(one) for one in part) for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>.*?{part})' for part in middle if part)}.*{last}", re.DOTALL)


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


@dataclass(frozen=True)
class NameRule:
    """How a source compares the names of databases and tables.  Names are put under it where they enter; from there on they are equal or not.

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
        return TableId(self.fold(table.database), self.fold(table.name)) if self.fold else table

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
