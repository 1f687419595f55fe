"""The lab on the emulator of Oracle: its own schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testing.servers.oracle.server.embedded import EmbeddedOracle
from tests.integration.pipeline.lab import Lab
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.replicators import selectors
from webapp.worker.run.wiring import opened_source


class OracleLab(Lab):
    """`@.name` in statements is a table of the lab; names are quoted, and so stay in small letters."""

    def __init__(self, server: EmbeddedOracle, name: str) -> None:
        """On this server, under this name."""
        self.address, self.name, self.database = server.address, name, name
        self._server = server
        self._session = server.connect()
        self.execute(f'CREATE USER "{name}" IDENTIFIED BY "a1" QUOTA UNLIMITED ON users')

    def connect(self, **more: Any) -> Any:
        return self._server.connect(**more)

    @property
    def sql(self) -> Any:
        return self._session

    def spelled(self, statement: str) -> str:
        """With the lab's schema."""
        return statement.replace("@.", f'"{self.name}".')

    def execute(self, *statements: str) -> None:
        """Each in its own transaction."""
        with self.sql.cursor() as cursor:
            for statement in statements:
                cursor.execute(self.spelled(statement))
                self.sql.commit()

    def close(self) -> None:
        """Leave the server as it was."""
        if (replicator := selectors.by_name(self.name)) is not None:
            with opened_source(replicator) as source:
                source.log(f"r{replicator.pk}-{replicator.uid}").remove()
        self.execute(f'DROP USER "{self.name}" CASCADE')
        self.sql.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """One transaction on a new connection."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        finally:
            connection.close()

    def connection(self, **changes: Any) -> Connection:
        """The connection under the lab's name."""
        existing = Connection.objects.filter(name=self.name).first()
        config = {**self.address, **changes}
        return existing or connections.create_connection(name=self.name, kind="oracle", config=config, user=None)
