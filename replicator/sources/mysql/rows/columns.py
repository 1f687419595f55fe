"""A column of row images → an Arrow array: by kernels where its values are numbers or bytes that stay, else by its
different values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableError, ValueDoesNotFit
from replicator.model.schema import Column
from replicator.model.types import Kind
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows import cell_kernel, value_kernel
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import LogColumn
from replicator.sources.mysql.rows.temporal import NO_DATE
from replicator.sources.mysql.rows.values import INTEGERS, Convert, ZeroPadded, converter, same, shape_of
from replicator.sources.mysql.types import UNICODE_REMEDY
from replicator.sources.mysql.wire.events import UNDECODABLE

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Way = Callable[["Cells"], pa.Array]
_LARGEST = 2**31 - 1  # an Arrow binary array's offsets have 32 bits
_ASCII = bytes(range(128))
_CODE_BYTES = 2  # values of no more than that are few: an ENUM's, a year
_CLOCKS = {t.DATETIME2: value_kernel.datetimes, t.TIMESTAMP2: value_kernel.timestamps}


@dataclass(frozen=True)
class Cells:
    """One column of rows: the value of row i is that of image images[i] (-1: NULL).

    Where each image's value starts in `data`, and how long it is (-1: NULL).  `texts`: of images whose value is not
    there, but is this text.
    """

    data: Bytes
    starts: Places
    lengths: Places
    images: Places
    texts: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)

    def of(self, images: Places) -> Cells:
        """Other rows."""
        return replace(self, images=images)

    def present(self) -> Mask:
        """What is not NULL."""
        present: Mask = (self.images >= 0) & (self.lengths[self.images] >= 0)
        return present

    def value(self, row: int) -> bytes:
        """Its bytes."""
        image = self.images[row]
        start = int(self.starts[image])
        return self.data[start : start + int(self.lengths[image])].tobytes()

    def bits(self) -> Bytes:
        """For the bitmap of what is not NULL."""
        return np.zeros((len(self) + 7) // 8, np.uint8)

    def binary(self, width: int | None = None) -> pa.Array:
        """The values' bytes; `width`: with as many zeros behind as it takes to be so long."""
        offsets, valid = np.empty(len(self) + 1, np.int32), self.bits()
        nulls, size = cell_kernel.cell_offsets(
            self.lengths, self.images, -1 if width is None else width, offsets, valid
        )
        if size > _LARGEST:
            message = "More than 2 GiB of values were to become one batch."
            raise ValueError(message)
        out = (np.empty if width is None else np.zeros)(size, np.uint8)
        cell_kernel.cell_bytes(self.data, self.starts, self.lengths, self.images, offsets, out)
        return text_array(pa.binary(), offsets, out, valid if nulls else None)


