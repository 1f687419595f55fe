"""Tuples of pgoutput and rows of COPY BINARY: taken apart exactly, and malformed ones refused without a read
outside.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import psycopg2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.errors import LogCorrupt, SourceUnreachable, TableError
from replicator.model.identifiers import TableId
from replicator.sources.postgres.rows.tuples import BINARY, NULL, TEXT, UNCHANGED, find_values, tuple_ends
from replicator.sources.postgres.snapshot import copy_socket
from replicator.sources.postgres.snapshot.copy_rows import CopyRows

FEW = settings(max_examples=100, deadline=None, derandomize=True)
Cell = tuple[str, bytes | None]
CELL = st.one_of(
    st.just(("n", None)), st.just(("u", None)), st.tuples(st.sampled_from("tb"), st.binary(max_size=20))
)  # fmt: skip
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"


def tuple_data(cells: Sequence[Cell]) -> bytes:
    parts = [struct.pack(">h", len(cells))]
    for kind, value in cells:
        parts.append(kind.encode() + (b"" if value is None else struct.pack(">i", len(value)) + value))
    return b"".join(parts)


def copy_row(values: Sequence[bytes | None]) -> bytes:
    fields = [struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values]
    return struct.pack(">h", len(values)) + b"".join(fields)


def places(parts: Sequence[bytes], start: int = 0) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.cumsum([start, *(len(part) for part in parts)])[:-1].astype(np.int64)


@FEW
@given(rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width),
            max_size=8)), lead=st.binary(max_size=5))  # fmt: skip
def test_tuples_are_taken_apart_into_columns(rows: list[list[Cell]], lead: bytes) -> None:
    parts = [tuple_data(cells) for cells in rows]
    width = len(rows[0]) if rows else 3
    offsets = places(parts, len(lead))
    data = lead + b"".join(parts) + b"after"
    columns = [found.cells() for found in find_values(data, offsets, width)]
    assert len(columns) == width
    for number, column in enumerate(columns):
        column.values.validate(full=True)
        assert [chr(kind) for kind in column.kind] == [cells[number][0] for cells in rows]
        assert column.values.to_pylist() == [cells[number][1] for cells in rows]
        assert column.unchanged.tolist() == [cells[number][0] == "u" for cells in rows]
    assert tuple_ends(data, offsets).tolist() == [
        offset + len(part) for offset, part in zip(offsets, parts, strict=True)
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\1",
        b"\0\1x",
        b"\0\1t\0\0",
        b"\0\1t\0\0\0\5abcd",
        b"\0\1t\xff\xff\xff\xffabcd",
        b"\0\1b\x7f\xff\xff\xffabcd",
        b"\0\2n",
        b"\xff\xff" + b"n" * 100,
    ],
)
def test_what_is_no_tuple_is_refused(data: bytes) -> None:
    with pytest.raises(LogCorrupt):
        find_values(data, np.array([0], np.int64), 1)
    with pytest.raises(LogCorrupt):
        tuple_ends(data, np.array([0], np.int64))


@pytest.mark.parametrize("offset", [-1, -(2**62), 3, 2**62])
def test_a_place_outside_is_refused(offset: int) -> None:
    with pytest.raises(LogCorrupt):
        find_values(b"\0\1n", np.array([offset], np.int64), 1)
    with pytest.raises(LogCorrupt):
        tuple_ends(b"\0\1n", np.array([offset], np.int64))


def test_a_tuple_with_another_number_of_columns_is_refused() -> None:
    for width in (0, 1, 3):
        with pytest.raises(LogCorrupt):
            find_values(tuple_data([("n", None), ("n", None)]), np.array([0], np.int64), width)


@FEW
@given(cells=st.lists(CELL, min_size=1, max_size=4), cut=st.integers(0, 100),
    flips=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=3))  # fmt: skip
def test_a_mutated_tuple_gives_values_of_its_own_or_is_refused(
    cells: list[Cell], cut: int, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(tuple_data(cells))
    for place, value in flips:
        data[place % len(data)] = value
    data = data[: len(data) - cut % len(data)]
    try:
        columns = [found.cells() for found in find_values(bytes(data), np.array([0], np.int64), len(cells))]
        end = int(tuple_ends(bytes(data), np.array([0], np.int64))[0])
    except LogCorrupt:
        return
    assert end <= len(data)
    for column in columns:
        value = column.values[0].as_py()
        assert value is None if column.kind[0] in (NULL, UNCHANGED) else value in bytes(data)


class Cursor:
    def __init__(self, writes: Sequence[bytes], error: Exception | None) -> None:
        self._writes, self._error = writes, error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def copy_expert(self, _: str, file: Any) -> None:
        for data in self._writes:
            file.write(data)
        if self._error is not None:
            raise self._error


class Libpq:
    """What CopyRows needs of psycopg2's connection with TLS, with bytes that no server would send."""

    info = SimpleNamespace(ssl_in_use=True)
    closed = False

    def __init__(self, writes: Sequence[bytes], error: Exception | None) -> None:
        self._cursor = Cursor(writes, error)

    def cursor(self) -> Cursor:
        return self._cursor

    def fileno(self) -> int:
        raise psycopg2.InterfaceError

    def close(self) -> None:
        self.closed = True


class Socket:
    """The same without: a server that has sent `wire`, and nothing else comes."""

    info = SimpleNamespace(ssl_in_use=False)
    closed = False

    def __init__(self, wire: bytes) -> None:
        self._ours, self.server = socket.socketpair()
        self.server.sendall(wire)
        self.server.shutdown(socket.SHUT_WR)

    def fileno(self) -> int:
        return self._ours.fileno()

    def close(self) -> None:
        self._ours.close()
        self.closed = True


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", 4 + len(body)) + body


