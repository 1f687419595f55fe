"""What a table in the lake is made of, and its first rows: by pyiceberg, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, EqualTo
from pyiceberg.table import Table

from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.iceberg import reading
from replicator.targets.iceberg.destination import LakeCatalog
from replicator.targets.iceberg.failures import explained
from replicator.targets.iceberg.query_examples import examples
from replicator.targets.kind import InspectedTable, Preview

ANCESTORS = 10_000


def report(lake: LakeCatalog, namespace: str, name: str) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError."""
    with reading.opened(lake) as catalog:
        table = reading.table(catalog, namespace, name)
        return None if table is None else _report(lake, table, namespace, name)


def preview(lake: LakeCatalog, name: TargetTable, rows: int) -> Preview | None:
    """The first rows that a scan returns, of a shared table those of the part.  None where there is no such table.

    Raises TargetError.
    """
    with reading.opened(lake) as catalog:
        table = reading.table(catalog, name.namespace, name.name)
        if table is None:
            return None
        with explained(lake):
            names = [field.name for field in table.schema().fields]
            mine = EqualTo(*name.tenant) if name.part else AlwaysTrue()
            found = table.scan(mine, limit=rows).to_arrow() if table.current_snapshot() else pa.table({})
        return Preview.of(names, found.to_pylist())


def _report(lake: LakeCatalog, table: Table, namespace: str, name: str) -> InspectedTable:
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}

    def total(what: str) -> int:
        return int(summary.get(f"total-{what}", 0))

    return InspectedTable(
        location=table.location(),
        rows=total("records") - total("position-deletes"),
        bytes=total("files-size"),
        files=total("data-files"),
        delete_files=total("delete-files"),
        snapshots=len(table.metadata.snapshots),
        committed_at=_at(snapshot.timestamp_ms) if snapshot else None,
        compacted_at=_compacted(table),
        columns=sum(field.name != SEQUENCE for field in table.schema().fields),
        examples=examples(lake, namespace, name, table.metadata_location),
    )


def _compacted(table: Table) -> datetime | None:
    """When files were last put together, as far back as there are snapshots."""
    newest_first = sorted(table.metadata.snapshots, key=lambda one: -one.timestamp_ms)
    for one in islice(newest_first, ANCESTORS):
        if one.summary is not None and one.summary.operation.value == "replace":
            return _at(one.timestamp_ms)
    return None


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
