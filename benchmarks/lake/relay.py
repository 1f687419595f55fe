"""What goes to a server on loopback, and how many bytes."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from webapp.embedded.ports import LOOPBACK

BLOCK = 256 * 1024


class Relay:
    """Listens on loopback and carries each connection to `server`, a port there.  sent: bytes that clients sent."""

    def __init__(self, server: int) -> None:
        self.sent = 0
        self._server, self._lock = server, threading.Lock()
        self._listener = socket.create_server((LOOPBACK, 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True, name="relay").start()

    def close(self) -> None:
        """No more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((LOOPBACK, self._server))
                for source, sink, counted in ((client, server, True), (server, client, False)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._carry, args=(source, sink, counted), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:  # noqa: FBT001
        with suppress(OSError):
            while block := source.recv(BLOCK):
                if counted:
                    with self._lock:
                        self.sent += len(block)
                sink.sendall(block)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
