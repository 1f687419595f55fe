"""The emulator as a server of the tests: starts it, and a Postgres under it, and gives what reaches it."""

from __future__ import annotations

import json
import signal
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

from testing.servers.shared_libraries import load
from testing.servers.tls import certificate
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.embedded.processes import Child, ServerFailed, claim, open_files, start

ROOT = Path(__file__).parents[3]
START_SECONDS = 60.0
USER = "sa"
LIBRARY = "libltdl.so.7"  # which Microsoft's driver needs


class EmbeddedSQLServer:
    """One server on loopback; a second start on the same folder goes on with its data.

    encrypt          "on": TLS, as drivers ask for; "off": the server has none
    capture_seconds  between two scans of the capture job
    """

    product = "SQL Server (emulated)"
    user = USER
    host = LOOPBACK

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        encrypt: str = "on",
        capture_seconds: float = 0.1,
        durable: bool = False,
        options: dict[str, str] | None = None,
    ) -> None:
        """`options` are Postgres'."""
        self.folder, self.port, self.durable = folder.resolve(), port or free_port(), durable
        more = {"deadlock_timeout": "200ms", **(options or {})}
        self.postgres = EmbeddedPostgresSource(self.folder / "data", durable=durable, options=more)
        self.postgres.database = "postgres"  # names of databases are the tests' own
        self.password = self.postgres.password
        self.encrypt, self.capture_seconds = encrypt, capture_seconds
        self._child: Child | None = None

    @property
    def address(self) -> dict[str, Any]:
        """host, port, user, password of the administrator."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password}

    @property
    def certificate(self) -> str:
        """PEM of what vouches for the server."""
        return (self.folder / "server.crt").read_text()

    @property
    def log(self) -> Path:
        return self.folder / "sqlserver.log"

    @property
    def replica(self) -> Path:
        """What the server says as a replica of an availability group (`AvailabilityGroup.states`)."""
        return self.folder / "replica.json"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.alive

    def connect(self, database: str = "master", **more: str) -> Any:
        """An administrator's connection by mssql-python, autocommit; an error has the ends of the logs."""
        load(LIBRARY)
        import mssql_python

        mssql_python.pooling(enabled=False)  # a connection of a pool keeps its session
        try:
            return mssql_python.connect(self.connection_string(database, **more), autocommit=True)
        except mssql_python.OperationalError as error:
            for server in (self, self.postgres):
                state = "runs" if server.running else "has ended"
                told = server.log.read_text(errors="replace") if server.log.exists() else ""
                error.add_note(f"{server.log.name} ({state}): {told[-2000:]}")
            raise

    def connection_string(self, database: str = "master", **more: str) -> str:
        """For mssql-python."""
        parts = {
            "Server": f"{self.host},{self.port}", "Database": database, "UID": self.user, "PWD": self.password,
            "Encrypt": "yes" if self.encrypt == "on" else "no", "TrustServerCertificate": "yes", **more,
        }  # fmt: skip
        return "".join(f"{name}={{{value}}};" for name, value in parts.items())

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up, or with what the driver lacks."""
        load(LIBRARY)
        with open_files():  # Postgres' user walks through it
            self.folder.mkdir(parents=True, exist_ok=True)
        if not self.postgres.running:
            self.postgres.start()
        files = self.folder / "server.crt", self.folder / "server.key"
        if not files[0].exists():
            for path, text in zip(files, certificate(), strict=True):
                path.touch(mode=0o600)
                path.write_text(text)
        config = self.folder / "config.json"
        config.touch(mode=0o600)
        config.write_text(json.dumps({
            "host": self.host, "port": self.port, "postgres": self.postgres.address, "encrypt": self.encrypt,
            "certificate": str(files[0]), "key": str(files[1]), "capture_seconds": self.capture_seconds,
            "replica": str(self.replica),
        }))  # fmt: skip
        claim(self.port)
        self._child = start(
            "sqlserver", [sys.executable, "-m", "testing.servers.sqlserver.server", str(config)], self.log, cwd=ROOT
        )
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded SQL Server did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash; Postgres goes the same way."""
        self.stop_sessions(how)
        self.postgres.stop(signal.SIGINT if how is signal.SIGTERM else how)

    def stop_sessions(self, how: signal.Signals = signal.SIGTERM) -> None:
        """The server ends, and Postgres runs on."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def begin_fork(self) -> None:
        """Of a server that is stopped, and whose data is older than it was: as after RESTORE DATABASE, each database is
        on another recovery fork ("sys.database_recovery_status", recovery_fork_guid).
        """
        self.postgres.start()
        with closing(self.postgres.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT quote_ident(datname), shobj_description(oid, 'pg_database') FROM pg_database"
                " WHERE NOT datistemplate AND datname <> 'postgres'"
            )
            for name, text in cursor.fetchall():
                flags = {**json.loads(text or "{}"), "fork": uuid.uuid4().hex}
                cursor.execute(f"COMMENT ON DATABASE {name} IS %s", (json.dumps(flags),))

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop and start on the same port."""
        self.stop(how)
        self.start()
