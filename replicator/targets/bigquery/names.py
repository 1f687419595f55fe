"""Names, values and types in GoogleSQL (docs.cloud.google.com/bigquery/docs/reference/standard-sql/lexical)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from replicator.model.types import DataType, Kind, decimal

MAX_NAME = 300
NUMERIC_SCALE, NUMERIC_DIGITS = 9, 29  # of NUMERIC: after the point, and before it
NAMES: Mapping[Kind, str] = {
    Kind.BOOLEAN: "BOOL",
    Kind.INT: "INT64",
    Kind.BIGINT: "INT64",
    Kind.FLOAT: "FLOAT64",
    Kind.DOUBLE: "FLOAT64",
    Kind.STRING: "STRING",
    Kind.BINARY: "BYTES",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_NTZ: "DATETIME",
    Kind.TIMESTAMP: "TIMESTAMP",
}
# What the API calls them.
_FOUND: Mapping[str, Kind] = {
    "BOOLEAN": Kind.BOOLEAN,
    "BOOL": Kind.BOOLEAN,
    "INTEGER": Kind.BIGINT,
    "INT64": Kind.BIGINT,
    "FLOAT": Kind.DOUBLE,
    "FLOAT64": Kind.DOUBLE,
    "STRING": Kind.STRING,
    "BYTES": Kind.BINARY,
    "DATE": Kind.DATE,
    "DATETIME": Kind.TIMESTAMP_NTZ,
    "TIMESTAMP": Kind.TIMESTAMP,
}
_NUMBERS = {"NUMERIC": (38, 9), "DECIMAL": (38, 9), "BIGNUMERIC": (76, 38), "BIGDECIMAL": (76, 38)}
_ARROW = {DataType(kind).arrow: DataType(kind) for kind in NAMES}
_CLUSTERED = frozenset({
    Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.STRING, Kind.DATE, Kind.TIMESTAMP_NTZ, Kind.TIMESTAMP,
})  # fmt: skip
MAX_CLUSTERED = 4
# docs.cloud.google.com/bigquery/docs/schemas#column_names
FORBIDDEN_PREFIXES = (
    "_TABLE_", "_FILE_", "_PARTITION", "_ROW_TIMESTAMP", "__ROOT__", "_COLIDENTIFIER", "_CHANGE_SEQUENCE_NUMBER",
    "_CHANGE_TYPE", "_CHANGE_TIMESTAMP",
)  # fmt: skip
_FORBIDDEN = re.compile(r"""[!"$()*,./;?@\[\\\]^`{}~]""")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"})


def quoted(name: str) -> str:
    """A name as an identifier, in its case."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(value: str | int | datetime | None) -> str:
    """A value in a statement."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(UTC).isoformat(sep=' ')}'"
    return str(value) if isinstance(value, int) else "'" + value.translate(_ESCAPED) + "'"


def bigquery_type(kind: DataType) -> str:
    """Of a column."""
    if kind.kind is not Kind.DECIMAL:
        return NAMES[kind.kind]
    narrow = kind.scale <= NUMERIC_SCALE and kind.precision - kind.scale <= NUMERIC_DIGITS
    return f"{'NUMERIC' if narrow else 'BIGNUMERIC'}({kind.precision},{kind.scale})"


def type_of(kind: pa.DataType) -> DataType:
    """Of a column of rows."""
    return decimal(kind.precision, kind.scale) if pa.types.is_decimal(kind) else _ARROW[kind]


def found_type(name: str, precision: int | None, scale: int | None, mode: str) -> DataType | None:
    """As the API tells it; one of several of Tidemark's where they are one type in BigQuery."""
    if mode == "REPEATED":
        return None
    if name in _NUMBERS:
        digits, after = (precision, scale or 0) if precision else _NUMBERS[name]
        return decimal(digits, after) if 0 < digits <= 38 and after <= digits else None  # noqa: PLR2004
    return DataType(_FOUND[name]) if name in _FOUND else None


def clustered(name: str, kind: DataType | None) -> bool:
    """Can rows lie in the order of this column?"""
    return kind is not None and kind.kind in _CLUSTERED and _PLAIN.fullmatch(name) is not None


def refused_column(name: str) -> str:
    """See `TargetKind`."""
    if not name or len(name) > MAX_NAME:
        return f"Its name has more than {MAX_NAME} characters."
    if name.upper().startswith(FORBIDDEN_PREFIXES):
        found = next(one for one in FORBIDDEN_PREFIXES if name.upper().startswith(one))
        return f"Its name begins with {found}, which BigQuery keeps for itself."
    if match := _FORBIDDEN.search(name):
        return f"Its name has {match[0]!r}, which BigQuery does not take."
    return "" if name.isprintable() else "Its name has a character that cannot be printed."
