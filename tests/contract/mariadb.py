"""A place on the test run's MariaDB."""

from __future__ import annotations

from typing import Self

import pytest

from replicator.sources import mysql
from tests.contract.place import Place
from webapp.embedded.mariadb import EmbeddedMariaDB


class MariaDbPlace(Place):
    kind = mysql.KIND
    wrong = ({"password": "s3cret!"}, {"port": 1})

    def rename(self, old: str, new: str) -> None:
        self.run(f"ALTER TABLE @.{old} RENAME TO @.{new}")

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        server: EmbeddedMariaDB = request.getfixturevalue("mariadb")
        session = server.connect()
        session.autocommit(False)
        return cls(server.address, session)
