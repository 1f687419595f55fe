"""Values in the server's binary form (its types' send functions) as Arrow: no object per value.

Sources: the `…_send` functions in src/backend/utils/adt/*.c.  Everything is big endian.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.errors import LogCorrupt
from replicator.model.types import DataType, Kind
from replicator.sources.postgres.rows import numeric_kernel
from replicator.sources.postgres.rows.text_values import binary_array, contents, strings, valid, validity
from replicator.sources.postgres.rows.tuple_kernel import gather

Decoder = Callable[[pa.Array], pa.Array]
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = 946_684_800_000_000
_DAY = 86_400_000_000
_FIRST_DAY, _END = -719_162, 2_932_897  # 0001-01-01 and the day after 9999-12-31, in days since 1970
# Send functions that give the text itself, in the client's encoding.
TEXTS = frozenset({"text", "varchar", "bpchar", "name", "json"})
ENUM = "enum"
_UUID_BYTES, _UUID_CHARACTERS = 16, 36
_HYPHENS = (8, 13, 18, 23)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def decoder(name: str, data_type: DataType) -> Decoder | None:
    """Return a function from pa.BinaryArray to the Arrow array of `data_type`, nulls kept; None if there is none.

    `name`: a type of pg_catalog, or ENUM; for dates see `calendar`.  The function raises pa.ArrowInvalid for a value
    that the type does not have, LogCorrupt for malformed bytes.
    """
    if name == "numeric" and data_type.kind is Kind.DECIMAL:
        return partial(decimals, target=data_type.arrow)
    return _DECODERS.get(name)


def numbers(values: pa.Array, form: str, target: pa.DataType) -> pa.Array:
    """Integers and floats; every NaN becomes the one that the text "NaN" has."""
    found = _fixed(values, form).astype(target.to_pandas_dtype())
    if found.dtype.kind == "f":
        found[np.isnan(found)] = np.nan
    return _array(found, values, target)


def booleans(values: pa.Array) -> pa.Array:
    """One byte, 0 or 1."""
    found = _fixed(values, "u1")
    if (found > 1).any():
        raise _corrupt("boolean")
    return _array(np.packbits(found, bitorder="little"), values, pa.bool_())


def calendar(values: pa.Array, kind: Kind, target: pa.DataType) -> tuple[pa.Array, pa.BooleanArray]:
    """Dates or time stamps, and which of them are infinite or not in the years 1 to 9999: these are null in the
    array.
    """
    found = _fixed(values, ">i4").astype(np.int64) if kind is Kind.DATE else _fixed(values, ">i8")
    first, end, shift = span(kind)
    present = valid(values)
    bad = present & ((found < first) | (found >= end))
    shifted = np.where(bad, 0, found) + shift
    plain = shifted.astype(np.int32) if kind is Kind.DATE else shifted
    bits = None if (present & ~bad).all() else pa.py_buffer(np.packbits(present & ~bad, bitorder="little"))
    return pa.Array.from_buffers(target, len(values), [bits, pa.py_buffer(plain)]), pa.array(bad, pa.bool_())


def span(kind: Kind) -> tuple[int, int, int]:
    """Days or microseconds, as the server counts them: the first and the end of the years 1 to 9999, and how many more
    they are since 1970.
    """
    shift, unit = (_DAYS_TO_2000, 1) if kind is Kind.DATE else (_MICROSECONDS_TO_2000, _DAY)
    return _FIRST_DAY * unit - shift, _END * unit - shift, shift


def day_text(values: pa.Array, kind: Kind) -> bytes:
    """The first of these dates or time stamps, which no calendar here has, for a message."""
    form, what = (">i4", b"days") if kind is Kind.DATE else (">i8", b"microseconds")
    found = _fixed(values[:1], form)
    limits = np.iinfo(found.dtype)
    if found[0] in (limits.min, limits.max):
        return b"-infinity" if found[0] < 0 else b"infinity"
    return str(found[0]).encode() + b" " + what + b" from 2000-01-01"


def decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """numeric(p,s) → decimal128(p,s); pa.ArrowInvalid for NaN, the infinities, and more digits than p or s."""
    offsets, data = contents(values)
    out, status = np.empty((len(values), 2), np.uint64), np.empty(len(values), np.uint8)
    if numeric_kernel.to_decimals(data, offsets, valid(values), target.scale, out, status):
        if (status == numeric_kernel.BAD).any():
            raise _corrupt("numeric")
        message = "a numeric value is invalid or has too many digits"
        raise pa.ArrowInvalid(message)
    found = pa.Array.from_buffers(target, len(values), [validity(values), pa.py_buffer(out)])
    found.validate(full=True)  # the precision
    return found


def numeric_texts(values: pa.Array) -> pa.Array:
    """Numeric → the server's text of it: src/backend/utils/adt/numeric.c, get_str_from_var."""
    offsets, data = contents(values)
    lengths = np.empty(len(values), np.int64)
    if numeric_kernel.text_lengths(data, offsets, valid(values), lengths) >= 0:
        raise _corrupt("numeric")
    targets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=targets[1:])
    out = np.empty(int(targets[-1]), np.uint8)
    numeric_kernel.write_texts(data, offsets, targets, out)
    return binary_array(out, lengths, values, pa.string())


