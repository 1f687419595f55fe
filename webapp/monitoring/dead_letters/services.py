"""Storing dead-letter rows, and what becomes of them.

`ReplicatorTable.dead_letters` counts those that wait; it is written here only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from replicator.errors import ConfigurationError
from replicator.model.schema import TableSchema
from replicator.snapshot.keys import TextKey, parse_values
from replicator.state.journal import DeadLetter
from replicator.state.tables import TableState
from webapp.database import without_nul
from webapp.monitoring.models import DeadLetterRow, Resolution
from webapp.monitoring.services import note
from webapp.replicators.models import ReplicatorTable, RunState, Scope, SnapshotRun
from webapp.replicators.services.partial_snapshots import read_keys, require_streaming
from webapp.replicators.services.tables import replan, resnapshot_table

CODE, PLACE, COLUMN = 40, 200, 255
REPLAYED = "replay of its dead-letter rows"
BESIDE = timedelta(minutes=1)  # rows and statements of one entry have their times from its end, in no order


def store_dead_letters(found: Iterable[tuple[ReplicatorTable, DeadLetter]]) -> None:
    """In the journal entry's own transaction (invariant 2), of locked tables, which are not saved.

    What a table's present load covers anyway, or went with the table, is not kept.
    """
    by_table: dict[ReplicatorTable, list[DeadLetter]] = {}
    for table, dead_letter in found:
        if table.pk and table.table_state is not TableState.DROPPED and dead_letter.sequence > table.live_from:
            by_table.setdefault(table, []).append(dead_letter)
    for table, rows in by_table.items():
        DeadLetterRow.objects.bulk_create([_row(table, dead_letter) for dead_letter in rows])
        before, table.dead_letters = table.dead_letters, table.dead_letters + len(rows)
        if len(str(before)) < len(str(table.dead_letters)) or before == 0:  # the first, the tenth, the hundredth …
            _warn(table, rows[0])


def _row(table: ReplicatorTable, dead_letter: DeadLetter) -> DeadLetterRow:
    row, error = dead_letter.row, dead_letter.row.error
    return DeadLetterRow(
        replicator_id=table.replicator_id,
        table=table,
        sequence=dead_letter.sequence,
        operation=row.operation.value,
        offset=without_nul(row.offset)[:PLACE],
        commit_ts=row.commit_ts,
        txn_id=without_nul(row.txn_id)[:PLACE],
        code=error.code[:CODE],
        column=without_nul(error.column)[:COLUMN],
        message=error.message,
        remedy=error.remedy,
        data=row.data,
        size=row.size,
        keys=list(map(dict, row.keys)) or None,
    )


def _warn(table: ReplicatorTable, dead_letter: DeadLetter) -> None:
    error = dead_letter.row.error
    number = f"{table.dead_letters:,} dead-letter row{' is' if table.dead_letters == 1 else 's are'}"
    note(
        replicator=table.replicator,
        kind="dead_letter_rows",
        summary=f"{number} missing in the target table of {table}: {error.message}",
        table=str(table),
        detail={"code": error.code, "column": without_nul(error.column), "remedy": error.remedy},
    )


def resolve(
    table: ReplicatorTable,
    how: Resolution,
    *,
    below: int | None = None,
    rows: Collection[int] | None = None,
    user: User | None = None,
) -> int:
    """Rows of a locked table that wait: those with a sequence number `below`, or these `rows`, or all.

    Returns how many they were.
    """
    if not table.dead_letters:
        return 0
    found = DeadLetterRow.objects.filter(table=table, resolved_at=None)
    if below is not None:
        found = found.filter(sequence__lt=below)
    if rows is not None:
        found = found.filter(pk__in=rows)
    who = user if user is not None and user.is_authenticated else None
    number = found.update(resolved_at=timezone.now(), resolution=how, resolved_by=who)
    table.dead_letters = DeadLetterRow.objects.filter(table=table, resolved_at=None).count()
    ReplicatorTable.objects.filter(pk=table.pk).update(dead_letters=table.dead_letters)
    return number


def read_anew(table: ReplicatorTable) -> None:
    """A locked table is whole in the target: its dead-letter rows from before its snapshot are in it, as it is in the
    source by now.
    """
    run = (
        table.runs.filter(state=RunState.DONE, scope=Scope.WHOLE).order_by("-id").first()
        if table.dead_letters
        else None
    )
    if run is not None and (number := resolve(table, Resolution.READ_ANEW, below=run.start_sequence)):
        summary = f"{number:,} dead-letter row{' of' if number == 1 else 's of'} {table} resolved by its snapshot"
        note(replicator=table.replicator, kind="dead_letters_resolved", summary=summary, table=str(table))


def keys_read(table: ReplicatorTable, runs: Collection[int]) -> None:
    """Of these snapshots of a locked table some may have read keys, and be over: dead-letter rows of such
    keys from before they began are resolved.
    """
    if not (runs and table.dead_letters):
        return
    for run in table.runs.filter(pk__in=runs, scope=Scope.KEYS, state=RunState.DONE):
        asked = {tuple(key) for keys in run.chunks.values_list("keys", flat=True) for key in keys}
        waiting = _known_keys(table, DeadLetterRow.objects.filter(sequence__lt=run.start_sequence))
        rows = [pk for pk, keys in waiting.items() if keys and asked.issuperset(keys)]
        if number := resolve(table, Resolution.READ_ANEW, rows=rows):
            replan(table.replicator)  # capture counts those that wait
            summary = (
                f"{number:,} dead-letter row{'' if number == 1 else 's'} of {table} resolved by the snapshot of"
                f" {run.what}"
            )
            note(replicator=table.replicator, kind="dead_letters_resolved", summary=summary, table=str(table))


def _known_keys(table: ReplicatorTable, some: QuerySet[DeadLetterRow]) -> dict[int, list[TextKey]]:
    """Of those of the table's rows that wait, their keys as snapshots have them; none where they are not known, or the
    table's key is another by now.
    """
    versions = list(table.schemas.all())
    schema = versions[-1].parsed if versions else None
    renames = [one.created_at for one in versions if schema and _renames(one.change, schema)]
    sure = max(renames) + BESIDE if renames else None
    waiting = some.filter(table=table, resolved_at=None).order_by("sequence").values_list("pk", "keys", "at")
    return {pk: _texts(keys, schema) if keys and (sure is None or at > sure) else [] for pk, keys, at in waiting}


def _renames(change: Mapping[str, Any], schema: TableSchema) -> bool:
    """A column of its key has its name from then: before, the name was another column's."""
    return not set(schema.key).isdisjoint((change.get("renamed") or {}).values())


