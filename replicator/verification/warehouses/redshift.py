"""Reading a target table in Amazon Redshift with a plain SELECT, as Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError, TidemarkError
from replicator.verification.model import RedshiftConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import condition

BATCH_ROWS = 1000  # a cluster of one node gives no more at a time
CASE = "SET enable_case_sensitive_identifier TO true"
# What the server calls a type, what a comparison calls it, and its form in Arrow.
TYPES: Mapping[str, tuple[str, pa.DataType]] = {
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
_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")


def open_table(config: RedshiftConfig, pair: TablePair) -> PinnedTable:
    """The table as it is now; each reading sees one state of it.  Raises TargetError where it does not exist."""
    with _told(pair), closing(config.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(COLUMNS.format(_literal(pair.namespace), _literal(pair.name)))
        found = [(str(name), str(kind)) for name, kind in cursor.fetchall()]
    if not found:
        message = f"{pair.namespace}.{pair.name} does not exist in the target"
        raise TargetError(message, table=str(pair))
    columns = tuple((name, _named(kind)[0]) for name, kind in found)
    return PinnedTable(_Rows(config, pair, {name: _named(kind)[1] for name, kind in found}), columns, ordered=False)


class _Rows:
    def __init__(self, config: RedshiftConfig, pair: TablePair, types: Mapping[str, pa.DataType]) -> None:
        self._config, self._pair, self._types = config, pair, types

    def name(self) -> tuple[str, ...]:
        return (self._pair.namespace, self._pair.name)

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        """By a cursor of the server, so that no more than a batch is in memory."""
        listed = ", ".join(_quoted(name) for name in names)
        place = f"{_quoted(self._pair.namespace)}.{_quoted(self._pair.name)}"
        schema = pa.schema([pa.field(name, self._types[name]) for name in names])
        # It may be true of more rows: texts differ by blanks at their end.
        which = condition(wanted, _quoted, _literal)
        with _told(self._pair), closing(self._config.connect()) as connection:
            cursor = connection.cursor()
            for statement in (
                CASE, "BEGIN",
                f"DECLARE tidemark_rows CURSOR FOR SELECT {listed} FROM {place} WHERE {which}",
            ):  # fmt: skip
                cursor.execute(statement)
            while rows := cursor.execute(f"FETCH FORWARD {BATCH_ROWS} FROM tidemark_rows").fetchall():
                columns = [
                    pa.array([_value(value, kind) for value in column], kind)
                    for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
            cursor.execute("ROLLBACK")


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


def _named(kind: str) -> tuple[str, pa.DataType]:
    if match := _DECIMAL.fullmatch(kind):
        precision, scale = int(match[1]), int(match[2])
        return f"decimal({precision},{scale})", pa.decimal128(precision, scale)
    return TYPES.get(kind.partition("(")[0] if "varying" in kind else kind, (kind, pa.string()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    """Whether a backslash in quotes stands for itself depends on the server."""
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, bytes):
        return f"FROM_HEX('{value.hex()}')"
    return " || CHR(92) || ".join("'" + part.replace("'", "''") + "'" for part in str(value).split("\\"))
