"""Names and types in Snowflake's SQL."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from replicator.errors import UnsupportedDdl
from replicator.model.types import DataType, Kind, decimal

MAX_SCALE = 37  # docs.snowflake.com/en/sql-reference/data-types-numeric
NAMES: Mapping[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT: "NUMBER(10,0)",
    Kind.BIGINT: "NUMBER(19,0)",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "FLOAT",
    Kind.STRING: "VARCHAR",
    Kind.BINARY: "BINARY",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP_NTZ(6)",
    Kind.TIMESTAMP: "TIMESTAMP_LTZ(6)",
}
# What INFORMATION_SCHEMA calls them.  A value of TIMESTAMP_TZ would be the same instant.
_FOUND: Mapping[str, Kind] = {
    "BOOLEAN": Kind.BOOLEAN,
    "FLOAT": Kind.DOUBLE,
    "TEXT": Kind.STRING,
    "BINARY": Kind.BINARY,
    "DATE": Kind.DATE,
    "TIMESTAMP_NTZ": Kind.TIMESTAMP_NTZ,
    "TIMESTAMP_LTZ": Kind.TIMESTAMP,
    "TIMESTAMP_TZ": Kind.TIMESTAMP,
}
_ARROW = {DataType(kind).arrow: kind for kind in NAMES}


def quoted(name: str) -> str:
    """A name as an identifier, in its case."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in a statement; Snowflake reads backslashes, too."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def snowflake_type(kind: DataType) -> str:
    """Of a column.  UnsupportedDdl where there is none."""
    if kind.kind is not Kind.DECIMAL:
        return NAMES[kind.kind]
    if kind.scale > MAX_SCALE:
        message = f"Snowflake has no type {kind}: a number has at most {MAX_SCALE} decimal places."
        raise UnsupportedDdl(message, remedy="Exclude the column from the replicator, or cast it.")
    return f"NUMBER({kind.precision},{kind.scale})"


def snowflake_type_of(kind: pa.DataType) -> str:
    """Of a column of rows."""
    if pa.types.is_decimal(kind):
        return snowflake_type(decimal(kind.precision, kind.scale))
    return NAMES[_ARROW[kind]]


def found_type(name: str, precision: int | None, scale: int | None) -> DataType | None:
    """As INFORMATION_SCHEMA tells it; one of several of Tidemark's where they are one type in Snowflake."""
    if name == "NUMBER" and precision is not None and scale is not None:
        return decimal(precision, scale)
    kind = _FOUND.get(name)
    return None if kind is None else DataType(kind)
