"""Values in the server's text form as Arrow, under the settings of `connection.SESSION_SETTINGS`: no object per
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.types import DataType, Kind

Bytes = npt.NDArray[np.uint8]
_HEX = np.full(256, 0xFF, np.uint8)
for _digit, _character in enumerate(b"0123456789abcdef"):
    _HEX[_character] = _digit
_NO_DIGIT = 0x10
# What the server prints for a date that is not in the years 1 to 9999.
_OUT_OF_CALENDAR = r"^-?infinity$|^[0-9]{5,}-| BC$"


def decoder(data_type: DataType) -> Callable[[pa.Array], pa.Array]:
    """Return a function from pa.BinaryArray to the type's Arrow array, nulls kept.

    The function raises pa.ArrowInvalid for a text that is not such a value.
    """
    target = data_type.arrow
    match data_type.kind:
        case Kind.BOOLEAN:
            return booleans
        case Kind.STRING:
            return strings
        case Kind.BINARY:
            return octets
        case _:
            return lambda values: _seen(values).cast(target)


def strings(values: pa.Array) -> pa.Array:
    """Holds the bytes against UTF-8: what a database of encoding SQL_ASCII gives need not be any."""
    return values.cast(pa.string())


def out_of_calendar(values: pa.Array) -> pa.BooleanArray:
    """True for each text of a date or time stamp that is infinite, or not in the years 1 to 9999; false for null."""
    return pc.fill_null(pc.match_substring_regex(_seen(values), _OUT_OF_CALENDAR), fill_value=False)


def booleans(values: pa.Array) -> pa.Array:
    """`t` and `f`."""
    text = _seen(values)
    true = pc.equal(text, "t")
    if not pc.all(pc.or_(true, pc.equal(text, "f"))).as_py() and values.null_count < len(values):
        message = "a boolean is neither t nor f"
        raise pa.ArrowInvalid(message)
    return true


def octets(values: pa.Array) -> pa.Array:
    r"""`\x` and hexadecimal digits (bytea_output=hex)."""
    offsets, data = contents(values)
    starts, sizes = offsets[:-1], np.diff(offsets)
    present = valid(values)
    prefixed = sizes >= 2  # noqa: PLR2004 - \ and x
    if not (prefixed | ~present).all() or (sizes % 2).any():
        raise pa.ArrowInvalid(_NO_BYTEA)
    marks = starts[present]
    if (data[marks] != ord("\\")).any() or (data[marks + 1] != ord("x")).any():
        raise pa.ArrowInvalid(_NO_BYTEA)
    lengths = np.maximum(sizes // 2 - 1, 0)
    digits = np.delete(data, np.concatenate([marks, marks + 1])) if len(values) > 1 else data[2:]
    nibbles: Bytes = _HEX[digits]
    if (nibbles >= _NO_DIGIT).any():
        raise pa.ArrowInvalid(_NO_BYTEA)
    out: Bytes = nibbles[0::2] << np.uint8(4) | nibbles[1::2]
    return binary_array(out, lengths, values, pa.binary())


_NO_BYTEA = r"a bytea is not \x and pairs of hexadecimal digits"


def contents(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Of a binary array: offsets (rows + 1) from 0 on, and the bytes they are places of; a null has no bytes."""
    _, places, data = values.buffers()
    offsets = (
        np.frombuffer(places, np.int32, len(values) + 1, 4 * values.offset) if len(values) else np.zeros(1, np.int32)
    )
    first, last = int(offsets[0]), int(offsets[-1])
    octets_ = np.frombuffer(data, np.uint8, last - first, first) if last > first else np.empty(0, np.uint8)
    return (offsets - offsets[0] if first else offsets), octets_


def valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    """True for each value that is not null."""
    return cast("npt.NDArray[np.bool_]", values.is_valid().to_numpy(zero_copy_only=False))


def binary_array(
    data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64], like: pa.Array, kind: pa.DataType
) -> pa.Array:
    """A binary or string array with the nulls of `like`; `lengths` are those of its values in `data`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(kind, len(lengths), [validity(like), pa.py_buffer(offsets), pa.py_buffer(data)])


def validity(values: pa.Array) -> pa.Buffer | None:
    """A bitmap from bit 0 on."""
    return pa.py_buffer(np.packbits(valid(values), bitorder="little")) if values.null_count else None


def _seen(values: pa.Array) -> pa.Array:
    """As text without a check: for what is parsed next."""
    return values.view(pa.string())
