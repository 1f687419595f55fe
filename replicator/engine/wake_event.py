"""How a loop that waits for work is woken."""

from __future__ import annotations

import threading


class WakeEvent:
    """Set by any thread; where no thread waits then, the next wait ends at once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """There may be something to do."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Return True where it was set, False after `seconds`."""
        was_set = self._event.wait(seconds)
        self._event.clear()
        return was_set
