"""Reading a target table in Amazon Redshift with a plain SELECT, as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError, TidemarkError
from replicator.verification.model import RedshiftConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import Literals, condition, quoted
from replicator.verification.warehouses.tables import Batches, Named, decimal_type, pinned

BATCH_ROWS = 1000  # a cluster of one node gives no more at a time
CASE = "SET enable_case_sensitive_identifier TO true"
# What the server calls a type, what a comparison calls it, and its form in Arrow.
TYPES: Mapping[str, Named] = {
    "boolean": ("boolean", pa.bool_()),
    "integer": ("int", pa.int32()),
    "bigint": ("long", pa.int64()),
    "real": ("float", pa.float32()),
    "double precision": ("double", pa.float64()),
    "character varying": ("string", pa.string()),
    "binary varying": ("binary", pa.binary()),
    "varbyte": ("binary", pa.binary()),
    "date": ("date", pa.date32()),
    "timestamp without time zone": ("timestamp", pa.timestamp("us")),
    "timestamp with time zone": ("timestamptz", pa.timestamp("us", "UTC")),
}
COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = {0} AND c.relname = {1} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# Whether a backslash in quotes stands for itself depends on the server.
_literal = Literals(
    text=lambda value: " || CHR(92) || ".join("'" + part.replace("'", "''") + "'" for part in value.split("\\")),
    binary=lambda value: f"FROM_HEX('{value.hex()}')",
)


def open_table(config: RedshiftConfig, pair: TablePair) -> PinnedTable:
    """See `pinned`."""
    with _told(pair), closing(config.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(COLUMNS.format(_literal(pair.namespace), _literal(pair.name)))
        columns = {str(name): _named(str(kind)) for name, kind in cursor.fetchall()}

    def select(names: Sequence[str], wanted: BooleanExpression) -> Batches:
        """By a cursor of the server, so that no more than a batch is in memory."""
        # It may be true of more rows: texts differ by blanks at their end.
        which = condition(wanted, quoted, _literal)
        sql = f"SELECT {', '.join(map(quoted, names))} FROM {quoted(pair.namespace)}.{quoted(pair.name)} WHERE {which}"
        with _told(pair), closing(config.connect()) as connection:
            cursor = connection.cursor()
            for statement in (CASE, "BEGIN", f"DECLARE tidemark_rows CURSOR FOR {sql}"):
                cursor.execute(statement)
            while rows := cursor.execute(f"FETCH FORWARD {BATCH_ROWS} FROM tidemark_rows").fetchall():
                yield rows
            cursor.execute("ROLLBACK")

    return pinned(pair, columns, select, _value)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Bytes come as hexadecimal digits."""
    return bytes.fromhex(value.removeprefix("\\x")) if pa.types.is_binary(kind) and value is not None else value


@contextmanager
def _told(pair: TablePair) -> Iterator[None]:
    try:
        yield
    except TidemarkError as error:
        raise TargetError(f"The target cannot be reached: {error.message}") from None
    except Exception as error:  # noqa: BLE001 - the client raises errors of any type where a connection breaks
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        said = fields.get("M") or type(error).__name__
        message = f"{pair.namespace}.{pair.name} cannot be read: {said}"
        raise TargetError(message, table=str(pair)) from None


def _named(kind: str) -> Named:
    return decimal_type(kind) or TYPES.get(kind.partition("(")[0] if "varying" in kind else kind, (kind, pa.string()))
