"""The table selection of a replicator, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.replicators.models import Replicator, ReplicatorTable, TableSelection


@dataclass(frozen=True)
class SelectionEntry:
    """One line: a table, or a whole database with the tables it will get later (`table` empty)."""

    database: str
    table: str = ""
    excluded: bool = False
    excluded_columns: tuple[str, ...] = ()


def check_selection(selection: Sequence[SelectionEntry]) -> None:
    """ConfigurationError where nothing would be replicated, or a line makes no sense."""
    if not any(not entry.excluded for entry in selection):
        message = "No table is selected."
        raise ConfigurationError(message, remedy="Select at least one table or one database.")
    for entry in selection:
        if not entry.database:
            message = f"The selection of {entry.table or 'a table'} names no database."
            raise ConfigurationError(message)
        if entry.excluded and not entry.table:
            message = f"The database {entry.database} cannot be excluded: leave it out of the selection."
            raise ConfigurationError(message)


def write_selection(replicator: Replicator, selection: Sequence[SelectionEntry]) -> list[str]:
    """Add or change lines; single tables get their rows, or lose them, at once.  Returns what is new or changed, for people."""
    changed = []
    for entry in selection:
        line, created = TableSelection.objects.get_or_create(
            replicator=replicator,
            database=entry.database,
            table=entry.table,
            defaults={"excluded": entry.excluded, "excluded_columns": sorted(entry.excluded_columns)},
        )
        columns = sorted(entry.excluded_columns)
        if not created and (line.excluded, line.excluded_columns) != (entry.excluded, columns):
            line.excluded, line.excluded_columns, line.discovered = entry.excluded, columns, False
            line.save()
            created = True
        if created:
            changed.append(str(line))
        if entry.table and not entry.excluded:
            ensure_table(replicator, TableId(entry.database, entry.table))
        elif entry.table:  # its log is not followed from now on: should it come back, it is read anew
            ReplicatorTable.objects.filter(replicator=replicator, database=entry.database, name=entry.table).delete()
    return changed


def target_of(replicator: Replicator, table: TableId) -> tuple[str, str]:
    """(namespace, name) in the target: the database's name with the replicator's prefix, the table's own name."""
    return f"{replicator.target.get('namespace_prefix', '')}{table.database}", table.name


def home_of(row: ReplicatorTable) -> tuple[str, str]:
    """The target that the row's present name asks for: namespace, name."""
    uid = row.replicator.uid
    if row.target_namespace.startswith(f"{uid}."):  # made under a free name (webapp/worker/discovery.py)
        return f"{uid}.{row.database}", row.name
    return target_of(row.replicator, row.table_id)


def ensure_table(replicator: Replicator, table: TableId) -> ReplicatorTable:
    """The table's row; ConfigurationError where another replicator writes the same target table."""
    namespace, name = target_of(replicator, table)
    other = (
        ReplicatorTable.objects.filter(target_namespace=namespace, target_name=name)
        .exclude(replicator=replicator)
        .select_related("replicator")
        .first()
    )
    if other is not None:
        message = (
            f"{table} would be written to {namespace}.{name}, which the replicator {other.replicator.name} writes."
        )
        raise ConfigurationError(message, remedy="Give this replicator a namespace prefix of its own.")
    row, _ = ReplicatorTable.objects.get_or_create(
        replicator=replicator,
        database=table.database,
        name=table.name,
        defaults={"target_namespace": namespace, "target_name": name},
    )
    return row
