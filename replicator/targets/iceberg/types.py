"""Tidemark's types as Iceberg's, both ways."""

from __future__ import annotations

from typing import Any

from replicator.model.types import DataType, Kind, decimal

_NAMES = {
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
_KINDS = {name: kind for kind, name in _NAMES.items()}


def to_iceberg(jvm: Any, kind: DataType) -> Any:
    """The Iceberg type."""
    name = f"decimal({kind.precision}, {kind.scale})" if kind.kind is Kind.DECIMAL else _NAMES[kind.kind]
    return jvm.org.apache.iceberg.types.Types.fromPrimitiveString(name)


def from_iceberg(text: str) -> DataType | None:
    """Inverse, from the type's text; None for a type that Tidemark never makes."""
    if text.startswith("decimal("):
        precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
        return decimal(int(precision), int(scale))
    kind = _KINDS.get(text)
    return None if kind is None else DataType(kind)
