"""A column of row images → an Arrow array: by kernels where its values are numbers or bytes that stay, else by its different values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableError, ValueDoesNotFit
from replicator.model.schema import Column
from replicator.model.types import Kind
from replicator.sources.base import ReadOptions
from replicator.sources.mysql import table_map as t
from replicator.sources.mysql import value_kernel
from replicator.sources.mysql.column_values import INTEGERS, Convert, ZeroPadded, converter, same
from replicator.sources.mysql.row_kernel import gather
from replicator.sources.mysql.table_map import LogColumn
from replicator.sources.mysql.temporal_values import NO_DATE
from replicator.sources.mysql.types import UNICODE_REMEDY

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Way = Callable[["Cells"], pa.Array]
_LARGEST = 2**31 - 1  # an Arrow binary array's offsets have 32 bits
_ASCII = bytes(range(128))
_CLOCKS = {t.DATETIME2: value_kernel.datetimes, t.TIMESTAMP2: value_kernel.timestamps}


@dataclass(frozen=True)
class Cells:
    """One column of many images: where each value starts in `data`, and how long it is (-1: NULL).

    `texts`: of images whose value is not there, but is this text.
    """

    data: Bytes
    starts: Places
    lengths: Places
    texts: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, images: Places) -> Cells:
        """Those of the images in their order; -1: NULL."""
        lengths = np.where(images < 0, -1, self.lengths[images])
        texts = (
            {row: self.texts[image] for row, image in enumerate(images.tolist()) if image in self.texts}
            if self.texts
            else {}
        )
        return Cells(self.data, self.starts[images], lengths, texts)

    def present(self) -> Mask | None:
        """None where no value is NULL."""
        present: Mask = self.lengths >= 0
        return None if present.all() else present

    def value(self, image: int) -> bytes:
        """Its bytes."""
        start = int(self.starts[image])
        return self.data[start : start + int(self.lengths[image])].tobytes()

    def binary(self, width: int | None = None) -> pa.Array:
        """The values' bytes; `width`: with as many zeros behind as it takes to be so long."""
        present = self.present()
        lengths = self.lengths if present is None else np.maximum(self.lengths, 0)
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(lengths if width is None else np.full(len(self), width), out=offsets[1:])
        if offsets[-1] > _LARGEST:
            message = "More than 2 GiB of values were to become one batch."
            raise ValueError(message)
        make = np.empty if width is None else np.zeros
        out = make(int(offsets[-1]), np.uint8)
        gather(self.data, self.starts, lengths, offsets, out)
        return _array(pa.binary(), present, offsets.astype(np.int32), out)


