"""Iceberg's names of Tidemark's types, and which of its columns can become another type in place."""

from __future__ import annotations

from replicator.model.types import DataType, Kind

NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.TIMESTAMP_NTZ: "timestamp",
    Kind.TIMESTAMP: "timestamptz",
}


def iceberg_type(kind: DataType) -> str:
    """`decimal(10, 2)`, `timestamptz`."""
    return f"decimal({kind.precision}, {kind.scale})" if kind.kind is Kind.DECIMAL else NAMES[kind.kind]


def promotes(old: DataType, new: DataType) -> bool:
    """Iceberg's type promotion: https://iceberg.apache.org/spec/#schema-evolution."""
    if old.kind is Kind.DECIMAL and new.kind is Kind.DECIMAL:
        return old.scale == new.scale and old.precision < new.precision
    return (old.kind, new.kind) in {(Kind.INT, Kind.BIGINT), (Kind.FLOAT, Kind.DOUBLE)}
