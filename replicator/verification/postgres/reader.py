"""Reading a Postgres table row by row as canonical cells, with plain SELECTs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg2
from psycopg2 import extensions

from replicator.clear_text import LIBPQ_OPTIONS, libpq_address
from replicator.errors import SourceError, SourceUnreachable, TableDisappeared, UnsupportedType
from replicator.verification.cells import Cell, CellRule, Cells, show
from replicator.verification.model import SourceConfig, TablePair
from replicator.verification.postgres.rules import CONVERT, PostgresColumn, left_out, rule
from replicator.verification.source import NamedColumn, Row, SourceTable

START_ROWS, BATCH_ROWS = 100, 10_000
BATCH_CHARACTERS = 16 * 1024 * 1024
KEYS_AT_ONCE = 200
TABLE_KINDS = {"r", "p"}
# How values are printed, regardless of the defaults of the role or the database.  row_security off: a policy that would
# hide rows raises an error.
SESSION = """
    SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; SET extra_float_digits = 3;
    SET bytea_output = 'hex'; SET xmloption = 'content'; SET search_path = ''; SET lc_monetary = 'C';
    SET standard_conforming_strings = on; SET row_security = off; SET cursor_tuple_fraction = 1;
    SET quote_all_identifiers = off; SET lock_timeout = '10s';
    SELECT set_config(name, '0', false) FROM pg_settings
    WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout',
                   'idle_session_timeout')
