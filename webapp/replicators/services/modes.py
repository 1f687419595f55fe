"""Changing the mode of a table: it is read again into another shape, which is said before it is done."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from replicator.errors import ConfigurationError
from replicator.model.mode import Mode
from replicator.state.tables import HALTED, TableState
from webapp.replicators.models import ReplicatorTable, TableSelection
from webapp.replicators.services.tables import begin_run, replan
from webapp.replicators.signals import note
from webapp.replicators.target_tables import sharing
from webapp.replicators.targets import kind_of

LOST = {
    Mode.SOFT_DELETE: "its deleted rows",
    Mode.HISTORY: "its earlier versions",
    Mode.CHANGELOG: "its changes",
}


def effect(table: ReplicatorTable, mode: Mode) -> str:
    """What changing to `mode` means, in a sentence."""
    said = f"{table} is resnapshotted into a new target table in the mode {mode.label}, which is empty at first"
    lost = LOST.get(Mode(table.mode))
    return f"{said}; {lost} are lost." if lost else f"{said}."


@transaction.atomic
def change_mode(*, table: ReplicatorTable, mode: str, confirmed: bool = False, user: User | None = None) -> bool:
    """Change the table's mode; False where it has that mode already.

    ConfigurationError, which says what would happen, where an existing copy is affected and `confirmed` is not set.
    """
    rows = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",)).select_related("replicator")
    fresh, wanted = rows.get(pk=table.pk), parsed_mode(mode)
    if fresh.mode == wanted:
        return False
    kind = kind_of(fresh.replicator)
    if wanted not in kind.capabilities.modes:
        said = (
            "holds every change, so the mode cannot be changed"
            if not kind.capabilities.modes
            else f"does not have the mode {wanted.label}"
        )
        raise ConfigurationError(f"{kind.title} {said}.")
    if wanted.needs_key and fresh.keyless:
        message = f"{fresh} has no key, which the mode {wanted.label} requires."
        raise ConfigurationError(message, remedy="Choose the mode mirror or changelog.")
    if others := sharing(fresh):
        message = (
            f"{fresh} shares its target table with {others[0]}, which is in the mode {Mode(others[0].mode).label}."
        )
        raise ConfigurationError(
            message, remedy="Remove these tables from the replicator, and add them in another mode."
        )
    without_copy = fresh.table_state in {TableState.WAITING, TableState.DROPPED}
    if not (confirmed or without_copy):
        raise ConfigurationError(effect(fresh, wanted), remedy="Confirm the change to proceed.")
    summary = f"{fresh} changes from the mode {Mode(fresh.mode).label} to {wanted.label}"
    fresh.mode = wanted.value
    lines = TableSelection.objects.filter(replicator=fresh.replicator, database=fresh.database, table=fresh.name)
    lines.update(mode=wanted.value)
    if without_copy or fresh.table_state is TableState.SKIPPED:
        fresh.load_complete = False  # whenever it is read again, it is into another table
        fresh.save(update_fields=["mode", "load_complete"])
    else:
        if fresh.table_state in HALTED:
            fresh.tracked = False  # the log was not followed meanwhile
        begin_run(fresh, TableState.LOADING, sequence=None, reason=f"its mode is {wanted.label} now")
        replan(fresh.replicator)
    note(replicator=fresh.replicator, kind="mode_changed", summary=summary, table=str(fresh), user=user)
    table.refresh_from_db()
    return True


def parsed_mode(text: str) -> Mode:
    """ConfigurationError for what is none."""
    try:
        return Mode(text)
    except ValueError:
        message = f"Unknown mode {text!r}; known modes: {', '.join(mode.value for mode in Mode)}."
        raise ConfigurationError(message) from None
