"""What computed columns must hold in the target: written from docs/destinations.md and not the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

import numpy as np

from replicator.verification.cells import Cell, CellRule, show
from replicator.verification.source import Row, SourceTable

UNCHECKED = {"commit_time": "timestamptz", "offset": "string", "operation": "string"}
TYPES = {"bigint": "long"}
EXACT = Context(prec=80)
Compute = Callable[[Row], Cell]


@dataclass(frozen=True)
class ComputedColumn:
    """`column_type`: how it is computed."""

    name: str
    column_type: str


def with_computed(table: SourceTable, computed: Mapping[str, Mapping[str, Any]]) -> SourceTable:
    """`computed`: by column, kind, type and value."""
    columns = tuple(
        (ComputedColumn(name, f"{one['kind']} {one['value']}".strip()), CellRule(_iceberg(one)))
        for name, one in computed.items()
    )
    return replace(table, columns=(*table.columns, *columns), computed=computed)


def _iceberg(one: Mapping[str, Any]) -> str:
    kind = str(one["type"])
    return UNCHECKED.get(one["kind"]) or TYPES.get(kind, kind.replace(",", ", "))


def computing(table: SourceTable) -> Sequence[Compute]:
    """Of each computed column of the table, from a row of its plain columns."""
    plain = table.plain
    return [_compute(table.computed[name], plain) for name in table.names if name in table.computed]


def _compute(one: Mapping[str, Any], plain: SourceTable) -> Compute:
    if one["kind"] == "constant":
        cell = _constant(str(one["value"]), str(one["type"]))
        return lambda _: cell
    if one["value"] not in plain.names:  # reported elsewhere
        return lambda _: None
    place, old = plain.names.index(one["value"]), plain.iceberg(one["value"])
    new = _iceberg(one)

    def cast(row: Row) -> Cell:
        cell = row[place]
        return None if cell is None else _cast(cell, old, new)

    return cast


def _constant(value: str, kind: str) -> bytes:
    if kind == "boolean":
        return b"1" if value == "true" else b"0"
    return value.encode()


def _cast(cell: bytes, old: str, new: str) -> bytes:
    if new == "double":
        number = np.frombuffer(cell, np.float32)[0] if old == "float" else int(cell)
        return np.float64(number).tobytes()
    if new == "date":
        return cell.partition(b" ")[0]
    text = show(cell, old) or ""
    if new.startswith("decimal"):
        scale = int(new.rstrip(")").rpartition(",")[2])
        return b"%d" % int(Decimal(text).scaleb(scale, EXACT))
    return text.encode()
