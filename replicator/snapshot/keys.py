"""Keys that users list one by one: parsed from their text, kept as texts, and converted to the values of rows.

A key is written as the target shows it.  One text per column is kept, in the canonical form of its type, so that the
key's row is found in the source and, where the source has none, in the target.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from replicator.errors import ConfigurationError, KeyChanged
from replicator.model.schema import Column, TableSchema
from replicator.model.types import Kind
from replicator.snapshot.window import Key
from replicator.sources.kind import as_written

MAX_KEYS = 100_000
TextKey = tuple[str, ...]
KeyText = Callable[[Column, str], str]
_TRUE, _FALSE = frozenset({"true", "t", "1", "yes"}), frozenset({"false", "f", "0", "no"})


def parse_lines(text: str, schema: TableSchema, key_text: KeyText = as_written) -> list[TextKey]:
    """One key a line: its value, several as CSV or as a JSON array; `key_text` is `SourceKind`'s.

    ConfigurationError names the line.
    """
    found: list[TextKey] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_parsed(_fields(line.strip(), len(schema.key)), schema, key_text))
            except ValueError as error:
                raise _wrong(f"Line {number}: {error}", schema) from None
    return _distinct(found, schema)


def parse_values(keys: Iterable[Any], schema: TableSchema, key_text: KeyText = as_written) -> list[TextKey]:
    """Of a JSON document: each key a value, or a list of values.  ConfigurationError names the place."""
    found: list[TextKey] = []
    for number, key in enumerate(keys, 1):
        try:
            found.append(_parsed(key if isinstance(key, list | tuple) else [key], schema, key_text))
        except ValueError as error:
            raise _wrong(f"Key {number}: {error}", schema) from None
    return _distinct(found, schema)


def values_of(keys: Sequence[TextKey], schema: TableSchema) -> list[Key]:
    """The same keys as they stand in rows of the schema.  KeyChanged where they are none of its keys (any more)."""
    columns = [schema.column(name) for name in schema.key]
    try:
        return [tuple(_value(c, text) for c, text in zip(columns, key, strict=True)) for key in keys]
    except ValueError as error:
        message = f"{schema.table} has another key than when the snapshot was requested: {error}"
        raise KeyChanged(message, table=str(schema.table)) from None


def _fields(line: str, columns: int) -> Sequence[Any]:
    if line.startswith("["):
        try:
            found = json.loads(line, parse_float=Decimal)
        except json.JSONDecodeError as error:
            message = f"not a JSON array ({error.msg})."
            raise ValueError(message) from None
        return found if isinstance(found, list) else [found]
    if columns == 1 and not line.startswith('"'):
        return [line]
    try:
        return next(csv.reader([line], strict=True, skipinitialspace=True))
    except csv.Error as error:
        message = f"not a line of CSV ({error})."
        raise ValueError(message) from None


def _parsed(fields: Sequence[Any], schema: TableSchema, key_text: KeyText) -> TextKey:
    names = schema.key
    if len(fields) != len(names):
        message = (
            f"the key of {schema.table} is ({', '.join(names)}): {len(names)} value{'s' if len(names) > 1 else ''}, not"
            f" {len(fields)}."
        )
        raise ValueError(message)
    columns = map(schema.column, names)
    return tuple(_kept(one, key_text(one, _written(field))) for one, field in zip(columns, fields, strict=True))


def _written(field: Any) -> str:
    if field is None or isinstance(field, dict | list):
        message = f"{json.dumps(field)} is not a valid value of a key."
        raise ValueError(message)
    return str(field).lower() if isinstance(field, bool) else str(field)


def _kept(column: Column, text: str) -> str:
    """Return the text in the canonical form of the column's type.  ValueError."""
    value = _value(column, text)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _value(column: Column, text: str) -> Any:
    """As Arrow gives it back.  ValueError in words."""
    kind = column.type.kind
    read = _READ.get(kind)
    if read is None:
        message = f"{column.name} is a {column.type}, whose values cannot be given exactly. Use a condition instead."
        raise ValueError(message)
    try:
        value = read(text if kind is Kind.STRING else text.strip())
        return pa.scalar(value, column.type.arrow).as_py()
    except (ValueError, ArithmeticError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        message = f"{text!r} is not a valid value of {column.name} ({column.source_type})."
        raise ValueError(message) from None


def _decimal(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(text) from error
    if not found.is_finite():
        raise ValueError(text)
    return found


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _local(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError(text)
    return found


def _text(text: str) -> str:
    text.encode()  # raises for half of a surrogate pair
    if "\0" in text:
        raise ValueError(text)
    return text


_READ: Mapping[Kind, Callable[[str], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: int,
    Kind.BIGINT: int,
    Kind.DECIMAL: _decimal,
    Kind.STRING: _text,
    Kind.BINARY: lambda text: bytes.fromhex(text.removeprefix("0x").removeprefix("\\x")),
    Kind.DATE: date.fromisoformat,
    Kind.TIMESTAMP_NTZ: _local,
    Kind.TIMESTAMP: _instant,
}


def _distinct(keys: list[TextKey], schema: TableSchema) -> list[TextKey]:
    found = list(dict.fromkeys(keys))
    if not found:
        raise _wrong("The list contains no keys.", schema)
    if len(found) > MAX_KEYS:
        raise _wrong(f"The list contains {len(found):,} keys, more than {MAX_KEYS:,}.", schema)
    return found


def _wrong(message: str, schema: TableSchema) -> ConfigurationError:
    columns = ", ".join(f"{name} ({schema.column(name).source_type})" for name in schema.key)
    return ConfigurationError(message, remedy=f"One key per line, several values as CSV or a JSON array: {columns}.")
