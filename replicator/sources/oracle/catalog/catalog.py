"""Discovery: tables, their columns and keys, as the account sees them (ALL_TABLES and its kin)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from replicator.errors import TableDisappeared, TableError, TidemarkError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, RESERVED, TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import DatabaseInfo, KeyRange, TableInfo
from replicator.sources.oracle.catalog.key_range_sql import OracleKeyRanges
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.config import WATERMARK
from replicator.sources.oracle.connection import Connection, execute, read_rows
from replicator.sources.oracle.dialect import literal, quoted
from replicator.sources.oracle.types import OBJECT_RELATIONAL, XML, ColumnDefinition, Form, column_of, value_type
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.descriptions import check_left_out, schemas

LOOKUPS = 200  # tables in one query
_BLOCK = 8192  # bytes, as most databases have them: sizes are estimates
_WHERE = "The source"
# Not: views' logs, overflow segments, nested tables, dropped ones, tables of one session, external ones.
_PLAIN = (
    "t.temporary = 'N' AND t.nested = 'NO' AND t.secondary <> 'Y' AND t.dropped = 'NO'"
    " AND NVL(t.iot_type, 'IOT') = 'IOT' AND SUBSTR(t.table_name, 1, 6) <> 'MLOG$_'"
    f" AND SUBSTR(t.table_name, 1, 4) <> 'BIN$' AND t.table_name <> '{WATERMARK}'"
)
_TABLES = f"FROM all_tables t JOIN all_users u ON u.username = t.owner WHERE u.oracle_maintained = 'N' AND {_PLAIN}"
_COLUMNS = (
    "SELECT owner, table_name, column_name, data_type, data_type_owner, data_length, data_precision, data_scale,"
    " char_length, nullable, column_id, virtual_column, user_generated FROM all_tab_cols WHERE {where}"
    " ORDER BY owner, table_name, internal_column_id"
)
_KEYS = (
    "SELECT c.owner, c.table_name, c.constraint_name, c.constraint_type, k.column_name FROM all_constraints c"
    " JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name"
    " AND k.table_name = c.table_name WHERE c.constraint_type IN ('P', 'U') AND c.status = 'ENABLED' AND {where}"
    " ORDER BY c.owner, c.table_name, c.constraint_type, c.constraint_name, k.position"
)
_OBJECTS = "SELECT owner, object_name, object_id FROM all_objects WHERE object_type = 'TABLE' AND {where}"
_COMMENTS = "SELECT owner, table_name, comments FROM all_tab_comments WHERE comments IS NOT NULL AND {where}"
_COLUMN_COMMENTS = (
    "SELECT owner, table_name, column_name, comments FROM all_col_comments WHERE comments IS NOT NULL AND {where}"
)
_RELATIONAL = (
    "SELECT owner, table_name, column_name FROM all_xml_tab_cols WHERE storage_type = 'OBJECT-RELATIONAL' AND {where}"
)
_GROUPS = "SELECT owner, table_name FROM all_log_groups WHERE log_group_type = 'ALL COLUMN LOGGING' AND {where}"
_DATABASE_WIDE = "SELECT supplemental_log_data_all FROM v$database"


class OracleCatalog:
    """One connection; one thread."""

    def __init__(
        self, connection: Connection, *, lobs: bool, zero_dates: str = "null", left_out: TableSet | None = None
    ) -> None:
        """lobs: large objects are read; `left_out`: its excluded columns are not described."""
        self._connection, self._zero_dates, self._left_out = connection, zero_dates, left_out or TableSet()
        self._lobs = lobs
        self._all_logged: bool | None = None

    def databases(self) -> list[DatabaseInfo]:
        """Schemas that have tables."""
        found = self._rows(f"SELECT t.owner, COUNT(*), SUM(NVL(t.blocks, 0)) {_TABLES} GROUP BY t.owner ORDER BY 1")
        return [DatabaseInfo(owner, int(tables), int(blocks or 0) * _BLOCK) for owner, tables, blocks in found]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """By schema and name; `search` is a part of `schema.table`, in any case."""
        where = "" if database is None else f" AND t.owner = {literal(database)}"
        if search:
            where += f" AND INSTR(LOWER(t.owner || '.' || t.table_name), {literal(search.lower())}) > 0"
        total = int(self._rows(f"SELECT COUNT(*) {_TABLES}{where}")[0][0])
        page = self._rows(
            f"SELECT t.owner, t.table_name {_TABLES}{where} ORDER BY t.owner, t.table_name"
            f" OFFSET {offset} ROWS FETCH NEXT {limit} ROWS ONLY"
        )
        names = [TableId(*row) for row in page]
        infos = self.infos(names)
        return [infos[table] for table in names if table in infos], total

    def names(self, schemas: Collection[str]) -> list[TableId]:
        """Of all tables of these schemas."""
        owners = ", ".join(literal(one) for one in sorted(schemas))
        sql = f"SELECT t.owner, t.table_name {_TABLES} AND t.owner IN ({owners})"
        return [TableId(*row) for row in self._rows(sql)] if owners else []

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        """Of those that exist; rows and sizes are those of the last statistics."""
        found: dict[TableId, TableInfo] = {}
        for some in _slices(tables):
            sql = f"SELECT t.owner, t.table_name, t.num_rows, t.blocks, t.iot_type, t.partitioned {_TABLES}"
            listed = self._rows(f"{sql} AND {_among(some, 't.owner', 't.table_name')}")
            keys, logged, columns = self._keys(some), self._logged(some), self._columns(some)
            for owner, name, rows, blocks, iot, partitioned in listed:
                table = TableId(owner, name)
                key, primary = _choose_key(keys.get(table, {}), columns.get(table, []))
                kind = "index-organised" if iot else "partitioned" if partitioned == "YES" else ""
                word = "" if not key else "primary" if primary else "unique"
                note = "Supplemental logging of all columns is off: run the connection test for the SQL."
                absent = tuple(row[0] for row in columns.get(table, []) if row[9] == "YES" and row[10] == "NO")
                notes, size = () if table in logged else (note,), int(blocks or 0) * _BLOCK
                found[table] = TableInfo(table, int(rows or 0), size, word, kind, notes, absent)
        return found

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """Present schemas; tables that do not exist are absent; an error where a table cannot be replicated."""
        return schemas(self.details(tables))

    def details(self, tables: Sequence[TableId]) -> dict[TableId, TableDescription | TableError]:
        """As `describe`, with all that reading takes."""
        found: dict[TableId, TableDescription | TableError] = {}
        for some in _slices(tables):
            objects = {TableId(*row[:2]): str(row[2]) for row in self._of(_OBJECTS, some, "owner", "object_name")}
            if not objects:
                continue
            columns, keys, logged = self._columns(some), self._keys(some), self._logged(some)
            comments = {TableId(*row[:2]): str(row[2]) for row in self._of(_COMMENTS, some)}
            relational = self._relational(columns)
            of_columns: dict[TableId, dict[str, str]] = defaultdict(dict)
            for owner, name, column, text in self._of(_COLUMN_COMMENTS, some):
                of_columns[TableId(owner, name)][column] = str(text)
            for table in some:
                if table not in objects or table not in columns:
                    continue
                try:
                    found[table] = self._described(
                        table, objects[table], columns[table], keys.get(table, {}),
                        table in logged, comments.get(table, ""), of_columns[table], relational,
                    )  # fmt: skip
                except TableError as error:
                    found[table] = error
        return found

    def _described(
        self,
        table: TableId,
        identity: str,
        rows: Sequence[Sequence[Any]],
        keys: Mapping[str, tuple[str, list[str]]],
        logged: bool,  # noqa: FBT001
        comment: str,
        comments: Mapping[str, str],
        relational: Collection[tuple[TableId, str]],
    ) -> TableDescription:
        left_out = self._left_out.columns_left_out(table)
        check_left_out(table, left_out, [row[0] for row in rows])
        stored = [row for row in rows if row[9] != "YES"]
        definitions = tuple(
            _definition(row, comments.get(row[0], ""), OBJECT_RELATIONAL if (table, row[0]) in relational else "")
            for row in stored
            if row[10] == "YES" and row[0] not in left_out
        )
        _check_names(table, definitions)
        key, _ = _choose_key(keys, rows)
        key = key if set(key) <= {one.name for one in definitions} else ()
        dates, read = self._zero_dates, self._lobs
        columns = tuple(column_of(one, table, zero_dates=dates, key=one.name in key, lobs=read) for one in definitions)
        value_types = tuple(value_type(one, table, zero_dates=dates, lobs=read) for one in definitions)
        partial = any(one.form is Form.LOB for one in value_types)
        schema = TableSchema(table, columns, key, partial=partial, identity=identity, comment=comment)
        found = TableDescription(schema, definitions, value_types, tuple(row[0] for row in stored), logged)
        if partial and not found.bounded:
            message = f"{table} has no key by which its large objects ({', '.join(found.lobs)}) can be read again."
            remedy = "Exclude these columns, or add a primary key of numbers, texts, dates or RAWs."
            raise UnsupportedType(message, table=str(table), column=found.lobs[0], remedy=remedy)
        return found

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        """Reads none of them."""
        found = self.details([table]).get(table)
        if found is None:
            message = f"{table} no longer exists."
            raise TableDisappeared(message, table=str(table))
        if isinstance(found, TableError):
            raise found
        name = quoted(table.database, table.name)
        with users_fault(table, asked=True):
            where = OracleKeyRanges(found).selected(rows)
            read_rows(self._connection, f"SELECT 1 FROM {name} WHERE ({where}) AND 1 = 0", table)

    def table_of_object(self, number: int) -> TableId | None:
        """The name that a table has now, by its object number."""
        rows = self._rows(
            f"SELECT owner, object_name FROM all_objects WHERE object_type = 'TABLE' AND object_id = {number}"
        )
        return TableId(*rows[0]) if rows else None

    def add_logging(self, table: TableId) -> None:
        """Supplemental logging of all columns."""
        sql = f"ALTER TABLE {quoted(table.database, table.name)} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS"
        execute(self._connection, sql, table)

    def _columns(self, tables: Sequence[TableId]) -> dict[TableId, list[Sequence[Any]]]:
        """Without owner and table, the server's own hidden columns among them.  To the views, an XMLTYPE column is a
        virtual one of the hidden column that has its documents; a virtual column of that type there is none.
        """
        found: dict[TableId, list[Sequence[Any]]] = defaultdict(list)
        for owner, name, *row in self._of(_COLUMNS, tables):
            if row[1] == XML:
                row[9] = "NO"
            found[TableId(owner, name)].append(row)
        return found

    def _relational(self, columns: Mapping[TableId, Sequence[Sequence[Any]]]) -> set[tuple[TableId, str]]:
        """XMLTYPE columns of these tables that are stored as objects."""
        tables = [table for table, rows in columns.items() if any(row[1] == XML for row in rows)]
        found = self._of(_RELATIONAL, tables) if tables else []
        return {(TableId(owner, name), column.strip('"')) for owner, name, column in found}

    def _keys(self, tables: Sequence[TableId]) -> dict[TableId, dict[str, tuple[str, list[str]]]]:
        """Constraints by name: their type, and their columns in order."""
        found: dict[TableId, dict[str, tuple[str, list[str]]]] = defaultdict(dict)
        for owner, table, name, kind, column in self._of(_KEYS, tables, "c.owner", "c.table_name"):
            found[TableId(owner, table)].setdefault(name, (kind, []))[1].append(column)
        return found

    def _logged(self, tables: Sequence[TableId]) -> set[TableId]:
        """Those whose log has all columns."""
        if self._all_logged is None:
            try:
                self._all_logged = self._rows(_DATABASE_WIDE)[0][0] == "YES"
            except TidemarkError:  # the connection test says what is missing
                self._all_logged = False
        if self._all_logged:
            return set(tables)
        return {TableId(*row) for row in self._of(_GROUPS, tables)}

    def _of(
        self, sql: str, tables: Sequence[TableId], owner: str = "owner", name: str = "table_name"
    ) -> list[tuple[Any, ...]]:
        return self._rows(sql.format(where=_among(tables, owner, name)))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return read_rows(self._connection, sql, _WHERE)


def _definition(row: Sequence[Any], comment: str, storage: str) -> ColumnDefinition:
    name, kind, owner, length, precision, scale, characters, nullable, number, *_ = row
    return ColumnDefinition(
        name,
        kind,
        nullable=nullable == "Y",
        size=int(characters or 0) or int(length or 0),
        precision=None if precision is None else int(precision),
        scale=None if scale is None else int(scale),
        owner=owner or "",
        number=int(number or 0),
        comment=comment,
        storage=storage,
    )


def _choose_key(
    keys: Mapping[str, tuple[str, list[str]]], columns: Sequence[Sequence[Any]]
) -> tuple[tuple[str, ...], bool]:
    """The primary key; else the shortest unique one without nulls, by name; and whether it is primary."""
    never_null = {row[0] for row in columns if row[7] == "N" and row[9] != "YES"}
    usable = [
        (kind != "P", len(names), name, tuple(names))
        for name, (kind, names) in keys.items()
        if kind == "P" or never_null.issuperset(names)
    ]
    if not usable:
        return (), False
    unique, _, _, names = min(usable)
    return names, not unique


def _check_names(table: TableId, definitions: Sequence[ColumnDefinition]) -> None:
    for one in definitions:
        if one.name in RESERVED or one.name.startswith(BEFORE):
            message = f"Column {one.name} of {table} has a name that Tidemark uses itself."
            raise UnsupportedType(message, table=str(table), column=one.name)


def _among(tables: Sequence[TableId], owner: str, name: str) -> str:
    listed = ", ".join(f"({literal(table.database)}, {literal(table.name)})" for table in tables)
    return f"({owner}, {name}) IN ({listed})"


def _slices(tables: Sequence[TableId]) -> Iterator[Sequence[TableId]]:
    return (tables[at : at + LOOKUPS] for at in range(0, len(tables), LOOKUPS))
