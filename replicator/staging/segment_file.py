"""A segment's Parquet file, as the thread that writes it sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replicator.errors import StagingError
from replicator.faults import reach
from replicator.model.schema import BEFORE, SEQUENCE, UNCHANGED
from replicator.staging.failures import translated
from replicator.staging.storage import Storage

_LARGE = 4 * 1024 * 1024  # bytes of a file
_STEP_ROWS = 4096  # that are encoded at a time: pyarrow's 1,024 take a tenth longer, and a page ends with a step


class SegmentFile:
    """Made by the first `write`; raises StorageFull, StagingError.  One thread."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema, key: Collection[str]) -> None:
        """`key`: the columns whose ranges the footer is to tell."""
        self.path = path
        self._storage, self._schema, self._key = storage, schema, key
        self._writer: pq.ParquetWriter | None = None
        self.size = 0

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """As one row group; `batches` is empty afterwards."""
        table = pa.Table.from_batches(batches, self._schema)
        batches.clear()
        if self._writer is None:
            self._writer = self._storage.begin(self.path, self._schema, **_format(self._schema, self._key))
        with translated(self.path):
            reach("segment.spill.before")
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
            reach("segment.spill.after")

    def close(self) -> None:
        """The footer; not forced to the disk."""
        with translated(self.path):
            reach("segment.close.before")
            assert self._writer is not None
            self._writer.close()
        self._writer = None
        self.size = self._storage.size(self.path)
        if self.size >= _LARGE:
            pa.default_memory_pool().release_unused()

    def abandon(self) -> None:
        """Close and delete the file.  Raises nothing: a file that cannot be deleted is garbage."""
        with suppress(StagingError, OSError):  # a full disk takes no footer
            if self._writer is not None:
                self._writer.close()
        self._writer = None
        with suppress(StagingError):
            self._storage.delete(self.path)


def make_durable(storage: Storage, files: Sequence[SegmentFile]) -> None:
    """All of them are closed."""
    storage.make_durable([file.path for file in files])
    for file in files:
        with translated(file.path):
            reach("segment.close.after")


def _format(schema: pa.Schema, key: Collection[str]) -> dict[str, Any]:
    """What costs least to write and to read: LZ4, no dictionaries, statistics where footers are read for them
    (`merge.ranges`).
    """
    with_statistics = {SEQUENCE, *key, *(BEFORE + name for name in key)}
    unchanged = [f"{UNCHANGED}.list.element"] if UNCHANGED in schema.names else []
    return {
        "compression": "lz4",
        "write_statistics": [*(name for name in schema.names if name in with_statistics), *unchanged],
        "use_dictionary": False,
        "column_encoding": {SEQUENCE: "DELTA_BINARY_PACKED"},  # they follow each other
        "write_batch_size": _STEP_ROWS,
    }
