"""Reading a target table in BigQuery with a plain SELECT, as Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from itertools import islice

import pyarrow as pa
from google.api_core.exceptions import GoogleAPIError, NotFound
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.model import BigQueryConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import Literals, condition
from replicator.verification.warehouses.tables import Batches, Named, decimal_type, pinned

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
    """See `pinned`."""
    digest = blake2b(pair.name.encode(), digest_size=8).hexdigest()
    positions = _place(config, pair.namespace, f"_tidemark_positions_{digest}")
    columns: dict[str, Named] = {}
    with _asking(config, pair) as client:
        try:
            table = client.get_table(f"{config.project}.{pair.namespace}.{pair.name}", timeout=SECONDS)
        except NotFound:
            table = None
        if table is not None:
            ((said,),) = [row.values() for row in client.query(f"SELECT columns FROM {positions}").result()]
            recorded = json.loads(said)
            columns = {one.name: _named(one.field_type, recorded.get(one.name, "")) for one in table.schema}

    def select(names: Sequence[str], wanted: BooleanExpression) -> Batches:
        sql = f"SELECT {', '.join(map(_quoted, names))} FROM {_place(config, pair.namespace, pair.name)}"
        with _asking(config, pair) as client:
            found = client.query(f"{sql} WHERE {condition(wanted, _quoted, _literal)}").result()
            values = (row.values() for row in found)
            while rows := list(islice(values, BATCH_ROWS)):
                yield rows

    return pinned(pair, columns, select)


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


def _named(found: str, recorded: str) -> Named:
    if found in {"NUMERIC", "BIGNUMERIC"} and (decimal := decimal_type(recorded)):
        return decimal
    name, kind, physical = TYPES.get(recorded, (found, pa.string(), frozenset()))
    return (name, kind) if found in physical else (found, pa.string())


def _place(config: BigQueryConfig, namespace: str, name: str) -> str:
    return ".".join(map(_quoted, (config.project, namespace, name)))


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"})
_literal = Literals(
    text=lambda value: f"'{value.translate(_ESCAPES)}'",
    decimal=lambda value: f"BIGNUMERIC '{value:f}'",
    double=lambda value: f"CAST('{value!r}' AS FLOAT64)",
    binary=lambda value: f"FROM_HEX('{value.hex()}')",
    day=lambda value: f"DATE '{value.isoformat()}'",
    moment=lambda value: f"{'DATETIME' if value.tzinfo is None else 'TIMESTAMP'} '{value.isoformat(sep=' ')}'",
)
