"""Names and types in Postgres."""

from __future__ import annotations

from replicator.model.types import DataType, Kind
from replicator.sources.postgres.config import MAX_NAME

TEXT = "pg_catalog.text"
NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "integer",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.STRING: "text",
    Kind.BINARY: "bytea",
    Kind.DATE: "date",
    Kind.TIMESTAMP_NTZ: "timestamp without time zone",
    Kind.TIMESTAMP: "timestamp with time zone",
}
SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})


def postgres_type(kind: DataType) -> str:
    """Return a column's type.  Texts compare byte by byte, regardless of the server's locale."""
    if kind.kind is Kind.DECIMAL:
        return f"numeric({kind.precision},{kind.scale})"
    return f'{TEXT} COLLATE pg_catalog."C"' if kind.kind is Kind.STRING else NAMES[kind.kind]


def refused_column(name: str) -> str:
    """See `TargetKind`."""
    if len(name.encode()) > MAX_NAME:
        return f"Its name has more than {MAX_NAME} bytes in UTF-8, which Postgres truncates."
    return "Its name is that of a system column of Postgres." if name in SYSTEM_COLUMNS else ""
