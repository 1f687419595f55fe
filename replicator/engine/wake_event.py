"""How a loop that waits for work is told of it."""

from __future__ import annotations

import threading


class Bell:
    """Rung from any thread; one that was rung while nobody waited ends the next wait at once."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        """There may be something to do."""
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        """True where it was rung; after `seconds` at the latest."""
        rung = self._rung.wait(seconds)
        self._rung.clear()
        return rung
