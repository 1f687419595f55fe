"""Peak memory of a process and everything below it."""

from __future__ import annotations

import threading
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
        self.bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(EVERY):
            total = 0
            try:
                processes = [psutil.Process(self._pid)]
                processes += processes[0].children(recursive=True)
            except psutil.NoSuchProcess:
                return
            for process in processes:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.bytes = max(self.bytes, total)
