"""Delta Lake's names of Tidemark's types."""

from __future__ import annotations

from replicator.model.types import DataType, Kind

NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "integer",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.TIMESTAMP_NTZ: "timestamp_ntz",
    Kind.TIMESTAMP: "timestamp",
}


def delta_type(kind: DataType) -> str:
    """`decimal(10,2)`, `timestamp_ntz`."""
    return f"decimal({kind.precision},{kind.scale})" if kind.kind is Kind.DECIMAL else NAMES[kind.kind]
