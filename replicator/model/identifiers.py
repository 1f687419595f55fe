"""Names of tables and patterns for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


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

    Without quotes the database ends at the first dot.  A quote is doubled inside quotes.  True: the table's name is
    quoted, so `*` and `?` in it stand for themselves.
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
