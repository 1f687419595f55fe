"""Work in the background: one thread, in order, with a limited number of bytes under way (invariant 9)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Work = Callable[[], None]
LOOK_SECONDS = 0.1


class WorkThread:
    """`put` from one thread.

    The first failure ends the work: nothing that was put later is done, and `check` raises it.
    """

    def __init__(self, name: str, limit: int, waiting: Callable[[], None]) -> None:
        """`limit`: bytes that may be under way; a larger piece of work goes alone.  It starts with the first `put`.

        `waiting` is called every 0.1 s or so while `put` waits; what it raises ends the wait.
        """
        self._limit, self._waiting = limit, waiting
        self._changed = threading.Condition()
        self._work: deque[tuple[Work, int]] = deque()
        self._bytes = 0
        self._failure: BaseException | None = None
        self._last: Work | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def bytes(self) -> int:
        """Under way."""
        return self._bytes

    def put(self, work: Work, size: int = 0) -> None:
        """`work`, which holds `size` bytes, is done after all that was put before.

        Waits for room where it holds any; raises as `check`.
        """
        while not self._take(work, size):
            self._waiting()

    def check(self) -> None:
        """Raises what the work raised."""
        if self._failure is not None:
            raise self._failure

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Until the work has set it, for so long at most; raises as `check`."""
        deadline = time.monotonic() + seconds
        while not event.wait(max(min(LOOK_SECONDS, deadline - time.monotonic()), 0)):
            self.check()
            if time.monotonic() >= deadline:
                return

    def finish(self) -> None:
        """All that was put is done; raises as `check`."""
        done = threading.Event()
        self.put(done.set)
        while not done.is_set():
            self.wait(done, LOOK_SECONDS)

    def end(self, last: Work, seconds: float) -> bool:
        """What has not begun is never done; `last` is, which raises nothing.

        False where it goes on longer than `seconds`.
        """
        if not self._thread.is_alive():
            last()
            return True
        with self._changed:
            self._forget()
            self._last = last
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _take(self, work: Work, size: int) -> bool:
        with self._changed:
            self.check()
            if size and self._bytes and self._bytes + size > self._limit:
                self._changed.wait(LOOK_SECONDS)
                return False
            self._work.append((work, size))
            self._bytes += size
            if self._thread.ident is None:
                self._thread.start()
            self._changed.notify_all()
            return True

    def _run(self) -> None:
        while (found := self._next()) is not None:
            work, size = found
            del found
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - any error is passed to the caller
                del work
                self._failed(error)
            else:
                del work  # and with it what it holds: only then there is room
                self._done(size)
        assert self._last is not None
        self._last()

    def _next(self) -> tuple[Work, int] | None:
        with self._changed:
            while not self._work and self._last is None:
                self._changed.wait()
            return self._work.popleft() if self._last is None else None

    def _done(self, size: int) -> None:
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def _failed(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            self._forget()
            self._changed.notify_all()

    def _forget(self) -> None:
        self._work.clear()
        self._bytes = 0


@contextmanager
def behind(name: str, limit: int) -> Iterator[WorkThread]:
    """A thread for the block: behind it all that was put is done, and where the block fails nothing is under way any
    more.
    """
    thread = WorkThread(name, limit, lambda: None)
    try:
        yield thread
        thread.finish()
    finally:
        thread.end(lambda: None, threading.TIMEOUT_MAX)
