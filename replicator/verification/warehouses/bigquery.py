"""Reading a target table in BigQuery with a plain SELECT, as Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from typing import Any

import pyarrow as pa
from google.api_core.exceptions import GoogleAPIError, NotFound
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.model import BigQueryConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import condition

BATCH_ROWS = 10_000
SECONDS = 60.0  # of a request
# What the position says of a column, what a comparison calls it, its form in Arrow, and what BigQuery itself says.
TYPES: Mapping[str, tuple[str, pa.DataType, frozenset[str]]] = {
    "boolean": ("boolean", pa.bool_(), frozenset({"BOOLEAN", "BOOL"})),
    "int": ("int", pa.int32(), frozenset({"INTEGER", "INT64"})),
    "bigint": ("long", pa.int64(), frozenset({"INTEGER", "INT64"})),
    "float": ("float", pa.float32(), frozenset({"FLOAT", "FLOAT64"})),
    "double": ("double", pa.float64(), frozenset({"FLOAT", "FLOAT64"})),
    "string": ("string", pa.string(), frozenset({"STRING"})),
    "binary": ("binary", pa.binary(), frozenset({"BYTES"})),
    "date": ("date", pa.date32(), frozenset({"DATE"})),
    "timestamp_ntz": ("timestamp", pa.timestamp("us"), frozenset({"DATETIME"})),
    "timestamp": ("timestamptz", pa.timestamp("us", "UTC"), frozenset({"TIMESTAMP"})),
}


def open_table(config: BigQueryConfig, pair: TablePair) -> PinnedTable:
    """The table as it is now; each reading sees one state of it.  Raises TargetError where it does not exist."""
    digest = blake2b(pair.name.encode(), digest_size=8).hexdigest()
    positions = _place(config, pair.namespace, f"_tidemark_positions_{digest}")
    with _asking(config, pair) as client:
        try:
            table = client.get_table(f"{config.project}.{pair.namespace}.{pair.name}", timeout=SECONDS)
        except NotFound:
            message = f"{pair.namespace}.{pair.name} does not exist in the target"
            raise TargetError(message, table=str(pair)) from None
        ((said,),) = [row.values() for row in client.query(f"SELECT columns FROM {positions}").result()]
    recorded = json.loads(said)
    named = [(one.name, *_named(one.field_type, recorded.get(one.name, ""))) for one in table.schema]
    rows = _Rows(config, pair, {name: kind for name, _, kind in named})
    return PinnedTable(rows, tuple((name, text) for name, text, _ in named), ordered=False)


class _Rows:
    def __init__(self, config: BigQueryConfig, pair: TablePair, types: Mapping[str, pa.DataType]) -> None:
        self._config, self._pair, self._types = config, pair, types

    def name(self) -> tuple[str, ...]:
        return (self._pair.namespace, self._pair.name)

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(map(_quoted, names))
        place = _place(self._config, self._pair.namespace, self._pair.name)
        schema = pa.schema([pa.field(name, self._types[name]) for name in names])
        with _asking(self._config, self._pair) as client:
            found = client.query(f"SELECT {listed} FROM {place} WHERE {condition(wanted, _quoted, _literal)}").result()
            values = (row.values() for row in found)
            while rows := list(islice(values, BATCH_ROWS)):
                columns = [
                    pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def _asking(config: BigQueryConfig, pair: TablePair) -> Iterator[bigquery.Client]:
    options = {"api_endpoint": config.endpoint} if config.endpoint else None
    made = bigquery.Client(config.project, config.credentials, location=config.location, client_options=options)
    try:
        with closing(made) as client:
            yield client
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        message = f"{pair.namespace}.{pair.name} cannot be read: BigQuery's {type(error).__name__}"
        raise TargetError(message, table=str(pair)) from None


def _named(found: str, recorded: str) -> tuple[str, pa.DataType]:
    if recorded.startswith("decimal(") and found in {"NUMERIC", "BIGNUMERIC"}:
        precision, scale = map(int, recorded.removeprefix("decimal(").removesuffix(")").split(","))
        return recorded, pa.decimal128(precision, scale)
    name, kind, physical = TYPES.get(recorded, (found, pa.string(), frozenset()))
    return (name, kind) if found in physical else (found, pa.string())


def _place(config: BigQueryConfig, namespace: str, name: str) -> str:
    return ".".join(map(_quoted, (config.project, namespace, name)))


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{'DATETIME' if value.tzinfo is None else 'TIMESTAMP'} '{value.isoformat(sep=' ')}'"
    form = next((form for kind, form in _LITERALS if isinstance(value, kind)), None)
    if form is not None:
        return form(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{text}'"


_LITERALS: Sequence[tuple[type, Callable[[Any], str]]] = (
    (bool, lambda value: str(value).upper()),
    (int, str),
    (Decimal, lambda value: f"BIGNUMERIC '{value:f}'"),
    (float, lambda value: f"CAST('{value!r}' AS FLOAT64)"),
    (bytes, lambda value: f"FROM_HEX('{value.hex()}')"),
    (date, lambda value: f"DATE '{value.isoformat()}'"),
)
