"""The lab on a live Postgres: its own schema in the server's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2

from tests.integration.pipeline.lab import Lab
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.replicators import selectors
from webapp.worker.run.wiring import opened_source


class PostgresLab(Lab):
    """`database` is the schema: so Tidemark calls it."""

    def __init__(self, address: dict[str, Any], name: str) -> None:
        """`address`: of an administrator, with dbname."""
        self.address, self.name, self.database = address, name, name
        self._session: Any = None
        self.execute(f"CREATE SCHEMA {name}")

    def connect(self, **more: Any) -> Any:
        connection = psycopg2.connect(**self.address, options=f"-c search_path={self.database},public", **more)
        connection.autocommit = True
        return connection

    @property
    def sql(self) -> Any:
        if self._session is None or self._session.closed:
            self._session = self.connect()
        return self._session

    def execute(self, *statements: str) -> None:
        """Each in autocommit."""
        with self.sql.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def close(self) -> None:
        """Leave the server as it was: without the replicator's slot and publication."""
        if (replicator := selectors.by_name(self.name)) is not None:
            with opened_source(replicator) as source:
                source.log(f"r{replicator.pk}-{replicator.uid}").remove()
        self.execute(f"DROP SCHEMA {self.database} CASCADE")
        self.sql.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """One transaction on a new connection."""
        connection = self.connect()
        connection.autocommit = False
        try:
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        finally:
            connection.close()

    def connection(self, **changes: Any) -> Connection:
        """The connection under the lab's name."""
        existing = Connection.objects.filter(name=self.name).first()
        address = {name: value for name, value in self.address.items() if name != "dbname"}
        config = {**address, "database": self.address["dbname"], "tls": "disable", **changes}
        return existing or connections.create_connection(name=self.name, kind="postgres", config=config, user=None)
