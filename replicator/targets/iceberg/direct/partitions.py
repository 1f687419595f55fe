"""Partitions of data files: rows split as Iceberg's own writers split them, and values as Iceberg's JSON has them.

A table has all the specs that it ever had: a data file keeps the one that it was written under.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from replicator.targets.iceberg.direct.data_files import Unreadable, field_ids
from replicator.targets.iceberg.direct.key_index import Places, Wanted
from replicator.targets.iceberg.table.catalog import IcebergTable, Json
from replicator.targets.iceberg.table.transforms import IDENTITY, VOID, known, transformed, value_type

Value = int | str | bytes | Decimal | None
Partition = tuple[Value, ...]  # of each field: days and microseconds are whole numbers
_UTC = "+00:00"
DATE_BITS = 32
MAX_YEAR = 9999  # that has no sign


@dataclass(frozen=True)
class PartitionField:
    """`source`: Iceberg's id of the column; `type`: of the values, in Iceberg's words."""

    number: int
    source: int
    transform: str
    type: str


@dataclass(frozen=True)
class PartitionSpec:
    """One of a table's.  Without fields the table is not partitioned."""

    number: int
    fields: tuple[PartitionField, ...] = ()

    @property
    def identities(self) -> set[int]:
        """Columns whose values a data file need not have, because its partition tells them."""
        return {one.source for one in self.fields if one.transform == IDENTITY}

    def as_json(self, partition: Partition) -> list[Any]:
        """In the form of Iceberg's JSON of files."""
        return [_as_json(one.type, value) for one, value in zip(self.fields, partition, strict=True)]

    def partition(self, described: Sequence[Any]) -> Partition:
        """Inverse of `as_json`."""
        return tuple(_value(one.type, value) for one, value in zip(self.fields, described, strict=True))

    def split(self, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """Rows of each partition, in their order.  `rows`: of the table's columns, with their ids."""
        places = {number: place for place, number in enumerate(field_ids(rows.schema))}
        for partition, mine in grouped(self.fields, [rows.column(places[one.source]) for one in self.fields]):
            yield partition, rows if len(mine) == len(rows) else rows.take(pa.array(mine))


def specs(table: IcebergTable) -> dict[int, PartitionSpec]:
    """All that files of the table may have, by their numbers.  Raises Unreadable."""
    types = {int(one["id"]): str(one["type"]) for one in table.fields}
    found = {}
    for spec in table.metadata["partition-specs"]:
        fields = tuple(_field(one, types) for one in spec["fields"])
        found[int(spec["spec-id"])] = PartitionSpec(int(spec["spec-id"]), fields)
    return found


def present_spec(table: IcebergTable) -> PartitionSpec:
    """Of files that are written now.  Raises Unreadable."""
    return specs(table)[int(table.metadata["default-spec-id"])]


def _field(described: Json, types: Mapping[int, str]) -> PartitionField:
    source, transform = described.get("source-id", -1), str(described["transform"])
    if source not in types or not known(transform):
        message = f"partitions by {transform}"
        raise Unreadable(message)
    if types[source] in {"float", "double"} and transform != VOID:  # signed zeros and NaN: not Arrow's equality
        raise Unreadable("partitions by floating point")
    return PartitionField(int(described["field-id"]), source, transform, value_type(transform, types[source]))


def grouped(
    fields: Sequence[PartitionField], columns: Sequence[pa.ChunkedArray | pa.Array]
) -> Iterator[tuple[Partition, Places]]:
    """Each partition of these rows, of the fields' source columns, and its rows, ascending."""
    codes, parts = np.zeros(len(columns[0]), np.int64), []
    if not len(codes):
        return
    for field, column in zip(fields, columns, strict=True):
        flat = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        values = transformed(field.transform, flat.combine_chunks() if flat.num_chunks != 1 else flat.chunk(0))
        encoded = values.dictionary_encode("encode")
        numbers = encoded.indices.to_numpy(zero_copy_only=False)
        parts.append((_plain(encoded.dictionary), numbers))
        if len(encoded.dictionary) > 1:
            _, codes = np.unique(codes * len(encoded.dictionary) + numbers, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        yield tuple(values[numbers[mine[0]]] for values, numbers in parts), mine


class KeyPartitions:
    """Which keys of a batch a file can have, by its partition."""

    def __init__(self, specs: Mapping[int, PartitionSpec], ids: Sequence[int], wanted: Wanted) -> None:
        """`ids`: of the key's columns, Iceberg's."""
        self._wanted, self._columns = wanted, dict(zip(ids, wanted.columns, strict=True))
        self._places = {number: self._by_key(spec) for number, spec in specs.items()}
        self._fields = {number: spec.fields for number, spec in specs.items()}
        self._found: dict[int, dict[Partition, Wanted]] = {}

    def _by_key(self, spec: PartitionSpec) -> list[int]:
        """Fields that depend on the key alone.  Not by truncation: near the least number it wraps around, and then it
        is another one when the column has become wider.
        """
        usable = enumerate(spec.fields)
        return [place for place, one in usable if one.source in self._columns and not one.transform.startswith("trunc")]

    def within(self, spec: int, partition: Partition) -> Wanted:
        """Those of the keys that may be in a file of this partition."""
        if not (places := self._places[spec]):
            return self._wanted
        if spec not in self._found:
            fields = [self._fields[spec][place] for place in places]
            parts = grouped(fields, [self._columns[one.source] for one in fields])
            self._found[spec] = {part: self._wanted.only(keys) for part, keys in parts}
        return self._found[spec].get(tuple(partition[place] for place in places), NOTHING)


NOTHING = Wanted((), np.zeros(0, np.int64), np.zeros(0, np.int64), exact=True)


def _plain(values: pa.Array) -> list[Value]:
    """Days and microseconds as whole numbers: years beyond Python's are among them."""
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == DATE_BITS else pa.int64())
    found: list[Value] = values.to_pylist()
    return found


def _as_json(kind: str, value: Value) -> Any:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if kind == "date":
        return _iso(np.datetime64(value, "D"))
    if kind in {"timestamp", "timestamptz"}:
        return _iso(np.datetime64(value, "us")) + (_UTC if kind == "timestamptz" else "")
    return value


def _iso(time: np.datetime64) -> str:
    """As Java has it: a year of four digits at least, and more than four with a sign."""
    year = int(time.astype("datetime64[Y]").astype(int)) + 1970
    sign = "-" if year < 0 else "+" if year > MAX_YEAR else ""
    return f"{sign}{abs(year):04d}-{str(time).lstrip('-').partition('-')[2]}"


def _value(kind: str, value: Any) -> Value:
    if value is None:
        return None
    if kind == "binary":
        return bytes.fromhex(value)
    if kind.startswith("decimal"):
        return Decimal(value)
    if kind == "date":
        return int(np.datetime64(value.removeprefix("+"), "D").astype(np.int64))
    if kind in {"timestamp", "timestamptz"}:
        return int(np.datetime64(value.removeprefix("+").removesuffix(_UTC), "us").astype(np.int64))
    found: Value = value
    return found
