"""The rows of one query, unbuffered, as columns of bytes: one pass over the socket's bytes, no object per value."""

# ruff: noqa: SLF001, PLR2004 - below pymysql's packets on purpose; the numbers are the protocol's own
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pymysql import err
from pymysql.constants import COMMAND

from replicator.model.identifiers import TableId
from replicator.sources.mysql.connection import Connection, translated
from replicator.sources.mysql.snapshot.row_kernel import BAD, END, FULL, LARGE, gather, split_rows

Bytes = npt.NDArray[np.uint8]
_HEADER = 4
_MAX_PAYLOAD = 0xFFFFFF
_START_BYTES = 256 * 1024


class ResultStream:
    """Sends a SELECT and gives its rows in batches; the connection is free again when it is `done`.

    It reads below pymysql's packets (two calls and one object each), from the same buffered file: `_rfile`.
    """

    def __init__(
        self, connection: Connection, sql: str, where: str | TableId, *, batch_rows: int, batch_bytes: int
    ) -> None:
        """`where` names the table in errors.  A batch ends at `batch_rows` rows or after `batch_bytes` bytes."""
        self._connection = cast("Any", connection)
        self._where = where
        self._batch_bytes = batch_bytes
        self._buffer: Bytes = np.empty(_START_BYTES, np.uint8)
        self._at = self._end = 0
        self.done = self._drained = False
        with translated(where):
            self._connection._execute_command(COMMAND.COM_QUERY, sql.encode("utf-8", "surrogatepass"))
            columns = self._read_head()
        self._starts = np.empty((columns, batch_rows), np.int64)
        self._lengths = np.empty((columns, batch_rows), np.int64)

    def _read_head(self) -> int:
        """Column count and definitions; these are few and read through pymysql."""
        columns = int(self._connection._read_packet().read_length_encoded_integer())
        for _ in range(columns + 1):  # the definitions and an EOF
            self._connection._read_packet()
        return columns

    def batches(self) -> Iterator[list[pa.Array]]:
        """Binary arrays, one for each column of the SELECT, NULLs kept.  Gives no empty batch."""
        last = False
        while not last:
            with translated(self._where):
                last, rows = self._fill()
                columns = [self._column(number, rows) for number in range(len(self._starts))] if rows else []
                self._forget()
            self.done = last
            if columns:
                yield columns

    def _fill(self) -> tuple[bool, int]:
        """Read until the batch is full; True with the last one."""
        row, began = 0, self._at
        while True:
            self._at, row, why = split_rows(self._buffer, self._at, self._end, row, self._starts, self._lengths)
            if why == BAD:
                raise self._bad()
            if why == END:
                self._finish()
                return True, row
            if why == FULL or (row and self._at - began >= self._batch_bytes):
                return False, row
            if why == LARGE:
                if row:
                    return False, row  # a large row is a batch alone: memory holds one of them at a time
                self._at, row = self._split_large()
                return False, row
            self._read()

    def _read(self) -> None:
        """One read of the socket; makes room before it."""
        if self._end == len(self._buffer):
            wanted = self._buffer
            self._buffer = np.empty(2 * len(wanted), np.uint8)
            self._buffer[: self._end] = wanted
        room = self._buffer[self._end :].data
        if self._drained:
            count = self._connection._rfile.raw.readinto(room)
        else:  # what pymysql's file has read ahead; readinto1 would wait for more although there is something
            ahead = self._connection._rfile.read1(len(room))
            count, self._drained = len(ahead), True
            room[:count] = ahead
        if not count:
            self._connection._force_close()
            raise err.OperationalError(2013, "Lost connection to the server during the query")
        self._end += count

    def _need(self, end: int) -> None:
        while self._end < end:
            self._read()

    def _split_large(self) -> tuple[int, int]:
        """A row of several packets, made one by moving the parts together."""
        start, parts, place = self._at, [], self._at
        while True:
            self._need(place + _HEADER)
            size = int.from_bytes(self._buffer[place : place + 3].tobytes(), "little")
            self._need(place + _HEADER + size)
            parts.append((place + _HEADER, size))
            place += _HEADER + size
            if size < _MAX_PAYLOAD:
                break
        target = start + _HEADER
        for part, size in parts:
            self._buffer[target : target + size] = self._buffer[part : part + size]
            target += size
        self._split_one(start + _HEADER, target)
        return place, 1

    def _split_one(self, place: int, limit: int) -> None:
        """What the kernel does, for one row without packet headers in it that ends at `limit`."""
        for column in range(len(self._starts)):
            length, place = self._length(place, limit)
            if max(length, 0) > limit - place:
                raise self._bad()
            self._starts[column, 0], self._lengths[column, 0] = place, length
            place += max(length, 0)
        if place != limit:
            raise self._bad()

    def _length(self, place: int, limit: int) -> tuple[int, int]:
        """Of the value at `place` (-1: NULL), and where it begins."""
        first = int(self._buffer[place]) if place < limit else 0xFF
        if first <= 0xFB:
            return (first if first < 0xFB else -1), place + 1
        width = {0xFC: 2, 0xFD: 3, 0xFE: 8, 0xFF: 1 << 32}[first]
        if width > limit - place - 1:
            raise self._bad()
        return int.from_bytes(self._buffer[place + 1 : place + 1 + width].tobytes(), "little"), place + 1 + width

    def _bad(self) -> err.OperationalError:
        """For a row that is none; the connection cannot be used any more."""
        self._connection._force_close()
        return err.OperationalError(2027, "Malformed packet")

    def _column(self, number: int, rows: int) -> pa.Array:
        starts, lengths = self._starts[number, :rows], self._lengths[number, :rows]
        present = lengths >= 0
        sizes = lengths if present.all() else np.maximum(lengths, 0)
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        data: Bytes = np.empty(int(offsets[-1]), np.uint8)
        gather(self._buffer, starts, sizes, offsets, data)
        valid = None if sizes is lengths else pa.py_buffer(np.packbits(present, bitorder="little"))
        buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers)

    def _forget(self) -> None:
        """Move what is left to the front; give up a buffer that one large row has grown."""
        left = self._buffer[self._at : self._end]
        if len(self._buffer) > 2 * self._batch_bytes + _START_BYTES and len(left) < self._batch_bytes:
            self._buffer = np.empty(max(self._batch_bytes, _START_BYTES), np.uint8)
        self._buffer[: len(left)] = left.copy()
        self._at, self._end = 0, len(left)

    def _finish(self) -> None:
        """The packet at `_at` ends the rows: EOF, or an error of the server in the middle of them."""
        size = int.from_bytes(self._buffer[self._at : self._at + 3].tobytes(), "little")
        self._need(self._at + _HEADER + size)
        payload = self._buffer[self._at + _HEADER : self._at + _HEADER + size].tobytes()
        self._at += _HEADER + size
        if payload[0] == 0xFF:
            err.raise_mysql_exception(payload)


def read_rows(connection: Connection, sql: str, where: str | TableId) -> list[tuple[Any, ...]]:
    """A small result, by pymysql; errors name `where`."""
    with translated(where), connection.cursor() as cursor:
        cursor.execute(sql)
        return cast("list[tuple[Any, ...]]", list(cursor.fetchall()))
