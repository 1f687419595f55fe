"""Reading a target table in Spanner by the vendor's client for programs, as Arrow."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud.spanner_v1 import Client, KeySet
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.model import SpannerConfig, TablePair
from replicator.verification.target import PinnedTable
from replicator.verification.warehouses.conditions import condition

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
    """The table as it is now; each reading sees one state of it.  Raises TargetError where it does not exist."""
    with _reading(config, pair) as snapshot:
        found = list(snapshot.execute_sql(
            "SELECT column_name, spanner_type FROM information_schema.columns"
            f" WHERE table_schema = '{pair.namespace}' AND table_name = '{pair.name}' ORDER BY ordinal_position"
        ))  # fmt: skip
        if not found:
            message = f"{pair.namespace}.{pair.name} does not exist in the target"
            raise TargetError(message, table=str(pair))
        said = list(snapshot.read(f"{pair.namespace}.{POSITIONS}", ["columns"], KeySet(keys=[[pair.name]])))
    recorded = {spanner_name(name): (name, kind) for name, kind in json.loads(said[0][0] if said else "{}").items()}
    columns = {}
    for place, kind in found:
        name, text = recorded.get(place, (place, ""))
        columns[name] = (place, *_named(kind, text))
    named = tuple((name, text) for name, (_, text, _) in columns.items())
    return PinnedTable(_Rows(config, pair, {name: (place, kind) for name, (place, _, kind) in columns.items()}), named,
        ordered=False)  # fmt: skip


class _Rows:
    """columns: Spanner's name and the type in Arrow."""

    def __init__(self, config: SpannerConfig, pair: TablePair, columns: Mapping[str, tuple[str, pa.DataType]]) -> None:
        self._config, self._pair, self._columns = config, pair, columns

    def name(self) -> tuple[str, ...]:
        return (self._pair.namespace, self._pair.name)

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(f"`{self._columns[name][0]}`" for name in names) or "1"
        schema = pa.schema([pa.field(name, self._columns[name][1]) for name in names])
        place = f"`{self._pair.namespace}`.`{self._pair.name}`"
        # With another name for the table: a column may have its name, which would be the whole row.
        which = condition(wanted, lambda name: f"`{self._columns[name][0]}`", _literal)
        sql = f"SELECT {listed} FROM {place} AS tidemark_t WHERE {which}"
        with _reading(self._config, self._pair) as snapshot:
            rows: list[Any] = []
            for row in snapshot.execute_sql(sql):
                rows.append(row)
                if len(rows) == BATCH_ROWS:
                    yield _batch(rows, schema)
                    rows = []
            if rows:
                yield _batch(rows, schema)


def _batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([_plain(value, kind) for value in column], kind)
        for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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


def _plain(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind) and isinstance(value, str):
        return Decimal(value)
    if isinstance(value, bytes):
        return base64.b64decode(value)
    if isinstance(value, datetime):
        plain = datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)  # noqa: DTZ001
        return plain.replace(tzinfo=UTC) if kind.tz else plain
    return value


def _named(found: str, recorded: str) -> tuple[str, pa.DataType]:
    if recorded.startswith("decimal(") and found in ("NUMERIC", "STRING(MAX)"):
        precision, scale = map(int, recorded.removeprefix("decimal(").removesuffix(")").split(","))
        return recorded, pa.decimal128(precision, scale)
    name, kind, physical = TYPES.get(recorded, (found, pa.string(), found))
    return (name, kind) if found == physical else (found, pa.string())


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}+00'"
    form = next((form for kind, form in _LITERALS if isinstance(value, kind)), None)
    if form is not None:
        return form(value)
    return json.dumps(str(value))


_LITERALS: Sequence[tuple[type, Callable[[Any], str]]] = (
    (bool, lambda value: str(value).upper()),
    (int, str),
    (Decimal, lambda value: f"NUMERIC '{value:f}'"),
    (float, lambda value: f"CAST('{value!r}' AS FLOAT64)"),
    (bytes, lambda value: f"FROM_HEX('{value.hex()}')"),
    (date, lambda value: f"DATE '{value.isoformat()}'"),
)
