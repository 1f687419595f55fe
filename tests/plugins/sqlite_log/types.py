"""What declared types become, and values of SQLite as Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from replicator.errors import SelectionDoesNotFit, TableError, UnsupportedType, ValueDoesNotFit
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType, Kind
from replicator.sources.shared.descriptions import check_left_out

_DIGITS = 15
_EXACT = Context(prec=80)
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC|DECIMAL_TEXT)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_PLAIN: Mapping[str, DataType] = {
    **dict.fromkeys(("INT", "INTEGER", "SMALLINT", "TINYINT", "MEDIUMINT"), types.INT),
    "BIGINT": types.BIGINT,
    **dict.fromkeys(("REAL", "DOUBLE", "DOUBLE PRECISION", "FLOAT"), types.DOUBLE),
    **dict.fromkeys(("CHAR", "VARCHAR", "TEXT"), types.STRING),
    "BLOB": types.BINARY,
    "DATE": types.DATE,
    "BOOLEAN": types.BOOLEAN,
}


def schema_of(
    table: TableId, declared: Sequence[Mapping[str, Any]], left_out: frozenset[str]
) -> TableSchema | TableError:
    """Of a table with these columns (`change_log.columns`)."""
    key = sorted((one["key"], one["name"]) for one in declared if one["key"])
    try:
        check_left_out(table, left_out, [one["name"] for one in declared])
        columns = tuple(_column(table, one) for one in declared if one["name"] not in left_out)
    except (UnsupportedType, SelectionDoesNotFit) as error:
        return error
    return TableSchema(table, columns, tuple(name for _, name in key))


def _column(table: TableId, one: Mapping[str, Any]) -> Column:
    name, text = one["name"], str(one["type"])
    if found := _DECIMAL.fullmatch(text.upper()):
        kind = types.decimal(int(found[1]), int(found[2] or 0))
        loses = kind.precision > _DIGITS and not text.upper().startswith("DECIMAL_TEXT")
        warning = f"SQLite keeps {_DIGITS} digits; DECIMAL_TEXT keeps all." if loses else ""
    elif (plain := _PLAIN.get(text.upper().partition("(")[0].strip())) is not None:
        kind, warning = plain, ""
    else:
        raise UnsupportedType(f"The type {text} of {table}.{name} is not known.", table=str(table), column=name)
    return Column(name, kind, nullable=not (one["notnull"] or one["key"]), source_type=text, warning=warning)


def array(table: TableId, column: Column, values: Sequence[Any], *, absent: bool = False) -> pa.Array:
    """ValueDoesNotFit for a value that is none of the column's type: SQLite takes any.  absent: null may stand for no
    row.
    """
    made = _MAKE[column.type.kind]
    if not (column.nullable or absent) and None in values:
        raise ValueDoesNotFit(f"{table}.{column.name} has a null.", table=str(table), column=column.name)
    try:
        found = [None if value is None else made(value, column.type) for value in values]
        return pa.array(found, column.type.arrow)
    except (ValueError, TypeError, InvalidOperation, pa.ArrowInvalid, OverflowError) as error:
        message = f"A value of {table}.{column.name} is no {column.type}: {error}"
        raise ValueDoesNotFit(message, table=str(table), column=column.name) from None


def _exactly(kind: type) -> Callable[[Any, DataType], Any]:
    def made(value: Any, _: DataType) -> Any:
        if type(value) is not kind:
            raise ValueError(repr(value))
        return value

    return made


def _double(value: Any, _: DataType) -> float:
    return float(value) if isinstance(value, int | float) else _exactly(float)(value, _)


def _decimal(value: Any, kind: DataType) -> Decimal:
    found = Decimal(repr(value) if isinstance(value, float) else value)
    scaled = found.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    if scaled != found:
        raise ValueError(repr(value))
    return scaled


def _boolean(value: Any, _: DataType) -> bool:
    if value not in {0, 1}:
        raise ValueError(repr(value))
    return bool(value)


_MAKE: Mapping[Kind, Callable[[Any, DataType], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _exactly(int),
    Kind.BIGINT: _exactly(int),
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.STRING: _exactly(str),
    Kind.BINARY: _exactly(bytes),
    Kind.DATE: lambda value, _: date.fromisoformat(value),
}
