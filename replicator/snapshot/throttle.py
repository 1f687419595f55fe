"""How fast snapshots are read, and when they give way to the source's own work.

All of it can change between two chunks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from replicator.snapshot.sizing import MAX_ROWS, TARGET_SECONDS
from replicator.sources.base import SourceLoad

LOOK_SECONDS = 1.0
STEP_SECONDS = 0.2  # a wait is broken off within so long (invariant 10)


@dataclass(frozen=True, slots=True)
class Pace:
    """parallel: readers.

    A chunk takes about `chunk_seconds` and has at most `chunk_rows`; a reader waits `delay_seconds` between two.

    No chunk begins while the source runs more than `most_running` queries, or a replica of it is more than
    `most_lag_seconds` behind (0: no limit).
    """

    parallel: int = 2
    chunk_seconds: float = TARGET_SECONDS
    chunk_rows: int = MAX_ROWS
    delay_seconds: float = 0.0
    most_running: int = 0
    most_lag_seconds: float = 0.0

    @property
    def watches(self) -> bool:
        """Does it matter what the source does?"""
        return bool(self.most_running or self.most_lag_seconds)

    def why_wait(self, load: SourceLoad) -> str:
        """A sentence; empty where a chunk may begin."""
        if self.most_running and load.running > self.most_running:
            return f"The source has {load.running} active queries; the limit is {self.most_running}."
        lag = load.replica_lag_seconds
        if self.most_lag_seconds and lag is not None and lag > self.most_lag_seconds:
            return f"A replica of the source is {lag:.1f} s behind; the limit is {self.most_lag_seconds:g} s."
        return ""


class Throttle:
    """Of all readers of one snapshot loop."""

    def __init__(
        self, pace: Callable[[], Pace], look: Callable[[], SourceLoad], on_wait: Callable[[str], None]
    ) -> None:
        """`pace` is asked before each chunk; `look` once a second at most, where it matters.

        `on_wait` gets why nothing is read, and an empty text when it goes on.
        """
        self._pace, self._look, self._on_wait = pace, look, on_wait
        self._lock = threading.Lock()
        self._looked_at = -LOOK_SECONDS
        self._why = ""

    def wait(self, keep: Callable[[], bool], ended: float = -math.inf) -> Pace | None:
        """Before a chunk: for as long as the source is busy, and the delay.

        The pace of then; None where `keep` ended it.

        ended: when the chunk before was over, by the monotonic clock.
        """
        while keep():
            pace = self._pace()
            if time.monotonic() - ended >= pace.delay_seconds and not self._why_wait(pace):
                return pace
            time.sleep(STEP_SECONDS)
        return None

    def _why_wait(self, pace: Pace) -> str:
        with self._lock:
            if not pace.watches:
                self._tell("")
            elif time.monotonic() - self._looked_at >= LOOK_SECONDS:
                self._tell(pace.why_wait(self._look()))
                self._looked_at = time.monotonic()
            return self._why

    def _tell(self, why: str) -> None:
        if bool(why) != bool(self._why):
            self._on_wait(why)
        self._why = why
