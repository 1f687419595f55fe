"""Programs that read a log, each in a separate process, and their speed."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.data.world import ROOT

TIMEOUT = 3600.0


@dataclass(frozen=True)
class Stamp:
    """Rows that a process has read, when (seconds of the monotonic clock), and its CPU (user and system, seconds)."""

    rows: int
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Speed:
    """Rows a second, and CPU seconds (user and system) of the reading process for a million rows."""

    rows: float
    cpu: float

    @classmethod
    def between(cls, first: Stamp, last: Stamp) -> Self:
        rows = last.rows - first.rows
        return cls(rows / (last.seconds - first.seconds), (last.cpu - first.cpu) / rows * 1e6)


def stamp(pid: int, rows: int) -> Stamp:
    """As of now."""
    spent = psutil.Process(pid).cpu_times()
    return Stamp(rows, time.monotonic(), spent.user + spent.system)


def peak_bytes(pid: int) -> int:
    """The largest resident set that the process itself has had (Linux: VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


class LogReader:
    """A child process: its orders are the first line of its input, each line of its output is the number of rows so
    far.

    It ends when its input does, and with the block.
    """

    def __init__(self, name: str, command: Sequence[str], orders: str, folder: Path) -> None:
        """What it says on stderr goes to `<folder>/<name>.log`."""
        self._name, self._log = name, folder / f"{name}.log"
        with self._log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True
            )
        self._watch = threading.Timer(TIMEOUT, self.process.kill)
        self._orders = orders

    def __enter__(self) -> Self:
        assert self.process.stdin
        self._watch.start()
        self.process.stdin.write(self._orders + "\n")
        self.process.stdin.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.process.kill()
        self.process.communicate()
        self._watch.cancel()

    @property
    def pid(self) -> int:
        return self.process.pid

    def stamps(self, rows: int, *, exactly: bool = True) -> list[Stamp]:
        """Up to `rows` rows; SystemExit where the child ends before, or has seen more (unless it may)."""
        found = list(self._until(rows))
        if not found or found[-1].rows < rows or (exactly and found[-1].rows > rows):
            said = self._log.read_text(errors="replace")[-4000:]
            sys.exit(f"{self._name} was to read {rows} rows, and has read {found[-1].rows if found else 0}:\n{said}")
        return found

    def _until(self, rows: int) -> Iterator[Stamp]:
        assert self.process.stdout
        for line in self.process.stdout:
            yield stamp(self.pid, int(line))
            if int(line) >= rows:
                return


def python(module: str) -> list[str]:
    """The command of a reader that is a module of ours."""
    return [sys.executable, "-m", module]


def alternating(sides: Mapping[str, Callable[[], Speed]], repeats: int) -> dict[str, Speed]:
    """The medians of what each side measures; the sides take turns."""
    found: dict[str, list[Speed]] = {side: [] for side in sides}
    for turn in range(repeats):
        for side, measure in sides.items():
            speed = measure()
            found[side].append(speed)
            print(f"{side} {turn + 1}: {speed.rows:,.0f} rows/s, {speed.cpu:.2f} CPU s per million", file=sys.stderr)
    return {
        side: Speed(statistics.median(one.rows for one in speeds), statistics.median(one.cpu for one in speeds))
        for side, speeds in found.items()
    }
