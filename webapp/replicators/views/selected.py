"""The wizard's table selection while it is being made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replicator.model.identifiers import TableId
from replicator.sources.base import DatabaseInfo
from webapp.replicators.selection import SelectionEntry


@dataclass
class Selected:
    """Whole databases (with their future tables) less `excluded`, single tables, and columns left out."""

    databases: set[str] = field(default_factory=set)
    tables: set[TableId] = field(default_factory=set)
    excluded: set[TableId] = field(default_factory=set)
    columns: dict[TableId, set[str]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Selected:
        """Inverse of `to_dict`."""
        return cls(
            set(data.get("databases", ())),
            {TableId(d, t) for d, t in data.get("tables", ())},
            {TableId(d, t) for d, t in data.get("excluded", ())},
            {TableId(d, t): set(names) for d, t, names in data.get("columns", ())},
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form, for the draft."""
        return {
            "databases": sorted(self.databases),
            "tables": [[t.database, t.name] for t in sorted(self.tables)],
            "excluded": [[t.database, t.name] for t in sorted(self.excluded)],
            "columns": [[t.database, t.name, sorted(names)] for t, names in sorted(self.columns.items()) if names],
        }

    def __contains__(self, table: TableId) -> bool:
        """True if the table is taken."""
        return table in self.tables or (table.database in self.databases and table not in self.excluded)

    def set_database(self, database: str, *, on: bool) -> None:
        """Take a whole database with its future tables, or nothing of it."""
        self.tables = {table for table in self.tables if table.database != database}
        self.excluded = {table for table in self.excluded if table.database != database}
        if on:
            self.databases.add(database)
        else:
            self.databases.discard(database)
            self.columns = {table: names for table, names in self.columns.items() if table.database != database}

    def set_tables(self, tables: Iterable[TableId], *, on: bool) -> None:
        """Take single tables, or leave them out."""
        for table in tables:
            whole = table.database in self.databases
            self.excluded.discard(table)
            self.tables.discard(table)
            if on and not whole:
                self.tables.add(table)
            if not on:
                self.columns.pop(table, None)
                if whole:
                    self.excluded.add(table)

    def leave_out(self, table: TableId, names: Iterable[str]) -> None:
        """Columns of `table` that are not replicated."""
        chosen = set(names)
        if chosen:
            self.columns[table] = chosen
        else:
            self.columns.pop(table, None)

    def entries(self) -> list[SelectionEntry]:
        """For the services."""
        whole = [SelectionEntry(database) for database in sorted(self.databases)]
        named = sorted(self.tables | {t for t, names in self.columns.items() if names and t not in self.excluded})
        single = [
            SelectionEntry(t.database, t.name, excluded_columns=tuple(sorted(self.columns.get(t, ())))) for t in named
        ]
        out = [SelectionEntry(t.database, t.name, excluded=True) for t in sorted(self.excluded)]
        return whole + single + out

    @property
    def empty(self) -> bool:
        return not (self.databases or self.tables)

    def count_in(self, database: DatabaseInfo) -> int:
        """Tables taken of a database, now."""
        if database.name in self.databases:
            out = sum(table.database == database.name for table in self.excluded)
            return max(0, database.tables - out)
        return sum(table.database == database.name for table in self.tables)

    def count(self, databases: Sequence[DatabaseInfo]) -> int:
        """Tables taken, now."""
        return sum(self.count_in(database) for database in databases)
