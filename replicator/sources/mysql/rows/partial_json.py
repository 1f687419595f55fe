"""MySQL's PARTIAL_UPDATE_ROWS: the new image of a row may have JSON columns as differences to the old one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from replicator.sources.mysql.rows import jsonb
from replicator.sources.mysql.rows.image_kernel import UPDATE
from replicator.sources.mysql.rows.incomplete import incomplete
from replicator.sources.mysql.rows.row_images import Images
from replicator.sources.mysql.rows.table_map import JSON, LogColumn
from replicator.sources.mysql.rows.values import Shape, shape_of
from replicator.sources.mysql.wire.bounded_slices import part
from replicator.sources.mysql.wire.events import length_encoded

_PARTIAL_JSON = 1
_DIFFERENCES = Shape(4, (1 << 32) - 1)


class _Image(NamedTuple):
    """The bytes of each value, its length before it; None for NULL."""

    values: list[bytes | None]
    end: int


def split_partial(images: Images, body: bytes, at: int, columns: Sequence[LogColumn]) -> int:
    """Rows in body[at:], as two images each.  Returns their number; RowImageIncomplete."""
    shapes = [shape_of(column) for column in columns]
    documents = [index for index, column in enumerate(columns) if column.type == JSON]
    count = 0
    while at < len(body):
        before = _image(body, at, shapes, ())
        options, at = length_encoded(body, before.end)
        partial: set[int] = set()
        if options & _PARTIAL_JSON:
            width = (len(documents) + 7) // 8
            bits = int.from_bytes(part(body, at, width), "little")
            partial = {index for place, index in enumerate(documents) if bits >> place & 1}
            at += width
        after = _image(body, at, shapes, partial)
        at = after.end
        _add(images, before, after, partial)
        count += 1
    return count


def _image(body: bytes, at: int, shapes: Sequence[Shape], partial: Collection[int]) -> _Image:
    width = (len(shapes) + 7) // 8
    nulls, at = int.from_bytes(part(body, at, width), "little"), at + width
    values: list[bytes | None] = []
    for index, shape in enumerate(shapes):
        if nulls >> index & 1:
            values.append(None)
            continue
        prefix, size = _DIFFERENCES if index in partial else shape
        if prefix:
            size = int.from_bytes(part(body, at, prefix), "little")
        values.append(part(body, at, prefix + size))
        at += prefix + size
    return _Image(values, at)


def _add(images: Images, before: _Image, after: _Image, partial: Collection[int]) -> None:
    texts: dict[int, str] = {}
    whole = list(after.values)
    for index in partial:
        old, differences = before.values[index], after.values[index]
        if differences is None:
            continue
        if old is None:
            message = "A partial JSON update has nothing to apply to."
            raise incomplete(message)
        texts[index] = jsonb.apply_diffs(old[4:], differences[4:])
        whole[index] = None
    pair = b"".join(_joined(values) for values in (before.values, whole))
    first, _ = images.mark()
    one = np.array([1], np.int64)
    images.add(np.frombuffer(pair, np.uint8), 0 * one, len(pair) * one, UPDATE * one, one)
    for index, text in texts.items():
        images.set_text(index, first + 1, text)


def _joined(values: Sequence[bytes | None]) -> bytes:
    nulls = sum(1 << index for index, value in enumerate(values) if value is None)
    return nulls.to_bytes((len(values) + 7) // 8, "little") + b"".join(value for value in values if value is not None)
