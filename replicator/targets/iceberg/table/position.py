"""How far a table is, by its own word (invariant 3)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from replicator.errors import TargetError
from replicator.model.mode import Mode
from replicator.targets.base import Position
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.parts import NO_PART, SHARED, as_property, columns_of, part_position

APPLIED = "tidemark.applied"
LOADED = "tidemark.loaded"
LOAD = "tidemark.load"
ITEM = "tidemark.item"
SCHEMA_VERSION = "tidemark.schema-version"
KEPT = "tidemark.position"
SEQUENCE = "sequence-number"


def position(table: IcebergTable) -> Position:
    """Of the table, or of the part of it that it was asked for as.  From the newest snapshot that says it.

    Compaction makes snapshots that do not: those are searched past.  A table without any such snapshot is as it was
    created. Where another program expired what lies before, the table's own property says it (`as_kept`), unless the
    table was rolled back since.  Raises TargetError where nothing does.
    """
    if table.name.part:
        return part_position(table) or NO_PART
    version = int(table.properties.get(SCHEMA_VERSION, "0"))
    oldest = None
    try:
        for snapshot in table.history():
            if (said := _said(snapshot["summary"], version, table.mode)) is not None:
                return said
            oldest = snapshot
    except TargetError:
        kept = json.loads(table.properties.get(KEPT, "{}"))
        if oldest is None or not kept or int(kept[SEQUENCE]) >= oldest.get("sequence-number", 0):
            raise
        return _said(kept, version, table.mode) or Position(-1, -1, version, "", table.mode)
    return _said(table.properties, version, table.mode) or Position(-1, -1, version, "", table.mode)


def depth(table: IcebergTable) -> int:
    """How many of the newest snapshots must be kept so that the position stays readable."""
    if SHARED in table.properties:
        return 1
    found = 0
    with suppress(TargetError):  # another program has expired the rest
        for snapshot in table.history():
            found += 1
            if APPLIED in snapshot["summary"]:
                break
    return found


def as_properties(at: Position) -> dict[str, str]:
    """What a commit's snapshot summary carries."""
    said = {APPLIED: str(at.applied), LOADED: str(at.loaded), LOAD: at.load}
    return {**said, ITEM: at.item} if at.item else said


def as_kept(table: IcebergTable, at: Position, sequence: int) -> dict[str, str | None]:
    """What the same commit sets as a property of the table: it outlives the snapshot, where another program expires
    that.  None for one that it takes away.

    sequence: Iceberg's sequence number of the snapshot.
    """
    if table.name.part:
        columns = columns_of(table, table.name.tenant[1]) if table.columns_after is None else table.columns_after
        return dict(as_property(table.name, at, columns, sequence))
    return {KEPT: json.dumps({**as_properties(at), SEQUENCE: sequence})}


def touch(transaction: Any, at: Position) -> None:
    """A snapshot without a change of rows, on top of what the transaction has done."""
    update = transaction.newFastAppend()
    for key, value in as_properties(at).items():
        update.set(key, value)
    update.commit()


def _said(values: object, version: int, mode: Mode = Mode.MIRROR) -> Position | None:
    if not isinstance(values, dict) or APPLIED not in values:
        return None
    try:
        loaded = int(values.get(LOADED, "-1"))
        load, item = (str(values.get(name, "")) for name in (LOAD, ITEM))
        return Position(int(values[APPLIED]), loaded, version, load, mode, item)
    except ValueError:
        message = (
            f"Invalid table property {APPLIED}={values[APPLIED]!r}: expected a sequence number (modified outside"
            " Tidemark?)."
        )
        raise TargetError(message) from None
