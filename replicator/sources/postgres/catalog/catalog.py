"""Discovery from pg_catalog: schemas, pages of tables, descriptions.

A database of the `Catalog` port is a Postgres schema; the connection decides which Postgres database they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from replicator.errors import SourceUnreachable, TableDisappeared, TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import DatabaseInfo, KeyRange, TableInfo
from replicator.sources.postgres.catalog.attributes import Attribute, PgType, ReplicaIdentity, TableDescription
from replicator.sources.postgres.catalog.describe_sql import document_sql, named, numbers, types_sql
from replicator.sources.postgres.catalog.key_range_sql import PostgresKeyRanges
from replicator.sources.postgres.catalog.replica_identity import Key, choose_key
from replicator.sources.postgres.catalog.table_description import (
    TABLES,
    attributes_of,
    description,
    identity_note,
    logged,
    table_of,
)
from replicator.sources.postgres.catalog.type_resolution import Types
from replicator.sources.postgres.connection import Connection, kept_open, literal, quoted, read_rows, server_version
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.descriptions import schemas

OWN_SCHEMA = "tidemark"  # where 13's marks are, and the functions of the event trigger
GENERATED_LOGGED = 180000
LOOKUPS = 500  # tables in one query
SIZED = 500  # tables whose files are looked at because the server has no statistics of them
_WHERE = "The catalog of the source"
_LISTED = "c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't'"
_KINDS = {"p": "partitioned", "f": "foreign"}
# Estimates, a partitioned table's with those of its partitions; {oids} as in describe_sql.
_SIZES = """
WITH RECURSIVE tree AS (
  SELECT c.oid AS root, c.oid AS oid FROM pg_catalog.pg_class c WHERE c.oid IN ({oids})
  UNION ALL
  SELECT t.root, i.inhrelid FROM tree t JOIN pg_catalog.pg_class p ON p.oid = t.oid AND p.relkind = 'p'
    JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid)
SELECT t.root::int8, c.oid::int8, c.relkind::text,
  CASE WHEN c.relkind = 'p' THEN 0 WHEN c.reltuples > 0 THEN c.reltuples::int8
    ELSE pg_catalog.pg_stat_get_live_tuples(c.oid) END,
  (c.relpages + COALESCE(toast.relpages, 0))::int8 * pg_catalog.current_setting('block_size')::int8
FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid LEFT
  JOIN pg_catalog.pg_class toast ON toast.oid = c.reltoastrelid
