"""Memory and CPU time of a process and everything below it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

EVERY = 0.2


class PeakMemory:
    """Samples the resident set sizes of `pid` and all its descendants (the JVM is one), summed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._began = time.monotonic()
        self._samples: list[tuple[float, int]] = []
        self._cpu: dict[tuple[int, float], float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        """At the peak."""
        return max((size for _, size in self._samples), default=0)

    @property
    def growth(self) -> float:
        """The peak of the second half of the time, for each byte of the peak in the second quarter."""
        end = self._samples[-1][0]
        quarter = max((size for at, size in self._samples if end / 4 <= at < end / 2), default=1)
        return max(size for at, size in self._samples if at >= end / 2) / quarter

    @property
    def cpu(self) -> float:
        """Seconds (user and system) of all of them, up to 0.2 s before each ended."""
        return sum(self._cpu.values())

    def _sample(self) -> None:
        while not self._stop.wait(EVERY):
            total = 0
            try:
                processes = [psutil.Process(self._pid)]
                processes += processes[0].children(recursive=True)
            except psutil.NoSuchProcess:
                return
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    total += process.memory_info().rss
                    spent = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = spent.user + spent.system
            self._samples.append((time.monotonic() - self._began, total))