class ColumnArrays:
    """`convert` cells of one column of the log.  `bad`: which of the last ones were dates that do not exist, and are null."""

    def __init__(self, log: LogColumn, column: Column, options: ReadOptions) -> None:
        """UnsupportedType, UnsupportedCharset where the column cannot be read exactly."""
        self._log, self._column, self._kind = log, column, column.type.kind
        self._one: Convert = converter(log, column, options)
        self._way = self._kernel() or self._by_difference
        self.bad: Mask | None = None

    def convert(self, cells: Cells) -> pa.Array:
        """ValueDoesNotFit; for damaged bytes what `EventParser.guard` knows."""
        self.bad = None
        return self._one_by_one(cells) if cells.texts else self._way(cells)

    def _kernel(self) -> Way | None:
        log, kind = self._log, self._kind
        if self._one is same:
            return lambda cells: self._as_text(cells.binary())
        if isinstance(self._one, ZeroPadded):
            width = self._one.size
            return lambda cells: cells.binary(width)
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

    def _numbers(self, cells: Cells, size: int, *, signed: bool = False) -> Places:
        out = np.empty(len(cells), np.int64)
        value_kernel.integers(cells.data, cells.starts, cells.lengths, size, signed, out)
        return out

    def _floats(self, cells: Cells, bits: type[np.signedinteger[Any]]) -> pa.Array:
        numbers = self._numbers(cells, np.dtype(bits).itemsize).astype(bits)
        kind = pa.float32() if bits is np.int32 else pa.float64()
        return _array(kind, cells.present(), None, numbers).cast(self._column.type.arrow)

    def _integers(self, cells: Cells) -> pa.Array:
        size, signed = INTEGERS[self._log.type], not self._log.unsigned
        numbers, present, target = self._numbers(cells, size, signed=signed), cells.present(), self._column.type.arrow
        if pa.types.is_decimal(target):
            wide = np.zeros((len(cells), 2), np.int64)
            wide[:, 0] = numbers
            if signed:
                wide[:, 1] = numbers >> 63
            return _array(target, present, None, wide)
        array = _array(pa.int64(), present, None, numbers)
        return pc.not_equal(array, 0) if pa.types.is_boolean(target) else array.cast(target)

    def _decimals(self, cells: Cells) -> pa.Array:
        log, odd = self._log, np.empty(len(cells), np.bool_)
        out = np.empty((len(cells), 2), np.uint64)
        if value_kernel.decimals(
            cells.data, cells.starts, cells.lengths, log.metadata >> 8, log.metadata & 0xFF, out, odd
        ):
            return self._by_difference(cells)  # says which
        return _array(self._column.type.arrow, cells.present(), None, out)

    def _dates(self, cells: Cells) -> pa.Array:
        odd, out = np.empty(len(cells), np.bool_), np.empty(len(cells), np.int64)
        found = value_kernel.dates(cells.data, cells.starts, cells.lengths, out, odd)
        return self._with_odd(cells, out, odd if found else None).cast(pa.int32()).view(pa.date32())

    def _moments(self, cells: Cells) -> pa.Array:
        odd, out = np.empty(len(cells), np.bool_), np.empty(len(cells), np.int64)
        kernel = _CLOCKS[self._log.type]
        found = kernel(cells.data, cells.starts, cells.lengths, self._log.metadata, out, odd)
        return self._with_odd(cells, out, odd if found else None).view(self._column.type.arrow)

    def _with_odd(self, cells: Cells, numbers: Places, odd: Mask | None) -> pa.Array:
        """`odd` ones are no usual dates: null, another number, or an error."""
        present = cells.present()
        if odd is not None:
            bad = np.zeros(len(cells), np.bool_)
            for image in np.nonzero(odd)[0].tolist():
                value = self._one(cells.value(image))
                bad[image] = value is NO_DATE
                numbers[image] = 0 if value is NO_DATE else value
            self.bad = bad
            present = ~bad if present is None else present & ~bad
        return _array(pa.int64(), present, None, numbers)

    # ---- in general

    def _by_difference(self, cells: Cells) -> pa.Array:
        """Each value once."""
        found = cells.binary().dictionary_encode()
        array, bad = self._finish([self._one(value) for value in found.dictionary.to_pylist()])
        if bad is not None:
            indices = found.indices.fill_null(0).to_numpy(zero_copy_only=False)
            present = cells.present()
            self.bad = bad[indices] if present is None else bad[indices] & present
        return array.take(found.indices)

    def _one_by_one(self, cells: Cells) -> pa.Array:
        texts, nulls = cells.texts, cells.lengths < 0
        values = [
            texts[image] if image in texts else None if nulls[image] else self._one(cells.value(image))
            for image in range(len(cells))
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
        message = f"Column {column.name} ({column.source_type}) holds text that is no valid Unicode."
        return ValueDoesNotFit(message, remedy=UNICODE_REMEDY)


def _keeps_ascii(one: Convert) -> bool:
    """Does a decoder give ASCII as it is?"""
    try:
        return bool(one(_ASCII) == _ASCII.decode())
    except (LookupError, ValueError, ArithmeticError, struct.error, TableError):
        return False


def _array(
    kind: pa.DataType, present: Mask | None, offsets: npt.NDArray[np.int32] | None, values: npt.NDArray[Any]
) -> pa.Array:
    """From its buffers."""
    valid = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    rows = len(values) if offsets is None else len(offsets) - 1
    buffers = [valid, *([] if offsets is None else [pa.py_buffer(offsets)]), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, rows, buffers)


def decimal_array(values: list[int | None], arrow: pa.DataType) -> pa.Array:
    """Unscaled integers as a decimal128 array."""
    data = b"".join([(value or 0).to_bytes(16, "little", signed=True) for value in values])
    validity = None
    if None in values:
        validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(data)])
