"""What a table is made of, and its first rows, for pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow.fs as pafs

from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.delta import position as positions
from replicator.targets.delta.destination import DeltaStore
from replicator.targets.delta.failures import explained
from replicator.targets.delta.query_examples import examples
from replicator.targets.delta.table import OpenTable, file_system
from replicator.targets.kind import Preview, TableReport

ENTRIES = 1000  # of the log, in which a compaction is looked for
COMPACTIONS = frozenset({"OPTIMIZE"})  # of other programs


def report(store: DeltaStore, name: TargetTable) -> TableReport | None:
    """None where there is no such table.  Raises TargetError."""
    table = OpenTable.load(store, name)
    if table is None or table.dropped:
        return None
    files = table.files()
    with explained(store):
        log = file_system(store, table.uri).get_file_info(pafs.FileSelector("_delta_log", allow_not_found=True))
        history = table.delta.history(ENTRIES)
    return TableReport(
        location=table.uri,
        rows=sum(max(one.rows, 0) for one in files),
        bytes=sum(one.size for one in files),
        files=len(files),
        delete_files=0,
        snapshots=sum(one.base_name.endswith(".json") for one in log),
        committed_at=_at(history[0]) if history else None,
        compacted_at=next((_at(entry) for entry in history if _is_compaction(entry)), None),
        columns=sum(name != SEQUENCE for name, _ in table.fields),
        examples=examples(store, name),
    )


def preview(store: DeltaStore, name: TargetTable, rows: int) -> Preview | None:
    """The first rows that are met.  None where there is no such table.  Raises TargetError."""
    table = OpenTable.load(store, name)
    if table is None or table.dropped:
        return None
    names, found = table.arrow.names, list[dict[str, Any]]()
    parquet = table.parquet()
    for file in table.files():
        if len(found) >= rows:
            break
        with explained(store), parquet.open(file.path, file.size) as opened:
            for batch in opened.iter_batches(rows):
                found += batch.to_pylist()
                if len(found) >= rows:
                    break
    return Preview.of(names, found[:rows])


def _is_compaction(entry: dict[str, Any]) -> bool:
    return positions.SAME_ROWS in entry or entry.get("operation") in COMPACTIONS


def _at(entry: dict[str, Any]) -> datetime | None:
    said = entry.get("timestamp")
    return datetime.fromtimestamp(said / 1000, UTC) if said else None