"""
Row = tuple[Any, ...]
Document = Mapping[str, Any]
Item = TypeVar("Item")
Found: TypeAlias = tuple[Document, Types]


@dataclass(frozen=True)
class Unanswered(Generic[Item]):
    """A table that the server cannot describe."""

    item: Item
    error: TableError


class PostgresCatalog:
    """One connection; one thread."""

    def __init__(
        self,
        connection: Connection,
        *,
        zero_dates: str = "null",
        left_out: TableSet | None = None,
        hidden: frozenset[str] = frozenset({OWN_SCHEMA}),
    ) -> None:
        """`left_out`: what the replicator takes; its excluded columns are not described.

        `hidden`: schemas not shown.
        """
        self._connection = connection
        self._zero_dates = zero_dates
        self._left_out = left_out or TableSet()
        self._hidden = hidden
        self._generated = server_version(connection) >= GENERATED_LOGGED

    def databases(self) -> list[DatabaseInfo]:
        """All schemas but the server's own, empty ones included; a partitioned table is one table."""
        count = "pg_catalog.count(c.oid) FILTER (WHERE NOT c.relispartition)"
        rows = self._rows(
            f"SELECT n.nspname::text, {count}, COALESCE(pg_catalog.array_agg(c.oid::int8) FILTER (WHERE c.oid IS NOT"
            " NULL), '{}') FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid"
            f" AND {_LISTED} WHERE {self._shown()} GROUP BY n.nspname ORDER BY n.nspname"
        )
        sizes = self._sizes([oid for row in rows for oid in row[2]], whole=False)
        return [DatabaseInfo(name, count, sum(sizes[oid][1] for oid in oids)) for name, count, oids in rows]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """One page of tables by schema and name; `search` is a part of `schema.table`, in any case.

        A partition is listed where its table is not, and to who searches for its whole name.
        """
        wanted = search.casefold()
        found = self.names(database)
        if wanted:
            every = self.names(database, partitions=True)
            exact = {table for table in every if wanted in (table.name.casefold(), str(table).casefold())}
            found = sorted({table for table in found if wanted in str(table).casefold()} | exact)
        page = found[offset : offset + limit]
        infos = self.infos(page)
        return [infos.get(table) or TableInfo(table, 0, 0, "") for table in page], len(found)

    def names(self, database: str | None = None, *, partitions: bool = False) -> list[TableId]:
        """All tables, sorted; partitions of a table that is listed as well (by schema, or as selected) only if asked
        for.
        """
        where = f"{_LISTED} AND {self._shown()}" + (
            f" AND n.nspname = {literal(database)}" if database is not None else ""
        )
        rows = self._rows(
            "SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relispartition FROM pg_catalog.pg_class c "
            f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {where}"
        )
        names = {oid: TableId(schema, name) for oid, schema, name, _ in rows}
        parts = [oid for oid, _, _, partition in rows if partition]
        if parts and not partitions:
            for oid in self._covered(parts):
                del names[oid]
        return sorted(names.values())

    def _covered(self, partitions: Collection[int]) -> set[int]:
        """Those whose rows come with a table above them: one of the same schema, or one that the replicator takes."""
        rows = self._rows(
            "SELECT i.inhrelid::int8, i.inhparent::int8, n.nspname::text, p.relname::text, cn.nspname::text FROM"
            " pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition JOIN"
            " pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace JOIN pg_catalog.pg_class p ON p.oid = i.inhparent"
            " JOIN pg_catalog.pg_namespace n ON n.oid = p.relnamespace"
        )
        parents = {row[0]: (row[1], TableId(row[2], row[3]), row[4]) for row in rows}
        found = set()
        for oid in partitions:
            schema = parents[oid][2] if oid in parents else ""
            at: int | None = oid
            while at in parents:
                at, table, _ = parents[at]
                if table.database == schema or table in self._left_out:
                    found.add(oid)
                    break
        return found

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        """Of those that exist."""
        documents = _readable(self._documents(tables))
        sizes = self._sizes([row["oid"] for row, _ in documents.values()])
        found = {}
        for table, (row, types) in documents.items():
            rows, size = sizes.get(row["oid"], (0, 0))
            attributes = attributes_of(row, types)
            engine = (
                "unlogged"
                if row["persistence"] == "u"
                else _KINDS.get(row["kind"], "partition" if row["parents"] else "")
            )
            absent = tuple(one.name for one in attributes if not logged(one, generated=self._generated))
            key = _key(row, attributes)
            word = "" if isinstance(key, TableError) else "primary" if key.primary else "unique" if key.columns else ""
            found[table] = TableInfo(table, rows, size, word, engine, identity_note(row), absent)
        return found

    def keys(self, tables: Sequence[TableId]) -> dict[TableId, tuple[ReplicaIdentity, Key | TableError]]:
        """Of those that exist: replica identity and what tells rows apart, or why nothing does."""
        found: dict[TableId, tuple[ReplicaIdentity, Key | TableError]] = {}
        for table, (row, types) in _readable(self._documents(tables)).items():
            found[table] = (ReplicaIdentity(row["identity"]), _key(row, attributes_of(row, types)))
        return found

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """Present schemas; tables that do not exist are absent; an error where a table cannot be replicated."""
        return schemas(self.details(tables))

    def details(self, tables: Sequence[TableId]) -> dict[TableId, TableDescription | TableError]:
        """As `describe`, with all that reading takes."""
        return {
            table: found if isinstance(found, TableError) else self._described(*found)
            for table, found in self._documents(tables).items()
        }

    def details_by_oid(self, tables: Mapping[int, TableId]) -> dict[int, TableDescription | TableError]:
        """Of those that exist and are tables, under the names that they have now; an error names them as `tables`
        does.
        """
        found: dict[int, TableDescription | TableError] = {}
        for some in _slices(list(tables)):
            answers = self._asked(some, numbers, tables.__getitem__)
            for answer in answers:
                if isinstance(answer, Unanswered):
                    found[answer.item] = answer.error
                else:
                    found[int(answer[0]["oid"])] = self._described(*answer)
        return found

    def types(self, oids: Collection[int]) -> dict[int, PgType]:
        """Those that exist, with what they are made of."""
        found = Types(row[0] for row in self._rows(types_sql(numbers(oids))))
        return {oid: found.get(oid) for oid in oids if oid in found}

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        """Reads none of them."""
        found = self.details([table]).get(table)
        if found is None:
            message = f"{table} no longer exists."
            raise TableDisappeared(message, table=str(table))
        if isinstance(found, TableError):
            raise found
        name = f"{quoted(table.database)}.{quoted(table.name)}"
        with users_fault(table, asked=True):
            read_rows(
                self._connection, f"SELECT 1 FROM {name} WHERE {PostgresKeyRanges(found).selected(rows)} LIMIT 0", table
            )

    def described(self, row: Document, types: Types) -> TableDescription:
        """Build the description from a row of `describe_sql.RELATIONS`, ours or an event trigger's.  TableError."""
        return description(row, types, zero_dates=self._zero_dates, left_out=self._left_out, generated=self._generated)

    def _described(self, row: Document, types: Types) -> TableDescription | TableError:
        try:
            return self.described(row, types)
        except TableError as error:
            return error

    def _documents(self, tables: Sequence[TableId]) -> dict[TableId, Found | TableError]:
        """The catalog's rows of those that exist and are tables."""
        found: dict[TableId, Found | TableError] = {}
        for some in _slices(tables):
            asked = set(some)
            for answer in self._asked(some, named, lambda table: table):
                if isinstance(answer, Unanswered):
                    found[answer.item] = answer.error
                elif (table := table_of(answer[0])) in asked:
                    found[table] = answer
        return {table: found[table] for table in tables if table in found}

    def _asked(
        self, items: Sequence[Item], listed: Callable[[Sequence[Item]], str], name: Callable[[Item], TableId]
    ) -> Sequence[Found | Unanswered[Item]]:
        """One query, so that tables and their types are of one moment.

        Where the server answers it with an error, it is asked for each table alone, so that the others go on (invariant
        13).
        """
        where = name(items[0]) if len(items) == 1 else None
        try:
            with kept_open(self._connection):
                return self._found(listed(items), where or _WHERE)
        except TidemarkError:
            if self._connection.closed:
                raise
        answers: list[Found | Unanswered[Item]] = []
        for item in items:
            try:
                with kept_open(self._connection):
                    answers += self._found(listed([item]), name(item))
            except TableError as error:
                answers.append(Unanswered(item, error))
        return answers

    def _found(self, oids: str, where: str | TableId) -> list[Found]:
        document = read_rows(self._connection, document_sql(oids), where)[0][0]
        types = Types(document["types"])
        return [(row, types) for row in document["relations"] if row["kind"] in TABLES]

    def _sizes(self, oids: Sequence[int], *, whole: bool = True) -> dict[int, tuple[int, int]]:
        """Rows and bytes, estimated; `whole`: a partitioned table's are those of its partitions.

        Files are looked at for tables that were never vacuumed nor analysed.
        """
        sizes: dict[int, tuple[int, int]] = dict.fromkeys(oids, (0, 0))
        found = [row for some in _slices(oids) for row in self._rows(_SIZES.replace("{oids}", numbers(some)))]
        fresh = self._files([row[1] for row in found if not row[4] and row[2] == "r"])
        for root, oid, _, rows, size in found:
            if whole or root == oid:
                sizes[root] = (sizes[root][0] + rows, sizes[root][1] + (size or fresh.get(oid, 0)))
        return sizes

    def are_empty(self, oids: Collection[int]) -> bool:
        """Are these tables without rows, dead rows included, as far as can be seen without waiting?"""
        sizes = self._files([*oids], "pg_relation_size")
        return all(sizes.get(oid) == 0 for oid in oids)

    def _files(self, oids: Sequence[int], size: str = "pg_table_size") -> dict[int, int]:
        """Bytes of these tables; nothing is waited for: a table that is locked just now makes all of them unknown."""
        if not oids:
            return {}
        self._rows("SELECT pg_catalog.set_config('lock_timeout', '100ms', false)")
        try:
            each = f"pg_catalog.unnest(ARRAY[{numbers(oids[:SIZED])}]::int8[]) AS t (oid)"
            return dict(self._rows(f"SELECT t.oid, COALESCE(pg_catalog.{size}(t.oid::oid), 0) FROM {each}"))
        except SourceUnreachable:
            return {}
        finally:
            self._rows("SELECT pg_catalog.set_config('lock_timeout', '10s', false)")

    def _shown(self) -> str:
        hidden = ", ".join(literal(name) for name in sorted({"information_schema", *self._hidden}))
        return f"n.nspname NOT LIKE 'pg\\_%' AND n.nspname NOT IN ({hidden})"

    def _rows(self, sql: str) -> list[Row]:
        return read_rows(self._connection, sql, _WHERE)


def _key(row: Document, attributes: Sequence[Attribute]) -> Key | TableError:
    try:
        return choose_key(row, attributes, {one.name for one in attributes})
    except TableError as error:
        return error


def _readable(documents: Mapping[TableId, Found | TableError]) -> dict[TableId, Found]:
    return {table: found for table, found in documents.items() if not isinstance(found, TableError)}


def _slices(items: Sequence[Item]) -> Iterable[Sequence[Item]]:
    return (items[at : at + LOOKUPS] for at in range(0, len(items), LOOKUPS))
