"""How far a table is, by its own word (invariant 3)."""

from __future__ import annotations

from replicator.errors import TargetError
from replicator.model.mode import Mode
from replicator.targets.base import Position
from replicator.targets.iceberg.table.catalog import IcebergTable

APPLIED = "tidemark.applied"
LOADED = "tidemark.loaded"
LOAD = "tidemark.load"
ITEM = "tidemark.item"
SCHEMA_VERSION = "tidemark.schema-version"


def position(table: IcebergTable) -> Position:
    """From the newest snapshot that says it.

    Compaction makes snapshots that do not: those are searched past.  A table without any such snapshot is as it was
    created. Raises TargetError where snapshots are missing in between.
    """
    version = int(table.properties.get(SCHEMA_VERSION, "0"))
    for snapshot in table.history():
        if (said := _said(snapshot["summary"], version, table.mode)) is not None:
            return said
    return _said(table.properties, version, table.mode) or Position(-1, -1, version, "", table.mode)


def depth(table: IcebergTable) -> int:
    """How many of the newest snapshots must be kept so that the position stays readable."""
    for place, snapshot in enumerate(table.history(), 1):
        if APPLIED in snapshot["summary"]:
            return place
    return sum(1 for _ in table.history())


def as_properties(at: Position) -> dict[str, str]:
    """What a commit's snapshot summary carries."""
    said = {APPLIED: str(at.applied), LOADED: str(at.loaded), LOAD: at.load}
    return {**said, ITEM: at.item} if at.item else said


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
