"""Notify those that wait for a replicator's journal of each entry: Postgres' NOTIFY, and one listener for a process.

It only shortens waits.  Where notifications are lost (a broken connection, a pooler between), waits end by their
timeouts.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from django.db import Error, connection

from replicator.engine.wake_event import WakeEvent

CHANNEL = "tidemark_journal"
AGAIN_SECONDS = 2.0


def notify_journal(replicator_id: int) -> None:
    """When the present transaction is committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(replicator_id)])


@contextmanager
def subscribe_to_journal(replicator_id: int) -> Iterator[WakeEvent]:
    """Set, within the block, whenever there is something new in the replicator's journal."""
    wake = WakeEvent()
    with _lock:
        if not _subscribers:
            _start()
        _subscribers.append((replicator_id, wake))
    try:
        yield wake
    finally:
        with _lock:
            _subscribers.remove((replicator_id, wake))
            ended = _listeners.pop() if not _subscribers else None
        if ended is not None:
            ended.stop()


class _Listener:
    """A thread with its own connection."""

    def __init__(self) -> None:
        self._end, self._ended = socket.socketpair()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal notify", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Its connection is closed when this returns."""
        self._over.set()
        self._end.close()
        self._thread.join()
        self._ended.close()

    def _run(self) -> None:
        while not self._over.is_set():
            own = connection.copy()
            broken = (Error, psycopg2.Error, OSError)  # Django's, the driver's (`poll` is its own), the socket's
            with contextlib.suppress(*broken):
                self._listen(own)
            with contextlib.suppress(*broken):
                own.close()
            self._over.wait(AGAIN_SECONDS)

    def _listen(self, own: Any) -> None:
        with own.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
        raw = own.connection
        _wake(None)  # what came before
        while not self._over.is_set():
            select.select([raw, self._ended], [], [])
            raw.poll()
            while raw.notifies:
                _wake(raw.notifies.pop(0).payload)


_lock = threading.Lock()
_subscribers: list[tuple[int, WakeEvent]] = []
_listeners: list[_Listener] = []


def _start() -> None:
    _listeners.append(_Listener())


def _wake(payload: str | None) -> None:
    with _lock:
        for replicator_id, wake in _subscribers:
            if payload in {None, str(replicator_id)}:
                wake.set()
