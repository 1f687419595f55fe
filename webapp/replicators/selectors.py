"""Reading replicators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from replicator.errors import ConfigurationError
from replicator.model.computed_rules import ComputedColumns
from replicator.model.identifiers import TableId, parse_name
from replicator.model.row_filter import parse_filter
from replicator.model.table_set import EXACT_NAMES, TableSet
from replicator.state.tables import HALTED, TableState
from webapp.connections.models import Connection
from webapp.connections.selectors import name_rule
from webapp.replicators.models import (
    Desired,
    Draft,
    Replicator,
    ReplicatorTable,
    RunState,
    Scope,
    SnapshotRun,
    Status,
    TableSelection,
)
from webapp.replicators.selection.entries import SelectionEntry, salt_of, selected

QUIET = frozenset({TableState.STREAMING.value, TableState.DROPPED.value})
LEFT_ALONE = frozenset(state.value for state in HALTED)


def list_replicators() -> QuerySet[Replicator]:
    """By name, with their connections."""
    return Replicator.objects.select_related("connection", "destination")


def get_replicator(pk: int) -> Replicator:
    """Replicator.DoesNotExist for an unknown one."""
    return list_replicators().get(pk=pk)


def by_name(name: str) -> Replicator | None:
    """None for an unknown one."""
    return list_replicators().filter(name=name).first()


def tables_of(replicator: Replicator) -> QuerySet[ReplicatorTable]:
    """By database and name."""
    return ReplicatorTable.objects.filter(replicator=replicator)


def table_of(replicator: Replicator, table: TableId) -> ReplicatorTable | None:
    """None for a table the replicator does not know."""
    return tables_of(replicator).filter(database=table.database, name=table.name).first()


def table_set(replicator: Replicator) -> TableSet:
    """The selection; a FAILED or SKIPPED table is not captured any more."""
    lines = list(replicator.selection.all())
    masks = {TableId(s.database, s.table): s.parsed_masks for s in lines if s.masks}
    halted = tables_of(replicator).filter(state__in=LEFT_ALONE)
    taken = selected(SelectionEntry.of(line) for line in lines)
    signals = replicator.parsed_options.signals
    unread = frozenset({signals} if signals and signals not in taken else ())  # followed, and not copied
    return replace(
        taken,
        excluded=taken.excluded | {table.table_id for table in halted},
        excluded_columns={
            TableId(s.database, s.table): frozenset(s.excluded_columns) for s in lines if s.table and s.excluded_columns
        },
        masks=masks,
        row_filters={TableId(s.database, s.table): parse_filter(s.row_filter) for s in lines if s.row_filter},
        salt=bytes.fromhex(salt_of(replicator)) if masks else b"",
        computed=replace(ComputedColumns.parse(replicator.target), without=unread),
    )


def tables_read(connection: Connection) -> TableSet | None:
    """What all its replicators together read, or would if they had not failed: the tables that they know; None for
    none.

    A column is left out where every replicator of its table leaves it out.
    """
    unread = (TableState.SKIPPED.value, TableState.DROPPED.value)
    known = ReplicatorTable.objects.filter(replicator__connection=connection)
    known = known.exclude(replicator__desired=Desired.DELETED).exclude(state__in=unread)
    columns: dict[TableId, frozenset[str]] = {}
    left_out: dict[tuple[int, TableId], frozenset[str]] = {
        (line.replicator_id, TableId(line.database, line.table)): frozenset(line.excluded_columns)
        for line in TableSelection.objects.filter(replicator__connection=connection).exclude(excluded_columns=[])
    }
    for table in known.only("replicator_id", "database", "name"):
        own = left_out.get((table.replicator_id, table.table_id), frozenset())
        columns[table.table_id] = columns.get(table.table_id, own) & own
    if not columns:
        return None
    return TableSet(tables=frozenset(columns), excluded_columns={table: own for table, own in columns.items() if own})


def tables_called(
    replicator: Replicator, tables: Sequence[ReplicatorTable], names: Sequence[str]
) -> tuple[list[ReplicatorTable], list[str]]:
    """Those that are named as people write or see them, or as the source takes for the same (without names: all), and
    the names of none.
    """
    known = {str(table) for table in tables}
    try:
        rule = name_rule(replicator.connection, [name for name in names if name not in known])
    except ConfigurationError:  # the source cannot be asked
        rule = EXACT_NAMES
    called = {name: rule.table(found[0]) if (found := parse_name(name)) else None for name in names}
    known_names = known | {table.table_id for table in tables}
    unknown = sorted(name for name, table in called.items() if name not in known_names and table not in known_names)
    wanted = [one for one in tables if not names or str(one) in called or one.table_id in called.values()]
    return wanted, unknown


def open_run(table: ReplicatorTable) -> SnapshotRun | None:
    """The run under way."""
    return table.runs.filter(state__in=(RunState.PLANNING, RunState.READING)).first()


def open_runs(replicator: Replicator) -> dict[int, SnapshotRun]:
    """Runs under way by table id: one query for a page of many tables."""
    runs = SnapshotRun.objects.filter(table__replicator=replicator, state__in=(RunState.PLANNING, RunState.READING))
    return {run.table_id: run for run in runs.order_by("id")}


def parts_open(replicator: Replicator) -> bool:
    """Is a part of some table being read, or to be?"""
    runs = SnapshotRun.objects.filter(table__replicator=replicator, state__in=(RunState.PLANNING, RunState.READING))
    return runs.filter(table__state=TableState.STREAMING.value).exclude(scope=Scope.WHOLE).exists()


def allowed_actions(replicator: Replicator) -> frozenset[str]:
    """Of start, pause, resume, stop, delete."""
    if replicator.desired == Desired.DELETED:
        return frozenset({"delete"})  # again, with another answer: a source that is away can be left as it is
    if replicator.status == Status.FAILED:
        return frozenset({"start", "stop", "delete"})
    if replicator.desired == Desired.RUNNING:
        return frozenset({"pause", "stop", "delete"})
    if replicator.desired == Desired.PAUSED:
        return frozenset({"resume", "stop", "delete"})
    return frozenset({"start", "delete"})


def elapsed_ms(since: datetime | None, now: datetime) -> int | None:
    return None if since is None else max(0, int((now - since).total_seconds() * 1000))


def table_lag_ms(table: ReplicatorTable, replicator: Replicator, now: datetime | None = None) -> int | None:
    """Now minus the source time up to which the target is known to be whole; None while that is not known.

    With nothing pending this is how far capture has read; otherwise the newest change that is queryable.
    """
    now = now or timezone.now()
    if table.state != TableState.STREAMING.value:
        return None
    pending = table.last_sequence > max(table.applied, table.live_from)
    return elapsed_ms(table.applied_commit_ts if pending else replicator.source_ts, now)


def replicator_lag_ms(replicator: Replicator) -> int | None:
    """The worst of its streaming tables; None where none streams."""
    now = timezone.now()
    lags = [lag for table in tables_of(replicator) if (lag := table_lag_ms(table, replicator, now)) is not None]
    return max(lags, default=None)


def is_current(replicator: Replicator, upto: int | None = None) -> bool:
    """Every table that has not failed and is not skipped streams (or is gone), and everything journaled, or all up to
    `upto`, is applied.
    """
    if replicator.selection.filter(discovered=False, excluded=False).exists():
        return False
    rows = tables_of(replicator).exclude(state__in=LEFT_ALONE)
    if rows.exclude(state__in=QUIET).exists():  # asked often: hundreds of rows need not be fetched for that
        return False
    return all(_settled(row, upto) for row in rows)


def _settled(row: ReplicatorTable, upto: int | None) -> bool:
    last = row.last_sequence if upto is None else min(row.last_sequence, upto)
    if row.state not in QUIET or last > max(row.applied, row.live_from):
        return False
    made = row.made_load == row.load or row.schema_version is None
    return made or row.state == TableState.DROPPED.value


def _table_summary(table: ReplicatorTable, replicator: Replicator, run: SnapshotRun | None) -> dict[str, Any]:
    lag = table_lag_ms(table, replicator)
    summary: dict[str, Any] = {
        "table": str(table),
        "target": str(table.target),
        "state": table.state,
        "rows": {
            "read": table.rows_read,
            "inserted": table.rows_inserted,
            "updated": table.rows_updated,
            "deleted": table.rows_deleted,
        },
        "zero_dates": table.zero_dates,
        "dead_letters": table.dead_letters,
        "parked": table.dead_letters,  # deprecated
        "lag_seconds": None if lag is None else round(lag / 1000, 3),
    }
    if run is not None:
        summary["snapshot"] = {"state": run.state, "rows_read": run.rows_read, "rows_estimate": run.rows_estimate}
    if table.error_code:
        summary["error"] = {"code": table.error_code, "message": table.error_message, "remedy": table.error_remedy}
    return summary


def summary(replicator: Replicator) -> dict[str, Any]:
    """What `status --json` prints."""
    runs = open_runs(replicator)
    lag = replicator_lag_ms(replicator)
    result: dict[str, Any] = {
        "name": replicator.name,
        "status": replicator.status,
        "desired": replicator.desired,
        "connection": replicator.connection.name,
        "current": is_current(replicator),
        "lag_seconds": None if lag is None else round(lag / 1000, 3),
        "checkpoint": replicator.checkpoint_offset,
        "next_sequence": replicator.next_sequence,
        "tables": [_table_summary(table, replicator, runs.get(table.pk)) for table in tables_of(replicator)],
    }
    if replicator.snapshot_waits:
        result["snapshot_waits"] = replicator.snapshot_waits
    if replicator.error_code:
        result["error"] = {
            "code": replicator.error_code,
            "message": replicator.error_message,
            "remedy": replicator.error_remedy,
            "attempt": replicator.attempt,
            "next_retry_at": replicator.next_retry_at.isoformat() if replicator.next_retry_at else None,
        }
    return result


def drafts_of(user: Any) -> QuerySet[Draft]:
    """Newest first."""
    return Draft.objects.filter(user=user)
