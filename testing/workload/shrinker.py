"""Making a failing history smaller.

Any part of a history can be played, so parts are simply left out (Zeller's ddmin).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from testing.workload.workload import History, Phase

T = TypeVar("T")
Fails = Callable[[History], bool]


class _OutOfTime(Exception):
    pass


def shrink(history: History, fails: Fails, seconds: float) -> History:
    """The smallest that was found within the time and still fails; `history` itself must fail.

    Phases are left out first, then steps, statements, and statements of the setup; all again until nothing more goes.
    """
    return _Shrinking(history, fails, time.monotonic() + seconds).run()


class _Shrinking:
    def __init__(self, history: History, fails: Fails, deadline: float) -> None:
        self.best, self._fails, self._deadline = history, fails, deadline

    def run(self) -> History:
        try:
            while True:
                before = self.best
                self._phases()
                self._steps()
                self._statements()
                self._setup()
                self._pauses()
                if self.best == before:
                    return self.best
        except _OutOfTime:
            return self.best

    def _try(self, history: History) -> bool:
        if time.monotonic() > self._deadline:
            raise _OutOfTime
        if history == self.best or not self._fails(history):
            return False
        self.best = history
        return True

    def _minimise(self, parts: Sequence[T], rebuilt: Callable[[Sequence[T]], History]) -> None:
        """ddmin: leave out ever smaller runs of parts, as long as it still fails."""
        left = list(parts)
        size = len(left)
        while size >= 1 and left:
            at = 0
            while at < len(left):
                fewer = left[:at] + left[at + size :]
                if self._try(rebuilt(fewer)):
                    left = fewer
                else:
                    at += size
            size //= 2

    def _phases(self) -> None:
        self._minimise(self.best.phases, lambda phases: replace(self.best, phases=tuple(phases)))

    def _steps(self) -> None:
        places = [(p, s) for p, phase in enumerate(self.best.phases) for s in range(len(phase.steps))]
        phases = self.best.phases

        def rebuilt(kept: Sequence[tuple[int, int]]) -> History:
            chosen = [tuple(phases[p].steps[s] for q, s in kept if q == p) for p in range(len(phases))]
            return replace(self.best, phases=tuple(Phase(steps) for steps in chosen if steps))

        self._minimise(places, rebuilt)

    def _statements(self) -> None:
        for p, phase in enumerate(self.best.phases):
            for s, step in enumerate(phase.steps):
                if len(step.statements) > 1:
                    self._minimise(step.statements, lambda kept, p=p, s=s: self._with(p, s, statements=tuple(kept)))  # type: ignore[misc]

    def _pauses(self) -> None:
        for p, phase in enumerate(self.best.phases):
            for s, step in enumerate(phase.steps):
                if step.pause:
                    self._try(self._with(p, s, pause=0.0))

    def _with(self, p: int, s: int, **changes: object) -> History:
        steps = list(self.best.phases[p].steps)
        steps[s] = replace(steps[s], **changes)  # type: ignore[arg-type]
        phases = list(self.best.phases)
        phases[p] = Phase(tuple(steps))
        return replace(self.best, phases=tuple(phases))

    def _setup(self) -> None:
        self._minimise(self.best.setup, lambda setup: replace(self.best, setup=tuple(setup)))
