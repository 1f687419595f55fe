"""DDL in the log → SchemaChange messages.

Under the online catalog the log does not tell definitions: the catalog does, which may be further on already.  What a
statement should have made of the known columns is compared with what the catalog has; where that is something else, the
table is read again.
"""

from __future__ import annotations

from replicator.errors import TableError
from replicator.model.change import Ddl
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import widens
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.ddl import parser
from replicator.sources.oracle.stream.table_registry import LogTables, Outlet


class DdlEffects:
    """Part of the assembler."""

    def __init__(self, outlet: Outlet, registry: LogTables, tables: TableSet) -> None:
        self._outlet, self._registry, self._tables = outlet, registry, tables

    def apply(self, table: TableId, text: str) -> None:
        """One statement about a table; one that cannot go on fails, the others do not notice."""
        statement = parser.parse(text)
        if statement is None or parser.is_recycled(table):
            return
        registry = self._registry
        self._outlet.flush()
        registry.forget(table)
        match statement:
            case parser.CreateTable(filled):
                self._create(table, text, filled=filled)
            case parser.DropTable():
                self._drop(table, text)
            case parser.TruncateTable():
                registry.lost.pop(table, None)
                if registry.wants(table) and table in registry.known:
                    self._outlet.emit(Ddl.TRUNCATE_TABLE, table, statement=text)
            case parser.RenameTable(new):
                self._rename(table, TableId(table.database, new), text)
            case parser.ReturnedTable():
                self._arrive(table)
            case parser.AlterTable():
                registry.lost.pop(table, None)
                if registry.wants(table) and table in registry.known:
                    self._alter(table, statement, text)

    def _create(self, table: TableId, text: str, *, filled: bool) -> None:
        registry = self._registry
        if not registry.selects(table):
            return
        if table in registry.known:
            self._drop(table, "")
        registry.revive(table)
        described = registry.describe(table)
        if isinstance(described, TableError):
            registry.skip(table, described)
        elif described is not None and registry.of_object(described.schema.identity) is None:
            # else it is gone again, or another table has its name by now: a later statement will tell
            registry.learn(table, described.schema)
            self._outlet.emit(Ddl.CREATE_TABLE, table, registry.known[table], reload=filled, statement=text)

    def _drop(self, table: TableId, text: str) -> None:
        """Drop the table; a failed one was reported, so its drop is reported, too."""
        registry = self._registry
        failed = registry.failed(table)
        registry.revive(table)
        if (registry.known.pop(table, None) is not None or failed) and registry.selects(table):
            self._outlet.emit(Ddl.DROP_TABLE, table, statement=text)

    def _arrive(self, table: TableId) -> None:
        if self._registry.selects(table):
            self._registry.revive(table)
            self._registry.arrived(table, self._registry.describe(table))

    def _rename(self, old: TableId, new: TableId, text: str) -> None:
        registry = self._registry
        registry.forget(new)
        registry.carry(old, new)
        lost = old in registry.lost
        schema = registry.known.get(old)
        if schema is None or not registry.wants(old) or not registry.selects(new):
            self._drop(old, text)
            self._arrive(new)
            return
        if new in registry.known:
            self._drop(new, "")
        registry.revive(new)
        registry.lost.pop(old, None)
        renamed = registry.renamed(old, new)
        reload = len(renamed.columns) < len(schema.columns)
        self._outlet.emit(Ddl.RENAME_TABLE, old, renamed, new=new, reload=reload, statement=text)
        described = registry.describe(new)
        if isinstance(described, TableError):
            registry.skip(new, described)
        elif described is None or described.schema.is_another(schema):
            return  # it has another name by now
        elif lost or described.schema != registry.known[new]:
            registry.reload(new, 0)  # a statement before this one could not see it under its old name

    def _alter(self, table: TableId, statement: parser.AlterTable, text: str) -> None:
        registry = self._registry
        old, described = registry.known[table], registry.describe(table)
        if isinstance(described, TableError):
            registry.skip(table, described)
            return
        if described is None or described.schema.is_another(old):
            return  # gone by now, and the log will say so
        reload = self._reload(old, described, statement)
        told = statement.added or statement.dropped or statement.renamed
        if described.schema == old and not reload and not told:
            return
        registry.learn(table, described.schema)
        renamed = {
            before: after
            for before, after in statement.renamed.items()
            if before in old.names and after in described.schema.names and after not in old.names
        }
        self._outlet.emit(Ddl.ALTER_TABLE, table, described.schema, renamed=renamed, reload=reload, statement=text)

    def _reload(self, old: TableSchema, described: TableDescription, statement: parser.AlterTable) -> bool:
        """Can rows that were read have other values than under the definition that the catalog has?"""
        if statement.fills or statement.unseen:
            return True
        left_out = self._tables.columns_left_out(old.table)
        names = [statement.renamed.get(name, name) for name in old.names if name not in statement.dropped]
        expected = {*names, *statement.added} - left_out
        present = set(described.schema.names)
        if expected - set(described.names) or present - expected:
            return True  # another statement was at it since
        before = {statement.renamed.get(one.name, one.name): one.type for one in old.columns}
        kept = [one for one in described.schema.columns if one.name in before and one.name not in statement.added]
        return any(before[one.name] != one.type and not widens(before[one.name], one.type) for one in kept)
