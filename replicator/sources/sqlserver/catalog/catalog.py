"""Discovery from the catalog views: schemas, pages of tables, what they are made of."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replicator.errors import (
    SourcePermissionDenied,
    TableDisappeared,
    TableError,
    UnsupportedEngine,
)
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import DatabaseInfo, KeyRange, TableInfo
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.descriptions import check_left_out, schemas
from replicator.sources.sqlserver.catalog import catalog_sql as sql
from replicator.sources.sqlserver.catalog.key_range_sql import SqlServerKeyRanges
from replicator.sources.sqlserver.catalog.table_description import (
    UNESTABLISHED,
    CaptureInstance,
    Described,
    TableDescription,
)
from replicator.sources.sqlserver.config import Capture
from replicator.sources.sqlserver.connection import OR_ANOTHER, SqlServerSession
from replicator.sources.sqlserver.dialect import table_name
from replicator.sources.sqlserver.names import columns_left_out, names_of
from replicator.sources.sqlserver.types import TEXTS, VARIANT, ColumnDefinition

LOOKUPS = 100  # tables in one query
_HISTORY, _COLUMNSTORE = 1, 5  # sys.tables.temporal_type, sys.indexes.type
_COMPUTED = "a computed column, of which the log has no values"
_COLUMN_SET = "a column set, which the log does not have; its columns are there one by one"
Row = tuple[Any, ...]
# By the table's object_id: its columns, its keys' columns by index, its capture instances.
Parts = tuple[dict[int, list[ColumnDefinition]], dict[int, dict[int, list[int]]], dict[int, list[CaptureInstance]]]
LOGGER = logging.getLogger("tidemark.sources.sqlserver")


class SqlServerCatalog:
    """One connection; one thread.  `hidden`: schemas that are not shown (the watermark's)."""

    def __init__(
        self,
        connection: SqlServerSession,
        left_out: TableSet | None = None,
        hidden: frozenset[str] = frozenset(),
        capture: Capture = Capture.CDC,
    ) -> None:
        """`left_out`: its excluded columns are not described.  `capture`: what tells of changes."""
        self._connection = connection
        self._names = names_of(connection)
        self._left_out = left_out or TableSet()
        self._hidden = {self._names.name(name) for name in hidden}
        self._tracking = capture is Capture.TRACKING
        self._has_cdc = not self._tracking and bool(self._rows(sql.HAS_CDC)[0][0])
        self._unmasked: bool | None = None
        self._misfit: Parts | None = None  # came twice: instances rightly have other columns than their tables

    def databases(self) -> list[DatabaseInfo]:
        """Schemas with the number of their tables; empty ones included."""
        numbers = self._numbers()
        sizes = self._sizes("1 = 1")
        found = {self._names.name(name): [0, 0] for (name,) in self._rows(sql.SCHEMAS)}
        for table, number in numbers.items():
            counted = found.setdefault(table.database, [0, 0])
            counted[0] += 1
            counted[1] += sizes.get(number, (0, 0))[1]
        return [DatabaseInfo(name, *found[name]) for name in sorted(found) if name not in self._hidden]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """One page of tables by schema and name; `search` is a part of `schema.table`, in any case."""
        wanted = search.casefold()
        found = [table for table in self.names(database) if wanted in str(table).casefold()]
        page = found[offset : offset + limit]
        infos = self.infos(page)
        return [infos.get(table) or TableInfo(table, 0, 0, "") for table in page], len(found)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        """Of those that exist."""
        infos = {}
        for some in _groups(tables):
            numbers = self._numbers(sql.named(some))
            ids = sql.listed(numbers.values())
            sizes = self._sizes(f"p.object_id IN ({ids})")
            columns, keys = self._columns(ids), self._keys(ids)
            for table, number in numbers.items():
                definitions = columns.get(number, [])
                fit = _fit_keys(definitions, keys.get(number, {}))
                kind = ("unique" if fit[0][0] else "primary") if fit else ""
                absent = tuple(one.name for one in definitions if one.absent)
                notes = tuple(f"{one.name} is {one.absent}." for one in definitions if one.absent)
                if self._tracking:
                    notes += _tracking_notes(definitions, keys.get(number, {}))
                infos[table] = TableInfo(table, *sizes.get(number, (0, 0)), kind, "", notes, absent)
        return infos

    def names(self, database: str | None = None) -> list[TableId]:
        """All tables, sorted."""
        wanted = None if database is None else self._names.name(database)
        found = sorted(table for table in self._numbers() if table.database not in self._hidden)
        return [table for table in found if wanted is None or table.database == wanted]

    def numbered(self) -> dict[int, TableId]:
        """All tables by their object_id."""
        return {number: table for table, number in self._numbers().items()}

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """Present schemas; those that do not exist are absent."""
        return schemas(self.details(tables))

    def details(self, tables: Sequence[TableId]) -> dict[TableId, Described]:
        """In a few statements for all of them."""
        found: dict[TableId, Described] = {}
        for some in _groups(tables):
            numbers = self._numbers(sql.named(some))
            found |= self._described({number: table for table, number in numbers.items()})
        return found

    def instances(self, condition: str = "1 = 1") -> dict[int, list[CaptureInstance]]:
        """By the table's object_id, oldest first; none where the account may not see them."""
        if not self._has_cdc:
            return {}
        rows = self._rows(sql.INSTANCES.format(where=condition))
        gathered: dict[int, list[Row]] = {}
        for row in rows:
            gathered.setdefault(row[0], []).append(row)
        found: dict[int, list[CaptureInstance]] = {}
        for number, columns in gathered.items():
            _, source, name, start, switches, *_ = columns[0]
            if source is not None:
                captured = tuple((int(row[5]), str(row[6])) for row in columns)
                place = UNESTABLISHED if start is None else bytes(start)
                one = CaptureInstance(str(name), number, int(source), place, captured, bool(switches))
                found.setdefault(int(source), []).append(one)
        return {source: sorted(some, key=lambda one: (one.start, one.number)) for source, some in found.items()}

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        """Would the server read them?  Compiles the statement, and reads none."""
        found = self.details([table]).get(self._names.table(table))
        if isinstance(found, TableError):
            raise found
        if found is None:
            raise TableDisappeared(f"{table} no longer exists.", table=str(table))
        with users_fault(table, asked=rows.asked):
            where = SqlServerKeyRanges(found).selected(rows)
            self._connection.rows(f"SELECT TOP (0) 1 FROM {table_name(table)} WHERE {where}", table)

    def _described(self, tables: Mapping[int, TableId]) -> dict[TableId, Described]:
        ids = sql.listed(tables)
        columns, keys, instances = self._parts(ids)
        since = {int(row[0]): row[1:] for row in self._rows(sql.TRACKED)} if self._tracking else {}
        found: dict[TableId, Described] = {}
        selected = self._names.selection(self._left_out)  # names come to it while a log is read
        for row in self._rows(sql.FACTS.format(ids=ids)):
            number, table = int(row[0]), tables[int(row[0])]
            try:
                _check_kind(table, row)
                left_out = columns_left_out(selected, table, self._names)
                check_left_out(table, left_out, [self._names.name(one.name) for one in columns.get(number, ())])
                taken = [
                    one
                    for one in columns.get(number, ())
                    if not one.absent and self._names.name(one.name) not in left_out
                ]
                self._check_masks(table, taken)
                captured = tuple(instances.get(number, ()))
                fit = _fit_keys(taken, keys.get(number, {}))
                if self._tracking and (not fit or fit[0][0]):
                    raise _not_trackable(table)
                begun, least = since.get(number, (None, 0))
                if least is None:
                    raise _not_shown(table)
                ordered = tuple(columns for *_, columns in (fit[:1] if self._tracking else fit))
                bare = TableDescription(
                    TableSchema(table, (), comment=str(row[10] or "")), (), tuple(taken), ordered, number, str(row[3]),
                    captured, (row[8] or 1) > 1, self._tracking, begun,
                )  # fmt: skip
                found[table] = bare.under(bare.newest)
            except TableError as error:
                found[table] = error
        return found

    def _parts(self, ids: str) -> Parts:
        """Return columns, keys and capture instances.

        Each comes from a separate statement, and a definition may change between two of them.  Where instances and
        columns do not fit, they are queried again until the same answer comes twice.
        """
        given = self._asked(ids)
        while given != self._misfit and not _fit_together(given):
            before, given = given, self._asked(ids)
            if given == before:
                self._misfit = given
                break
            LOGGER.warning("%s: definitions changed while they were read: %s, then %s", self._connection.where, before,
                           given)  # fmt: skip
        return given

    def _asked(self, ids: str) -> Parts:
        return self._columns(ids), self._keys(ids), self.instances(f"t.source_object_id IN ({ids})")

    def _check_masks(self, table: TableId, definitions: Sequence[ColumnDefinition]) -> None:
        """A SELECT would give masked values, and the log true ones."""
        if any(one.masked for one in definitions):
            if self._unmasked is None:
                self._unmasked = bool(self._rows(sql.MAY_UNMASK)[0][0])
            if not self._unmasked:
                message = f"{table} has masked columns, whose values the account may not see."
                raise TableError(message, table=str(table), remedy=f"GRANT UNMASK TO [tidemark];{OR_ANOTHER}")

    def _columns(self, ids: str) -> dict[int, list[ColumnDefinition]]:
        found: dict[int, list[ColumnDefinition]] = {}
        for row in self._rows(sql.COLUMNS.format(ids=ids)):
            number, column, name, base, alias, named, *sizes, collation, nullable = row[:11]
            length, precision, scale = map(int, sizes)
            computed, column_set, masked, encryption, default, comment = row[11:]
            found.setdefault(number, []).append(
                ColumnDefinition(
                    str(name), str(base), int(column), length, precision, scale, str(collation or ""),
                    bool(nullable), _COMPUTED if computed else _COLUMN_SET if column_set else "",
                    encryption is not None, bool(masked), bool(default), str(alias) if named else "",
                    str(comment or ""),
                )
            )  # fmt: skip
        return found

    def _keys(self, ids: str) -> dict[int, dict[int, list[int]]]:
        """By table and index (the primary key's is 0): numbers of its columns."""
        found: dict[int, dict[int, list[int]]] = {}
        for number, index, primary, column in self._rows(sql.KEYS.format(ids=ids)):
            found.setdefault(number, {}).setdefault(0 if primary else index, []).append(column)
        return found

    def _sizes(self, where: str) -> dict[int, tuple[int, int]]:
        """Rows and bytes by table; without bytes where the account may not ask for them."""
        try:
            rows = self._rows(sql.SIZES.format(where=where))
        except SourcePermissionDenied:
            rows = self._rows(sql.ROWS.format(where=where))
        return {int(number): (int(count or 0), int(size or 0)) for number, count, size in rows}

    def _numbers(self, condition: str = "1 = 1") -> dict[TableId, int]:
        rows = self._rows(f"{sql.TABLES} AND ({condition})")
        return {TableId(self._names.name(schema), self._names.name(name)): int(number) for number, schema, name in rows}

    def _rows(self, text: str) -> list[Row]:
        return self._connection.rows(text, self._connection.where)


def _groups(tables: Sequence[TableId]) -> Iterable[Sequence[TableId]]:
    return (tables[at : at + LOOKUPS] for at in range(0, len(tables), LOOKUPS))


def _fit_keys(
    definitions: Sequence[ColumnDefinition], keys: Mapping[int, list[int]]
) -> list[tuple[bool, int, int, tuple[int, ...]]]:
    """The primary key, then unique indexes without nulls and sql_variant, the shortest first; columns are the last."""
    usable = {one.number: one for one in definitions if not one.absent}
    return sorted(
        (index != 0, len(columns), index, tuple(columns))
        for index, columns in keys.items()
        if all(number in usable and not usable[number].nullable for number in columns)
        and (index == 0 or all(usable[number].base != VARIANT for number in columns))
    )


def _fit_together(parts: Parts) -> bool:
    """Has the newest instance of each table the columns that the table has?  Statements since it was made apart."""
    columns, _, instances = parts
    present = {table: {(one.number, one.name) for one in some if not one.absent} for table, some in columns.items()}
    return all(set(some[-1].columns) == present.get(table, set()) for table, some in instances.items())


def _tracking_notes(definitions: Sequence[ColumnDefinition], keys: Mapping[int, list[int]]) -> tuple[str, ...]:
    """What Change Tracking does not tell of such a table."""
    primary = keys.get(0)
    if primary is None:
        return ("Change Tracking tells nothing of a table without primary key: it is refused.",)
    loose = [one.name for one in definitions if one.number in primary and one.base in TEXTS]
    said = "when only the case, accents or trailing blanks of a key change, the old row stays in the copy"
    return (f"The key's texts are compared by their collation ({', '.join(loose)}): {said}.",) if loose else ()


def _not_shown(table: TableId) -> TableError:
    message = f"The account may not see what Change Tracking tells of {table}."
    return TableError(
        message,
        table=str(table),
        remedy=f"GRANT VIEW CHANGE TRACKING ON {table_name(table)} TO [tidemark];{OR_ANOTHER}",
    )


def _not_trackable(table: TableId) -> UnsupportedEngine:
    message = f"{table} has no primary key (or it is not selected), without which Change Tracking tells nothing of it."
    return UnsupportedEngine(message, table=str(table), remedy="Add a primary key, or exclude the table.")


def _check_kind(table: TableId, row: Row) -> None:
    """UnsupportedEngine for tables whose changes the server does not capture
    (learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server).
    """
    _, _, _, _, in_memory, temporal, external, files, _, clustered, _ = row
    kinds = (
        (in_memory, "is memory-optimised"),
        (temporal == _HISTORY, "is the history table of a temporal table"),
        (external, "is an external table"),
        (files, "is a FileTable"),
        (clustered == _COLUMNSTORE, "has a clustered columnstore index"),
    )
    for found, text in kinds:
        if found:
            message = f"{table} {text}; SQL Server captures no changes of such tables."
            raise UnsupportedEngine(message, table=str(table))
