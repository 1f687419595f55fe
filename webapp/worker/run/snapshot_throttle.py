"""The pace of a replicator's snapshots, as its options say at this moment, and what its source is busy with."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from replicator.engine.reporting import Level, Reporter
from replicator.snapshot.throttle import Pace, Throttle
from replicator.sources.base import SourceLoad, SourceLog
from webapp.database import stored
from webapp.replicators.models import Replicator
from webapp.worker.run import wiring

PACE_SECONDS = 0.3


class Pacing:
    """`with Pacing(replicator, report) as pacing:`; the connection that looks at the source is its own, made when first
    needed.
    """

    def __init__(self, replicator: Replicator, report: Reporter) -> None:
        self._replicator, self._report = replicator, report
        self._opened = ExitStack()
        self._log: SourceLog | None = None
        self._paced = (-PACE_SECONDS, Pace())  # when it was asked, and what was said
        self.throttle = Throttle(self._pace, self._look, self._log_wait)

    def __enter__(self) -> Self:
        """Clear what a killed process has left as the reason of its wait."""
        self._show("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        """Nothing waits any more."""
        self._opened.close()
        self._show("")

    @stored
    def _pace(self) -> Pace:
        """Of some moments ago; of a replicator that is gone, as it was."""
        if time.monotonic() - self._paced[0] >= PACE_SECONDS:
            found = Replicator.objects.filter(pk=self._replicator.pk).only("options").first()
            self._paced = time.monotonic(), (found or self._replicator).parsed_options.pace
        return self._paced[1]

    def _look(self) -> SourceLoad:
        if self._log is None:
            source = self._opened.enter_context(wiring.opened_source(self._replicator))
            self._log = source.log(wiring.label(self._replicator))
        return self._log.load()

    def _log_wait(self, why: str) -> None:
        self._show(why)
        text = f"Snapshots throttled: {why}" if why else "Snapshots resumed: the source is less busy."
        self._report.log(Level.INFO, text)

    @stored
    def _show(self, why: str) -> None:
        Replicator.objects.filter(pk=self._replicator.pk).exclude(snapshot_waits=why).update(snapshot_waits=why[:200])
