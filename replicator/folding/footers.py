"""What the footers of a batch's Parquet files tell without a Spark job: key ranges, and which columns UPDATEs left out.

Both are supersets by construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from replicator.model.schema import BEFORE, UNCHANGED, TableSchema
from replicator.model.types import DataType, Kind
from replicator.staging.storage import Storage

Bound = int | str | date | Decimal
MAX_TEXT_LENGTH = 64
MAX_LISTED = 1_000
_KINDS = frozenset({Kind.INT, Kind.BIGINT, Kind.STRING, Kind.DATE, Kind.DECIMAL})


@dataclass(frozen=True)
class KeyColumnRange:
    """Keys of the batch have low <= `column` <= high; high None: no upper bound is known.

    `values`: all of them where there are few, else empty.
    """

    column: str
    type: DataType
    low: Bound
    high: Bound | None
    values: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """Columns (their places) that UPDATEs of the batch may have left out, and how many values; None: unknown number."""

    places: tuple[int, ...]
    values: int | None


def footers(storage: Storage, paths: Iterable[str]) -> list[pq.FileMetaData]:
    """Of these files."""
    found = []
    for path in paths:
        with storage.open(path) as file:
            found.append(file.metadata)
    return found


def key_ranges(files: Iterable[pq.FileMetaData], schema: TableSchema) -> list[KeyColumnRange]:
    """Ranges of the key columns whose type compares alike everywhere; others are left out (then nothing is pruned by
    them).

    Floats (NaN, signed zero), booleans, binaries and timestamps (years beyond Python's) are such others.
    """
    wanted = {name: schema.column(name).type for name in schema.key}
    found: dict[str, list[Any]] = {name: [] for name, kind in wanted.items() if kind.kind in _KINDS}
    for file in files:
        for name in list(found):
            bounds = _bounds(file, (name, BEFORE + name))
            if bounds is None:
                del found[name]
            else:
                found[name] += bounds
    ranges = (_range(name, wanted[name], values) for name, values in found.items() if values)
    return [one for one in ranges if one is not None]


def left_out(files: Iterable[pq.FileMetaData], schema: TableSchema) -> LeftOut | None:
    """None where no UPDATE left out anything: the ordinary case, also of a partial schema.

    Key columns are never left out.
    """
    values, low, high, known = 0, len(schema.columns), -1, True
    for column in (c for file in files for c in _leaves(file, UNCHANGED + ".")):
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            low, high, known = 0, len(schema.columns) - 1, False
        elif statistics.null_count < column.num_values:
            values += column.num_values - statistics.null_count
            bounds = (statistics.min, statistics.max) if statistics.has_min_max else (0, len(schema.columns) - 1)
            low, high = min(low, bounds[0]), max(high, bounds[1])
    keys = {schema.names.index(name) for name in schema.key}
    places = tuple(place for place in range(low, high + 1) if place not in keys)
    return LeftOut(places, values if known else None) if places else None


def with_values(storage: Storage, paths: Sequence[str], ranges: Sequence[KeyColumnRange]) -> list[KeyColumnRange]:
    """The key's values themselves, for a small batch with a key of one column: rows of other keys are then not even
    shuffled.
    """
    if len(ranges) != 1 or ranges[0].high is None:
        return list(ranges)
    one = ranges[0]
    found: set[Bound] = set()
    for path in paths:
        with storage.open(path) as file:
            for column in file.read(columns=[one.column, BEFORE + one.column]).columns:
                found |= set(column.unique().drop_null().to_pylist())
        if len(found) > MAX_LISTED or sum(len(str(value)) for value in found) > MAX_LISTED * MAX_TEXT_LENGTH:
            return list(ranges)
    return [replace(one, values=tuple(found))]


def _bounds(metadata: pq.FileMetaData, names: Sequence[str]) -> list[Any] | None:
    """Least and greatest values of these columns; None where a row group does not tell them."""
    values: list[Any] = []
    for column in (c for c in _leaves(metadata, "") if c.path_in_schema in names):
        statistics = column.statistics
        if statistics is None or not (statistics.has_null_count or statistics.has_min_max):
            return None
        if statistics.has_null_count and statistics.null_count == column.num_values:
            continue
        if not statistics.has_min_max:
            return None
        values += [statistics.min, statistics.max]
    return values


def _leaves(metadata: pq.FileMetaData, prefix: str) -> Iterator[pq.ColumnChunkMetaData]:
    """Column chunks of all row groups whose path begins so."""
    for group in range(metadata.num_row_groups):
        info = metadata.row_group(group)
        for place in range(info.num_columns):
            if (column := info.column(place)).path_in_schema.startswith(prefix):
                yield column


def _range(name: str, kind: DataType, values: Sequence[Any]) -> KeyColumnRange | None:
    accepted = {Kind.STRING: str, Kind.DATE: date, Kind.DECIMAL: Decimal}.get(kind.kind, int)
    if not all(isinstance(value, accepted) and not isinstance(value, datetime) for value in values):
        return None
    if kind.kind is not Kind.STRING:
        return KeyColumnRange(name, kind, min(values), max(values))
    low, high = min(values, key=str.encode), max(values, key=str.encode)
    return KeyColumnRange(name, kind, low[:MAX_TEXT_LENGTH], high if len(high) <= MAX_TEXT_LENGTH else None)
