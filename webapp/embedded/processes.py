"""Child processes that end with their parent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from webapp.embedded.ports import wait_until_free

_LAUNCH = str(Path(__file__).with_name("launch.py"))
STOP_SECONDS = 10.0


class ServerFailed(RuntimeError):
    """A server did not start; the text ends with the tail of its log."""


def works(process: psutil.Process) -> bool:
    """False for a process that has ended, even if it is not reaped yet."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


@dataclass
class Child:
    """A process that we started."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        """One that has ended is left for `stop` to collect: until then no other program gets its process id."""
        if self.process.returncode is not None:
            return False
        with contextlib.suppress(ChildProcessError, AttributeError):  # macOS has no waitid
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        return self.process.poll() is None

    def wait(self, seconds: float) -> bool:
        """True once it has ended."""
        deadline = time.monotonic() + seconds
        while alive := self.alive:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return not alive

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> None:
        """Terminate, wait, then kill: the process, its group, and its descendants (Postgres's have their own groups).

        No effect on one that was stopped before: its process id may be another process's by now.
        """
        if self.process.returncode is not None:
            return
        family = self._family()
        if self.alive and how is not signal.SIGKILL:
            os.kill(self.process.pid, how)
            self.wait(seconds)
        if self.alive:
            family += self._frozen_family()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for member in family:
            with contextlib.suppress(psutil.Error):
                member.kill()
        self.process.wait()
        deadline = time.monotonic() + STOP_SECONDS
        while any(map(works, family)) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _frozen_family(self) -> list[psutil.Process]:
        """Suspend the process before its descendants are listed: it cannot start one that `stop` would miss."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            process.suspend()
            while process.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
                time.sleep(0.001)
        return self._family()

    def _family(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []


def start(
    name: str,
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    cwd: Path | None = None,
    farewell: signal.Signals = signal.SIGTERM,
) -> Child:
    """Start `command` in a new session, output into `log`; see `launch`.

    On Linux it gets `farewell` when the thread that called this ends: call it from one that stays.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _LAUNCH, str(os.getpid()), str(int(farewell)), user or "", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
            cwd=cwd,
        )
    return Child(name, process, log)


@contextlib.contextmanager
def open_files() -> Iterator[None]:
    """Make programs that are unpacked inside executable for every user, though other new files are private."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def claim(port: int, seconds: float = 30.0) -> None:
    """Wait until `port` is free; ServerFailed where another program keeps it."""
    if not wait_until_free(port, seconds):
        message = f"Port {port} on this machine is in use by another program."
        raise ServerFailed(message)


@dataclass
class ProcessGroup:
    """Named children, stopped in reverse order."""

    logs: Path
    children: list[Child] = field(default_factory=list)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        """Start a child that logs to `<logs>/<name>.log`."""
        child = start(name, command, self.logs / f"{name}.log", environment=environment)
        self.children.append(child)
        return child

    def dead(self) -> list[Child]:
        """Children that ended by themselves."""
        return [child for child in self.children if not child.alive]

    def stop(self) -> None:
        """Send SIGTERM to all at once, last started first; kill those that still run after ten seconds."""
        for child in reversed(self.children):
            if child.alive:
                os.kill(child.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(self.children):
            child.wait(max(0.1, deadline - time.monotonic()))
            child.stop(signal.SIGKILL)
        self.children.clear()
