"""What each target calls Tidemark's types.  Apart from the targets, so that pages can say it without loading Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replicator.model.types import DataType, Kind

ICEBERG = {
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
    return f"decimal({kind.precision}, {kind.scale})" if kind.kind is Kind.DECIMAL else ICEBERG[kind.kind]


KAFKA = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "bytes",
    Kind.DATE: "date",
    Kind.TIMESTAMP_NTZ: "local-timestamp-micros",
    Kind.TIMESTAMP: "timestamp-micros",
}


def kafka_type(kind: DataType) -> str:
    """Avro's logical types, which JSON has in its own way (docs/kafka.md)."""
    return f"decimal({kind.precision}, {kind.scale})" if kind.kind is Kind.DECIMAL else KAFKA[kind.kind]


_BY_TARGET: Mapping[str, Callable[[DataType], str]] = {"iceberg": iceberg_type, "kafka": kafka_type}


def type_name_in(target: str) -> Callable[[DataType], str]:
    """The naming of the kind of target; Tidemark's own names for one that is not known here."""
    return _BY_TARGET.get(target, str)
