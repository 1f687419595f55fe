"""An embedded stand-in for Oracle, for tests: starts the server over a private Postgres, and connects to it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from testing.servers.oracle.engine.log.redo import RESETLOGS
from testing.servers.tls import certificate
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.postgres_family import data_folder
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.embedded.processes import Child, ServerFailed, claim, open_files, start

ROOT = Path(__file__).parents[4]
START_SECONDS = 60.0
SERVICE, ROOT_SERVICE, USER = "ORCL", "CDB", "SYSTEM"
TLS = "tls.pem"  # key and certificate, in the data folder
DSN, PASSWORD = "ORACLE_EMULATOR_DSN", "ORACLE_EMULATOR_PASSWORD"
LOG_BYTES = 50 << 20


class EmbeddedOracle:
    """One server on loopback, with its data in `folder`/data.  Its administrator is `user`, its service `service`.

    By the service ROOT_SERVICE it is a container database whose pluggable database is SERVICE; on `tls_port` it speaks
    TLS, with a certificate that vouches for itself: `ca`.
    """

    service = SERVICE

    def __init__(self, folder: Path, port: int | None = None, *, log_bytes: int = LOG_BYTES) -> None:
        """log_bytes: at which size a redo log is switched."""
        self.folder = data_folder(folder.resolve())  # Postgres' data lies in it, too
        self.host, self.port = LOOPBACK, port or free_port()
        self.tls_port, (self.ca, self._key) = free_port(), certificate()
        self.user, self.password = USER, "tidemark"
        self.log_bytes = log_bytes
        self.postgres = EmbeddedPostgresSource(self.folder / "data" / "postgres", durable=False)
        self._child: Child | None = None

    @property
    def redo(self) -> Path:
        """Folder of the redo log's files."""
        return self.folder / "data" / "redo"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.alive

    @property
    def address(self) -> dict[str, Any]:
        """As a connection's config has it."""
        return {
            "host": self.host, "port": self.port, "user": self.user, "password": self.password, "service": self.service,
        }  # fmt: skip

    def connect(self, user: str = "", password: str = "", *, service: str = "", **more: Any) -> Any:
        """By the vendor's thin driver; by the service SERVICE, where no other is named."""
        import oracledb

        return oracledb.connect(
            user=user or self.user, password=password or self.password, host=self.host, port=self.port,
            service_name=service or self.service, **more,
        )  # fmt: skip

    def start(self) -> None:
        """Of Postgres too; ServerFailed with the log's end where it does not come up."""
        with open_files():  # Postgres' user walks through it
            (self.folder / "data").mkdir(parents=True, exist_ok=True)
            (self.folder / "data" / TLS).write_text(self._key + self.ca)
        if not self.postgres.running:
            self.postgres.start()
        claim(self.port)
        claim(self.tls_port)
        behind = self.postgres
        dsn = f"host={behind.host} port={behind.port} user={behind.user} password={behind.password}"
        command = [
            sys.executable, "-m", "testing.servers.oracle.server", str(self.port), str(self.tls_port), str(self.redo),
            str(self.log_bytes),
        ]  # fmt: skip
        environment = {**os.environ, DSN: dsn, PASSWORD: self.password}
        self._child = start("oracle", command, self.folder / "oracle.log", cwd=ROOT, environment=environment)
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded Oracle did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Sessions are cut off, and what they had not committed is rolled back; Postgres is stopped, too."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None
        if self.postgres.running:
            self.postgres.stop()

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """On the same port."""
        self.stop(how)
        self.start()

    def archived(self) -> list[Path]:
        """Archived redo logs, the oldest first."""
        files = (self.redo / "archive").glob("*.arc")
        return sorted(files, key=lambda one: [int(part) for part in one.stem.split("_")[2:0:-1]])

    def reset_logs(self) -> None:
        """Of a server that is stopped: it is opened with RESETLOGS at its next start."""
        (self.redo / RESETLOGS).touch()

    def delete_archived(self, *, recorded: bool = True) -> None:
        """All of them; `recorded`: as RMAN does it, so that V$ARCHIVED_LOG knows."""
        for path in self.archived():
            if recorded:
                path.with_suffix(".deleted").touch()
            path.unlink()
