"""What a change of the selection will do, in sentences, before it is done."""

from __future__ import annotations

from collections.abc import Sequence

from replicator.state.tables import TableState
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.selection.entries import ReloadScope, SelectionEntry, changed_selection, check_selection

UNREAD = frozenset({TableState.WAITING, TableState.DROPPED, TableState.SKIPPED})


def effects(replicator: Replicator, selection: Sequence[SelectionEntry]) -> list[str]:
    """Of `add_tables` with these lines.  ConfigurationError where that would refuse them; three queries."""
    check_selection(changed_selection(replicator, selection))
    lines = {(line.database, line.table): SelectionEntry.of(line) for line in replicator.selection.all()}
    rows = {(row.database, row.name): row for row in replicator.tables.all()}
    said: list[str] = []
    for entry in selection:
        place = (entry.database, entry.table)
        said += _of_line(entry, lines.get(place), rows.get(place))
    return said or ["Nothing changes."]


def _of_line(entry: SelectionEntry, stored: SelectionEntry | None, row: ReplicatorTable | None) -> list[str]:
    name = str(entry)
    before = stored or SelectionEntry(entry.database, entry.table)
    if entry == stored:
        return []
    if entry.excluded:
        return [f"{name} is no longer copied; the target table is kept."]
    if entry.wide:
        later = "including future tables" if entry.new_tables else "without future tables"
        return [f"All tables that match {name} are copied, {later}; the other tables continue."]
    if row is None and entry == before:
        return [f"{name} is copied; the other tables continue meanwhile."]
    return [*_columns(name, entry, before), *_reading(name, entry.anew(before), row)]


def _columns(name: str, entry: SelectionEntry, before: SelectionEntry) -> list[str]:
    out, was_out = set(entry.excluded_columns), set(before.excluded_columns)
    said = [f"{name}: the column {column} is excluded and dropped in the target." for column in sorted(out - was_out)]
    said += [f"{name}: the column {column} is included again." for column in sorted(was_out - out)]
    for column, mask in sorted(entry.masks.items()):
        if before.masks.get(column) != mask:
            said.append(f"{name}: {column} is masked ({mask}).")
    if entry.row_filter != before.row_filter:
        said.append(
            f"{name}: only rows with {entry.row_filter}." if entry.row_filter else f"{name}: row filter removed."
        )
    shown = sorted(set(before.masks) - set(entry.masks) - out)
    return said + [f"{name}: {column} is no longer masked: the target gets its original values." for column in shown]


def _reading(name: str, how: ReloadScope | None, row: ReplicatorTable | None) -> list[str]:
    if row is None or row.table_state in UNREAD:
        return [
            f"{name} applies the change at its first snapshot."
            if row is None
            else f"{name} is not resnapshotted: it is {row.state}."
        ]
    if how is None:
        return []
    rows = f"about {row.rows_estimate:,} rows" if row.rows_estimate is not None else "all its rows"
    if how is ReloadScope.ROWS and row.load_complete and not row.keyless:
        return [f"{name} is resnapshotted ({rows}). The target table stays readable; the other tables continue."]
    until = "until that is complete, the target has only the rows read so far"
    return [
        f"{name} is resnapshotted ({rows}) into a new target table: {until}. The other tables continue.",
        "Older snapshots of the target table contain the previous values until they expire.",
    ]
