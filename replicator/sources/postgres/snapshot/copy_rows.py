"""The rows of one COPY … TO STDOUT (FORMAT binary), streamed as columns of cells: no object per value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from replicator.errors import LogCorrupt
from replicator.model.identifiers import TableId
from replicator.sources.postgres.connection import Connection
from replicator.sources.postgres.rows.tuple_kernel import BAD, END, FULL, split_copy
from replicator.sources.postgres.rows.tuples import Bytes, Cells, Places, copied_cells
from replicator.sources.postgres.snapshot.copy_libpq import CopyBlocks, LibpqBlocks
from replicator.sources.postgres.snapshot.copy_socket import SocketBlocks

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(_SIGNATURE) + 8  # flags, and the length of what may follow them


class CopyRows:
    """Runs a COPY on a connection that has no other use until the COPY is `done`."""

    def __init__(
        self,
        connection: Connection,
        sql: str,
        kinds: Sequence[int],
        where: str | TableId,
        *,
        batch_rows: int,
        batch_bytes: int,
    ) -> None:
        """`kinds`: of each column, whether its cells are TEXT or BINARY.  `where` names the table in errors.

        A batch ends at `batch_rows` rows or after `batch_bytes` bytes.
        """
        self._connection, self._where, self._kinds = connection, where, kinds
        way = LibpqBlocks if connection.info.ssl_in_use else SocketBlocks
        self._blocks: CopyBlocks = way(connection, sql, where, batch_rows=batch_rows, batch_bytes=batch_bytes)
        self._batch_rows = batch_rows
        shape = (len(kinds), 0)
        self._starts, self._lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
        self.done = False

    def batches(self) -> Iterator[list[Cells]]:
        """Cells of each column.  Gives no empty batch.  An iterator that is left early closes the connection."""
        try:
            self._blocks.begin()
            yield from self._split()
            self._blocks.end()
            self.done = True
        finally:
            if not self.done:
                self.cut()

    def cut(self) -> None:
        """End the COPY now, and the connection with it."""
        self._blocks.cut()
        self._connection.close()

    def _split(self) -> Iterator[list[Cells]]:
        rest: bytes | memoryview = b""
        begun = False
        while (block := self._blocks.take()) is not None:
            rest = b"".join((rest, block)) if rest else block
            if not begun and len(rest) < _HEADER:
                continue
            at = 0 if begun else _after_header(bytes(rest[:_HEADER]))
            begun = True
            data = np.frombuffer(rest, np.uint8)
            starts, lengths = self._places(len(data) - at)
            why = FULL
            while why == FULL:
                at, rows, why = split_copy(data, at, starts, lengths)
                if why == BAD:
                    raise self._bad()
                if rows:
                    yield [
                        copied_cells(data, starts[number, :rows], lengths[number, :rows], kind)
                        for number, kind in enumerate(self._kinds)
                    ]
            if why == END:
                self._expect_end(data[at:])
                return
            rest = bytes(rest[at:])
            del data, block
        raise self._bad()

    def _places(self, size: int) -> tuple[Places, Places]:
        """Return room for the starts and lengths of all rows that `size` bytes can hold, up to a batch."""
        columns = len(self._kinds)
        wanted = min(self._batch_rows, size // (2 + 4 * columns) + 1)
        if wanted > self._starts.shape[1]:
            self._starts, self._lengths = np.empty((columns, wanted), np.int64), np.empty((columns, wanted), np.int64)
        return self._starts, self._lengths

    def _expect_end(self, more: Bytes) -> None:
        """Require that no bytes follow the trailer; the server reports how the COPY has ended."""
        if self._blocks.take() is not None or len(more):
            raise self._bad()

    def _bad(self) -> LogCorrupt:
        return LogCorrupt(f"Unexpected server data: invalid rows of {self._where}.")


def _after_header(data: bytes) -> int:
    """Where the first row begins; https://www.postgresql.org/docs/current/sql-copy.html, "File Header"."""
    more = int.from_bytes(data[_HEADER - 4 :], "big")
    if data[: len(_SIGNATURE)] != _SIGNATURE or more:
        raise LogCorrupt("Unexpected server data: not a binary COPY stream.")
    return _HEADER