def jsonb_texts(values: pa.Array) -> pa.Array:
    """A version, 1, and the text."""
    offsets, data = contents(values)
    present = valid(values)
    sizes = np.diff(offsets)
    starts = offsets[:-1].astype(np.int64) + present
    if (sizes[present] < 1).any() or (data[starts[present] - 1] != 1).any():
        raise _corrupt("jsonb")
    lengths = np.where(present, sizes - 1, 0).astype(np.int64)
    if len(values) == 1:  # it can be large
        return strings(binary_array(data[int(present[0]) :], lengths, values, pa.binary()))
    targets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=targets[1:])
    out = np.empty(int(targets[-1]), np.uint8)
    gather(data, starts, lengths, targets, out)
    return strings(binary_array(out, lengths, values, pa.binary()))


def uuid_texts(values: pa.Array) -> pa.Array:
    """16 bytes → 36 characters."""
    found = _fixed(values, f"V{_UUID_BYTES}").view(np.uint8).reshape(-1, _UUID_BYTES)[valid(values)]
    out = np.full((len(found), _UUID_CHARACTERS), ord("-"), np.uint8)
    digits = [place for place in range(_UUID_CHARACTERS) if place not in _HYPHENS]
    out[:, digits[0::2]] = _HEX[found >> 4]
    out[:, digits[1::2]] = _HEX[found & 15]
    return binary_array(out.reshape(-1), np.where(valid(values), _UUID_CHARACTERS, 0), values, pa.string())


def _fixed(values: pa.Array, form: str) -> npt.NDArray[Any]:
    """Values of one size, in the machine's byte order; a null is 0."""
    kind = np.dtype(form)
    offsets, data = contents(values)
    present = valid(values)
    if (np.diff(offsets)[present] != kind.itemsize).any() or len(data) != present.sum() * kind.itemsize:
        raise _corrupt("value of a fixed size")
    found = data.view(kind).astype(kind.newbyteorder("="))
    if not values.null_count:
        return found
    out = np.zeros(len(values), found.dtype)
    out[present] = found
    return out


def _array(data: npt.NDArray[Any], like: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(target, len(like), [validity(like), pa.py_buffer(data)])


def _corrupt(what: str) -> LogCorrupt:
    return LogCorrupt(f"Unexpected server data: not a binary {what}.")


_DECODERS: dict[str, Decoder] = {
    **dict.fromkeys((*TEXTS, ENUM), strings),
    "bool": booleans,
    "int2": partial(numbers, form=">i2", target=pa.int32()),
    "int4": partial(numbers, form=">i4", target=pa.int32()),
    "int8": partial(numbers, form=">i8", target=pa.int64()),
    "oid": partial(numbers, form=">u4", target=pa.int64()),
    "float4": partial(numbers, form=">f4", target=pa.float32()),
    "float8": partial(numbers, form=">f8", target=pa.float64()),
    "numeric": numeric_texts,
    "bytea": lambda values: values,
    "jsonb": jsonb_texts,
    "uuid": uuid_texts,
}
