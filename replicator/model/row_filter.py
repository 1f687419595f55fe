"""Row filters: `country = 'DE' AND total >= 10 AND paid_at IS NOT NULL`, a small language with one meaning everywhere.

Each condition compares one column with literals of its type.  Text is compared by its UTF-8 bytes, regardless of the
source's collation.  As in SQL, nothing is equal to, less or greater than null.

A filter is not the SQL of any source and is never sent to one.  Double quotes or back quotes enclose a name that is not
a plain word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from replicator.errors import ConfigurationError
from replicator.model.literals import WRITABLE, Value, value_of
from replicator.model.schema import TableSchema
from replicator.model.types import DataType, Kind

MAX_FILTER_LENGTH = 2000  # characters of a filter
_QUOTED = frozenset({Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")+"|`(?:[^`]|``)+`)|(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"""
    r"""|(?P<word>[^\W\d][\w$]*)|(?P<sign><>|!=|<=|>=|[=<>(),]))"""
)


class Operator(StrEnum):
    """As they are written."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    IN = "IN"
    NULL = "IS NULL"
    NOT_NULL = "IS NOT NULL"


ORDERED = frozenset({Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST})
BARE = frozenset({Operator.NULL, Operator.NOT_NULL})


@dataclass(frozen=True, slots=True)
class Literal:
    """As it was written; `quoted` with quotation marks."""

    text: str
    quoted: bool

    def __str__(self) -> str:
        return "'" + self.text.replace("'", "''") + "'" if self.quoted else self.text


@dataclass(frozen=True, slots=True)
class Condition:
    """Of a row; `literals` are empty for IS NULL and IS NOT NULL, and several for IN only."""

    column: str
    operator: Operator
    literals: tuple[Literal, ...] = ()

    def __str__(self) -> str:
        name = '"' + self.column.replace('"', '""') + '"'
        plain = re.fullmatch(r"[^\W\d][\w$]*", self.column) and self.column.upper() not in {
            "AND",
            "IN",
            "IS",
            "NULL",
            "NOT",
        }
        values = ", ".join(map(str, self.literals))
        tail = f" ({values})" if self.operator is Operator.IN else f" {values}" if values else ""
        return f"{self.column if plain else name} {self.operator}{tail}"

    def values(self, column: DataType) -> list[Value]:
        """Return the literals as values of the column's type; ValueError for one that is not."""
        for one in self.literals:
            if one.quoted is not (column.kind in _QUOTED):
                raise ValueError(str(one))
        return [value_of(one.text, column) for one in self.literals]

    def refusal(self, column: DataType) -> str:
        """Why the column cannot be compared so, as a sentence; empty where it can."""
        if self.operator in BARE:
            return ""
        if column.kind not in WRITABLE:
            return f"{self.column} ({column}) supports only IS NULL and IS NOT NULL in a row filter."
        if self.operator in ORDERED and column.kind is Kind.BOOLEAN:
            return f"{self.column} (boolean) does not support < and >."
        try:
            self.values(column)
        except ValueError:
            values = ", ".join(map(str, self.literals))
            marks = "with quotation marks" if column.kind in _QUOTED else "without quotation marks"
            return f"{values} is not a valid value of {self.column} ({column}), which is written {marks}."
        return ""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """All conditions hold for a row that is taken; without any, every row is."""

    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        return " AND ".join(map(str, self.conditions))

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def both(self, other: RowFilter) -> RowFilter:
        """Rows that this and the other take."""
        return RowFilter((*self.conditions, *(one for one in other.conditions if one not in self.conditions)))

    def refusal(self, schema: TableSchema) -> str:
        """Why rows of the table cannot be chosen so, as a sentence; empty where they can."""
        for one in self.conditions:
            if one.column not in schema.names:
                return f"The column {one.column} of the row filter does not exist: it was renamed, dropped or excluded."
            if why := one.refusal(schema.column(one.column).type):
                return why
        if self and schema.partial:
            return "A row filter requires full before images, which its log does not have."
        return ""


def parse_filter(text: str) -> RowFilter:
    """Parse a filter; empty text gives the empty filter.  ConfigurationError says where `text` is wrong."""
    if len(text) > MAX_FILTER_LENGTH:
        message = f"A row filter has at most {MAX_FILTER_LENGTH} characters."
        raise ConfigurationError(message)
    if not text.strip():
        return RowFilter()
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    def whole(self) -> RowFilter:
        found = [self._condition()]
        while self._word("AND"):
            found.append(self._condition())
        if self._at < len(self._tokens):
            raise self._wrong("AND, or the end")
        return RowFilter(tuple(found))

    def _condition(self) -> Condition:
        column = self._column()
        if self._word("IS"):
            negated = self._word("NOT")
            if not self._word("NULL"):
                raise self._wrong("NULL")
            return Condition(column, Operator.NOT_NULL if negated else Operator.NULL)
        if self._word("IN"):
            return Condition(column, Operator.IN, self._list())
        kind, sign = self._next("one of = <> < <= > >= IN IS")
        sign = "<>" if sign == "!=" else sign
        if kind != "sign" or sign not in {*ORDERED, Operator.EQUAL, Operator.UNEQUAL}:
            self._at -= 1
            raise self._wrong("one of = <> < <= > >= IN IS")
        return Condition(column, Operator(sign), (self._literal(),))

    def _column(self) -> str:
        kind, token = self._next("a column")
        if kind == "word" and token.upper() not in {"AND", "OR", "NOT"}:
            return token
        if kind == "name":
            return token[1:-1].replace(token[0] * 2, token[0])
        self._at -= 1
        raise self._wrong("a column")

    def _list(self) -> tuple[Literal, ...]:
        self._sign("(")
        found = [self._literal()]
        while self._at < len(self._tokens) and self._tokens[self._at] == ("sign", ","):
            self._at += 1
            found.append(self._literal())
        self._sign(")")
        return tuple(found)

    def _literal(self) -> Literal:
        kind, token = self._next("a value")
        if kind == "text":
            return Literal(token[1:-1].replace("''", "'"), quoted=True)
        if kind == "number" or (kind == "word" and token.lower() in {"true", "false"}):
            return Literal(token.lower(), quoted=False)
        self._at -= 1
        raise self._wrong("a value: a number, true, false, or a text in 'quotation marks'")

    def _sign(self, sign: str) -> None:
        if self._next(sign) != ("sign", sign):
            self._at -= 1
            raise self._wrong(sign)

    def _word(self, word: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][0] == "word"
        if not found or self._tokens[self._at][1].upper() != word:
            return False
        self._at += 1
        return True

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._wrong(wanted)
        self._at += 1
        return self._tokens[self._at - 1]

    def _wrong(self, wanted: str) -> ConfigurationError:
        seen = repr(self._tokens[self._at][1]) if self._at < len(self._tokens) else "the end"
        return ConfigurationError(f"The row filter {self._text.strip()!r} has {seen} where {wanted} is expected.")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigurationError(
                f"The row filter {text.strip()!r} cannot be read from {text[at:].strip()[:20]!r} on."
            )
        kind = str(match.lastgroup)
        yield kind, match[kind]
        at = match.end()