"""
TABLE = """
    SELECT c.oid, c.relkind::text, greatest(c.reltuples, 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
COLUMNS = """
    WITH RECURSIVE unwrapped (number, type, modifier) AS (
        SELECT attnum, atttypid, atttypmod FROM pg_attribute
        WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
      UNION ALL
        SELECT u.number, t.typbasetype, t.typtypmod
        FROM unwrapped u JOIN pg_type t ON t.oid = u.type WHERE t.typtype = 'd'
    )
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
           CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname::text ELSE '' END,
           t.typtype::text, u.modifier, a.attgenerated::text
    FROM unwrapped u JOIN pg_type t ON t.oid = u.type JOIN pg_attribute a ON a.attrelid = %s AND a.attnum = u.number
    WHERE t.typtype <> 'd' ORDER BY a.attnum
"""
TABLES = """
    SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
    AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
"""
CATALOG = TablePair("pg_catalog", "pg_class", "", "")
# psycopg2 would make Python objects of these, arrays and JSON among them
KNOWN_TYPES = tuple(set(extensions.string_types) - set(extensions.UNICODE.values))
AS_PRINTED = extensions.new_type(KNOWN_TYPES, "AS_PRINTED", lambda text, _: text)


class PostgresReader:
    """A connection that gives values as the text the server printed; every read is a REPEATABLE READ transaction."""

    def __init__(self, config: SourceConfig) -> None:
        """Raises SourceUnreachable."""
        self._config = config
        self._connection = connect(config)

    @contextmanager
    def reading(self, pair: TablePair) -> Iterator[None]:
        """Raises SourceUnreachable where it breaks off, SourceError where the server refuses."""
        if not alive(self._connection):
            self._connection.close()
            self._connection = connect(self._config)
        try:
            yield
        except UnicodeDecodeError as error:
            message = f"{pair} holds text that is not UTF-8: {error.reason} at byte {error.start}"
            raise SourceError(message, table=str(pair)) from error
        except psycopg2.Error as error:
            said = first_line(error)
            if self._connection.closed:
                message = f"the connection to the source was lost while {pair} was read: {said}"
                raise SourceUnreachable(message, table=str(pair)) from error
            message = f"{pair} cannot be read from the source: {said}"
            raise SourceError(message, table=str(pair)) from error
        finally:
            with suppress(psycopg2.Error):
                self._connection.rollback()

    def tables(self) -> list[tuple[str, str]]:
        """Schema and name of each table of the database, partitions apart.  Raises SourceUnreachable, SourceError."""
        with self.reading(CATALOG), self._connection, self._connection.cursor() as cursor:
            cursor.execute(TABLES)
            return [(schema, name) for schema, name in cursor.fetchall()]

    def folds_names(self) -> bool:
        """No."""
        return False

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """Raises TableDisappeared, UnsupportedType."""
        oid, rows = self._table(pair)
        columns: list[tuple[PostgresColumn, CellRule]] = []
        absent: dict[str, str] = {}
        for column in self._columns(oid):
            if column.name in pair.excluded_columns:
                continue
            if reason := left_out(column, self._connection.server_version):
                absent[column.name] = reason
                continue
            if (how := rule(column, zero_dates)) is None:
                message = f"verification has no rule for the type {column.column_type} of {pair}.{column.name}"
                raise UnsupportedType(message, table=str(pair))
            columns.append((column, how))
        return SourceTable(tuple(columns), rows, absent)

    def _table(self, pair: TablePair) -> tuple[int, int]:
        """oid, estimate of the rows."""
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(TABLE, (pair.database, pair.table))
            found: tuple[int, str, int] | None = cursor.fetchone()
        if found is None or found[1] not in TABLE_KINDS:
            message = f"{pair} {'is not a table' if found else 'does not exist'} in the source"
            raise TableDisappeared(message, table=str(pair))
        return int(found[0]), int(found[2])

    def _columns(self, oid: int) -> list[PostgresColumn]:
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(COLUMNS, (oid, oid))
            found = cursor.fetchall()
        return [
            PostgresColumn(name, words, plain, kind, int(modifier), generated)
            for name, words, plain, kind, modifier, generated in found
        ]

    def read(self, pair: TablePair, table: SourceTable, where: str = "") -> Iterator[list[Row]]:
        """All rows (or those that `where` selects) as of one moment, in batches of canonical cells."""
        # `%` stays as it is: psycopg2 only formats a statement that comes with arguments
        selected = ", ".join(how.select.replace("{}", quote(column.name)) for column, how in table.columns)
        # As any user asks for it: with the rows of partitions, and of children where it has some.
        from_ = f"{quote(pair.database)}.{quote(pair.table)}"
        converts = [CONVERT[how.convert] for _, how in table.columns]
        with self._connection, self._connection.cursor("verify") as cursor:
            cursor.execute(f"SELECT {selected} FROM {from_}{where}")
            batch = START_ROWS
            while rows := cursor.fetchmany(batch):
                batch = following(rows)
                columns = zip(*rows, strict=True)
                cells: list[Cells] = [convert(texts) for convert, texts in zip(converts, columns, strict=True)]
                yield list(zip(*cells, strict=True))

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows that the source holds now under these keys (a few hundred at a time), and those it calls equal."""
        columns = [next(c for c in table.columns if c[0].name == name) for name in pair.key]
        names = ", ".join(how.compare.replace("{}", quote(column.name)) for column, how in columns)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            wanted = [
                "(" + ", ".join(literal(cell, *one) for cell, one in zip(key, columns, strict=True)) + ")"
                for key in keys[start : start + KEYS_AT_ONCE]
                if None not in key
            ]
            if wanted:
                yield from self.read(pair, table, f" WHERE ({names}) IN ({', '.join(wanted)})")

    def close(self) -> None:
        """The connection, too."""
        self._connection.close()


def connect(config: SourceConfig) -> extensions.connection:
    """A connection that reads only, with `SESSION`.  Raises SourceUnreachable."""
    try:
        with authorities(config.ca) as own:
            connection: extensions.connection = psycopg2.connect(
                **{"connect_timeout": 10, **({} if config.verified else LIBPQ_OPTIONS), **own, **config.connect},
                **libpq_address(config.host, config.port),
                user=config.user,
                password=config.password,
                dbname=config.database,
                client_encoding="UTF8",
                application_name="tidemark-verify",
            )
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
        connection.set_session("REPEATABLE READ", readonly=True, autocommit=False)
    except (psycopg2.Error, OSError) as error:
        said = first_line(error) if isinstance(error, psycopg2.Error) else error
        message = f"cannot connect to {config.host}:{config.port}: {said}"
        raise SourceUnreachable(message) from None
    extensions.register_type(AS_PRINTED, connection)
    return connection


@contextmanager
def authorities(ca: str) -> Iterator[dict[str, str]]:
    """`sslrootcert`: libpq takes certificates from a file only, which is there while it connects."""
    if not ca:
        yield {}
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(ca)
        file.flush()
        yield {"sslrootcert": file.name}


def following(rows: Sequence[Sequence[str | None]]) -> int:
    """How many rows to ask for after these, so that wide ones fit into memory as well (invariant 9)."""
    size = sum(len(text) for row in rows for text in row if text is not None)
    return max(1, min(BATCH_ROWS, len(rows) * BATCH_CHARACTERS // (size + 1)))


def alive(connection: extensions.connection) -> bool:
    """Does the server answer?"""
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.Error:
        return False
    return True


def first_line(error: psycopg2.Error) -> str:
    """What the server said, without the statement."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def quote(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(cell: Cell, column: NamedColumn, how: CellRule) -> str:
    """A canonical cell as SQL, of the column's own type."""
    if cell is None:
        return "NULL"
    text = "\\x" + cell.hex() if how.iceberg == "binary" else show(cell, how.iceberg) or ""
    return how.compare.replace("{}", "'" + text.replace("'", "''") + f"'::{column.column_type}")
