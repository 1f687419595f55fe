"""A TCP proxy that breaks connections on purpose: between a replicator and its source or its metadata database."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

from tests.crash.faults.errors import MESSAGES, Errors
from tests.crash.faults.frames import Frames

BLOCK = 256 * 1024
COPY_DATA = b"d"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a RST


class Proxy:
    """Listens on 127.0.0.1:`port` and carries every connection to (host, port).  Thread-safe; `close` ends its threads.

    connections  accepted since the beginning, refused ones among them
    cuts         connections that were broken
    from_server, from_client   bytes carried
    """

    def __init__(self, host: str, port: int, *, speaks: str = "") -> None:
        """`speaks`: postgres, mysql or sqlserver, without TLS, so that `errors` are possible, and `cut_inside` with the
        first.
        """
        self._address = (host, port)
        self.speaks = speaks
        self.errors = Errors()
        self._cut_inside: int | None = None
        self._change = threading.Condition()
        self._links: set[_Link] = set()
        self._cut_after: int | None = None
        self._hang_until = self._refuse_until = 0.0
        self._closed = False
        self.connections = self.cuts = self.from_server = self.from_client = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.host, self.port = self._listener.getsockname()
        self._thread = threading.Thread(target=self._accept, name=f"proxy {self.port}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self, after_bytes: int) -> None:
        """Break every live connection once `after_bytes` more bytes came from the server: exactly those are passed
        on.
        """
        if after_bytes <= 0:
            self.cut_now()
            return
        with self._change:
            self._cut_after = after_bytes

    def cut_inside(self, skipped: int) -> None:
        """Break every live connection in the middle of a message of the log (CopyData), after `skipped` such
        messages.
        """
        assert self.speaks == "postgres"
        with self._change:
            self._cut_inside = skipped

    def cut_now(self) -> int:
        """Break every live connection; returns how many."""
        with self._change:
            self._cut_after = self._cut_inside = None
            live = [link for link in self._links if not link.over]
            self.cuts += len(live)  # before a peer can notice the cut
            for link in live:
                link.end()
            self._change.notify_all()
        return len(live)

    def hang(self, seconds: float) -> None:
        """Pass nothing on for so long, in either direction; connections stay open.  Returns at once."""
        with self._change:
            self._hang_until = time.monotonic() + seconds
            self._change.notify_all()

    def refuse(self, seconds: float) -> None:
        """Close new connections at once for so long; those that are there go on.  Returns at once."""
        with self._change:
            self._refuse_until = time.monotonic() + seconds

    def close(self) -> None:
        """Break everything and listen no more; returns when all threads have ended."""
        with self._change:
            if self._closed:
                return
            self._closed = True
            for link in self._links:
                link.end()
            links = list(self._links)
            self._change.notify_all()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._thread.join()
        self._listener.close()
        for link in links:
            link.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._change:
                self.connections += 1
                refused = self._closed or time.monotonic() < self._refuse_until
            server = None if refused else self._to_server()
            if server is None:
                _reset(client)
                continue
            with self._change:
                if self._closed:
                    _reset(client)
                    _reset(server)
                    return
                link = _Link(self, client, server)
                self._links.add(link)
            link.start()

    def _to_server(self) -> socket.socket | None:
        try:
            return socket.create_connection(self._address, timeout=5)
        except OSError:
            return None

    def allowance(self, link: _Link, block: memoryview, *, of_server: bool) -> int:
        """How many bytes of `block` to pass on, after waiting for a hang to end; 0 where the link is over."""
        count = len(block)
        with self._change:
            while not link.over and (left := self._hang_until - time.monotonic()) > 0:
                self._change.wait(left)
            if link.over:
                return 0
            if not of_server:
                self.from_client += count
                return count
            if link.frames is not None:
                self._aim(link.frames.feed(block, COPY_DATA))
            if self._cut_after is not None:
                count = min(count, self._cut_after)
                self._cut_after -= count
            self.from_server += count
            return count

    def _aim(self, bodies: list[tuple[int, int]]) -> None:
        """Find the place for `cut_inside`; `bodies`: of messages in the block that is to be passed on."""
        if self._cut_inside is None:
            return
        if self._cut_inside < len(bodies):
            first, last = bodies[self._cut_inside]
            self._cut_after, self._cut_inside = (first + last + 1) // 2 or 1, None
        else:
            self._cut_inside -= len(bodies)

    def instead(self, link: _Link, block: memoryview, *, of_server: bool) -> bytes | memoryview:
        """What is passed on where errors are answered."""
        if link.messages is None:
            return block
        with self._change:
            return link.messages.of_server(block) if of_server else link.messages.of_client(block)

    def answer_errors(self, statements: int, codes: Sequence[str | int], **more: Any) -> None:
        """See `Errors.begin`; 0 statements end it."""
        with self._change:
            self.errors.begin(statements, codes, **more)

    def passed(self) -> None:
        """After bytes from the server were passed on: is this the place to cut?"""
        with self._change:
            due = self._cut_after == 0
        if due:
            self.cut_now()

    def gone(self, link: _Link) -> None:
        """Both directions have ended."""
        with self._change:
            self._links.discard(link)


class _Link:
    """One connection: a thread for each direction; sockets are closed when both have ended."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.over = False
        self._proxy, self._client, self._server = proxy, client, server
        self.frames = Frames() if proxy.speaks == "postgres" else None
        self.messages = MESSAGES[proxy.speaks](proxy.errors) if proxy.speaks in MESSAGES else None
        self._running = 2
        self._lock = threading.Lock()
        for one in (client, server):
            one.settimeout(None)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [
            threading.Thread(target=self._pump, args=(server, client, True), name="proxy server", daemon=True),
            threading.Thread(target=self._pump, args=(client, server, False), name="proxy client", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()

    def end(self) -> None:
        """Break it: what blocks in either thread returns.  The RST follows when both have ended."""
        with self._lock:
            if self.over:
                return
            self.over = True
            for one in (self._client, self._server):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, sink: socket.socket, of_server: bool) -> None:
        buffer = memoryview(bytearray(BLOCK))
        try:
            while count := source.recv_into(buffer):
                allowed = self._proxy.allowance(self, buffer[:count], of_server=of_server)
                if not allowed:
                    break
                sink.sendall(self._proxy.instead(self, buffer[:allowed], of_server=of_server))
                if of_server:
                    self._proxy.passed()
            if not self.over:
                sink.shutdown(socket.SHUT_WR)  # the other side may still have something to say
        except OSError:
            self.end()
        finally:
            self._finished()

    def _finished(self) -> None:
        with self._lock:
            self._running -= 1
            last = self._running == 0
        if last:
            broken = self.over
            with self._lock:
                self.over = True  # `end` must not shut down closed sockets
            for one in (self._client, self._server):
                _reset(one) if broken else one.close()
            self._proxy.gone(self)


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    one.close()