class ColumnArrays:
    """`convert` cells of one column of the log.

    `bad`: which of the last ones were dates that do not exist, and are null.
    """

    def __init__(self, log: LogColumn, column: Column, options: ReadOptions) -> None:
        """UnsupportedType, UnsupportedCharset where the column cannot be read exactly."""
        self._log, self._column, self._kind = log, column, column.type.kind
        self._one: Convert = converter(log, column, options)
        self._way = self._kernel() or self._by_difference
        self.bad: Mask | None = None

    def convert(self, cells: Cells) -> pa.Array:
        """ValueDoesNotFit."""
        self.bad = None
        try:
            return self._one_by_one(cells) if cells.texts else self._way(cells)
        except UNDECODABLE as error:
            message = (
                f"Column {self._column.name} ({self._column.source_type}) holds a value in the log that cannot be"
                f" decoded ({type(error).__name__})."
            )
            raise ValueDoesNotFit(message, column=self._column.name) from error

    def _kernel(self) -> Way | None:
        log, kind = self._log, self._kind
        if self._one is same:
            return lambda cells: self._as_text(cells.binary())
        if isinstance(self._one, ZeroPadded):
            width = self._one.size
            return lambda cells: cells.binary(width)
        shape = shape_of(log)
        if log.type not in INTEGERS and not shape.prefix and shape.size <= _CODE_BYTES:
            return lambda cells: self._by_code(cells, shape.size)
        if kind is Kind.STRING:
            return self._ascii if _keeps_ascii(self._one) else None
        ways: dict[int, Way] = {
            **dict.fromkeys(INTEGERS, self._integers),
            t.FLOAT: lambda cells: self._floats(cells, np.int32),
            t.DOUBLE: lambda cells: self._floats(cells, np.int64),
            t.NEWDECIMAL: self._decimals,
            t.DATE: self._dates,
            t.DATETIME2: self._moments,
            t.TIMESTAMP2: self._moments,
        }
        return ways.get(log.type)

    # ---- by kernels

    def _as_text(self, array: pa.Array) -> pa.Array:
        if self._kind is Kind.BINARY:
            return array
        try:
            return array.cast(pa.string())  # holds bytes against UTF-8
        except pa.ArrowInvalid:
            raise self._not_unicode() from None

    def _ascii(self, cells: Cells) -> pa.Array:
        """Text of another character set, most of which is the same in UTF-8."""
        array = cells.binary()
        if np.frombuffer(array.buffers()[2], np.uint8).max(initial=0) < len(_ASCII):
            return array.view(pa.string())
        return self._by_difference(cells)

    def _numbers(self, cells: Cells, size: int, *, signed: bool = False) -> tuple[Places, Bytes | None]:
        """And what of them is valid, None: all."""
        out, valid = np.empty(len(cells), np.int64), cells.bits()
        nulls = value_kernel.integers(cells.data, cells.starts, cells.lengths, cells.images, size, signed, out, valid)
        return out, valid if nulls else None

    def _floats(self, cells: Cells, bits: type[np.signedinteger[Any]]) -> pa.Array:
        numbers, valid = self._numbers(cells, np.dtype(bits).itemsize)
        kind = pa.float32() if bits is np.int32 else pa.float64()
        return _array(kind, numbers.astype(bits), valid).cast(self._column.type.arrow)

    def _integers(self, cells: Cells) -> pa.Array:
        size, signed = INTEGERS[self._log.type], not self._log.unsigned
        (numbers, valid), target = self._numbers(cells, size, signed=signed), self._column.type.arrow
        if pa.types.is_decimal(target):
            wide = np.zeros((len(cells), 2), np.int64)
            wide[:, 0] = numbers
            if signed:
                wide[:, 1] = numbers >> 63
            return _array(target, wide, valid)
        if pa.types.is_boolean(target):
            return pc.not_equal(_array(pa.int64(), numbers, valid), 0)
        bits = size * 8 + (not signed)  # with a sign
        if pa.types.is_integer(target) and bits <= target.bit_width:
            return _array(target, numbers.astype(target.to_pandas_dtype(), copy=False), valid)
        return _array(pa.int64(), numbers, valid).cast(target)

    def _decimals(self, cells: Cells) -> pa.Array:
        log, out, valid = self._log, np.empty((len(cells), 2), np.uint64), cells.bits()
        nulls, odd = value_kernel.decimals(
            cells.data, cells.starts, cells.lengths, cells.images, log.metadata >> 8, log.metadata & 0xFF, out, valid
        )
        if odd:
            return self._by_difference(cells)  # says which
        return _array(self._column.type.arrow, out, valid if nulls else None)

    def _dates(self, cells: Cells) -> pa.Array:
        odd, out, valid = np.empty(len(cells), np.bool_), np.empty(len(cells), np.int64), cells.bits()
        nulls, found = value_kernel.dates(cells.data, cells.starts, cells.lengths, cells.images, out, valid, odd)
        if found:
            return self._with_odd(cells, out, odd).cast(pa.int32()).view(pa.date32())
        return _array(pa.date32(), out.astype(np.int32), valid if nulls else None)

    def _moments(self, cells: Cells) -> pa.Array:
        odd, out, valid = np.empty(len(cells), np.bool_), np.empty(len(cells), np.int64), cells.bits()
        nulls, found = _CLOCKS[self._log.type](
            cells.data, cells.starts, cells.lengths, cells.images, self._log.metadata, out, valid, odd
        )
        array = self._with_odd(cells, out, odd) if found else _array(pa.int64(), out, valid if nulls else None)
        return array.view(self._column.type.arrow)

    def _with_odd(self, cells: Cells, numbers: Places, odd: Mask) -> pa.Array:
        """Convert values that are not usual dates (`odd`) one by one: to null, to a number, or with an error."""
        bad = self.bad = np.zeros(len(cells), np.bool_)
        for row in np.nonzero(odd)[0].tolist():
            value = self._one(cells.value(row))
            bad[row] = value is NO_DATE
            numbers[row] = 0 if value is NO_DATE else value
        return _array(pa.int64(), numbers, np.packbits(cells.present() & ~bad, bitorder="little"))

    def _by_code(self, cells: Cells, size: int) -> pa.Array:
        """Each of few values once."""
        numbers, valid = self._numbers(cells, size)
        present = None if valid is None else cells.present()
        codes = np.flatnonzero(np.bincount(numbers if present is None else numbers[present]))
        array, bad = self._finish([self._one(code.to_bytes(size, "little")) for code in codes.tolist()])
        assert bad is None  # dates are longer
        places = np.full(codes.max(initial=0) + 1, len(codes))
        places[codes] = np.arange(len(codes))
        places = places[numbers]
        if self._kind is Kind.STRING:
            return numbered_texts([*array.to_pylist(), ""], places, np.full(len(places), -1), valid)
        return array.take(pa.array(places, mask=None if present is None else ~present))

    # ---- in general

    def _by_difference(self, cells: Cells) -> pa.Array:
        """Each value once."""
        found = cells.binary().dictionary_encode()
        array, bad = self._finish([self._one(value) for value in found.dictionary.to_pylist()])
        if bad is not None:
            indices = found.indices.fill_null(0).to_numpy(zero_copy_only=False)
            self.bad = bad[indices] & cells.present()
        return array.take(found.indices)

    def _one_by_one(self, cells: Cells) -> pa.Array:
        texts, present = cells.texts, cells.present()
        values = [
            texts[image] if image in texts else self._one(cells.value(row)) if present[row] else None
            for row, image in enumerate(cells.images.tolist())
        ]
        return self._finish(values)[0]

    def _finish(self, values: list[Any]) -> tuple[pa.Array, Mask | None]:
        bad = np.array([value is NO_DATE for value in values], np.bool_) if NO_DATE in values else None
        if bad is not None:
            values = [None if value is NO_DATE else value for value in values]
        arrow = self._column.type.arrow
        if self._kind is Kind.STRING:
            return self._texts(values), bad
        if self._kind is Kind.DECIMAL:
            return decimal_array(values, arrow), bad
        if self._kind is Kind.DATE:
            return pa.array(values, pa.int32()).view(arrow), bad
        if self._kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
            return pa.array(values, pa.int64()).view(arrow), bad
        return pa.array(values, arrow), bad

    def _texts(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, pa.string())  # holds bytes against UTF-8
        except (pa.ArrowInvalid, UnicodeEncodeError):
            raise self._not_unicode() from None

    def _not_unicode(self) -> TableError:
        column = self._column
        message = f"Column {column.name} ({column.source_type}) contains text that is not valid Unicode."
        return ValueDoesNotFit(message, remedy=UNICODE_REMEDY, column=column.name)


