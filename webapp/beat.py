"""Celery beat's scheduler, without its haste."""

from __future__ import annotations

from celery.beat import PersistentScheduler


class SteadyScheduler(PersistentScheduler):
    """Sleeps until an entry is due.

    Celery's own wakes 10 ms before, and then asks again and again: half a percent of a core.
    """

    def adjust(self, n: float | None, drift: float = 0.001) -> float | None:  # type: ignore[override]  # celery gives it None, too
        """`n` seconds, and a little more."""
        return n + drift if n and n > 0 else n
