"""`manage.py up` on servers of the tests, and everything in it that can be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from webapp.embedded.ports import free_port
from webapp.embedded.redis import EmbeddedRedis
from webapp.installation.local import WORKERS

ROOT = Path(__file__).resolve().parents[2]
QUEUES = tuple(queue for queue, _, _ in WORKERS)
PARTS = (*QUEUES, "beat", "web")


class Fleet:
    """`with Fleet(…) as fleet`: web, workers and beat as in production; `up` starts again what dies."""

    def __init__(self, folder: Path, redis: EmbeddedRedis, environment: Mapping[str, str]) -> None:
        """`environment`: what names the servers; `folder` is TIDEMARK_HOME, where the logs are."""
        self.folder = folder
        self.redis = redis
        self._environment = {**environment, "REDIS_URL": redis.url, "TIDEMARK_HOME": str(folder)}
        self._process: subprocess.Popen[bytes] | None = None
        self.killed: list[psutil.Process] = []

    def __enter__(self) -> Self:
        with (self.folder / "up.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "up", "--port", str(free_port())],
                env=self._environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all processes that are left."""
        assert self._process is not None
        for process in [*self.everything(), *self.killed]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.kill()
        self._process.wait()

    def stop(self, seconds: float) -> int:
        """As Ctrl-C does; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(seconds)

    def parts(self) -> dict[str, psutil.Process]:
        """What `up` runs now, by name."""
        assert self._process is not None
        found = {}
        for child in psutil.Process(self._process.pid).children():
            with suppress(psutil.NoSuchProcess):
                words = child.cmdline()
                name = next(
                    (name for name in PARTS if f"{name}@%h" in words or name in words or _is_web(name, words)), ""
                )
                if name and child.status() != psutil.STATUS_ZOMBIE:
                    found[name] = child
        return found

    def everything(self) -> list[psutil.Process]:
        """All descendants."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def kill(self, name: str) -> bool:
        """SIGKILL to one part alone, not to what it started; False where it does not run at the moment."""
        part = self.parts().get(name)
        if part is None:
            return False
        with suppress(psutil.NoSuchProcess):
            self.killed += [part, *part.children(recursive=True)]
            part.kill()
        return True

    def kill_child(self) -> bool:
        """SIGKILL to one process of the snapshot worker's pool."""
        part = self.parts().get("snapshot")
        with suppress(psutil.NoSuchProcess):
            for child in part.children() if part is not None else []:
                self.killed.append(child)
                child.kill()
                return True
        return False

    def left_behind(self) -> list[str]:
        """Killed processes, and those they had started, that still run but are no longer descendants of `up`."""
        kept = set(self.everything())
        return [" ".join(one.cmdline()) for one in self.killed if _lives(one) and one not in kept]

    def logs(self) -> str:
        """Of all parts."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log/*.log")))


def _is_web(name: str, words: list[str]) -> bool:
    return name == "web" and "gunicorn" in words


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def until(what: Callable[[], bool], seconds: float, message: Callable[[], object]) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, message()
        time.sleep(0.2)
    return time.monotonic() - began