def _texts(keys: Sequence[Mapping[str, str]], schema: TableSchema | None) -> list[TextKey]:
    if schema is None or not schema.key or any(set(key) != set(schema.key) for key in keys):
        return []
    try:
        return parse_values([[key[name] for name in schema.key] for key in keys], schema)
    except ConfigurationError:
        return []


@transaction.atomic
def replay(*, table: ReplicatorTable, user: User | None = None) -> SnapshotRun:
    """Read from the source what its dead-letter rows are about, while its log goes on: they may have changed since, so
    their bytes alone would not do.

    By their keys alone where all of them are known and the table streams, otherwise the whole table; the run's `reason`
    says why.  They are resolved when that is done.
    """
    try:
        return read_keys(table=table, keys=_keys_that_wait(table), reason=REPLAYED, user=user, tried=False)
    except ConfigurationError as error:
        return resnapshot_table(table=table, reason=f"{REPLAYED}, as a whole: {error.message}", user=user)


def _keys_that_wait(table: ReplicatorTable) -> list[TextKey]:
    """ConfigurationError, in a sentence, where they are not all known."""
    require_streaming(table)
    waiting = list(_known_keys(table, DeadLetterRow.objects.all()).values())
    if not waiting:
        raise ConfigurationError("no open dead-letter rows.")
    if not all(waiting):
        raise ConfigurationError("the key of a dead-letter row is unknown.")
    return [key for keys in waiting for key in keys]


@transaction.atomic
def discard(*, table: ReplicatorTable, rows: Collection[int] | None = None, user: User | None = None) -> int:
    """These dead-letter rows, or all of the table, are accepted as lost.  Returns how many they were."""
    fresh = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",)).select_related("replicator")
    locked = fresh.get(pk=table.pk)
    number = resolve(locked, Resolution.DISCARDED, rows=rows, user=user)
    if number:
        replan(locked.replicator)  # capture counts those that wait
        summary = (
            f"{number:,} dead-letter row{' of' if number == 1 else 's of'} {locked} discarded: missing in the target"
        )
        note(replicator=locked.replicator, kind="dead_letters_discarded", summary=summary, table=str(locked), user=user)
    return number
