"""Key ranges in the server's own SQL: the literals, the comparisons, the order.

A key value travels as the text of an SQL literal that the server compares exactly as ORDER BY orders the column: texts
as the column's own bytes under the column's collation, ENUM and SET by number, FLOAT as the double it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicator.errors import ConditionRefused
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.connection import literal, quoted
from replicator.sources.mysql.dialect import MYSQL
from replicator.sources.mysql.types import BYTES, LABELS, TEXTS, ColumnDefinition
from replicator.sources.shared.key_ranges import KeyRanges

_CASTS = {"date": "DATE", "datetime": "DATETIME(6)", "timestamp": "DATETIME(6)", "time": "TIME(6)"}
_CASTS |= {name: name.upper() for name in ("uuid", "inet4", "inet6")}
_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"})
# Two byte sequences of these may be the same text: the server would look for one of them.
_AMBIGUOUS = frozenset({"big5", "cp932", "eucjpms", "euckr", "gb2312", "gbk", "sjis", "ujis"})


def key_expression(definition: ColumnDefinition) -> str:
    """What to SELECT to get the text that `key_literal` takes."""
    name = quoted(definition.name)
    if definition.data_type in TEXTS | BYTES:
        return f"HEX({name})"
    match definition.data_type:
        case "float" | "double":
            return f"{name} * 1e0"
        case "bit" | "enum" | "set":
            return f"CAST({name} + 0 AS UNSIGNED)"
        case "year":
            return f"{name} + 0"
        case _:
            return f"CAST({name} AS CHAR)"  # else pymysql makes objects of dates and times


def key_literal(definition: ColumnDefinition, text: str) -> str:
    """The SQL literal for a key value."""
    kind = definition.data_type
    if kind in TEXTS:
        return f"_{definition.charset} X'{text}' COLLATE {definition.collation}"
    if kind in BYTES:
        return f"X'{text}'"
    if kind in _CASTS:
        return f"CAST('{text}' AS {_CASTS[kind]})"
    if kind in ("float", "double"):
        return text if "e" in text else f"{text}e0"
    return text


def given_literal(definition: ColumnDefinition, text: str) -> str:
    """The SQL literal for a key value as people write it (`replicator.snapshot.keys`).  Raises ConditionRefused."""
    kind = definition.data_type
    if kind in TEXTS | LABELS and definition.charset in _AMBIGUOUS:
        message = (
            f"Keys in the character set {definition.charset} cannot be given individually. Use a condition instead."
        )
        raise ConditionRefused(message)
    if kind in TEXTS:
        return f"CONVERT({literal(text)} USING {definition.charset}) COLLATE {definition.collation}"
    if kind in BYTES:
        return f"X'{text}'"
    if kind in _CASTS:
        return f"CAST({literal(text)} AS {_CASTS[kind]})"
    if kind == "decimal":
        return f"CAST({literal(text)} AS DECIMAL({definition.precision or 10},{definition.scale or 0}))"
    if kind in _WHOLE:
        return {"true": "1", "false": "0"}.get(text) or str(int(text))
    return literal(text)


def select_key(description: TableDescription) -> str:
    """The SELECT list of a key."""
    return ", ".join(key_expression(description.definition(name)) for name in description.schema.key)


def read_key(description: TableDescription, row: Sequence[object]) -> tuple[str, ...]:
    """One row of `select_key` as literals."""
    return tuple(
        key_literal(description.definition(name), value.decode("ascii") if isinstance(value, bytes) else str(value))
        for name, value in zip(description.schema.key, row, strict=True)
    )


class MySqlKeyRanges(KeyRanges):
    """In a form of which the range optimizer makes intervals of the index."""

    dialect = MYSQL

    def __init__(self, description: TableDescription) -> None:
        super().__init__(description.schema)
        self._definitions = [description.definition(name) for name in description.schema.key]

    def column(self, place: int) -> str:
        """Under its name: literals have the column's collation."""
        return quoted(self._definitions[place].name)

    def ordered(self, name: str) -> str:
        """The same."""
        return quoted(name)

    def given(self, place: int, text: str) -> str:
        """See `given_literal`."""
        return given_literal(self._definitions[place], text)
