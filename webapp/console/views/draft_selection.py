"""The wizard's table selection while it is being made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replicator.model.identifiers import TableId, TablePattern
from replicator.model.masks import Mask, parse_masks
from replicator.model.mode import Mode
from replicator.model.row_filter import parse_filter
from replicator.sources.base import DatabaseInfo
from webapp.replicators.selection.entries import SelectionEntry


@dataclass
class Selected:
    """Whole databases (with their future tables) and patterns less `excluded`, single tables, and the settings of
    single tables.
    """

    databases: set[str] = field(default_factory=set)
    tables: set[TableId] = field(default_factory=set)
    excluded: set[TableId] = field(default_factory=set)
    columns: dict[TableId, set[str]] = field(default_factory=dict)
    modes: dict[TableId, str] = field(default_factory=dict)
    masks: dict[TableId, dict[str, Mask]] = field(default_factory=dict)
    filters: dict[TableId, str] = field(default_factory=dict)
    patterns: list[SelectionEntry] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Selected:
        """Inverse of `to_dict`."""
        return cls(
            set(data.get("databases", ())),
            {TableId(d, t) for d, t in data.get("tables", ())},
            {TableId(d, t) for d, t in data.get("excluded", ())},
            {TableId(d, t): set(names) for d, t, names in data.get("columns", ())},
            {TableId(d, t): mode for d, t, mode in data.get("modes", ())},
            {TableId(d, t): parse_masks(masks) for d, t, masks in data.get("masks", ())},
            {TableId(d, t): text for d, t, text in data.get("filters", ())},
            [SelectionEntry(d, p, out, pattern=True, new_tables=new) for d, p, out, new in data.get("patterns", ())],
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form, for the draft."""
        return {
            "databases": sorted(self.databases),
            "tables": [[t.database, t.name] for t in sorted(self.tables)],
            "excluded": [[t.database, t.name] for t in sorted(self.excluded)],
            "columns": [[t.database, t.name, sorted(names)] for t, names in sorted(self.columns.items()) if names],
            "modes": [[t.database, t.name, mode] for t, mode in sorted(self.modes.items())],
            "masks": [
                [t.database, t.name, {name: mask.to_dict() for name, mask in sorted(masks.items())}]
                for t, masks in sorted(self.masks.items())
                if masks
            ],
            "patterns": [[one.database, one.table, one.excluded, one.new_tables] for one in self.patterns],
            "filters": [[t.database, t.name, text] for t, text in sorted(self.filters.items()) if text],
        }

    def __contains__(self, table: TableId) -> bool:
        """True if the table is taken."""
        return table in self.tables or (table not in self.excluded and self._wide(table))

    def _wide(self, table: TableId) -> bool:
        """Is it taken with others?"""
        found = [one for one in self.patterns if TablePattern(one.database, one.table).matches(table)]
        return not any(one.excluded for one in found) and (table.database in self.databases or bool(found))

    def set_pattern(self, entry: SelectionEntry, *, on: bool) -> None:
        """Take what it matches (or leave that out, where it excludes), or forget it."""
        self.patterns = [one for one in self.patterns if (one.database, one.table) != (entry.database, entry.table)]
        if on:
            self.patterns.append(entry)

    def set_database(self, database: str, *, on: bool) -> None:
        """Take a whole database with its future tables, or nothing of it."""
        self.tables = {table for table in self.tables if table.database != database}
        self.excluded = {table for table in self.excluded if table.database != database}
        if on:
            self.databases.add(database)
        else:
            self.databases.discard(database)
            self.columns = {table: names for table, names in self.columns.items() if table.database != database}
            self.modes = {table: mode for table, mode in self.modes.items() if table.database != database}
            self.masks = {table: masks for table, masks in self.masks.items() if table.database != database}
            self.filters = {table: text for table, text in self.filters.items() if table.database != database}

    def set_tables(self, tables: Iterable[TableId], *, on: bool) -> None:
        """Take single tables, or leave them out."""
        for table in tables:
            whole = self._wide(table)
            self.excluded.discard(table)
            self.tables.discard(table)
            if on and not whole:
                self.tables.add(table)
            if not on:
                self.columns.pop(table, None)
                self.modes.pop(table, None)
                self.masks.pop(table, None)
                self.filters.pop(table, None)
                if whole:
                    self.excluded.add(table)

    def leave_out(self, table: TableId, names: Iterable[str]) -> None:
        """Columns of `table` that are not replicated."""
        chosen = set(names)
        if chosen:
            self.columns[table] = chosen
        else:
            self.columns.pop(table, None)

    def keep_as(self, table: TableId, mode: str) -> None:
        """Its own mode; empty for the replicator's."""
        if mode in set(Mode):
            self.modes[table] = mode
        else:
            self.modes.pop(table, None)

    def entries(self) -> list[SelectionEntry]:
        """For the services."""
        whole = [SelectionEntry(database) for database in sorted(self.databases)]
        special = {t for parts in (self.columns, self.masks, self.filters) for t, part in parts.items() if part}
        named = sorted(self.tables | {table for table in special | set(self.modes) if table in self})
        single = [
            SelectionEntry(
                t.database,
                t.name,
                excluded_columns=tuple(sorted(self.columns.get(t, ()))),
                mode=self.modes.get(t, ""),
                masks={
                    name: mask for name, mask in self.masks.get(t, {}).items() if name not in self.columns.get(t, ())
                },
                row_filter=parse_filter(self.filters.get(t, "")),
            )
            for t in named
        ]
        out = [SelectionEntry(t.database, t.name, excluded=True) for t in sorted(self.excluded)]
        return whole + self.patterns + single + out

    @property
    def protections(self) -> list[tuple[TableId, list[str]]]:
        """What of each table is masked, left out, or chosen by a condition; for people."""
        found = []
        for entry in self.entries():
            said = [f"{name} is masked ({mask})" for name, mask in sorted(entry.masks.items())]
            said += [f"{name} is excluded" for name in entry.excluded_columns]
            said += [f"only rows with {entry.row_filter}"] if entry.row_filter else []
            if said:
                found.append((TableId(entry.database, entry.table), said))
        return found

    @property
    def masked(self) -> int:
        """Tables with masks."""
        return sum(bool(masks) for masks in self.masks.values())

    @property
    def filtered(self) -> int:
        """Tables with a row filter."""
        return sum(bool(text) for text in self.filters.values())

    @property
    def empty(self) -> bool:
        return not (self.databases or self.tables or any(not one.excluded for one in self.patterns))

    def count_in(self, database: DatabaseInfo) -> int:
        """Tables taken of a database, now."""
        if database.name in self.databases:
            out = sum(table.database == database.name for table in self.excluded)
            return max(0, database.tables - out)
        return sum(table.database == database.name for table in self.tables)

    def count(self, databases: Sequence[DatabaseInfo]) -> int:
        """Tables taken, now."""
        return sum(self.count_in(database) for database in databases)
