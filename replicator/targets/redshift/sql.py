"""Names, values and types in Redshift's SQL (docs.aws.amazon.com/redshift/latest/dg/cm_chap_SQLCommandRef.html)."""

from __future__ import annotations

import re
from datetime import datetime

from replicator.model.types import DataType, Kind, decimal

MAX_NAME = 127  # bytes
MAX_TEXT_BYTES = 65535
MAX_BYTES = 1_024_000
MAX_SCALE = 37
STAGE, LOAD = "_tidemark_stage_", "_tidemark_load"  # temporary tables
VARCHAR = f"VARCHAR({MAX_TEXT_BYTES})"
NAMES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "REAL",
    Kind.DOUBLE: "DOUBLE PRECISION",
    Kind.STRING: VARCHAR,
    Kind.BINARY: f"VARBYTE({MAX_BYTES})",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP",
    Kind.TIMESTAMP: "TIMESTAMPTZ",
}
# As `format_type` says them.
_SHOWN = {
    "boolean": Kind.BOOLEAN,
    "integer": Kind.INT,
    "bigint": Kind.BIGINT,
    "real": Kind.FLOAT,
    "double precision": Kind.DOUBLE,
    f"character varying({MAX_TEXT_BYTES})": Kind.STRING,
    "date": Kind.DATE,
    "timestamp without time zone": Kind.TIMESTAMP_NTZ,
    "timestamp with time zone": Kind.TIMESTAMP,
}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_VARBYTE = re.compile(r"(binary varying|varbyte)(\(\d+\))?")


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int | datetime | None) -> str:
    """A value.  Whether a backslash in quotes stands for itself depends on the server: none is written there."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMPTZ)"
    if isinstance(value, int):
        return str(value)
    return " || CHR(92) || ".join("'" + part.replace("'", "''") + "'" for part in value.split("\\"))


def redshift_type(kind: DataType) -> str:
    """Of a column."""
    return f"DECIMAL({kind.precision},{kind.scale})" if kind.kind is Kind.DECIMAL else NAMES[kind.kind]


def known_type(shown: str) -> DataType | None:
    """What the catalog says, as one of Tidemark's types; None for one that Tidemark does not make."""
    if match := _NUMERIC.fullmatch(shown):
        return decimal(int(match[1]), int(match[2]))
    if _VARBYTE.fullmatch(shown):
        return DataType(Kind.BINARY)
    return DataType(_SHOWN[shown]) if shown in _SHOWN else None


def refused_column(name: str) -> str:
    """See `TargetKind`."""
    if len(name.encode()) > MAX_NAME:
        return f"Its name has more than {MAX_NAME} bytes in UTF-8, which Redshift truncates."
    if '"' in name or not name.isprintable():
        return "Its name has a quotation mark or a non-printable character, which Redshift does not support."
    return "Its name is that of a system column of Redshift." if name in SYSTEM_COLUMNS else ""


SYSTEM_COLUMNS = frozenset({
    "oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "deletexid", "insertxid",
})  # fmt: skip
