"""The proxy that the crash tests cut connections with does what it says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.crash.faults.frames import Frames
from tests.crash.faults.proxy import Proxy

MEGABYTE = 1 << 20


class Server:
    """Answers every received byte count with as many bytes: send `n` as 8 bytes, get n zero bytes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            thread.start()
            self._threads.append(thread)

    @staticmethod
    def _serve(client: socket.socket) -> None:
        block = bytes(MEGABYTE)
        with client:
            try:
                while asked := client.recv(8, socket.MSG_WAITALL):
                    left = int.from_bytes(asked, "big")
                    while left:
                        client.sendall(block[: min(left, MEGABYTE)])
                        left -= min(left, MEGABYTE)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    server = Server()
    with Proxy("127.0.0.1", server.port) as one:
        yield one
    server.close()


def ask(connection: socket.socket, count: int) -> int:
    """How many bytes came before the connection ended or all were there."""
    connection.sendall(count.to_bytes(8, "big"))
    return receive(connection, count)


def receive(connection: socket.socket, count: int) -> int:
    buffer, got = memoryview(bytearray(MEGABYTE)), 0
    try:
        while got < count and (n := connection.recv_into(buffer)):
            got += n
    except ConnectionResetError:
        pass
    return got


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def is_refused(proxy: Proxy) -> bool:
    try:
        with connect(proxy) as one:
            return receive(one, 1) == 0
    except ConnectionResetError:  # it was quicker than the return of connect
        return True


def test_it_carries_a_hundred_megabytes_a_second_and_counts_them(proxy: Proxy) -> None:
    size = 200 * MEGABYTE
    with connect(proxy) as one:
        started = time.process_time()
        assert ask(one, size) == size
        used = time.process_time() - started  # the server and this client are threads of the process, too
    assert size / used > 100 * MEGABYTE
    assert (proxy.from_server, proxy.from_client, proxy.connections, proxy.cuts) == (size, 8, 1, 0)


def test_it_cuts_after_exactly_so_many_bytes_and_then_carries_new_connections(proxy: Proxy) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        assert ask(second, 5) == 5
        proxy.cut(100_003)
        assert ask(first, MEGABYTE) == 100_003
        assert receive(second, 1) == 0
    assert proxy.cuts == 2
    with connect(proxy) as another:
        assert ask(another, 10) == 10


def test_it_cuts_at_once(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert ask(one, 10) == 10
        assert proxy.cut_now() == 1
        assert receive(one, 1) == 0
    assert proxy.cut_now() == 0


def test_it_hangs_and_goes_on(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert ask(one, 10) == 10
        proxy.hang(0.4)
        started = time.monotonic()
        assert ask(one, 10) == 10
        assert time.monotonic() - started >= 0.35


def test_a_hanging_connection_can_be_cut(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert ask(one, 10) == 10
        proxy.hang(60)
        one.sendall((10).to_bytes(8, "big"))
        proxy.cut_now()
        assert receive(one, 10) == 0


def test_it_refuses_new_connections_and_keeps_the_old(proxy: Proxy) -> None:
    with connect(proxy) as old:
        assert ask(old, 10) == 10
        proxy.refuse(60)
        assert is_refused(proxy)
        assert ask(old, 10) == 10
        proxy.refuse(0)
        with connect(proxy) as one:
            assert ask(one, 10) == 10


def test_a_client_that_leaves_ends_the_servers_side(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert ask(one, 10) == 10
    deadline = time.monotonic() + 5
    while proxy.cut_now() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert proxy.cut_now() == 0


def test_a_server_that_is_not_there_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with Proxy("127.0.0.1", port) as proxy:
        assert is_refused(proxy)


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 1000])
def test_messages_are_found_however_the_stream_is_cut_into_blocks(block: int) -> None:
    stream = b"N" + b"".join(
        (
            message(b"R", bytes(4)),
            message(b"d", b"w" * 30),
            message(b"1", b""),
            message(b"d", b"k" * 18),
            message(b"Z", b"I"),
        )
    )
    frames, found = Frames(), bytearray()
    for at in range(0, len(stream), block):
        piece = stream[at : at + block]
        for first, last in frames.feed(piece, b"d"):
            found += piece[first : last + 1]
    assert bytes(found) == b"w" * 30 + b"k" * 18


def test_a_connection_is_cut_inside_a_message_of_the_log() -> None:
    answer = message(b"R", bytes(4)) + message(b"W", bytes(3)) + message(b"d", b"a" * 40) + message(b"d", b"b" * 40)
    with socket.create_server(("127.0.0.1", 0)) as listener, Proxy(*listener.getsockname(), speaks="postgres") as proxy:
        proxy.cut_inside(1)
        with socket.create_connection((proxy.host, proxy.port)) as client:
            server, _ = listener.accept()
            with server:
                server.sendall(answer)
                got = bytearray()
                with contextlib.suppress(ConnectionResetError):
                    while piece := client.recv(1000):
                        got += piece
    assert got == answer[: len(answer) - 20]
    assert proxy.cuts == 1