def _keeps_ascii(one: Convert) -> bool:
    """Does a decoder give ASCII as it is?"""
    try:
        return bool(one(_ASCII) == _ASCII.decode())
    except (LookupError, ValueError, ArithmeticError, struct.error, TableError):
        return False


def _array(kind: pa.DataType, values: npt.NDArray[Any], valid: Bytes | None) -> pa.Array:
    """From its buffers; `valid` None: no value is null."""
    return pa.Array.from_buffers(
        kind, len(values), [None if valid is None else pa.py_buffer(valid), pa.py_buffer(values)]
    )


def text_array(kind: pa.DataType, offsets: npt.NDArray[np.int32], data: Bytes, valid: Bytes | None = None) -> pa.Array:
    """From its buffers; `kind`: binary, or string of what is known to be UTF-8."""
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def numbered_texts(texts: Sequence[str], which: Places, numbers: Places, valid: Bytes | None = None) -> pa.Array:
    """Of each row the text that `which` says, and behind it the number, where it is not negative."""
    each = [text.encode() for text in texts]
    bounds, offsets = np.cumsum([0, *map(len, each)]), np.empty(len(which) + 1, np.int32)
    out = np.empty(cell_kernel.numbered_offsets(which, bounds, numbers, offsets), np.uint8)
    data = np.frombuffer(b"".join(each) or b"\0", np.uint8)
    cell_kernel.numbered_texts(data, which, bounds, numbers, offsets, out)
    return text_array(pa.string(), offsets, out, valid)


def decimal_array(values: list[int | None], arrow: pa.DataType) -> pa.Array:
    """Unscaled integers as a decimal128 array."""
    data = b"".join([(value or 0).to_bytes(16, "little", signed=True) for value in values])
    validity = None
    if None in values:
        validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(data)])
