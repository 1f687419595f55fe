"""A front for S3Proxy, for tests and benchmarks: it counts requests by method and kind of object, and passes on one
conditional write at a time, as S3 does them.

S3Proxy looks whether an object is there first and writes then: of two writers with `If-None-Match` both may win.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from contextlib import suppress

from webapp.embedded.ports import LOOPBACK

BLOCK = 256 * 1024
REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
CONDITIONAL = re.compile(rb"\r\nif-none-match:", re.IGNORECASE)
KINDS = {  # of objects, by the path with its query; the first that fits counts
    "list": r"\?(.*&)?(list-type|prefix|delimiter)\b",
    "metadata": r"\.metadata\.json",
    "manifest list": r"/snap-[^/]*\.avro",
    "manifest": r"\.avro",
    "delta log": r"/_delta_log/",
    "data": r"\.(parquet|puffin)",
}


class S3Front:
    """Listens on loopback and carries each connection to `port` there.

    counts: requests, by `GET manifest`; an upload in parts is a PUT for each part and two POSTs.
    """

    def __init__(self, port: int) -> None:
        """`port`: the store's, which takes HTTP/1.1 without TLS, and signatures for any host."""
        self.counts = Counter[str]()
        self.writing = threading.Lock()
        self._store = port
        self._listener = socket.create_server((LOOPBACK, 0), backlog=64)
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def endpoint(self) -> str:
        """The endpoint for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True, name="S3 front").start()

    def stop(self) -> None:
        """No more connections; those that are open end with their client or with the store."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def count(self, method: str, target: str) -> None:
        kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, target)), "other")
        with self._lock:
            self.counts[f"{method} {kind}"] += 1

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                store = socket.create_connection((LOOPBACK, self._store))
            except OSError:  # it is being restarted
                client.close()
                continue
            _Connection(self, client, store).start()


class _Connection:
    """A client waits for an answer before it asks again, so that a request begins a block, and its answer follows."""

    def __init__(self, front: S3Front, client: socket.socket, store: socket.socket) -> None:
        self._front, self._client, self._store = front, client, store
        self._change = threading.Lock()
        self._writes = False  # holds the front's lock

    def start(self) -> None:
        for work in (self._ask, self._answer):
            threading.Thread(target=work, daemon=True).start()

    def _ask(self) -> None:
        with suppress(OSError):
            while block := self._client.recv(BLOCK):
                if request := REQUEST.match(block):
                    self._front.count(request[1].decode(), request[2].decode())
                    if CONDITIONAL.search(block.partition(b"\r\n\r\n")[0]):
                        self._begin_write()
                self._store.sendall(block)
        self._end(self._store)

    def _answer(self) -> None:
        with suppress(OSError):
            while block := self._store.recv(BLOCK):
                if not block.startswith(b"HTTP/1.1 100"):
                    self._end_write()
                self._client.sendall(block)
        self._end_write()
        self._end(self._client)

    def _begin_write(self) -> None:
        self._front.writing.acquire()
        with self._change:
            self._writes = True

    def _end_write(self) -> None:
        with self._change:
            if self._writes:
                self._writes = False
                self._front.writing.release()

    @staticmethod
    def _end(sink: socket.socket) -> None:
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
