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
        return [f"{name} is no longer copied; its copy in the target stays as it is."]
    if entry.wide:
        later = "with tables that come later" if entry.new_tables else "without tables that come later"
        return [f"All tables that {name} stands for are copied, {later}; the other tables go on."]
    if row is None and entry == before:
        return [f"{name} is copied from now on, while the other tables go on."]
    return [*_columns(name, entry, before), *_reading(name, entry.anew(before), row)]


def _columns(name: str, entry: SelectionEntry, before: SelectionEntry) -> list[str]:
    out, was_out = set(entry.excluded_columns), set(before.excluded_columns)
    said = [f"{name}: the column {column} is left out, in the target too." for column in sorted(out - was_out)]
    said += [f"{name}: the column {column} is taken again." for column in sorted(was_out - out)]
    for column, mask in sorted(entry.masks.items()):
        if before.masks.get(column) != mask:
            said.append(f"{name}: {column} is masked ({mask}).")
    if entry.row_filter != before.row_filter:
        said.append(f"{name}: only rows with {entry.row_filter}." if entry.row_filter else f"{name}: all rows again.")
    shown = sorted(set(before.masks) - set(entry.masks) - out)
    return said + [
        f"{name}: {column} is not masked any more: the target gets its values as they are." for column in shown
    ]


def _reading(name: str, how: ReloadScope | None, row: ReplicatorTable | None) -> list[str]:
    if row is None or row.table_state in UNREAD:
        return [
            f"{name} is read that way when it is read first." if row is None else f"{name} stays as it is: {row.state}."
        ]
    if how is None:
        return []
    rows = f"about {row.rows_estimate:,} rows" if row.rows_estimate is not None else "all its rows"
    if how is ReloadScope.ROWS and row.load_complete and not row.keyless:
        return [f"{name} is read again ({rows}); its copy can be read meanwhile.  The other tables go on."]
    until = "until that is over, the target has only what was read again"
    return [
        f"{name} is read anew ({rows}), and its copy is made from nothing: {until}.  The other tables go on.",
        "Older states that the target keeps of the table (its snapshots) show the values of before until they expire.",
    ]
