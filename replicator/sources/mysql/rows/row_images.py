"""Row images of one table as they come, split into columns of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replicator.sources.mysql.rows.columns import Bytes, Cells, Places
from replicator.sources.mysql.rows.image_kernel import BAD, FULL, split_images
from replicator.sources.mysql.rows.values import Shape

_MIN_IMAGES, _MIN_BYTES = 72, 4096
_PAD = 8  # a row of places as long as a power of two would have all columns' in the same lines of the processor's cache
_KEPT_BYTES = 1 << 25  # of the memory that stays for the next rows of a table: those of a usual batch fit in


class Images:
    """Their bytes, and where in them each value is."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        """`shapes` of the log's columns."""
        self._prefixes = np.array([shape.prefix for shape in shapes], np.int64)
        self._sizes = np.array([shape.size for shape in shapes], np.int64)
        self._texts: dict[int, dict[int, str]] = {}
        self._room()

    def _room(self) -> None:
        self._images = self._used = 0
        self._out = np.empty(_MIN_BYTES, np.uint8)
        self._starts = np.empty((len(self._sizes), _MIN_IMAGES), np.int64)
        self._lengths = np.empty_like(self._starts)

    def add(self, data: Bytes, begins: Places, ends: Places, operations: Places, rows: Places) -> None:
        """The images in data[begins[i]:ends[i]] of events with such `operations` (as in frame_kernel).  rows[i] becomes
        their number of rows.

        IndexError where an event does not hold whole rows; the images of those before it are there.
        """
        event = 0
        while True:
            event, self._images, self._used, why = split_images(
                data, begins, ends, operations, event, self._prefixes, self._sizes, self._images, self._used,
                self._out, self._starts, self._lengths, rows,
            )  # fmt: skip
            if why == BAD:
                message = f"rows that do not end with their event, of {ends[event] - begins[event]} bytes"
                raise IndexError(message)
            if why != FULL:
                return
            self._grow(int(ends[event] - begins[event]))

    def _grow(self, needed: int) -> None:
        """Make room for `needed` more bytes of an event, or, if there is enough, for more images."""
        size = len(self._out)
        if self._used + needed > size:
            out = np.empty(max(2 * size, self._used + needed), np.uint8)
            out[: self._used] = self._out[: self._used]
            self._out = out
            return
        shape = (len(self._sizes), 2 * self._starts.shape[1] + _PAD)
        for name in ("_starts", "_lengths"):
            wider = np.empty(shape, np.int64)
            wider[:, : self._images] = getattr(self, name)[:, : self._images]
            setattr(self, name, wider)

    def set_text(self, column: int, image: int, text: str) -> None:
        """The value of a column in an image is not in its bytes, but this."""
        self._texts.setdefault(column, {})[image] = text

    def cells(self, column: int, images: Places) -> Cells:
        """A column of the log, in rows made of these images; -1: of none."""
        count = self._images
        starts, lengths = self._starts[column, :count], self._lengths[column, :count]
        return Cells(self._out, starts, lengths, images, self._texts.get(column, {}))

    def bytes_of(self, first: int, last: int) -> Bytes:
        """The images from `first` to `last`, which followed each other in the log: of each the bits that say what is
        NULL, then the values.
        """
        columns, rows = self._starts.shape[0], self._starts[:, : self._images]
        prefix = int(self._prefixes[0]) if self._lengths[0, first] >= 0 else 0
        begin = int(rows[0, first]) - prefix - (columns + 7) // 8
        end = int(rows[-1, last]) + max(0, int(self._lengths[-1, last]))
        return self._out[begin:end]

    def mark(self) -> tuple[int, int]:
        return self._images, self._used

    def truncate(self, mark: tuple[int, int]) -> None:
        """Forget what came after `mark`."""
        self._images, self._used = mark
        for texts in self._texts.values():
            for image in [image for image in texts if image >= self._images]:
                del texts[image]

    @property
    def room(self) -> int:
        """Bytes of memory that are taken."""
        return len(self._out) + self._starts.nbytes + self._lengths.nbytes

    def clear(self, *, release: bool = False) -> None:
        """Nothing is there any more; room that is not too large is kept, unless it is asked back."""
        self._texts.clear()
        if release or self.room > _KEPT_BYTES:
            self._room()
        self._images = self._used = 0
