"""Where capture starts: the first checkpoint, the server that it has to be, and the tables that are followed from
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from replicator.engine.reporting import Level, Reporter
from replicator.errors import (
    SourcePermissionDenied,
    SourceReplaced,
    TableDisappeared,
    TableError,
    TidemarkError,
)
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.sources.base import Catalog, KeyRange, Source, SourceLog, SourceState, SourceWait
from replicator.state.journal import (
    CapturePlan,
    Checkpoint,
    DdlAction,
    EventKind,
    Journal,
    JournalEntry,
    SchemaVersion,
    TableEvent,
)
from replicator.state.lease import Lease


def begin(
    replicator: str,
    source: Source,
    parse_offset: Callable[[Mapping[str, Any]], Offset],
    journal: Journal,
    lease: Lease,
    plan: CapturePlan,
    prepared: Callable[[SourceLog, CapturePlan], SourceState],
    late: dict[TableId, Offset],
) -> CapturePlan:
    """Make the first checkpoint, refuse another server's log, and journal which tables are followed from here.

    Tables without a schema version get the one that the catalog shows now: the log's reader could not interpret a
    statement about a table that it does not know.  So do tables that are followed again: their changes in the meantime
    were accepted with their resnapshot, and the DDL policy does not stop at them.  A table found in a whole database
    that the catalog no longer shows is gone: the reader could not interpret its DROP or RENAME either.

    A failed table that is gone, or was replaced by another one, recovers automatically: it is dropped, or added as a
    new table.  So does a table that was refused at once and no longer is.

    `late` gets the tables that are followed only from an offset that is not read yet, and loses those whose offset has
    been reached.
    """
    source.tables = plan.tables
    log = source.log(replicator)
    if plan.checkpoint:  # before anything is made there, or missed
        _check_source(plan.checkpoint, parse_offset, log.state())
    state = prepared(log, plan)
    checkpoint = plan.checkpoint or Checkpoint(state.offset.to_dict(), 0, state.identity)
    wanted = parse_offset(checkpoint.offset)
    update_deferred(late, plan, wanted, state)
    known = {
        one.table: one.schema
        for one in plan.tracked
        if (one.schema is None or not one.followed) and one.table not in late
    }
    described = source.catalog().describe(list(known)) if known else {}
    schemas, events = _versions(known, described, checkpoint.next_sequence)
    missing = {table: version for table, version in known.items() if table not in described}
    absent = {table for table, version in missing.items() if version is None}
    halted = source.catalog().describe(list(plan.failed)) if plan.failed else {}
    anew = bool(described) and not any(one.followed for one in plan.tracked)
    versions = {**plan.failed, **{table: version for table, version in missing.items() if version}}
    absent |= _ended(plan, versions, halted, source.catalog(), anew=anew)
    gone = sorted(absent - plan.tables.tables)  # one that was asked for by name fails, and says that it is not there
    first = checkpoint.next_sequence + len(events)
    detail = {"keep": plan.ddl_policy.get("drop_table") is DdlAction.IGNORE}
    events += [
        TableEvent(table, number, EventKind.DROP_TABLE, detail=detail) for number, table in enumerate(gone, first)
    ]
    entry = JournalEntry(
        checkpoint=replace(checkpoint, next_sequence=checkpoint.next_sequence + len(events)),
        schemas=tuple(schemas),
        events=tuple(events),
        dropped=tuple(gone),
        tracking=frozenset(tracked.table for tracked in plan.tracked) - late.keys(),
        failures=tuple((table, found) for table, found in described.items() if isinstance(found, TableError)),
    )
    reach("capture.begin.before")
    journal.commit(lease, entry)
    reach("capture.begin.after")
    after = journal.plan()
    return replace(after, tables=replace(after.tables, excluded=after.tables.excluded - _made_again(plan, halted)))


def _ended(
    plan: CapturePlan,
    versions: Mapping[TableId, SchemaVersion | None],
    present: Mapping[TableId, TableSchema | TableError],
    catalog: Catalog,
    *,
    anew: bool,
) -> set[TableId]:
    """Return the tables that failed, even if followed again, and no longer exist in the source.

    Capture does not read the part of the log that has their DROP.  Where the source has identities of tables, or all
    tables start `anew` and the catalog shows some, a table that the catalog does not show is gone.  Other sources also
    hide tables without privileges: there, an attempt to read rows of the table decides.
    """
    if plan.ddl_policy.get("drop_table") is DdlAction.STOP:
        return set()
    has_identities = any(one.schema is not None and one.schema.schema.identity for one in plan.tracked)
    known = {
        table for table, version in versions.items() if anew or (version.schema.identity if version else has_identities)
    }
    gone = {table for table in known if isinstance(present.get(table), TableDisappeared | None)}
    return gone | {table for table in versions.keys() - known - present.keys() if _is_gone(catalog, table)}


def _is_gone(catalog: Catalog, table: TableId) -> bool:
    try:
        catalog.try_rows(table, KeyRange())
    except TidemarkError as error:
        return isinstance(error, TableDisappeared)
    return False


def _made_again(plan: CapturePlan, present: Mapping[TableId, TableSchema | TableError]) -> set[TableId]:
    """Failed tables that come into the selection as any new one does: they were dropped since and others have their
    names; or they were refused before they had a schema, and are not any more.
    """
    found = {table: schema for table, schema in present.items() if isinstance(schema, TableSchema)}
    known = {table: plan.failed[table] for table in found}
    return {table for table, version in known.items() if version is None or found[table].is_another(version.schema)}


def update_deferred(late: dict[TableId, Offset], plan: CapturePlan, read: Offset, log: SourceState) -> None:
    """Update which tables wait: the log between `read` and its end may lack their changes, as they were not selected.

    A table that was removed and added again would show rows there without their deletion.
    """
    fresh = {one.table for one in plan.tracked if not one.followed}
    for table in late.keys() - fresh:
        del late[table]
    for table in fresh:
        if log.has_gaps and read < late.get(table, log.offset):
            late.setdefault(table, log.offset)
        else:
            late.pop(table, None)


def prepare(report: Reporter, waiting: SourceWait, log: SourceLog, plan: CapturePlan) -> SourceState:
    """With the signalling table, if that is allowed: nothing stops for it."""
    first = plan.checkpoint is None
    try:
        return log.prepare(plan.followed, first=first, waiting=waiting)
    except SourcePermissionDenied as error:
        if plan.followed == plan.tables:
            raise
        state = log.prepare(plan.tables, first=first, waiting=waiting)
        report.log(Level.WARNING, f"The signalling table {plan.signals} cannot be read: {error.message}")
        return state


def _check_source(known: Checkpoint, parse_offset: Callable[[Mapping[str, Any]], Offset], seen: SourceState) -> None:
    """Raises SourceReplaced.  Behind its own end a log would be waited for in silence, and what comes there skipped."""
    if known.identity and seen.identity != known.identity:
        message = "The source's address now leads to another server with another log."
        raise SourceReplaced(message)
    if seen.offset < (wanted := parse_offset(known.offset)):
        message = (
            f"The source's log ends at {seen.offset}, before {wanted}, which was already captured. The source was"
            " restored to an older state."
        )
        raise SourceReplaced(message)


def _versions(
    known: Mapping[TableId, SchemaVersion | None], described: Mapping[TableId, TableSchema | TableError], sequence: int
) -> tuple[list[SchemaVersion], list[TableEvent]]:
    """Versions for what the catalog shows, and an event for each that changed a table's schema, numbered from
    `sequence`.
    """
    schemas: list[SchemaVersion] = []
    events: list[TableEvent] = []
    for table, found in described.items():
        before = known[table]
        if not isinstance(found, TableSchema):
            continue
        if before is not None and before.schema == found:
            if not before.schema.same_as(found):
                schemas.append(SchemaVersion(before.version, found, known=True))
            continue
        version = 1 if before is None else before.version + 1
        schemas.append(SchemaVersion(version, found))
        if before is not None:
            detail = {"decision": "changed while the table was not streamed", "reload": False}
            number = sequence + len(events)
            events.append(TableEvent(table, number, EventKind.ALTER_TABLE, version, detail=detail))
    return schemas, events
