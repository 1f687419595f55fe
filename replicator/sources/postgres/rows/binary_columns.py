"""Values of tuples in binary as Arrow columns of rows, straight from where they lie: the types that most tables are
made of.

What each value becomes is said in `binary_values`; here is what needs neither a message nor a count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.model.types import DataType, Kind
from replicator.sources.postgres.rows import binary_values, cell_kernel, numeric_kernel
from replicator.sources.postgres.rows.tuples import LARGEST, TEXT, Bytes, Found, Places
from replicator.sources.postgres.types import DATES

Way = Callable[[Found, Places], pa.Array | None]
_NUMBERS = {
    "bool": (1, pa.bool_()), "int2": (2, pa.int32()), "int4": (4, pa.int32()), "int8": (8, pa.int64()),
    "float4": (4, pa.float32()), "float8": (8, pa.float64()),
}  # fmt: skip
_CALENDARS = {Kind.DATE: 4, Kind.TIMESTAMP_NTZ: 8, Kind.TIMESTAMP: 8}
_WIDEST = 32  # bits of what integers32 writes


def way(name: str, data_type: DataType) -> Way | None:
    """Return a function from tuples to the array of their values; None if there is none for the type.

    `name`: the type as `binary_values.decoder` calls it.  A tuple of -1 becomes null.  The function returns None if a
    value is not a regular one of the type: text, an infinite date, NaN among numbers, damaged bytes.
    """
    kind, target = data_type.kind, data_type.arrow
    size, usual = _NUMBERS.get(name, (0, None))
    if size and target == usual:
        low, high = (0, 1) if name == "bool" else (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1)
        return partial(_numbers, size=size, low=low, high=high, shift=0, target=target)
    if name in DATES and kind in _CALENDARS:
        low, end, shift = binary_values.span(kind)
        return partial(_numbers, size=_CALENDARS[kind], low=low, high=end - 1, shift=shift, target=target)
    if name == "numeric" and kind is Kind.DECIMAL:
        return partial(_decimals, target=target)
    if name == "bytea":
        return _octets
    if kind is Kind.STRING and name in {*binary_values.TEXTS, binary_values.ENUM}:
        return _texts
    return None


def _numbers(
    found: Found, tuples: Places, *, size: int, low: int, high: int, shift: int, target: pa.DataType
) -> pa.Array | None:
    """All that is `size` bytes, big endian."""
    narrow = target.bit_width <= _WIDEST
    out = np.empty(len(tuples), np.int32 if narrow else np.int64)
    valid = _bits(tuples)
    kernel = cell_kernel.integers32 if narrow else cell_kernel.integers64
    nulls, odd = kernel(
        found.data, found.kinds, found.starts, found.lengths, tuples, size, low, high, shift, out, valid
    )
    if odd:
        return None
    if pa.types.is_boolean(target):
        return _array(target, len(tuples), nulls, valid, np.packbits(out.astype(np.bool_), bitorder="little"))
    if pa.types.is_floating(target):
        floats = out.view(target.to_pandas_dtype())
        floats[np.isnan(floats)] = np.nan  # there is one
    return _array(target, len(tuples), nulls, valid, out)


def _decimals(found: Found, tuples: Places, target: pa.DataType) -> pa.Array | None:
    out, valid, end = np.empty((len(tuples), 2), np.uint64), _bits(tuples), 10**target.precision
    nulls, odd = numeric_kernel.cell_decimals(
        found.data, found.kinds, found.starts, found.lengths, tuples, target.scale,
        np.uint64(end & (1 << 64) - 1), np.uint64(end >> 64), out, valid,
    )  # fmt: skip
    return None if odd else _array(target, len(tuples), nulls, valid, out)


def _octets(found: Found, tuples: Places) -> pa.Array | None:
    return None if (found.kinds == TEXT).any() else _bytes(found, tuples)


def _texts(found: Found, tuples: Places) -> pa.Array | None:
    """Binary is the text itself.  Held against UTF-8."""
    array = _bytes(found, tuples)
    try:
        return None if array is None else array.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _bytes(found: Found, tuples: Places) -> pa.Array | None:
    offsets, valid = np.empty(len(tuples) + 1, np.int32), _bits(tuples)
    nulls, size = cell_kernel.cell_offsets(found.kinds, found.lengths, tuples, offsets, valid)
    if size > LARGEST:
        return None
    out = np.empty(size, np.uint8)
    cell_kernel.cell_bytes(found.data, found.starts, found.lengths, tuples, offsets, out)
    return _array(pa.binary(), len(tuples), nulls, valid, offsets, out)


def picked(texts: pa.Array, which: Places) -> pa.Array:
    """Of each row the text that `which` says; no text is null, and `texts` no slice.

    As `take`, at a fraction of its time.
    """
    _, bounds, data = texts.buffers()
    starts = np.frombuffer(bounds, np.int32, len(texts) + 1)
    offsets = np.empty(len(which) + 1, np.int32)
    cell_kernel.picked_offsets(which, starts, offsets)
    out = np.empty(int(offsets[-1]), np.uint8)
    cell_kernel.picked_bytes(which, starts, np.frombuffer(data, np.uint8), offsets, out)
    return pa.Array.from_buffers(texts.type, len(which), [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def _bits(tuples: Places) -> Bytes:
    return np.zeros((len(tuples) + 7) // 8, np.uint8)


def _array(target: pa.DataType, rows: int, nulls: int, valid: Bytes, *buffers: npt.NDArray[np.generic]) -> pa.Array:
    return pa.Array.from_buffers(
        target, rows, [pa.py_buffer(valid) if nulls else None, *map(pa.py_buffer, buffers)], nulls
    )
