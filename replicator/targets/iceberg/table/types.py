"""Tidemark's types as Iceberg's, both ways."""

from __future__ import annotations

from typing import Any

from replicator.model.types import DataType, decimal
from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.table.type_names import NAMES, iceberg_type

_KINDS = {name: kind for kind, name in NAMES.items()}


def to_iceberg(engine: Engine, kind: DataType) -> Any:
    """The Iceberg type."""
    return engine.java("org.apache.iceberg.types.Types.fromPrimitiveString")(iceberg_type(kind))


def from_iceberg(text: str) -> DataType | None:
    """Inverse, from the type's text; None for a type that Tidemark never makes."""
    if text.startswith("decimal("):
        precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
        return decimal(int(precision), int(scale))
    kind = _KINDS.get(text)
    return None if kind is None else DataType(kind)
