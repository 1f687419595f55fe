"""Discovery: one file, whose tables SQLite calls those of `main`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from replicator.errors import TableDisappeared, TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import DatabaseInfo, KeyRange, TableInfo
from replicator.sources.shared.conditions import users_fault
from tests.plugins.sqlite_log import change_log
from tests.plugins.sqlite_log.database import translated
from tests.plugins.sqlite_log.dialect import name_of
from tests.plugins.sqlite_log.key_ranges import SqliteKeyRanges
from tests.plugins.sqlite_log.types import schema_of

MAIN = "main"


class SqliteCatalog:
    """One connection; one thread."""

    def __init__(self, connection: sqlite3.Connection, left_out: TableSet | None = None) -> None:
        self._connection, self._left_out = connection, left_out or TableSet()

    def databases(self) -> list[DatabaseInfo]:
        """The one."""
        with translated(MAIN):
            [(pages,)], [(size,)] = (
                self._connection.execute(f"PRAGMA main.{what}").fetchall() for what in ("page_count", "page_size")
            )
            return [DatabaseInfo(MAIN, len(change_log.tables(self._connection)), pages * size)]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """By name; `search` is a part of `main.table`, in any case."""
        with translated(MAIN):
            names = [TableId(MAIN, name) for name in change_log.tables(self._connection)]
        found = [one for one in names if database in {None, MAIN} and search.casefold() in str(one).casefold()]
        page = found[offset : offset + limit]
        infos = self.infos(page)
        return [infos[table] for table in page if table in infos], len(found)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        """Rows are counted."""
        found = {}
        for table, declared in self._declared(tables).items():
            with translated(str(table)):
                [(rows,)] = self._connection.execute(f"SELECT count(*) FROM {name_of(table.name)}").fetchall()
            found[table] = TableInfo(table, rows, 0, "primary" if any(one["key"] for one in declared) else "")
        return found

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """Of those that exist."""
        declared = self._declared(tables)
        return {table: schema_of(table, one, self._left_out.columns_left_out(table)) for table, one in declared.items()}

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        """Would SQLite read them?"""
        schema = self.describe([table]).get(table)
        if schema is None:
            raise TableDisappeared(f"{table} no longer exists.", table=str(table))
        if isinstance(schema, TableError):
            raise schema
        with users_fault(table, asked=rows.asked), translated(str(table)):
            where = SqliteKeyRanges(schema).selected(rows)
            self._connection.execute(f"EXPLAIN SELECT 1 FROM {name_of(table.name)} WHERE {where}").fetchall()

    def _declared(self, tables: Sequence[TableId]) -> dict[TableId, list[dict[str, object]]]:
        with translated(MAIN):
            there = set(change_log.tables(self._connection))
            return {
                table: change_log.columns(self._connection, table.name)
                for table in tables
                if table.database == MAIN and table.name in there
            }
