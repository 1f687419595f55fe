"""The web server's process: no thread waits for the metadata database without end, and probes have separate threads.

gunicorn's `--worker-class webapp.web.serving.WebWorker`.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg2
from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker  # type: ignore[attr-defined]  # the stubs leave _DEFER out
from psycopg2 import extensions

WEB_SECONDS = 30.0  # as long as a page waits for a source, too
AGAIN_SECONDS = 5.0  # and right after a wait in vain: a request asks, connects again and asks again
PROBES = {b"/healthz": 1, b"/readyz": 2}  # threads of each: one that is asked about the database keeps no other waiting
_EVENTS = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}
_own = threading.local()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Within the block this thread waits so long for each answer of the database."""
    before, _own.seconds = getattr(_own, "seconds", None), seconds
    try:
        yield
    finally:
        _own.seconds = before


def wait(connection: Any) -> None:
    """psycopg2's wait callback, with a timeout.

    A frozen server sends no error, and its own time limits do not expire.
    """
    now = time.monotonic()
    usual = AGAIN_SECONDS if now < getattr(_own, "in_vain", 0.0) + AGAIN_SECONDS else WEB_SECONDS
    seconds = getattr(_own, "seconds", None) or usual
    deadline = now + seconds
    while (state := connection.poll()) != extensions.POLL_OK:
        poller = select.poll()
        poller.register(connection.fileno(), _EVENTS[state])
        left = deadline - time.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            _own.in_vain = time.monotonic()
            raise psycopg2.OperationalError(f"no answer within {seconds:g} s")


class WebWorker(ThreadWorker):
    """Recognises a probe's request by its first bytes, before it gets a thread."""

    def init_process(self) -> None:
        """In the worker's own process."""
        extensions.set_wait_callback(wait)
        self._probes = {path: ThreadPoolExecutor(count) for path, count in PROBES.items()}
        super().init_process()

    def enqueue_req(self, conn: TConn) -> None:
        """As gunicorn's, with the pool chosen; a connection that has sent nothing yet waits without a thread."""
        try:
            said = conn.sock.recv(64, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            if not conn.initialized:
                later: Future[bool] = Future()
                later.set_result(_DEFER)
                self.finish_request(conn, later)
                return
            said = b""
        except OSError:
            said = b""
        path = said.partition(b" ")[2].partition(b" ")[0].partition(b"?")[0]
        answer = self._probes.get(path, self.tpool).submit(self.handle, conn)
        answer.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, conn, done))