def framed(writes: Sequence[bytes], error: bytes = b"") -> bytes:
    """As on the wire, with messages in between that come at any time."""
    rows = [message(b"d", one) + message(b"N", b"SNOTICE\0Mhm\0\0") * (len(one) % 3 == 0) for one in writes]
    end = message(b"E", error) if error else message(b"c") + message(b"C", b"COPY 1\0")
    return message(b"H", b"\1\0\0") + b"".join(rows) + end + message(b"S", b"a\0b\0") + message(b"Z", b"T")


def copied(connection: Any, width: int, **sizes: int) -> list[list[Any]]:
    """Rows as lists."""
    stream = CopyRows(
        connection,
        "COPY",
        [TEXT, BINARY, TEXT][:width],
        TableId("s", "t"),
        **({"batch_rows": 3, "batch_bytes": 64} | sizes),
    )
    try:
        rows = []
        for cells in stream.batches():
            assert 0 < len(cells[0]) <= 3
            for column, kind in zip(cells, [TEXT, BINARY, TEXT], strict=False):
                column.values.validate(full=True)
                assert [value is None for value in column.values.to_pylist()] == (column.kind == NULL).tolist()
                assert set(column.kind.tolist()) <= {kind, NULL}
            rows += [list(row) for row in zip(*(column.values.to_pylist() for column in cells), strict=True)]
        assert stream.done
        return rows
    finally:
        assert connection.closed != stream.done
        assert not [one for one in threading.enumerate() if one.name == "copy"]
        connection.close()


def ways(writes: Sequence[bytes]) -> Iterator[Any]:
    """Connections that bring the same bytes of a COPY."""
    yield Libpq(writes, None)
    with closing(Socket(framed(writes))) as connection, connection.server:
        yield connection
        assert connection.server.recv(100) == message(b"Q", b"COPY\0")


ROWS = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(st.none() | st.binary(max_size=90), min_size=width, max_size=width), min_size=1, max_size=12
    )
)


@FEW
@given(rows=ROWS, cuts=st.lists(st.integers(0, 400), max_size=4), whole=st.booleans())
def test_rows_of_a_copy_arrive_however_they_are_cut(
    rows: list[list[bytes | None]], cuts: list[int], whole: bool
) -> None:
    parts = [HEADER, *(copy_row(row) for row in rows), TRAILER]
    if not whole:
        data = b"".join(parts)
        edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
        parts = [data[a:b] for a, b in pairwise(edges)]
    for connection in ways(parts):
        assert copied(connection, len(rows[0])) == rows


def test_a_copy_without_rows_gives_no_batch() -> None:
    for connection in ways([HEADER + TRAILER]):
        assert copied(connection, 2) == []


def test_more_than_is_received_at_once_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[bytes([number]) * size] for number, size in enumerate((0, 1, 90, 5000, 63, 64, 65, 7, 4096, 0))]
    wire = framed([HEADER, *map(copy_row, rows), TRAILER])
    for received in (*range(5, 40), 64, 97, 1024):
        monkeypatch.setattr(copy_socket, "_RECEIVED", received)
        for size in (1, 64, 10_000):
            with closing(Socket(wire)) as connection, connection.server:
                assert copied(connection, 1, batch_bytes=size) == rows


@pytest.mark.parametrize(
    "writes",
    [
        [],
        [HEADER],
        [b"PGCOPY\n\xff\r\n\0" + b"\0\0\0\0\0\0\0\4none" + TRAILER],
        [b"x" * 30],
        [HEADER, copy_row([b"a"])],
        [HEADER, copy_row([b"a", b"b"]), TRAILER],
        [HEADER, b"\0\1\xff\xff\xff\xfe", TRAILER],
        [HEADER, b"\0\1\0\0\0\5abcd", TRAILER],
        [HEADER, b"\0\1\x7f\xff\xff\xffabcd", TRAILER],
        [HEADER, TRAILER, copy_row([b"a"])],
    ],
)
def test_what_is_no_copy_is_refused(writes: list[bytes]) -> None:
    for connection in ways(writes):
        with pytest.raises(LogCorrupt):
            copied(connection, 1)


def test_an_error_after_some_rows_is_the_servers_own_even_after_the_trailer() -> None:
    error = psycopg2.OperationalError("server closed the connection unexpectedly")
    for writes in ([HEADER, copy_row([b"a"])], [HEADER, copy_row([b"a"]), TRAILER]):
        with pytest.raises(SourceUnreachable, match=r"s\.t could not be read: server closed"):
            copied(Libpq(writes, error), 1)
        told = "SERROR\0VERROR\0C22P05\0Mäh\0Dsecret\0\0".encode()
        with (
            closing(Socket(framed(writes, told))) as connection,
            pytest.raises(TableError, match=r"^s\.t cannot be read: the server refuses it: äh \(SQLSTATE 22P05\)$"),
        ):
            copied(connection, 1)


WIRE = framed([HEADER, copy_row([b"ab"]), copy_row([b"c"]), TRAILER])


@pytest.mark.parametrize(
    "wire",
    [
        *(WIRE[:size] for size in range(0, len(WIRE), 3)),
        message(b"H") + message(b"x"),
        message(b"H") + b"d\0\0\0\3",
        message(b"H") + b"d\xff\xff\xff\xff",
        message(b"H") + message(b"d", HEADER) + b"N\0\0\0\0",
    ],
)
def test_a_connection_that_ends_or_says_what_is_nothing_is_lost(wire: bytes) -> None:
    with (
        closing(Socket(wire)) as connection,
        connection.server,
        pytest.raises(SourceUnreachable, match=r"^s\.t could not be read: the server "),
    ):
        copied(connection, 1)
