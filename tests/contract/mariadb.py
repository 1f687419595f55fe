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

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        server: EmbeddedMariaDB = request.getfixturevalue("mariadb")
        session = server.connect()
        session.autocommit(False)
        return cls(server.address, session)
