"""Reading a target table in Postgres with a plain SELECT, as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import extensions
from pyiceberg.expressions import BooleanExpression

from replicator.errors import SourceUnreachable, TargetError
from replicator.verification.model import DatabaseConfig, TablePair
from replicator.verification.postgres.reader import BATCH_ROWS, connect, first_line
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import condition, quoted
from replicator.verification.warehouses.tables import Batches, Named, decimal_type, pinned

# What the server calls a type, what a comparison calls it, and its form in Arrow.
TYPES: Mapping[str, Named] = {
    "boolean": ("boolean", pa.bool_()),
    "integer": ("int", pa.int32()),
    "bigint": ("long", pa.int64()),
    "real": ("float", pa.float32()),
    "double precision": ("double", pa.float64()),
    "text": ("string", pa.string()),
    "bytea": ("binary", pa.binary()),
    "date": ("date", pa.date32()),
    "timestamp without time zone": ("timestamp", pa.timestamp("us")),
    "timestamp with time zone": ("timestamptz", pa.timestamp("us", "UTC")),
}
VALUES = (
    extensions.INTEGER, extensions.LONGINTEGER, extensions.FLOAT, extensions.DECIMAL, extensions.BOOLEAN,
    psycopg2.BINARY, extensions.PYDATE, extensions.PYDATETIME, extensions.PYDATETIMETZ,
)  # fmt: skip
COLUMNS = """
    SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def open_table(config: DatabaseConfig, pair: TablePair) -> PinnedTable:
    """See `pinned`."""
    with closing(_connected(config)) as connection, _told(pair), connection.cursor() as cursor:
        cursor.execute(COLUMNS, (pair.namespace, pair.name))
        columns = {str(name): _named(str(kind)) for name, kind in cursor.fetchall()}

    def select(names: Sequence[str], wanted: BooleanExpression) -> Batches:
        """By a cursor of the server."""
        place = f"{quoted(pair.namespace)}.{quoted(pair.name)}"
        with closing(_connected(config)) as connection, _told(pair), connection.cursor("rows") as cursor:
            with connection.cursor() as plain:
                which = condition(wanted, quoted, lambda value: str(plain.mogrify("%s", (value,)).decode()))
            cursor.execute(f"SELECT {', '.join(map(quoted, names))} FROM {place} WHERE {which}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield rows

    return pinned(pair, columns, select, _value)


def _value(value: Any, kind: pa.DataType) -> Any:
    del kind
    return bytes(value) if isinstance(value, memoryview) else value


@contextmanager
def _told(pair: TablePair) -> Iterator[None]:
    try:
        yield
    except psycopg2.Error as error:
        message = f"{pair.namespace}.{pair.name} cannot be read: {first_line(error)}"
        raise TargetError(message, table=str(pair)) from None


def _connected(config: DatabaseConfig) -> Any:
    """One that gives Python's values, not texts as a source's does."""
    try:
        connection = connect(config.server)
    except SourceUnreachable as error:
        raise TargetError(f"The target cannot be reached: {error.message}") from None
    for kind in VALUES:
        extensions.register_type(kind, connection)
    return connection


def _named(kind: str) -> Named:
    return decimal_type(kind) or TYPES.get(kind, (kind, pa.string()))
