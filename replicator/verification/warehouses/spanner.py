"""Reading a target table in Spanner by the vendor's client for programs, as Arrow."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud.spanner_v1 import Client, KeySet
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.model import SpannerConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import Literals, condition
from replicator.verification.warehouses.tables import Batches, Named, decimal_type, pinned

BATCH_ROWS = 10_000
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
POSITIONS = "tidemark_positions"
# What the position says of a column, what a comparison calls it, its form in Arrow, and Spanner's type.
TYPES: Mapping[str, tuple[str, pa.DataType, str]] = {
    "boolean": ("boolean", pa.bool_(), "BOOL"),
    "int": ("int", pa.int32(), "INT64"),
    "bigint": ("long", pa.int64(), "INT64"),
    "float": ("float", pa.float32(), "FLOAT64"),
    "double": ("double", pa.float64(), "FLOAT64"),
    "string": ("string", pa.string(), "STRING(MAX)"),
    "binary": ("binary", pa.binary(), "BYTES(MAX)"),
    "date": ("date", pa.date32(), "DATE"),
    "timestamp_ntz": ("timestamp", pa.timestamp("us"), "TIMESTAMP"),
    "timestamp": ("timestamptz", pa.timestamp("us", "UTC"), "TIMESTAMP"),
}
_OWN = re.compile(
    "_(sequence_num|operation|commit_ts|unchanged|below|is_deleted|deleted_at|valid_from|valid_to|is_current)"
)


def open_table(config: SpannerConfig, pair: TablePair) -> PinnedTable:
    """See `pinned`."""
    with _reading(config, pair) as snapshot:
        found = list(snapshot.execute_sql(
            "SELECT column_name, spanner_type FROM information_schema.columns"
            f" WHERE table_schema = '{pair.namespace}' AND table_name = '{pair.name}' ORDER BY ordinal_position"
        ))  # fmt: skip
        where = f"{pair.namespace}.{POSITIONS}"
        said = list(snapshot.read(where, ["columns"], KeySet(keys=[[pair.name]]))) if found else ()
    recorded = {spanner_name(name): (name, kind) for name, kind in json.loads(said[0][0] if said else "{}").items()}
    named = {place: recorded.get(place, (place, "")) for place, _ in found}
    columns = {named[place][0]: _named(kind, named[place][1]) for place, kind in found}
    places = {name: f"`{place}`" for place, (name, _) in named.items()}

    def select(names: Sequence[str], wanted: BooleanExpression) -> Batches:
        """With another name for the table: a column may have its name, which would be the whole row."""
        listed = ", ".join(places[name] for name in names)
        which = condition(wanted, places.__getitem__, _literal)
        sql = f"SELECT {listed} FROM `{pair.namespace}`.`{pair.name}` AS tidemark_t WHERE {which}"
        with _reading(config, pair) as snapshot:
            values = iter(snapshot.execute_sql(sql))
            while rows := list(islice(values, BATCH_ROWS)):
                yield rows

    return pinned(pair, columns, select, _value)


@contextmanager
def _reading(config: SpannerConfig, pair: TablePair) -> Iterator[Any]:
    """Reads of one state, which other transactions do not wait for."""
    login = AnonymousCredentials() if config.login is None else config.login(SCOPES)
    options = {"api_endpoint": config.host}
    try:
        client = Client(project=config.project, credentials=login, client_options=options, disable_builtin_metrics=True)
        session = client.instance(config.instance).database(config.database).session()
        session.create()
        try:
            snapshot = session.snapshot(multi_use=True)
            snapshot.begin()
            yield snapshot
        finally:
            session.delete()
    except GoogleAPICallError as error:
        message = f"{pair.namespace}.{pair.name} cannot be read: Spanner's error {type(error).__name__}"
        raise TargetError(message, table=str(pair)) from None


def spanner_name(name: str) -> str:
    """What a column is called in Spanner, where names begin with a letter (the guide of the target says it)."""
    if _OWN.fullmatch(name):
        return f"tidemark{name}"
    plain = "".join(one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in name)
    odd = plain != name or len(name) > 128 or not name[:1].isalpha() or name.lower().startswith("tidemark_")  # noqa: PLR2004
    if not odd:
        return name
    plain = plain if plain[:1].isalpha() else f"c{plain}"
    return f"{plain[:119]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _value(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind) and isinstance(value, str):
        return Decimal(value)
    if isinstance(value, bytes):
        return base64.b64decode(value)
    if isinstance(value, datetime):
        plain = datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)  # noqa: DTZ001
        return plain.replace(tzinfo=UTC) if kind.tz else plain
    return value


def _named(found: str, recorded: str) -> Named:
    if found in ("NUMERIC", "STRING(MAX)") and (decimal := decimal_type(recorded)):
        return decimal
    name, kind, physical = TYPES.get(recorded, (found, pa.string(), found))
    return (name, kind) if found == physical else (found, pa.string())


_literal = Literals(
    text=json.dumps,
    decimal=lambda value: f"NUMERIC '{value:f}'",
    double=lambda value: f"CAST('{value!r}' AS FLOAT64)",
    binary=lambda value: f"FROM_HEX('{value.hex()}')",
    day=lambda value: f"DATE '{value.isoformat()}'",
    moment=lambda value: f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}+00'",
)
