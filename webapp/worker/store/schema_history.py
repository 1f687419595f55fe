"""What caused a schema version, stored beside it and noted on the timeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replicator.model.identifiers import TableId
from replicator.state.journal import DdlSeen, TableEvent
from replicator.telemetry.differences import difference
from webapp.database import without_nul
from webapp.monitoring.services import note
from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion, TableSelection

KEPT, STATEMENT = 200, 2000  # changes, and characters of a statement, on the timeline


def excluded_columns(replicator: Replicator) -> dict[TableId, list[str]]:
    """By table, of the present selection: one query."""
    lines = TableSelection.objects.filter(replicator=replicator, excluded=False).exclude(excluded_columns=[])
    return {
        TableId(line.database, line.table): list(line.excluded_columns)
        for line in lines
        if line.table and not line.pattern
    }


def made_by(event: TableEvent | None, left_out: Iterable[str]) -> dict[str, Any]:
    """Return `SchemaVersion.change`; without an event, no DDL announced the version."""
    detail = event.detail if event is not None else {}
    return {
        "kind": event.kind.value if event is not None else "",
        "renamed": dict(detail.get("renamed_columns", {})),
        "keep_dropped": bool(detail.get("keep_dropped")),
        "reload": bool(detail.get("reload")),
        "decision": str(detail.get("decision", "")),
        "left_out": sorted(left_out),
    }


def note_statement(replicator: Replicator, seen: DdlSeen) -> None:
    """A line of the timeline for a statement that made no version: what it was, and what was decided."""
    about = str(seen.table) if seen.table.name else seen.table.database
    statement = without_nul(seen.statement[:STATEMENT])
    note(
        replicator=replicator,
        kind="ddl",
        summary=f"{seen.operation.replace('_', ' ')} of {about}: {seen.decision}",
        table=str(seen.table) if seen.table.name else "",
        detail={"statement": statement, "decision": seen.decision},
    )


def note_version(replicator: Replicator, row: ReplicatorTable, version: SchemaVersion) -> None:
    """A line of the timeline with the difference; none for a table's first version."""
    before = (
        SchemaVersion.objects.filter(table=row, version=version.version - 1).first() if version.version > 1 else None
    )
    if before is None:
        return
    texts = difference(before.definition, version.definition).texts
    said = f"{len(texts)} change{'s' if len(texts) > 1 else ''}"
    note(
        replicator=replicator,
        kind="schema_changed",
        summary=f"{row} has schema version {version.version}: {said}",
        table=str(row),
        detail={"version": version.version, "changes": texts[:KEPT], "decision": version.change["decision"]},
    )
