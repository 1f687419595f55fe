"""Reading a target table in Snowflake with a plain SELECT, as Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from snowflake import connector
from snowflake.connector.errors import Error

from replicator.errors import TargetError
from replicator.verification.model import SnowflakeConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import condition

BATCH_ROWS = 10_000
# What the position says of a column, what a comparison calls it, and its form in Arrow.
TYPES: Mapping[str, tuple[str, pa.DataType]] = {
    "boolean": ("boolean", pa.bool_()),
    "int": ("int", pa.int32()),
    "bigint": ("long", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "string": ("string", pa.string()),
    "binary": ("binary", pa.binary()),
    "date": ("date", pa.date32()),
    "timestamp_ntz": ("timestamp", pa.timestamp("us")),
    "timestamp": ("timestamptz", pa.timestamp("us", "UTC")),
}
# What Snowflake itself says: a column that is recorded as one of these, and is another, differs.
PHYSICAL = {
    "boolean": "BOOLEAN", "float": "FLOAT", "double": "FLOAT", "string": "TEXT", "binary": "BINARY", "date": "DATE",
    "timestamp_ntz": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP_LTZ TIMESTAMP_TZ",
}  # fmt: skip


def open_table(config: SnowflakeConfig, pair: TablePair) -> PinnedTable:
    """The table as it is now; each reading sees one state of it.  Raises TargetError where it does not exist."""
    database = _quoted(config.database)
    where = f"table_schema = {_literal(pair.namespace)} AND table_name = {_literal(pair.name)}"
    digest = blake2b(pair.name.encode(), digest_size=8).hexdigest()
    positions = f"{database}.{_quoted(pair.namespace)}.{_quoted('_tidemark_positions_' + digest)}"
    with _asking(config, pair) as cursor:
        found = cursor.execute(
            f"SELECT column_name, data_type FROM {database}.INFORMATION_SCHEMA.COLUMNS WHERE {where}"
            " ORDER BY ordinal_position"
        ).fetchall()
        if not found:
            message = f"{pair.namespace}.{pair.name} does not exist in the target"
            raise TargetError(message, table=str(pair))
        ((said,),) = cursor.execute(f"SELECT columns FROM {positions}").fetchall()
    recorded = json.loads(said)
    named = [(str(name), *_named(str(kind), recorded.get(name, ""))) for name, kind in found]
    rows = _Rows(config, pair, {name: kind for name, _, kind in named})
    return PinnedTable(rows, tuple((name, text) for name, text, _ in named), ordered=False)


class _Rows:
    def __init__(self, config: SnowflakeConfig, pair: TablePair, types: Mapping[str, pa.DataType]) -> None:
        self._config, self._pair, self._types = config, pair, types

    def name(self) -> tuple[str, ...]:
        return (self._pair.namespace, self._pair.name)

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(map(_quoted, names))
        place = ".".join(map(_quoted, (self._config.database, self._pair.namespace, self._pair.name)))
        schema = pa.schema([pa.field(name, self._types[name]) for name in names])
        with _asking(self._config, self._pair) as cursor:
            cursor.execute(f"SELECT {listed} FROM {place} WHERE {condition(wanted, _quoted, _literal)}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = [
                    pa.array([_plain(value, kind) for value in column], kind)
                    for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def _asking(config: SnowflakeConfig, pair: TablePair) -> Iterator[Any]:
    try:
        with closing(connector.connect(**config.connect)) as connection, connection.cursor() as cursor:
            yield cursor
    except Error as error:
        message = f"{pair.namespace}.{pair.name} cannot be read: Snowflake's error {error.errno}"
        raise TargetError(message, table=str(pair)) from None


def _plain(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Decimal) and pa.types.is_integer(kind):
        return int(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC) if kind.tz else value.replace(tzinfo=None)
    return value


def _named(found: str, recorded: str) -> tuple[str, pa.DataType]:
    if recorded.startswith("decimal(") and found == "NUMBER":
        precision, scale = map(int, recorded.removeprefix("decimal(").removesuffix(")").split(","))
        return recorded, pa.decimal128(precision, scale)
    if found not in PHYSICAL.get(recorded, "NUMBER").split():
        return found, pa.string()
    return TYPES.get(recorded, (found, pa.string()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"'{value.isoformat(sep=' ')}'::TIMESTAMP_{'NTZ' if value.tzinfo is None else 'LTZ'}"
    form = next((form for kind, form in _LITERALS if isinstance(value, kind)), None)
    if form is not None:
        return form(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


_LITERALS: Sequence[tuple[type, Callable[[Any], str]]] = (
    (bool, lambda value: str(value).upper()),
    (int, str),
    (Decimal, str),
    (float, lambda value: f"'{value!r}'::FLOAT"),
    (bytes, lambda value: f"TO_BINARY('{value.hex()}', 'HEX')"),
    (date, lambda value: f"'{value.isoformat()}'::DATE"),
)
