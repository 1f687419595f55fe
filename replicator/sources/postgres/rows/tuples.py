"""Tuples of pgoutput, and rows of COPY BINARY, as columns of cells: no object per value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.errors import LogCorrupt
from replicator.sources.postgres.rows import tuple_kernel

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
NULL: Final = ord("n")
UNCHANGED: Final = ord("u")
TEXT: Final = ord("t")
BINARY: Final = ord("b")
Mask = npt.NDArray[np.bool_]
LARGEST = 2**31 - 1  # an Arrow binary array's offsets have 32 bits


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of many tuples, still in the server's form.

    kind: uint8, of each tuple b"n" (null), b"u" (a TOASTed value that did not change and is not there), b"t" (text) or
    b"b" (binary).  values: pa.BinaryArray of the same length, null where the kind is n or u.
    """

    kind: Bytes
    values: pa.Array

    @property
    def unchanged(self) -> npt.NDArray[np.bool_]:
        """True for each tuple whose value is not there."""
        return np.asarray(self.kind == UNCHANGED)

    def __len__(self) -> int:
        return len(self.kind)


class Found(NamedTuple):
    """One column of many tuples, where it was found: of each tuple the kind, as `Cells` has it, and data[start:start +
    length].
    """

    data: Bytes
    kinds: Bytes
    starts: Places
    lengths: Places

    def part(self, tuples: slice) -> Found:
        return Found(self.data, self.kinds[tuples], self.starts[tuples], self.lengths[tuples])

    def cells(self) -> Cells:
        return Cells(self.kinds, _values(self.data, self.starts, self.lengths, _present(self.kinds)))


def find_values(data: bytes | bytearray | memoryview | Bytes, offsets: Places, columns: int) -> list[Found]:
    """TupleData of pgoutput at each of `offsets` in `data`, by column.

    LogCorrupt for what is none, and for a tuple with another number of columns.  `data` has less than 2 GiB.
    """
    array = _bytes(data)
    shape = (columns, len(offsets))
    kinds, starts, lengths = np.empty(shape, np.uint8), np.empty(shape, np.int64), np.empty(shape, np.int64)
    ends = np.empty(len(offsets), np.int64)
    bad = tuple_kernel.split_tuples(array, _places(offsets), kinds, starts, lengths, ends)
    if bad >= 0:
        raise _corrupt(int(offsets[bad]), columns)
    return [Found(array, *column) for column in zip(kinds, starts, lengths, strict=True)]


def tuple_ends(data: bytes | bytearray | memoryview | Bytes, offsets: Places) -> Places:
    """Where each TupleData ends that begins at `offsets`: in an Update, the new tuple's mark follows there.

    LogCorrupt.
    """
    ends = np.empty(len(offsets), np.int64)
    bad = tuple_kernel.tuple_ends(_bytes(data), _places(offsets), ends)
    if bad >= 0:
        raise _corrupt(int(offsets[bad]), None)
    return ends


def copied_cells(data: Bytes, starts: Places, lengths: Places, kind: int) -> Cells:
    """One column of rows of COPY BINARY as `tuple_kernel.split_copy` has found them; `kind` says what the bytes are."""
    present = lengths >= 0
    if present.all():
        return Cells(np.full(len(starts), kind, np.uint8), _values(data, starts, lengths, None))
    kinds = np.where(present, np.uint8(kind), np.uint8(NULL))
    return Cells(kinds, _values(data, starts, np.maximum(lengths, 0), present))


def _values(data: Bytes, starts: Places, lengths: Places, present: Mask | None) -> pa.Array:
    """Gather the values; a single value, which may have a gigabyte, is not copied."""
    if len(starts) == 1:
        return _array(np.array([starts[0], starts[0] + lengths[0]], np.int64), data, present)
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    tuple_kernel.gather(data, starts, lengths, offsets, out)
    return _array(offsets, out, present)


def _array(offsets: Places, data: Bytes, present: Mask | None) -> pa.Array:
    if offsets[-1] > LARGEST:
        message = "More than 2 GiB of tuples were to become one batch."
        raise ValueError(message)
    valid = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _present(kind: Bytes) -> Mask | None:
    """None where all are."""
    present: Mask = (kind == TEXT) | (kind == BINARY)
    return None if present.all() else present


def _bytes(data: bytes | bytearray | memoryview | Bytes) -> Bytes:
    return data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)


def _places(offsets: Places) -> Places:
    return np.ascontiguousarray(offsets, np.int64)


def _corrupt(offset: int, columns: int | None) -> LogCorrupt:
    of = "" if columns is None else f" of {columns} columns"
    return LogCorrupt(f"Unexpected server data: not a tuple{of} (byte {offset} of the batch).")
