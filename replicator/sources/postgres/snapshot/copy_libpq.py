"""The bytes of one COPY … TO STDOUT in blocks, by libpq: a row at a time.

Used with TLS, where only libpq can read the socket.  A separate thread takes the rows and packs them.  Between it and
the consumer of the blocks there are at most a few batches (invariant 9).  A large row is a block alone and is not
copied again.
"""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress

import psycopg2

from replicator.model.identifiers import TableId
from replicator.sources.postgres.connection import Connection, tidemark_error

_AHEAD = 2  # batches between the thread and who takes them


class CopyBlocks(ABC):
    """A COPY under way."""

    @abstractmethod
    def begin(self) -> None:
        """Send the statement."""

    @abstractmethod
    def take(self) -> memoryview | None:
        """The next bytes, as many as a batch has as a rule; None at the end.  What was taken before is done with.

        Raises what the server has said, SourceUnreachable, LogCorrupt.
        """

    @abstractmethod
    def end(self) -> None:
        """After all was taken: the connection is free."""

    @abstractmethod
    def cut(self) -> None:
        """End the COPY now: the connection is of no more use and is closed next."""


class LibpqBlocks(CopyBlocks):
    """See above."""

    def __init__(
        self, connection: Connection, sql: str, where: str | TableId, *, batch_rows: int, batch_bytes: int
    ) -> None:
        """As `CopyRows`."""
        self._connection, self._sql, self._where = connection, sql, where
        self._batch_rows, self._batch_bytes = batch_rows, batch_bytes
        self._part, self._rows = bytearray(), 0
        self._ready: deque[bytes | bytearray] = deque()
        self._change = threading.Condition()
        self._given = self._taken = 0  # bytes ready, and those that are worked on
        self._ended = self._given_up = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._copy, name="copy", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def take(self) -> memoryview | None:
        with self._change:
            self._taken = 0
            self._change.notify_all()
            while not (self._ready or self._ended or self._given_up):
                self._change.wait()
            if self._ready and not self._given_up:
                block = self._ready.popleft()
                self._taken = len(block)
                self._given -= self._taken
                return memoryview(block)
        if isinstance(self._failure, (psycopg2.Error, OSError)):
            raise tidemark_error(self._failure, self._where) from None  # the cause's text may hold rows (invariant 8)
        if self._failure is not None:
            raise self._failure
        return None

    def end(self) -> None:
        self._thread.join()

    def cut(self) -> None:
        with self._change:
            self._given_up = True
            self._ready.clear()
            self._change.notify_all()
        with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as peer:
            peer.shutdown(socket.SHUT_RDWR)  # the thread may be waiting for the server
        if self._thread.ident is not None:
            self._thread.join()

    def write(self, row: bytes) -> None:
        """Pack a row (called by psycopg2); wait while too many bytes are not consumed yet.

        InterruptedError after `cut`.
        """
        if len(row) >= self._batch_bytes:
            self._flush()
            self._put(row)
            return
        self._part += row
        self._rows += 1
        if self._rows >= self._batch_rows or len(self._part) >= self._batch_bytes:
            self._flush()

    def _copy(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.copy_expert(self._sql, self)
        except Exception as error:  # noqa: BLE001 - raised where blocks are taken
            self._failure = error
        with suppress(InterruptedError):
            self._flush()
        with self._change:
            self._ended = True
            self._change.notify_all()

    def _flush(self) -> None:
        part, self._part, self._rows = self._part, bytearray(), 0
        if part:
            self._put(part)

    def _put(self, block: bytes | bytearray) -> None:
        """Queue a block; one that exceeds the limits waits until there is no other."""
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
