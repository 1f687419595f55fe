"""Parts of a table that several source tables share: what the table's own properties say of each (invariant 3).

A property `tidemark.part.<value>` has the part's position, and which of the table's columns it has, by Iceberg's ids.
It is set by the commit that has the rows, and left alone by all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from replicator.errors import TargetConflict, TargetError
from replicator.model.schema import TableSchema
from replicator.targets.base import NO_TABLE, Position, TargetTable
from replicator.targets.iceberg.table.catalog import Columns, IcebergTable
from replicator.targets.iceberg.table.type_names import promotes
from replicator.targets.iceberg.table.types import from_iceberg

SHARED = "tidemark.shared-by"  # the column that tells parts apart
PART = "tidemark.part."
SEQUENCE = "sequence-number"
NO_PART = Position(-1, -1, 0, NO_TABLE)  # a commit with this position takes the part out of the table


class PartRefused(TargetConflict):
    """Not for another try on the same table."""


def columns_of(table: IcebergTable, value: str) -> Columns:
    """Those that the table says; none for a part that it does not have."""
    said = _said(table, value) or {}
    return Columns(frozenset(_numbers(said.get("columns", ""))), frozenset(_numbers(said.get("kept", ""))))


def check(table: IcebergTable) -> None:
    """PartRefused where one is shared, the table or what it was asked for as, and the other not, or otherwise."""
    column, wanted = table.properties.get(SHARED, ""), table.name.tenant[0]
    if column != wanted:
        how = f"is shared by the column {column}" if column else "is not shared"
        message = f"The target table {table.name.whole} exists already and {how}."
        remedy = "Change the routing rules, or drop that table."
        raise PartRefused(message, table=str(table.name), remedy=remedy)


def part_position(table: IcebergTable) -> Position | None:
    """None for a part that the table does not have.  One whose rows another program has rolled back is of no load."""
    said = _said(table, table.name.tenant[1])
    if said is None:
        return None
    if _rolled_back(table, said[SEQUENCE]):
        return Position(-1, -1, said["version"], "", table.mode)
    applied, loaded, version, load = (said[name] for name in ("applied", "loaded", "version", "load"))
    return Position(applied, loaded, version, load, table.mode, said["item"])


def as_property(name: TargetTable, at: Position, columns: Columns, sequence: int = 0) -> dict[str, str | None]:
    """What the commit of snapshot number `sequence` sets; None for a property that it takes away."""
    place = PART + name.tenant[1]
    if at.load == NO_TABLE:
        return {place: None}
    said = {
        "applied": at.applied, "loaded": at.loaded, "load": at.load, "item": at.item, "version": at.schema_version,
        "columns": _ranges(columns.own), "kept": _ranges(columns.kept), SEQUENCE: sequence,
    }  # fmt: skip
    return {place: json.dumps(said, separators=(",", ":"))}


def values(table: IcebergTable) -> list[str]:
    """Of the parts that there are."""
    return [name.removeprefix(PART) for name in table.properties if name.startswith(PART)]


def others(table: IcebergTable) -> frozenset[int]:
    """Ids of columns that other parts have."""
    found: set[int] = set()
    for value in values(table):
        if value != table.name.tenant[1]:
            columns = columns_of(table, value)
            found |= columns.own | columns.kept
    return frozenset(found)


def keeps_columns(table: IcebergTable, schema: TableSchema) -> bool:
    """Can rows have values in columns that their source's table no longer has?"""
    if table.name.part:
        return bool(columns_of(table, table.name.tenant[1]).kept)
    return len(table.columns) > len(schema.columns)


def copy_schema(table: IcebergTable, schema: TableSchema) -> TableSchema:
    """Return the part's schema as the table has it: with the part's column in the key, and with the wider types that
    other parts need.
    """
    column = table.name.tenant[0]
    if column not in schema.names or not schema.key:
        message = f"{schema.table} has no column {column}, or no key: it cannot be part of {table.name.whole}."
        raise TargetError(message, table=str(schema.table), remedy="Change the routing rules.")
    there = {name: from_iceberg(text) for name, text in table.columns}
    columns = tuple(
        replace(one, type=wide) if (wide := there.get(one.name)) is not None and promotes(one.type, wide) else one
        for one in schema.columns
    )
    return replace(schema, columns=columns, key=(column, *schema.key))


def _said(table: IcebergTable, value: str) -> dict[str, Any] | None:
    text = table.properties.get(PART + value)
    try:
        return None if text is None else dict(json.loads(text))
    except ValueError:
        message = f"Invalid table property {PART}{value}: {text!r} (modified outside Tidemark?)."
        raise TargetError(message, table=str(table.name)) from None


def _rolled_back(table: IcebergTable, sequence: int) -> bool:
    """Is the snapshot with this number none of those that the present one is made of?"""
    if sequence == 0:  # no rows yet
        return False
    try:
        for snapshot in table.history():
            if (number := snapshot.get("sequence-number", 0)) <= sequence:
                return bool(number != sequence)
    except TargetError:  # older ones have expired
        return False
    return True


def _ranges(ids: Iterable[int]) -> str:
    """`1-12 14`."""
    groups = groupby(enumerate(sorted(ids)), lambda one: one[1] - one[0])
    runs = ([number for _, number in group] for _, group in groups)
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _numbers(ranges: str) -> Iterator[int]:
    for run in ranges.split():
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


def ids_of(table: IcebergTable, names: Iterable[str]) -> frozenset[int]:
    """Of the table's columns with these names.  KeyError for one that it has not."""
    there: Mapping[str, int] = {one["name"]: int(one["id"]) for one in table.fields}
    return frozenset(there[name] for name in names)
