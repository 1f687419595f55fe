"""Iceberg's partition transforms, of Arrow columns: https://iceberg.apache.org/spec/#partition-transforms."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ConfigurationError
from replicator.model.types import MAX_DECIMAL_PRECISION

IDENTITY, DAY, VOID = "identity", "day", "void"
_UNITS = {"year": "Y", "month": "M", DAY: "D", "hour": "h"}
_WIDE = re.compile(r"(bucket|truncate)\[(\d+)\]")
_C1, _C2, _STEP = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)


def known(transform: str) -> bool:
    """Is it one of those that `transformed` knows?"""
    return transform in {IDENTITY, VOID, *_UNITS} or _WIDE.fullmatch(transform) is not None


def value_type(transform: str, source: str) -> str:
    """Of a partition's values: Iceberg's type, of a column's."""
    if transform in {IDENTITY, VOID} or transform.startswith("truncate"):
        return source
    return "date" if transform == DAY else "int"


def transformed(transform: str, column: pa.Array) -> pa.Array:
    """The partition value of each row, null for null: of the column's type, or whole numbers (days, months, hours and
    years since 1970; buckets).
    """
    if transform == IDENTITY:
        return column
    if transform == VOID:
        return pa.nulls(len(column), column.type)
    if transform in _UNITS:
        return _since_1970(column, _UNITS[transform])
    if (wide := _WIDE.fullmatch(transform)) is None:
        raise AssertionError(transform)
    number = int(wide[2])
    return _bucket(column, number) if wide[1] == "bucket" else _truncated(column, number)


def _since_1970(column: pa.Array, unit: str) -> pa.Array:
    """Rounded down, also before 1970."""
    own = "datetime64[D]" if pa.types.is_date(column.type) else "datetime64[us]"
    times = _whole(column).view(own)
    return _as_nullable(times.astype(f"datetime64[{unit}]").astype(np.int64).astype(np.int32), column)


def _bucket(column: pa.Array, count: int) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        hashes = _hashes(_whole(column))
    else:
        of_bytes = _decimal_bytes if pa.types.is_decimal(kind) else bytes
        text = column.cast(pa.binary()) if pa.types.is_string(kind) else column
        return _of_each(text, lambda value: (mmh3.hash(of_bytes(value)) & 0x7FFFFFFF) % count, pa.int32())
    return _as_nullable(((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32), column)


def _truncated(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind):
        values = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.dtype(kind.to_pandas_dtype()))
        with np.errstate(over="ignore"):  # below the least number Java's wraps around, too
            return _as_nullable((values - values.astype(np.int64) % width).astype(values.dtype), column)
    if pa.types.is_decimal(kind):
        wide = pa.decimal128(MAX_DECIMAL_PRECISION, kind.scale)
        return _of_each(column, lambda value: _truncated_decimal(value, width, kind), wide)
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    return pc.binary_slice(column, 0, width)


def _truncated_decimal(value: Decimal, width: int, kind: pa.Decimal128Type) -> Decimal:
    """ConfigurationError near the least value of the type: what is below it cannot be a partition."""
    unscaled = _unscaled(value)
    if (found := unscaled - unscaled % width) <= -(10**kind.precision):
        message = f"partition_by: truncate({width}, …) of a row's value is below what {kind} can hold."
        raise ConfigurationError(message, remedy="Partition the table otherwise, and resnapshot it.")
    return _decimal(found, kind.scale)


def _decimal_bytes(value: Decimal) -> bytes:
    """Of the unscaled value, in two's complement: as few as there must be."""
    unscaled = _unscaled(value)
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _of_each(column: pa.Array, value: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Once for each value there is."""
    encoded = column.dictionary_encode()
    return pa.array([value(one) for one in encoded.dictionary.to_pylist()], kind).take(encoded.indices)


def _whole(column: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers, days, microseconds; 0 for null."""
    kind = pa.int32() if column.type.bit_width == 32 else pa.int64()  # noqa: PLR2004
    values = column.view(kind).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64)


def _as_nullable(values: npt.NDArray[Any], column: pa.Array) -> pa.Array:
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, mask=missing)


def _hashes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """murmur3_x86_32 of each number's eight bytes, without seed."""
    plain, mixed = values.view(np.uint64), np.zeros(len(values), np.uint32)
    for word in (plain.astype(np.uint32), (plain >> np.uint64(32)).astype(np.uint32)):
        mixed ^= _rotated(word * _C1, 15) * _C2
        mixed = _rotated(mixed, 13) * np.uint32(5) + _STEP
    mixed ^= np.uint32(8)
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return np.asarray(mixed ^ (mixed >> np.uint32(16)))


def _rotated(words: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))
