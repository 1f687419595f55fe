"""Spanner's emulator, as the Google Cloud SDK brings it (the component cloud-spanner-emulator), for tests."""

from __future__ import annotations

import base64
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

VARIABLE = "SPANNER_EMULATOR_HOST"
START_SECONDS = 60.0
POSTGRESQL = 2  # of `DatabaseDialect`
NEEDED = (
    "Spanner's emulator is not installed: gcloud components install cloud-spanner-emulator, or name one that runs in"
    f" {VARIABLE}"
)


def emulator() -> Path | None:
    """The program within the SDK that the command gcloud belongs to."""
    gcloud = shutil.which("gcloud")
    found = Path(gcloud).resolve().parent / "cloud_spanner_emulator" / "emulator_main" if gcloud else None
    return found if found is not None and found.exists() else None


def available() -> bool:
    """Can `EmbeddedSpanner` start?"""
    return bool(os.environ.get(VARIABLE)) or emulator() is not None


class EmbeddedSpanner:
    """One emulator on loopback, in memory, with an instance and an empty database; or the one that runs already."""

    project = "tidemark-test"
    instance = "tidemark-instance"

    def __init__(
        self, folder: Path, port: int | None = None, database: str = "copies", options: Sequence[str] = ()
    ) -> None:
        """`folder` holds the log.  options: of the emulator."""
        self._options = options
        self.folder, self.database = folder.resolve(), database
        named = os.environ.get(VARIABLE, "")
        self._own = not named
        self.address = named or f"{LOOPBACK}:{port or free_port()}"
        self._child: Child | None = None

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def settings(self) -> dict[str, str]:
        """A destination's."""
        return {
            "project": self.project, "instance": self.instance, "database": self.database, "login": "environment",
            "endpoint": f"http://{self.address}",
        }  # fmt: skip

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up, or with what is to be installed."""
        if self._own:
            program = emulator()
            if program is None:
                raise ServerFailed(NEEDED)
            self.folder.mkdir(parents=True, exist_ok=True)
            claim(self.port)
            command = [str(program), "--host_port", self.address, *self._options]
            self._child = start("spanner", command, self.folder / "spanner.log")
            if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
                message = f"Spanner's emulator did not start:\n{self._child.tail()}"
                raise ServerFailed(message)
        self.make(self.database)

    def make(self, database: str, dialect: int = 0) -> None:
        """An empty database, and the instance, where they are missing."""
        import grpc
        from google.api_core.exceptions import AlreadyExists
        from google.cloud.spanner_admin_database_v1 import CreateDatabaseRequest, DatabaseAdminClient
        from google.cloud.spanner_admin_database_v1.services.database_admin.transports import (
            DatabaseAdminGrpcTransport,
        )
        from google.cloud.spanner_admin_instance_v1 import Instance, InstanceAdminClient
        from google.cloud.spanner_admin_instance_v1.services.instance_admin.transports import (
            InstanceAdminGrpcTransport,
        )

        with grpc.insecure_channel(self.address) as channel:
            instances = InstanceAdminClient(transport=InstanceAdminGrpcTransport(channel=channel))
            databases = DatabaseAdminClient(transport=DatabaseAdminGrpcTransport(channel=channel))
            project, config = f"projects/{self.project}", f"projects/{self.project}/instanceConfigs/emulator-config"
            one = Instance(config=config, display_name="Tests", node_count=1)
            with suppress(AlreadyExists):
                instances.create_instance(parent=project, instance_id=self.instance, instance=one).result(timeout=60)
            place = f"{project}/instances/{self.instance}"
            with suppress(AlreadyExists):
                quoted = f'"{database}"' if dialect == POSTGRESQL else f"`{database}`"
                databases.create_database(CreateDatabaseRequest(
                    parent=place, create_statement=f"CREATE DATABASE {quoted}", database_dialect=dialect,
                )).result(60)  # fmt: skip

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """By the vendor's client for programs."""
        with self.snapshot() as snapshot:
            return [tuple(_plain(value) for value in row) for row in snapshot.execute_sql(sql)]

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        """Reads of one state."""
        with self.database_session() as session:
            snapshot = session.snapshot(multi_use=True)
            snapshot.begin()
            yield snapshot

    @contextmanager
    def database_session(self) -> Iterator[Any]:
        """Of the vendor's client for programs."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.spanner import Client

        client = Client(
            project=self.project, credentials=AnonymousCredentials(), client_options={"api_endpoint": self.address},
            disable_builtin_metrics=True,
        )  # fmt: skip
        session = client.instance(self.instance).database(self.database).session()
        session.create()
        try:
            yield session
        finally:
            session.delete()

    @property
    def alive(self) -> bool:
        """False if the emulator's process has ended without `stop`."""
        return self._child is None or self._child.alive

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """What it holds is gone."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None


def _plain(value: Any) -> Any:
    """Convert a value of the client: bytes come in base64, times as a subclass of datetime."""
    if isinstance(value, bytes):
        return base64.b64decode(value)
    if isinstance(value, datetime):
        return datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo
        )
    return value
