"""Reading a target table in Snowflake with a plain SELECT, as Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
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
from replicator.verification.warehouses.conditions import Literals, condition, quoted
from replicator.verification.warehouses.tables import Batches, Named, decimal_type, pinned

BATCH_ROWS = 10_000
# What the position says of a column, what a comparison calls it, and its form in Arrow.
TYPES: Mapping[str, Named] = {
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
    """See `pinned`."""
    database = quoted(config.database)
    where = f"table_schema = {_literal(pair.namespace)} AND table_name = {_literal(pair.name)}"
    digest = blake2b(pair.name.encode(), digest_size=8).hexdigest()
    positions = f"{database}.{quoted(pair.namespace)}.{quoted('_tidemark_positions_' + digest)}"
    columns: dict[str, Named] = {}
    with _asking(config, pair) as cursor:
        found = cursor.execute(
            f"SELECT column_name, data_type FROM {database}.INFORMATION_SCHEMA.COLUMNS WHERE {where}"
            " ORDER BY ordinal_position"
        ).fetchall()
        if found:
            ((said,),) = cursor.execute(f"SELECT columns FROM {positions}").fetchall()
            recorded = json.loads(said)
            columns = {str(name): _named(str(kind), recorded.get(name, "")) for name, kind in found}

    def select(names: Sequence[str], wanted: BooleanExpression) -> Batches:
        place = ".".join(map(quoted, (config.database, pair.namespace, pair.name)))
        which = condition(wanted, quoted, _literal)
        with _asking(config, pair) as cursor:
            cursor.execute(f"SELECT {', '.join(map(quoted, names))} FROM {place} WHERE {which}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield rows

    return pinned(pair, columns, select, _value)


@contextmanager
def _asking(config: SnowflakeConfig, pair: TablePair) -> Iterator[Any]:
    try:
        with closing(connector.connect(**config.connect)) as connection, connection.cursor() as cursor:
            yield cursor
    except Error as error:
        message = f"{pair.namespace}.{pair.name} cannot be read: Snowflake's error {error.errno}"
        raise TargetError(message, table=str(pair)) from None


def _value(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Decimal) and pa.types.is_integer(kind):
        return int(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC) if kind.tz else value.replace(tzinfo=None)
    return value


def _named(found: str, recorded: str) -> Named:
    if found == "NUMBER" and (decimal := decimal_type(recorded)):
        return decimal
    if found not in PHYSICAL.get(recorded, "NUMBER").split():
        return found, pa.string()
    return TYPES.get(recorded, (found, pa.string()))


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


_literal = Literals(
    text=_text,
    decimal=str,
    double=lambda value: f"'{value!r}'::FLOAT",
    binary=lambda value: f"TO_BINARY('{value.hex()}', 'HEX')",
    day=lambda value: f"'{value.isoformat()}'::DATE",
    moment=lambda value: f"'{value.isoformat(sep=' ')}'::TIMESTAMP_{'NTZ' if value.tzinfo is None else 'LTZ'}",
)
