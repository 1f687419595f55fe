"""The rows of one COPY … TO STDOUT (FORMAT binary), streamed as columns of cells: no object per value.

libpq gives a row at a time to a thread of its own, which packs them into blocks; the reader takes the blocks apart.  Between the
two there are at most a few batches (invariant 9); a large row is a block of its own and is not copied again.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import psycopg2

from replicator.errors import LogCorrupt
from replicator.sources.postgres.connection import Connection, tidemark_error
from replicator.sources.postgres.tuple_kernel import BAD, END, FULL, split_copy
from replicator.sources.postgres.tuples import Bytes, Cells, Places, copied_cells

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(_SIGNATURE) + 8  # flags, and the length of what may follow them
_AHEAD = 2  # batches between the thread and the reader


class CopyRows:
    """Runs a COPY on a connection that nobody else uses until it is `done`."""

    def __init__(
        self, connection: Connection, sql: str, kinds: Sequence[int], where: str, *, batch_rows: int, batch_bytes: int
    ) -> None:
        """`kinds`: of each column, whether its cells are TEXT or BINARY.  `where` names the table in errors.

        A batch ends at `batch_rows` rows or after `batch_bytes` bytes.
        """
        self._connection, self._sql, self._where = connection, sql, where
        self._kinds = kinds
        self._blocks = _Blocks(batch_rows, batch_bytes)
        self._thread = threading.Thread(target=self._copy, name="copy", daemon=True)
        self._batch_rows = batch_rows
        self._failure: Exception | None = None
        self.done = False

    def batches(self) -> Iterator[list[Cells]]:
        """Cells of each column.  Gives no empty batch.  An iterator that is left early closes the connection."""
        self._thread.start()
        try:
            yield from self._split()
            self._thread.join()
            self.done = True
        finally:
            if not self.done:
                self.cut()

    def cut(self) -> None:
        """End the COPY now, and the connection with it; also from another thread."""
        self._blocks.give_up()
        with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as peer:
            peer.shutdown(socket.SHUT_RDWR)  # the thread may be waiting for the server
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()

    def _copy(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.copy_expert(self._sql, self._blocks)
        except Exception as error:  # noqa: BLE001 - raised by the reader's thread
            self._failure = error
        self._blocks.end()

    def _split(self) -> Iterator[list[Cells]]:
        rest: bytes | bytearray = b""
        begun = False
        while True:
            block = self._blocks.take()
            if block is None:
                raise self._ended()
            rest = rest + block if rest else block
            if not begun and len(rest) < _HEADER:
                continue
            at = 0 if begun else _after_header(rest)
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
            rest = rest[at:] if at < len(rest) else b""
            del data, block

    def _places(self, size: int) -> tuple[Places, Places]:
        """Room for starts and lengths of all rows that so many bytes can have, up to a batch."""
        columns = len(self._kinds)
        shape = (columns, min(self._batch_rows, size // (2 + 4 * columns) + 1))
        return np.empty(shape, np.int64), np.empty(shape, np.int64)

    def _expect_end(self, more: Bytes) -> None:
        """After the trailer there are no bytes; the server says how the COPY has ended."""
        if len(more) or self._blocks.take() is not None:
            raise self._bad()
        if self._failure is not None:
            raise self._ended()

    def _ended(self) -> Exception:
        """Why there are no more rows although there was no trailer."""
        error = self._failure
        if isinstance(error, (psycopg2.Error, OSError)):
            return tidemark_error(error, self._where)
        return error or self._bad()

    def _bad(self) -> LogCorrupt:
        return LogCorrupt(f"The server sent rows of {self._where} that are none.")


class _Blocks:
    """What psycopg2 writes to, a row at a time; one thread writes, one takes."""

    def __init__(self, batch_rows: int, batch_bytes: int) -> None:
        self._batch_rows, self._batch_bytes = batch_rows, batch_bytes
        self._part, self._rows = bytearray(), 0
        self._ready: deque[bytes | bytearray] = deque()
        self._change = threading.Condition()
        self._given = self._taken = 0  # bytes ready, and those that the reader works on
        self._ended = self._given_up = False

    def write(self, row: bytes) -> None:
        """Waits while there is too much that nobody has taken.  InterruptedError after `give_up`."""
        if len(row) >= self._batch_bytes:
            self._flush()
            self._put(row)
            return
        self._part += row
        self._rows += 1
        if self._rows >= self._batch_rows or len(self._part) >= self._batch_bytes:
            self._flush()

    def end(self) -> None:
        with suppress(InterruptedError):
            self._flush()
        with self._change:
            self._ended = True
            self._change.notify_all()

    def take(self) -> bytes | bytearray | None:
        """The next block; None at the end.  What was taken before is done with."""
        with self._change:
            self._taken = 0
            self._change.notify_all()
            while not (self._ready or self._ended or self._given_up):
                self._change.wait()
            if not self._ready or self._given_up:
                return None
            block = self._ready.popleft()
            self._taken = len(block)
            self._given -= self._taken
            return block

    def give_up(self) -> None:
        with self._change:
            self._given_up = True
            self._ready.clear()
            self._change.notify_all()

    def _flush(self) -> None:
        part, self._part, self._rows = self._part, bytearray(), 0
        if part:
            self._put(part)

    def _put(self, block: bytes | bytearray) -> None:
        """Beyond the usual, a block waits until there is no other."""
        with self._change:
            while not self._given_up and self._given + self._taken and not self._fits(block):
                self._change.wait()
            if self._given_up:
                raise InterruptedError
            self._ready.append(block)
            self._given += len(block)
            self._change.notify_all()

    def _fits(self, block: bytes | bytearray) -> bool:
        return len(self._ready) < _AHEAD and self._given + self._taken + len(block) <= (_AHEAD + 1) * self._batch_bytes


def _after_header(data: bytes | bytearray) -> int:
    """Where the first row begins; https://www.postgresql.org/docs/current/sql-copy.html, "File Header"."""
    more = int.from_bytes(data[_HEADER - 4 : _HEADER], "big")
    if data[: len(_SIGNATURE)] != _SIGNATURE or more:
        raise LogCorrupt("The server sent what is no binary COPY.")
    return _HEADER
