"""Key ranges in the server's own SQL: the literals, the comparisons, the order.

A key value travels as the text of an SQL literal that the server compares exactly as ORDER BY orders the column: texts as
the column's own bytes under the column's collation, ENUM and SET by number, FLOAT as the double it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicator.errors import ConditionRefused
from replicator.sources.base import KeyRange
from replicator.sources.conditions import condition_sql
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.connection import literal, quoted
from replicator.sources.mysql.types import BYTES, LABELS, TEXTS, ColumnDefinition

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
            f"Keys in the character set {definition.charset} cannot be given one by one: give a condition instead."
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


def selected(description: TableDescription, rows: KeyRange) -> str:
    """The rows of a range, of a list of keys, that a condition is true for."""
    conditions = [within(description, rows)] if rows.lower is not None or rows.upper is not None else []
    if rows.keys:
        rows.require_fit(description.schema)
        conditions.append(f"({_among(description, rows.keys)})")
    if rows.condition:
        conditions.append(f"({condition_sql(rows.condition, description.schema, 'mysql')})")
    return " AND ".join(conditions) or "TRUE"


def _among(description: TableDescription, keys: Sequence[Sequence[str]]) -> str:
    names = description.schema.key
    definitions = [description.definition(name) for name in names]
    given = [[given_literal(one, text) for one, text in zip(definitions, key, strict=True)] for key in keys]
    if len(names) == 1:
        return f"{quoted(names[0])} IN ({', '.join(values[0] for values in given)})"
    equal = [[f"{quoted(name)} = {value}" for name, value in zip(names, values, strict=True)] for values in given]
    return " OR ".join(f"({' AND '.join(parts)})" for parts in equal)


def select_key(description: TableDescription) -> str:
    """The SELECT list of a key."""
    return ", ".join(key_expression(description.definition(name)) for name in description.schema.key)


def read_key(description: TableDescription, row: Sequence[object]) -> tuple[str, ...]:
    """One row of `select_key` as literals."""
    return tuple(
        key_literal(description.definition(name), value.decode("ascii") if isinstance(value, bytes) else str(value))
        for name, value in zip(description.schema.key, row, strict=True)
    )


def order_by(description: TableDescription, direction: str = "ASC") -> str:
    """The order of the key."""
    return ", ".join(f"{quoted(name)} {direction}" for name in description.schema.key)


def within(description: TableDescription, bounds: KeyRange) -> str:
    """The rows of a range, lexicographic, in a form of which the range optimizer makes intervals of the index."""
    names = [quoted(name) for name in description.schema.key]
    bounds.require_fit(description.schema)
    conditions = []
    if bounds.lower is not None:
        conditions.append(_beyond(names, bounds.lower, ">", ">"))
    if bounds.upper is not None:
        conditions.append(_beyond(names, bounds.upper, "<", "<="))
    return " AND ".join(conditions) or "TRUE"


def _beyond(names: Sequence[str], values: Sequence[str], sign: str, last_sign: str) -> str:
    """(a > x) OR (a = x AND b > y) OR …; the last column is compared by `last_sign`."""
    last = len(names) - 1
    cases = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        equal = [f"{names[i]} = {values[i]}" for i in range(place)]
        cases.append(" AND ".join([*equal, f"{name} {last_sign if place == last else sign} {value}"]))
    if not last:
        return cases[0]
    return f"({names[0]} {sign}= {values[0]} AND (({') OR ('.join(cases)})))"
