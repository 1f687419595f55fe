"""A place on the test run's Postgres."""

from __future__ import annotations

from typing import Self

import pytest

from replicator.sources import postgres
from tests.contract.place import Place
from webapp.embedded.postgres_source import EmbeddedPostgresSource


class PostgresPlace(Place):
    kind = postgres.KIND
    wrong = ({"password": "s3cret!"}, {"port": 1})

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        server: EmbeddedPostgresSource = request.getfixturevalue("postgres_source")
        session = server.connect()
        session.autocommit = False
        return cls(server.address | {"database": server.database}, session)

    def drop(self) -> None:
        self.run(f"DROP SCHEMA IF EXISTS {self.name} CASCADE")

    def keyless(self, name: str) -> None:
        super().keyless(name)
        self.run(f"ALTER TABLE @.{name} REPLICA IDENTITY FULL")
