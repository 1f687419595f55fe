"""What pages show of a table that a database has, of what each kind asks its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from replicator.targets.kind import InspectedTable, Preview, QueryExample


def table_report(
    location: str,
    names: Iterable[str],
    examples: Sequence[QueryExample],
    *,
    sequence: str,
    rows: Any,
    size: Any = 0,
    committed_at: datetime | None = None,
) -> InspectedTable:
    """names: of all columns, of which `sequence` is not counted; rows, size (bytes): None where they are not known."""
    return InspectedTable(
        location=location,
        rows=int(rows or 0),
        bytes=int(size or 0),
        files=0,
        delete_files=0,
        snapshots=0,
        columns=sum(name != sequence for name in names),
        committed_at=committed_at,
        compacted_at=None,
        examples=examples,
    )


def table_preview(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Preview:
    """rows: values in the order of the names."""
    return Preview.of(names, [dict(zip(names, row, strict=True)) for row in rows])
