"""Reading a target table in Postgres with a plain SELECT, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import extensions
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    NotNull,
    Or,
)

from replicator.errors import SourceUnreachable, TargetError
from replicator.verification.model import DatabaseConfig, TablePair
from replicator.verification.postgres.reader import BATCH_ROWS, connect, first_line
from replicator.verification.target import PinnedTable

# What the server calls a type, what a comparison calls it, and its form in Arrow.
TYPES: Mapping[str, tuple[str, pa.DataType]] = {
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
    """The table as it is now; each reading sees one state of it.  Raises TargetError where it does not exist."""
    with closing(_connected(config)) as connection, _told(pair), connection.cursor() as cursor:
        cursor.execute(COLUMNS, (pair.namespace, pair.name))
        found = [(str(name), str(kind)) for name, kind in cursor.fetchall()]
    if not found:
        message = f"{pair.namespace}.{pair.name} does not exist in the target"
        raise TargetError(message, table=str(pair))
    columns = tuple((name, _named(kind)[0]) for name, kind in found)
    return PinnedTable(_Rows(config, pair, {name: _named(kind)[1] for name, kind in found}), columns, ordered=False)


class _Rows:
    def __init__(self, config: DatabaseConfig, pair: TablePair, types: Mapping[str, pa.DataType]) -> None:
        self._config, self._pair, self._types = config, pair, types

    def name(self) -> tuple[str, ...]:
        return (self._pair.namespace, self._pair.name)

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        condition, values = _condition(wanted)
        listed = ", ".join(_quoted(name) for name in names)
        place = f"{_quoted(self._pair.namespace)}.{_quoted(self._pair.name)}"
        schema = pa.schema([pa.field(name, self._types[name]) for name in names])
        with closing(_connected(self._config)) as connection, _told(self._pair), connection.cursor("rows") as cursor:
            with connection.cursor() as plain:
                where = plain.mogrify(condition, values).decode() if values else condition
            cursor.execute(f"SELECT {listed} FROM {place} WHERE {where}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = [
                    pa.array([_plain(value) for value in column], kind)
                    for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(value: Any) -> Any:
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


def _named(kind: str) -> tuple[str, pa.DataType]:
    if kind.startswith("numeric("):
        precision, scale = map(int, kind.removeprefix("numeric(").removesuffix(")").split(","))
        return f"decimal({precision},{scale})", pa.decimal128(precision, scale)
    return TYPES.get(kind, (kind, pa.string()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _condition(wanted: BooleanExpression) -> tuple[str, list[Any]]:
    """As SQL with its values; only what verification asks for."""
    if isinstance(wanted, AlwaysTrue):
        return "true", []
    if isinstance(wanted, And | Or):
        (left, some), (right, more) = _condition(wanted.left), _condition(wanted.right)
        return f"({left} {'AND' if isinstance(wanted, And) else 'OR'} {right})", [*some, *more]
    test, values = _TESTS[type(wanted)](wanted)
    return f"{_quoted(wanted.term.name).replace('%', '%%')} {test}", values


_TESTS: Mapping[type[BooleanExpression], Callable[[Any], tuple[str, list[Any]]]] = {
    EqualTo: lambda wanted: ("= %s", [wanted.literal.value]),
    GreaterThanOrEqual: lambda wanted: (">= %s", [wanted.literal.value]),
    IsNull: lambda _: ("IS NULL", []),
    NotNull: lambda _: ("IS NOT NULL", []),
    In: lambda wanted: ("= ANY (%s)", [[one.value for one in wanted.literals]]),
}
