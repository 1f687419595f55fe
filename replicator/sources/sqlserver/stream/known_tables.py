"""The tables that are followed, as looks at the catalog change them; shared by CDC and Change Tracking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from replicator.errors import TableBusy, TableDisappeared, TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import (
    CaptureInstance,
    Described,
    TableDescription,
    TableIdentity,
)
from replicator.sources.sqlserver.config import Capture
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.ddl.table_changes import Outcome, created, dropped, renamed_table
from replicator.sources.sqlserver.names import columns_left_out, names_of

P = TypeVar("P", bytes, int)


@dataclass
class Followed:
    """`schema`: as it was reported.

    `instance`: the capture instance whose rows are read; None while there is none.
    `next`: the instance that takes over at its start.
    """

    schema: TableSchema
    described: TableDescription | None = None
    instance: CaptureInstance | None = None
    next: CaptureInstance | None = None
    broken: bool = False  # rows may be missing before `next`

    @property
    def identity(self) -> TableIdentity | None:
        return TableIdentity.parse(self.schema.identity)


class KnownTables(ABC, Generic[P]):
    """One connection; one thread.  P: a place of reading."""

    capture: Capture

    def __init__(self, connection: SqlServerSession, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> None:
        """`schemas` are those that held where reading begins."""
        self._connection, self._tables, self._names = connection, tables.followed(), names_of(connection)
        self._catalog = SqlServerCatalog(connection, self._tables, capture=self.capture)
        self._known = {table: Followed(schema) for table, schema in schemas.items() if table in tables}
        self._failed: dict[TableId, str] = {}
        self._was: dict[TableId, TableId] = {}  # the last names of tables that were reported as gone
        self._begins: dict[TableId, P] = {}  # of tables that reading has not come to yet
        self.notices: list[str] = []

    def schema(self, table: TableId) -> TableSchema | None:
        """Return the table's schema as it was reported."""
        found = self._known.get(table)
        return found.schema if found else None

    def fail(self, table: TableId) -> None:
        """Its rows are passed over from here on."""
        one = self._known.pop(table, None)
        self._failed[table] = f"{one.identity.number} {one.identity.created}" if one and one.identity else ""

    def look(self, position: P) -> Iterator[Outcome]:
        """Report what the catalog shows now, at `position`.  LogPurged."""
        self._begins.clear()
        numbered = self._catalog.numbered()
        yield from self._moved(numbered)
        for table, said in (*self._tables.halted.items(), *self._failed.items()):
            failed = TableIdentity.parse(said)
            self._carry(table, numbered.get(failed.number) if failed else None)
        for table in sorted(self._failed.keys() - set(numbered.values())):
            del self._failed[table]
            yield dropped(table)
        selected: list[TableId] = [table for table in numbered.values() if table in self._tables]
        described = self._catalog.details(sorted({*selected, *self._known}))
        for table in selected:
            found = described.get(table)
            if found is not None:
                yield from self._seen(table, found, position)

    def begun(self, position: P) -> bool:
        """Has reading come to where a selected table begins that was not reported yet?"""
        return any(place <= position for place in self._begins.values())

    @abstractmethod
    def _start(self, found: TableDescription) -> tuple[TableDescription, CaptureInstance | None, P | None]:
        """See to it that a new table's changes are kept: with what keeps them, from which place on."""

    def _begin(self, table: TableId, found: TableDescription, position: P) -> Iterator[Outcome]:
        """A table that came into the selection is reported once reading has come to where its changes are kept."""
        described, instance, place = self._start(found)
        if place is not None and place <= position:
            self._failed.pop(table, None)
            self._known[table] = Followed(described.schema, described, instance)
            yield created(described.schema, self._was.pop(table, None))
        elif place is not None:
            self._begins[table] = place

    @abstractmethod
    def _go_on(self, table: TableId, one: Followed, found: TableDescription, position: P) -> Iterator[Outcome]:
        """One that is followed already."""

    def _moved(self, numbered: Mapping[int, TableId]) -> Iterator[Outcome]:
        for table, one in list(self._known.items()):
            identity = one.identity
            if identity is None:
                continue
            now = numbered.get(identity.number)
            if now == table:
                continue
            del self._known[table]
            self._carry(table, now)
            if now is None or now not in self._tables or now in self._known:
                yield dropped(table)
            else:
                self._was.pop(now, None)
                left_out = columns_left_out(self._tables, now, self._names)
                kept = one.schema.without([name for name in one.schema.names if self._names.name(name) in left_out])
                schema = replace(kept, table=now)
                self._known[now] = replace(one, schema=schema)
                yield renamed_table(one.schema, schema)

    def _carry(self, table: TableId, now: TableId | None) -> None:
        """What is left out of the table is left out of it under its new name, too."""
        if now is not None and now != table and now in self._tables:
            self._tables.carry(table, now)
            self._was[now] = table

    def _seen(self, table: TableId, found: Described, position: P) -> Iterator[Outcome]:
        if isinstance(found, TableError):
            yield from self._refused(table, found)
            return
        one = self._known.get(table)
        if one is not None and (identity := one.identity) is not None and identity.created != found.created:
            del self._known[table]
            yield dropped(table)
            one = None
        try:
            if one is not None:
                one.described = found
                yield from self._go_on(table, one, found, position)
            elif table not in self._failed or self._failed[table] != f"{found.number} {found.created}":
                yield from self._begin(table, found, position)
        except TableBusy:
            return
        except TableError as error:
            yield from self._refused(table, error)

    def _refused(self, table: TableId, error: TableError) -> Iterator[Outcome]:
        if isinstance(error, TableDisappeared):
            return
        one = self._known.pop(table, None)
        said = f"{one.identity.number} {one.identity.created}" if one and one.identity else error.message
        if one is not None or self._failed.get(table) != said:
            self._failed[table] = said
            yield error
