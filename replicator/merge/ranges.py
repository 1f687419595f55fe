"""Key ranges of a batch, from the footers of its Parquet files: no Spark job, a superset of the keys by construction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from replicator.model.schema import BEFORE, TableSchema
from replicator.model.types import DataType, Kind
from replicator.staging.storage import Storage

Bound = int | str | date | Decimal
LONGEST = 64
FEW = 1_000
_KINDS = frozenset({Kind.INT, Kind.BIGINT, Kind.STRING, Kind.DATE, Kind.DECIMAL})


@dataclass(frozen=True)
class KeyRange:
    """Keys of the batch have low <= `column` <= high; high None: no upper bound is known.

    `values`: all of them where there are few, else empty.
    """

    column: str
    type: DataType
    low: Bound
    high: Bound | None
    values: tuple[Bound, ...] = ()


def key_ranges(storage: Storage, paths: Iterable[str], schema: TableSchema) -> list[KeyRange]:
    """Ranges of the key columns whose type compares alike everywhere; others are left out (then nothing is pruned by them).

    Floats (NaN, signed zero), booleans, binaries and timestamps (years beyond Python's) are such others.
    """
    wanted = {name: schema.column(name).type for name in schema.key}
    found: dict[str, list[Any]] = {name: [] for name, kind in wanted.items() if kind.kind in _KINDS}
    for path in paths:
        with storage.open(path) as file:
            for name in list(found):
                bounds = _bounds(file.metadata, (name, BEFORE + name))
                if bounds is None:
                    del found[name]
                else:
                    found[name] += bounds
    ranges = (_range(name, wanted[name], values) for name, values in found.items() if values)
    return [one for one in ranges if one is not None]


def with_values(storage: Storage, paths: Sequence[str], ranges: Sequence[KeyRange]) -> list[KeyRange]:
    """The key's values themselves, for a small batch with a key of one column: rows of other keys are then not even shuffled."""
    if len(ranges) != 1 or ranges[0].high is None:
        return list(ranges)
    one = ranges[0]
    found: set[Bound] = set()
    for path in paths:
        with storage.open(path) as file:
            for column in file.read(columns=[one.column, BEFORE + one.column]).columns:
                found |= set(column.unique().drop_null().to_pylist())
        if len(found) > FEW or sum(len(str(value)) for value in found) > FEW * LONGEST:
            return list(ranges)
    return [replace(one, values=tuple(found))]


def _bounds(metadata: pq.FileMetaData, names: Sequence[str]) -> list[Any] | None:
    """Least and greatest values of these columns; None where a row group does not tell them."""
    values: list[Any] = []
    for group in range(metadata.num_row_groups):
        info = metadata.row_group(group)
        columns = [info.column(i) for i in range(info.num_columns)]
        for column in (c for c in columns if c.path_in_schema in names):
            statistics = column.statistics
            if statistics is None or not (statistics.has_null_count or statistics.has_min_max):
                return None
            if statistics.has_null_count and statistics.null_count == column.num_values:
                continue
            if not statistics.has_min_max:
                return None
            values += [statistics.min, statistics.max]
    return values


def _range(name: str, kind: DataType, values: Sequence[Any]) -> KeyRange | None:
    accepted = {Kind.STRING: str, Kind.DATE: date, Kind.DECIMAL: Decimal}.get(kind.kind, int)
    if not all(isinstance(value, accepted) and not isinstance(value, datetime) for value in values):
        return None
    if kind.kind is not Kind.STRING:
        return KeyRange(name, kind, min(values), max(values))
    low, high = min(values, key=str.encode), max(values, key=str.encode)
    return KeyRange(name, kind, low[:LONGEST], high if len(high) <= LONGEST else None)
