"""One table's trouble is one table's (invariant 13), for MySQL and MariaDB: errors of the server, and locks that do not
end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from replicator.errors import SourcePermissionDenied, TableBusy, TableError, TableNotRead, TidemarkError
from replicator.model.identifiers import TableId
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.config import MySqlConfig, TlsMode
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.snapshot.reader import MySqlSnapshotReader
from testing.servers.mysql import EmbeddedMySQL
from tests.crash.faults.errors import NUMBERS
from tests.crash.faults.proxy import Proxy

pytestmark = pytest.mark.integration
NAME = "isolation"
BAD, GOOD = TableId(NAME, "bad"), TableId(NAME, "good")
OF_THE_SERVER = {1040, 1041, 1053, 1226}


@dataclass
class Place:
    """A database with the tables `bad` and `good`, each of one row."""

    root: Any
    proxy: Proxy
    config: MySqlConfig

    def execute(self, *statements: str) -> None:
        with self.root.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMySQL]:
    server = EmbeddedMySQL(tmp_path_factory.mktemp("mysql"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["mariadb", "mysql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    server = request.getfixturevalue(request.param)
    direct = replace(MySqlConfig.parse(server.address), tls=TlsMode.DISABLED)
    with closing(connect(direct)) as root, Proxy(direct.host, direct.port, speaks="mysql") as proxy:
        made = Place(root, proxy, replace(direct, host=proxy.host, port=proxy.port))
        made.execute(f"DROP DATABASE IF EXISTS {NAME}", f"CREATE DATABASE {NAME}")
        for table in (BAD, GOOD):
            made.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
        yield made
        made.execute(f"DROP DATABASE {NAME}")


def rows(reader: MySqlSnapshotReader, table: TableId) -> int:
    return sum(batch.num_rows for batch in reader.read_chunk(table, KeyRange()).batches)


def test_whatever_the_server_answers_for_a_table_is_no_trouble_of_the_source(place: Place) -> None:
    """But for states of the connection or the server; and the next table is read."""
    chance = random.Random(7)
    with closing(MySqlSnapshotReader(place.config, ReadOptions(), NAME)) as reader:
        for number in NUMBERS:
            place.proxy.answer_errors(1, [number], wanted=lambda text: b"FROM `isolation`.`bad`" in text, chance=chance)
            with pytest.raises(TidemarkError) as caught:
                rows(reader, BAD)
            assert f"(error {number})" in caught.value.message
            ours = isinstance(caught.value, TableError | SourcePermissionDenied)
            assert ours is (number not in OF_THE_SERVER), caught.value
            assert rows(reader, GOOD) == 1


def test_a_locked_table_waits_and_the_others_are_read(place: Place) -> None:
    reader = MySqlSnapshotReader(place.config, ReadOptions(), NAME)
    with closing(connect(replace(place.config, port=place.root.port))) as other, closing(reader):
        with other.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {BAD} WRITE")
        began = time.monotonic()
        with closing(connect(place.config)) as connection:
            found = MySqlCatalog(connection).describe([BAD, GOOD])
        assert not any(isinstance(one, TableError) for one in found.values())
        for read in (lambda: reader.end_key(BAD), lambda: rows(reader, BAD)):
            with pytest.raises(TableBusy):
                read()
            assert rows(reader, GOOD) == 1
        assert time.monotonic() - began < 60  # the server's own limits are a day and more
        with other.cursor() as cursor:
            cursor.execute("UNLOCK TABLES")
        assert rows(reader, BAD) == 1


def test_a_table_that_the_catalog_cannot_describe_leaves_the_others_described(place: Place) -> None:
    bad = BAD.name.encode().hex().encode()
    with closing(connect(place.config)) as connection:
        place.proxy.answer_errors(1000, [1030], wanted=lambda statement: bad in statement.lower())
        found = MySqlCatalog(connection).details([BAD, GOOD])
    assert isinstance(found[BAD], TableNotRead)
    assert not isinstance(found[GOOD], TableError)
