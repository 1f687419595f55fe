"""A MySQL or MariaDB with a table, and a reader of its log that has nothing but the offset it stored last."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import TidemarkError
from replicator.model.change import ChangeBatch, Commit, LogMessage, Watermark
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.offset import BinlogOffset, parse_offset
from replicator.sources.mysql.stream.log_retention import MySqlLog
from replicator.sources.mysql.stream.reader import BinlogReader
from replicator.sources.mysql.watermark import WatermarkTable, watermark_table
from testing.servers.mysql import EmbeddedMySQL
from webapp.embedded.mariadb import EmbeddedMariaDB

TABLE = TableId("shop", "t")
WANTED = TableSet(tables=frozenset({TABLE}))
KINDS: dict[str, Callable[[Path], EmbeddedMariaDB | EmbeddedMySQL]] = {
    "mariadb": EmbeddedMariaDB,
    "mysql": EmbeddedMySQL,
    "mysql, no GTIDs, no checksums": lambda folder: EmbeddedMySQL(
        folder, options={"gtid-mode": "OFF", "binlog-checksum": "NONE"}
    ),
}


def running(*kinds: str) -> Any:
    """A fixture: a server of each of these KINDS in turn, for a module."""

    @pytest.fixture(params=kinds, scope="module")
    def server(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[EmbeddedMariaDB | EmbeddedMySQL]:
        server = KINDS[request.param](tmp_path_factory.mktemp("source"))
        server.start()
        yield server
        server.stop()

    return server


class Source:
    """A server with a table, and a reader of its log that remembers how far it has read."""

    def __init__(self, server: EmbeddedMariaDB | EmbeddedMySQL) -> None:
        self.server = server
        address = server.address
        self.config = MySqlConfig(address["host"], address["port"], address["user"], address["password"])
        self.copy = server.folder / "copy"
        self.run(
            "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, v INT)"
        )
        WatermarkTable("tidemark", "me").write(connect(self.config), "made")
        self.offset = self.now()

    def run(self, *statements: str) -> None:
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def insert(self, *ids: int) -> None:
        self.run(*(f"INSERT INTO {TABLE} VALUES ({n}, {n})" for n in ids))

    def read(self) -> list[int]:
        """Ids of the rows up to now, read by who has nothing but the stored offset; the next call goes on there."""
        token, found, marked = f"{time.monotonic_ns():020}", list[int](), False
        self.messages: list[LogMessage] = []
        reader = self._reader()
        with closing(connect(self.config)) as control:
            WatermarkTable("tidemark", "me").write(control, token)
            described = MySqlCatalog(control).describe([TABLE])
        schemas = {table: one for table, one in described.items() if isinstance(one, TableSchema)}
        with closing(reader):
            for message in reader.read(self.offset, WANTED, schemas):
                self.messages.append(message)
                if isinstance(message, ChangeBatch):
                    found += message.data.column("id").to_pylist()
                elif isinstance(message, Watermark):
                    marked = marked or message.token == token
                elif isinstance(message, Commit) and marked:
                    assert isinstance(message.offset, BinlogOffset)
                    self.offset = parse_offset(json.loads(json.dumps(message.offset.to_dict())))
                    return found
        raise AssertionError("the log ended")

    def watch(self, seconds: float) -> list[LogMessage]:
        """Return the messages that are read from the stored offset within `seconds`."""
        reader, deadline = self._reader(), time.monotonic() + seconds
        with closing(reader):
            return list(
                itertools.takewhile(lambda _: time.monotonic() < deadline, reader.read(self.offset, WANTED, {}))
            )

    def _reader(self) -> BinlogReader:
        return BinlogReader(self.config, ReadOptions(), "me", watermark_table("tidemark"))

    def now(self) -> BinlogOffset:
        with closing(connect(self.config)) as control:
            offset = MySqlLog(control, self.config, "me").prepare(WANTED, first=True).offset
        assert isinstance(offset, BinlogOffset)
        return offset

    def refusal(self) -> TidemarkError:
        with pytest.raises(TidemarkError) as caught:
            self.read()
        return caught.value

    def purge(self) -> None:
        """Every file before the present one; the server keeps one that a reader has just left."""
        file, deadline = self.now().file, time.monotonic() + 60
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            while time.monotonic() < deadline:
                cursor.execute(f"PURGE BINARY LOGS TO '{file}'")
                cursor.execute("SHOW BINARY LOGS")
                if cursor.fetchall()[0][0] == file:
                    return
                time.sleep(0.2)
        raise AssertionError("the files are still there")

    def back_up(self) -> None:
        """A cold copy; the server goes on."""
        self.server.stop()
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.server.folder / "data", self.copy)
        self.server.start()

    def restore(self) -> None:
        self.server.stop()
        shutil.rmtree(self.server.folder / "data")
        shutil.copytree(self.copy, self.server.folder / "data")
        self.server.start()
