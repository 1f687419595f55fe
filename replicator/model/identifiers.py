"""Names of tables and patterns for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering


@total_ordering
@dataclass(frozen=True, slots=True)
class TableId:
    """A table of a source: no quoting; case as `NameRule` leaves it, so that equal names are the same table to the
    source.

    `catalog`: what is above the database, of sources that name a table by three names; others have none.  Tables are in
    order by catalog, database and name.
    """

    database: str
    name: str
    catalog: str = field(default="", hash=False)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.database}.{self.name}" if self.catalog else f"{self.database}.{self.name}"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, TableId):
            return NotImplemented
        return (self.catalog, self.database, self.name) < (other.catalog, other.database, other.name)

    @property
    def above(self) -> str:
        """All but its name, as one text that `split_above` reads: what selections compare, and a database column
        holds.
        """
        if not self.catalog:
            return self.database
        return f"{written_database(self.catalog)}.{written_database(self.database)}"


_QUOTED = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`'
_PART = rf"{_QUOTED}|[^.\"`][^.]*"
_ABOVE = re.compile(rf"({_PART})\.({_PART})", re.DOTALL)
_WRITTEN = re.compile(rf"({_PART})\.({_QUOTED}|.+)", re.DOTALL)
_WRITTEN_IN_CATALOG = re.compile(rf"({_PART})\.({_PART})\.({_QUOTED}|.+)", re.DOTALL)


def parse_name(text: str, *, catalogs: bool = False) -> tuple[TableId, bool] | None:
    """The table that people write as `shop.orders`, or, as a source would, `"my.shop"."orders"` or with `back quotes`;
    None for no name.

    Without quotes the database ends at the first dot.  A quote is doubled inside quotes.  True: the table's name is
    quoted, so `*` and `?` in it stand for themselves.  catalogs: the source has them, and a name has three parts.
    """
    found = (_WRITTEN_IN_CATALOG if catalogs else _WRITTEN).fullmatch(text)
    if found is None:
        return None
    *above, name = map(_unquoted, found.groups())
    return TableId(above[-1], name, above[0] if catalogs else ""), _is_quoted(found.groups()[-1])


def split_above(text: str) -> tuple[str, str] | None:
    """Catalog and database of a `TableId.above` that has both; None for any other text."""
    found = _ABOVE.fullmatch(text)
    return (_unquoted(found[1]), _unquoted(found[2])) if found else None


def written_name(table: TableId) -> str:
    """As `parse_name` reads it: quoted only where it has to be."""
    name = _quoted(table.name) if _is_quoted(table.name) or set(table.name) & set("*?") else table.name
    return f"{table.above if table.catalog else written_database(table.database)}.{name}"


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
    """Tables of a database (`TableId.above`) by name: `*` stands for any characters, `?` for one; all others for
    themselves, case included.
    """

    database: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.database}.{self.pattern}"

    def matches(self, table: TableId) -> bool:
        """Does the pattern mean this table?"""
        return table.above == self.database and _compiled(self.pattern).fullmatch(table.name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    """What stands between two stars is taken where it is found first, and never again: so it takes no longer than text
    times pattern.
    """
    first, *others = ("".join("." if one == "?" else re.escape(one) for one in part) for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>.*?{part})' for part in middle if part)}.*{last}", re.DOTALL)


def pattern_captures(pattern: str, text: str) -> tuple[str, ...] | None:
    """What each `*` and `?` of the pattern stands for, from the left; None where the text does not match.

    A star stands for as little as it can, the last one for the rest.
    """
    found = _capturing(pattern).fullmatch(text)
    return None if found is None else found.groups()


@lru_cache(maxsize=1000)
def _capturing(pattern: str) -> re.Pattern[str]:
    """As `_compiled`."""
    first, *others = ("".join("(.)" if one == "?" else re.escape(one) for one in part) for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>(.*?){part})' for part in middle)}(.*){last}", re.DOTALL)
