"""Discovery from information_schema: databases, pages of tables, schemas.

Generated columns are columns like any other, VIRTUAL ones included: with binlog_row_image=FULL the log of MySQL (seen
on 8.0) and of MariaDB (seen on 11.4, InnoDB and MyISAM) holds their values in every row image, and a SELECT computes
the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.constants.ER import BAD_FIELD_ERROR

from replicator.errors import (
    SourceUnreachable,
    TableDisappeared,
    TableError,
    TableNotRead,
    TidemarkError,
    UnsupportedType,
)
from replicator.model.change import Cascade
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, RESERVED, TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import DatabaseInfo, KeyRange, TableInfo
from replicator.sources.mysql.catalog.key_range_sql import MySqlKeyRanges
from replicator.sources.mysql.catalog.storage_engines import (
    MERGE,
    canonical,
    in_union,
    notes_on,
    refusal,
    storage_options,
    versioned,
)
from replicator.sources.mysql.catalog.table_description import TableDescription, UniqueIndex
from replicator.sources.mysql.connection import Connection, literal, quoted, server_is_mariadb, translated
from replicator.sources.mysql.ddl.tokenizer import tokenize
from replicator.sources.mysql.names import columns_left_out, lowered, names_of
from replicator.sources.mysql.types import BYTES, LABELS, ColumnDefinition, check_format, column_of
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.descriptions import check_left_out, schemas

SYSTEM_DATABASES = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
# Without sequences and views.  A system-versioned table counts as a table, but its log holds history rows as well.
TABLE_TYPES = ("BASE TABLE", "SYSTEM VERSIONED")
SIZED = 2_000  # tables of a MariaDB that are opened to show the sizes of databases
LOOKUPS = 100  # tables in one query
_ACTIONS = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})
_COLUMNS = (
    "TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, LOWER(DATA_TYPE), COLUMN_TYPE, CHARACTER_SET_NAME, "
    "COLLATION_NAME, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_OCTET_LENGTH, IS_NULLABLE, EXTRA, "
    "COLUMN_KEY, COLUMN_COMMENT"
)
_INDEXES = "TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, INDEX_TYPE"
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'")
_ESCAPED = {"''": "'", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\Z": "\x1a"}
Row = tuple[Any, ...]


class MySqlCatalog:
    """One connection; one thread."""

    def __init__(
        self,
        connection: Connection,
        *,
        zero_dates: str = "null",
        left_out: TableSet | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """`left_out`: its excluded columns are not described.  `hidden`: databases not shown (the watermark's)."""
        self._connection = connection
        self._zero_dates = zero_dates
        self._names = names_of(connection)
        self._left_out = self._names.selection(left_out or TableSet())
        self._hidden = SYSTEM_DATABASES | {self._names.name(name) for name in hidden}
        self._mariadb = server_is_mariadb(connection)

    def databases(self) -> list[DatabaseInfo]:
        """Those that the user may see, empty ones included; without their sizes where MariaDB would take minutes for
        them.
        """
        names = [self._names.name(row[0]) for row in self._rows("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")]
        sizes = self._counted("0")
        if not self._mariadb or sum(count for count, _ in sizes.values()) <= SIZED:
            sizes = self._counted(self._statistic("DATA_LENGTH + INDEX_LENGTH"))
        shown = sorted(name for name in names if name.lower() not in self._hidden)
        return [DatabaseInfo(name, *sizes.get(name, (0, 0))) for name in shown]

    def _counted(self, size: str) -> dict[str, tuple[int, int]]:
        """Database → tables, sum of `size`.  MariaDB opens every table for its real size."""
        columns = f"TABLE_SCHEMA, COUNT(*), SUM({size})"
        rows = self._rows(
            f"SELECT {columns} FROM information_schema.TABLES WHERE {self._selected()} GROUP BY TABLE_SCHEMA"
        )
        return {self._names.name(row[0]): (int(row[1]), int(row[2] or 0)) for row in rows}

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """One page of base tables by database and name; `search` is a part of `database.table`, in any case."""
        wanted = search.casefold()
        names = self.names(database)
        found = [table for table in names if wanted in str(table).casefold()] if wanted else names
        page = found[offset : offset + limit]
        infos = self.infos(page)
        return [infos.get(table) or TableInfo(table, 0, 0, "") for table in page], len(found)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        """Of those that exist."""
        facts = self._facts(tables)
        keys = self._indexes(list(facts))
        primary = self._primary(list(facts))
        infos = {}
        for table, (engine, rows, size, _) in facts.items():
            key = _choose_key(keys.get(table, ()), primary.get(table, frozenset()))
            kind = "" if key is None else "primary" if key.name == "PRIMARY" else "unique"
            infos[table] = TableInfo(table, rows, size, kind, engine, notes_on(engine))
        return infos

    def names(self, database: str | None = None) -> list[TableId]:
        """All base tables, sorted.  Asks for names only, for which MariaDB opens no table."""
        where = self._selected() + (f" AND TABLE_SCHEMA = {literal(database)}" if database is not None else "")
        rows = self._rows(f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE {where}")
        found = sorted(map(self._table, rows))
        return [table for table in found if database is None or table.database == self._names.name(database)]

    def cascades(self, tables: Collection[TableId]) -> list[Cascade]:
        """Foreign keys with an action other than RESTRICT: InnoDB does not write what they do into the log.

        Those of tables that they refer to as well, selected or not: actions go on from table to table.
        """
        found: list[Cascade] = []
        seen: set[TableId] = set()
        while todo := sorted(set(tables) - seen):
            seen |= set(todo)
            rules = self._cascades_of(todo)
            found += rules
            tables = {rule.parent for rule in rules}
        return found

    def _cascades_of(self, tables: Sequence[TableId]) -> list[Cascade]:
        names = "REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME"
        select = f"SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION, {names}"
        keys: dict[tuple[TableId, str], list[Row]] = {}
        for row in self._lookup(
            f"{select} FROM information_schema.KEY_COLUMN_USAGE", tables, "REFERENCED_TABLE_NAME IS NOT NULL"
        ):
            keys.setdefault((self._table(row), row[2]), []).append(row[3:])
        select = "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE"
        rules = self._lookup(
            f"{select} FROM information_schema.REFERENTIAL_CONSTRAINTS",
            sorted({table for table, _ in keys}),
            schema="CONSTRAINT_SCHEMA",
        )
        found = []
        for database, name, constraint, on_delete, on_update in rules:
            child = self._names.table(TableId(database, name))
            columns = sorted(keys.get((child, constraint), []))
            if columns and (on_delete in _ACTIONS or on_update in _ACTIONS):
                parent = self._table(columns[0][1:])
                refers = tuple(str(column[3]) for column in columns)
                found.append(Cascade(parent, child, refers, on_delete in _ACTIONS, on_update in _ACTIONS))
        return found

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """Present schemas; tables that do not exist are absent; an error where a table cannot be replicated."""
        return schemas(self.details(tables))

    def details(self, tables: Sequence[TableId]) -> dict[TableId, TableDescription | TableError]:
        """As `describe`, with all that reading takes.

        Where the server answers with an error, it is asked for each table alone, so that the others go on (invariant
        13).
        """
        try:
            return self._details(tables)
        except TidemarkError:
            if not self._connection.open:
                raise
        result: dict[TableId, TableDescription | TableError] = {}
        for table in tables:
            try:
                result |= self._details([table])
            except SourceUnreachable as error:
                if not (error.of_server and self._connection.open):
                    raise
                result[table] = TableNotRead(f"{table} cannot be described: {error.message}", table=str(table))
        return result

    def _details(self, tables: Sequence[TableId]) -> dict[TableId, TableDescription | TableError]:
        facts = self._facts(tables)
        columns = self._columns(list(facts))
        indexes = self._indexes(list(facts))
        unions = self._unions() if any(canonical(engine) == "myisam" for engine, *_ in facts.values()) else {}
        result: dict[TableId, TableDescription | TableError] = {}
        for table, (engine, _, _, comment) in facts.items():
            if table not in columns:
                continue  # renamed or dropped between the queries: it has no columns, but never had none
            try:
                if engine == VERSIONED:
                    raise versioned(table)
                if (error := refusal(table, engine)) is not None:
                    raise error
                if table in unions:
                    raise in_union(table, unions[table])
                found = self._describe(table, columns[table], indexes.get(table, []), engine)
                result[table] = replace(found, schema=replace(found.schema, comment=comment))
            except TableError as error:
                result[table] = error
        return result

    def leads_further(self, tables: Collection[TableId], calls: Collection[str]) -> bool:
        """May changes of these tables, and calls of these functions, change others: by a view, a trigger, a function?

        As far as the user may see them.
        """
        found = [f"SELECT 1 FROM information_schema.VIEWS WHERE {_is(one, 'TABLE_SCHEMA')}" for one in tables]
        trigger = "SELECT 1 FROM information_schema.TRIGGERS WHERE"
        found += [f"{trigger} {_is(one, 'EVENT_OBJECT_SCHEMA', 'EVENT_OBJECT_TABLE')}" for one in tables]
        if calls:
            names = ", ".join(map(literal, calls))
            kind = "ROUTINE_TYPE = 'FUNCTION'"
            found.append(f"SELECT 1 FROM information_schema.ROUTINES WHERE {kind} AND ROUTINE_NAME IN ({names})")
        return bool(self._rows(" UNION ALL ".join(found)))

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        """Reads none of them.

        The catalog shows no table that the user may not read; asked for its rows, the server tells that from one that
        is gone.
        """
        name = f"{quoted(table.database)}.{quoted(table.name)}"
        with translated(table), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {name} LIMIT 0")
        found = self.details([table]).get(table)
        if found is None:
            message = f"{table} is no longer a table."
            raise TableDisappeared(message, table=str(table))
        if isinstance(found, TableError):
            raise found
        with users_fault(table, asked=True), translated(table), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {name} WHERE {MySqlKeyRanges(found).selected(rows)} LIMIT 0")

    def _describe(
        self, table: TableId, found: list[ColumnDefinition], indexes: list[UniqueIndex], engine: str
    ) -> TableDescription:
        left_out = columns_left_out(self._left_out, table)
        shown = {lowered(d.name) for d in found}
        check_left_out(table, [name for name in left_out - shown if self._is_unknown(table, name)], shown)
        definitions = tuple(d for d in found if lowered(d.name) not in left_out)
        _check_names(table, definitions)
        for one in found:
            check_format(one, table)
        primary = frozenset(d.name for d in found if d.primary)
        key = None if left_out.intersection(map(lowered, primary)) else _choose_key(indexes, primary)
        names = key.columns if key else ()
        columns = tuple(column_of(d, table, zero_dates=self._zero_dates, key=d.name in names) for d in definitions)
        return TableDescription(TableSchema(table, columns, names), definitions, key, engine)

    def _is_unknown(self, table: TableId, column: str) -> bool:
        """The catalog does not show columns that the user may not read; asked for their values, the server tells such a
        one from one that is not there.
        """
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(f"SELECT {quoted(column)} FROM {quoted(table.database)}.{quoted(table.name)} LIMIT 0")
            except pymysql.MySQLError as error:
                return bool(error.args) and error.args[0] == BAD_FIELD_ERROR
        return False

    def _statistic(self, value: str) -> str:
        """Return SQL for a statistic; 0 for MEMORY tables of MySQL.

        MySQL 8.0.12 crashes on the statistics of a MEMORY table that was not opened since the server started.
        """
        return value if self._mariadb else f"IF(ENGINE = 'MEMORY', 0, {value})"

    def _facts(self, tables: Sequence[TableId]) -> dict[TableId, tuple[str, int, int, str]]:
        """Engine, rows and bytes of those that exist (of MySQL's MEMORY tables 0), and their comments; the engine of a
        system-versioned table is VERSIONED.
        """
        rows, size = self._statistic("TABLE_ROWS"), self._statistic("DATA_LENGTH + INDEX_LENGTH")
        select = f"TABLE_SCHEMA, TABLE_NAME, ENGINE, {rows}, {size}, TABLE_TYPE, TABLE_COMMENT"
        return {
            self._table(row): (
                VERSIONED if row[5] != "BASE TABLE" else row[2] or "",
                row[3] or 0,
                row[4] or 0,
                row[6] or "",
            )
            for row in self._lookup(f"SELECT {select} FROM information_schema.TABLES", tables)
            if row[5] in TABLE_TYPES
        }

    def _columns(self, tables: Sequence[TableId]) -> dict[TableId, list[ColumnDefinition]]:
        rows = self._lookup(f"SELECT {_COLUMNS} FROM information_schema.COLUMNS", tables)
        result: dict[TableId, list[ColumnDefinition]] = {}
        for row in sorted(rows, key=lambda row: row[:3]):
            result.setdefault(self._table(row), []).append(_definition(row[3:]))
        return result

    def _unions(self) -> dict[TableId, TableId]:
        """Tables that MERGE tables of any database show, each with one of these."""
        rows = self._rows(
            f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE ENGINE = {literal(MERGE)}"
        )
        found: dict[TableId, TableId] = {}
        for merge in map(self._table, rows):
            try:
                text = self._rows(f"SHOW CREATE TABLE {quoted(merge.database)}.{quoted(merge.name)}")[0][1]
            except TableError:
                continue  # the server cannot open it: nothing changes through it
            for table in storage_options(tokenize(text), merge.database).union:
                found[self._names.table(table)] = merge
        return found

    def _primary(self, tables: Sequence[TableId]) -> dict[TableId, frozenset[str]]:
        rows = self._lookup(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_KEY FROM information_schema.COLUMNS", tables
        )
        result: dict[TableId, set[str]] = {}
        for row in rows:
            if row[3] == "PRI":
                result.setdefault(self._table(row), set()).add(row[2])
        return {table: frozenset(names) for table, names in result.items()}

    def _indexes(self, tables: Sequence[TableId]) -> dict[TableId, list[UniqueIndex]]:
        """Unique indexes without an expression; whether their columns can be null is not looked at here."""
        state = "IGNORED" if self._mariadb else "IS_VISIBLE"
        select = f"SELECT {_INDEXES}, {state} FROM information_schema.STATISTICS"
        parts: dict[tuple[TableId, str], list[Row]] = {}
        for row in self._lookup(select, tables, "NON_UNIQUE = 0"):
            parts.setdefault((self._table(row), row[2]), []).append(row[3:])
        result: dict[TableId, list[UniqueIndex]] = {}
        for (table, name), rows in parts.items():
            rows.sort()
            if any(row[1] is None for row in rows):
                continue
            usable = all(row[4] == ("NO" if self._mariadb else "YES") and row[3] == "BTREE" for row in rows)
            prefix = any(row[2] is not None for row in rows)
            result.setdefault(table, []).append(UniqueIndex(name, tuple(row[1] for row in rows), prefix, usable))
        return result

    def _lookup(
        self, select: str, tables: Sequence[TableId], condition: str = "TRUE", *, schema: str = "TABLE_SCHEMA"
    ) -> list[Row]:
        """Rows of an information_schema view for exactly these tables.

        MariaDB opens every table of the server unless schema and name are each compared with one constant; MySQL has
        indexes and takes a list.
        """
        rows: list[Row] = []
        for at in range(0, len(tables), LOOKUPS):
            some = tables[at : at + LOOKUPS]
            if self._mariadb:
                each = [f"({select} WHERE {_is(table, schema)} AND {condition})" for table in some]
                rows += self._rows(" UNION ALL ".join(each))
            else:
                listed = ", ".join(f"({literal(t.database)}, {literal(t.name)})" for t in some)
                rows += self._rows(f"{select} WHERE ({schema}, TABLE_NAME) IN ({listed}) AND {condition}")
        asked = set(map(self._names.table, tables))
        return [row for row in rows if self._table(row) in asked]  # information_schema compares names without case

    def _table(self, row: Row) -> TableId:
        """That a row begins with."""
        return self._names.table(TableId(row[0], row[1]))

    def _selected(self) -> str:
        hidden = ", ".join(literal(name) for name in sorted(self._hidden))
        kinds = ", ".join(f"'{kind}'" for kind in TABLE_TYPES)
        return f"TABLE_TYPE IN ({kinds}) AND TABLE_SCHEMA NOT IN ({hidden})"

    def _rows(self, sql: str) -> list[Row]:
        with translated("The catalog of the source"), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


VERSIONED = "system versioned"


def _is(table: TableId, schema: str, name: str = "TABLE_NAME") -> str:
    return f"{schema} = {literal(table.database)} AND {name} = {literal(table.name)}"


def _definition(row: Row) -> ColumnDefinition:
    name, data_type, column_type, charset, collation, precision, scale, fsp, octets, nullable, extra, *rest = row
    key, comment = rest
    extra = (extra or "").upper()
    labels = read_labels(column_type) if data_type in LABELS else ()
    if labels and charset == "binary":  # their labels are texts all the same
        charset = "utf8mb4"
    return ColumnDefinition(
        name=name,
        data_type=data_type,
        column_type=column_type,
        charset=charset,
        collation=collation,
        precision=precision,
        scale=scale,
        fsp=fsp or 0,
        length=octets if data_type in BYTES else None,
        labels=labels,
        unsigned="unsigned" in column_type.lower() and data_type not in LABELS,
        nullable=nullable == "YES",
        is_generated="GENERATED" in extra,
        virtual="VIRTUAL" in extra,
        invisible="INVISIBLE" in extra,
        primary=key == "PRI",
        comment=comment or "",
    )


def read_labels(column_type: str) -> tuple[str, ...]:
    """The labels of an ENUM or SET from its COLUMN_TYPE."""
    return tuple(
        re.sub(r"''|\\.", lambda escaped: _ESCAPED.get(escaped[0], escaped[0][1]), label, flags=re.DOTALL)
        for label in _LABEL.findall(column_type.partition("(")[2])
    )


def _choose_key(indexes: Iterable[UniqueIndex], primary: frozenset[str]) -> UniqueIndex | None:
    """The one that the log shows, which is over just these columns; every other is none there."""
    fit = [index for index in indexes if primary == set(index.columns)]
    return min(fit, key=lambda index: index.rank, default=None)


def _check_names(table: TableId, definitions: Iterable[ColumnDefinition]) -> None:
    for definition in definitions:
        name = definition.name.lower()
        if name in RESERVED or name.startswith(BEFORE):
            message = f"Column {definition.name} of {table} has a name that is reserved by Tidemark."
            raise UnsupportedType(message, table=str(table), column=definition.name)
