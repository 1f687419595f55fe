"""The same server at the same address, with another past: a copy restored, a log reset, transactions lost in a crash."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from replicator.errors import LogPurged, SourceReplaced, TidemarkError
from replicator.model.change import ChangeBatch, Commit, Watermark
from replicator.model.identifiers import TableId, TableSet
from replicator.model.schema import TableSchema
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.catalog import MySqlCatalog
from replicator.sources.mysql.check_past import check_past
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.log import BinlogReader
from replicator.sources.mysql.offset import BinlogOffset, parse_offset
from replicator.sources.mysql.source_log import MySqlLog
from replicator.sources.mysql.watermark import WatermarkTable, watermark_table
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.mysql import EmbeddedMySQL

pytestmark = pytest.mark.integration
TABLE = TableId("shop", "t")
WANTED = TableSet(tables=frozenset({TABLE}))
KINDS: dict[str, Callable[[Path], EmbeddedMariaDB | EmbeddedMySQL]] = {
    "mariadb": EmbeddedMariaDB,
    "mysql": EmbeddedMySQL,
    "mysql, no GTIDs, no checksums": lambda folder: EmbeddedMySQL(
        folder, options={"gtid-mode": "OFF", "binlog-checksum": "NONE"}
    ),
}


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
        reader = BinlogReader(self.config, ReadOptions(), "me", watermark_table("tidemark"))
        with closing(connect(self.config)) as control:
            WatermarkTable("tidemark", "me").write(control, token)
            described = MySqlCatalog(control).describe([TABLE])
        schemas = {table: one for table, one in described.items() if isinstance(one, TableSchema)}
        with closing(reader):
            for message in reader.read(self.offset, WANTED, schemas):
                if isinstance(message, ChangeBatch):
                    found += message.data.column("id").to_pylist()
                elif isinstance(message, Watermark):
                    marked = marked or message.token == token
                elif isinstance(message, Commit) and marked:
                    assert isinstance(message.offset, BinlogOffset)
                    self.offset = parse_offset(message.offset.to_dict())
                    return found
        raise AssertionError("the log ended")

    def now(self) -> BinlogOffset:
        with closing(connect(self.config)) as control:
            offset = MySqlLog(control, self.config, "me").prepare(WANTED, first=True).offset
        assert isinstance(offset, BinlogOffset)
        return offset

    def refusal(self) -> TidemarkError:
        with pytest.raises(TidemarkError) as caught:
            self.read()
        return caught.value

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


@pytest.fixture(params=KINDS, scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMariaDB | EmbeddedMySQL]:
    server = KINDS[request.param](tmp_path_factory.mktemp("source"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def source(server: EmbeddedMariaDB | EmbeddedMySQL) -> Source:
    return Source(server)


def test_a_copy_from_before_is_refused_whatever_was_done_on_it_since(source: Source) -> None:
    """Its log has the same files, places and GTIDs again, for other transactions."""
    source.insert(1)
    assert source.read() == [1]
    source.back_up()
    source.insert(2, 3)
    assert source.read() == [2, 3]
    lost = source.offset
    source.restore()
    assert isinstance(source.refusal(), SourceReplaced)  # nothing was done on it yet
    source.insert(*range(1000, 1030))
    for _ in range(2):
        error = source.refusal()
        assert isinstance(error, SourceReplaced), error
        assert lost.file in error.message
    assert source.offset is lost


def test_a_copy_of_what_was_read_goes_on(source: Source) -> None:
    """All that was read is in it: it is the same past."""
    source.insert(1)
    source.read()
    source.back_up()
    source.restore()
    source.insert(2)
    assert source.read() == [2]
    source.server.restart(signal.SIGKILL)
    source.insert(3)
    source.run("FLUSH BINARY LOGS")
    source.server.restart(signal.SIGKILL)
    source.insert(4)
    assert source.read() == [3, 4]
    source.server.restart()
    assert source.read() == []


def test_a_reset_log_is_refused_when_it_has_as_many_transactions_again(source: Source) -> None:
    source.run("RESET MASTER")
    source.offset = source.now()
    source.insert(1, 2, 3)
    assert source.read() == [1, 2, 3]
    time.sleep(1.1)  # a file's beginning is known to the second
    source.run("RESET MASTER")
    source.insert(*range(10, 60))
    assert source.now() > source.offset
    assert isinstance(source.refusal(), SourceReplaced)


def test_a_log_that_lost_its_last_transactions_is_refused(source: Source) -> None:
    """As after a power failure with sync_binlog = 0: the server finds a shorter file, and goes on in the next one."""
    source.insert(1)
    source.read()
    kept = source.offset
    source.insert(2, 3)
    source.read()
    source.server.stop(signal.SIGKILL)
    file = source.server.folder / "data" / source.offset.file
    with file.open("r+b") as log:
        log.truncate(kept.position)
    source.server.start()
    source.insert(*range(10, 40))
    error = source.refusal()
    assert isinstance(error, SourceReplaced), error


def test_another_transaction_at_the_place_of_the_last_one_is_refused(source: Source) -> None:
    """As after a machine was set back with its memory: the server goes on in the same file."""
    source.insert(1)
    source.read()
    past = source.offset.past
    assert past is not None
    assert past.start
    check_past(source.config, 77, past)
    for other in (past._replace(digest=past.digest ^ 1), past._replace(start=past.start - 7)):
        with pytest.raises(SourceReplaced, match="set back"):
            check_past(source.config, 77, other)


def test_of_a_file_that_is_gone_all_must_be_gone(source: Source) -> None:
    source.insert(1)
    source.read()
    source.run("FLUSH BINARY LOGS")
    assert source.read() == []
    if isinstance(source.server, EmbeddedMariaDB):
        source.run("SET GLOBAL slave_connections_needed_for_purge = 0")
    read = source.offset
    if read.gtid:  # in a log of other files, as after more than one restart of a copy
        source.offset = replace(read, file="binlog.000000", past=None)
        assert isinstance(source.refusal(), SourceReplaced)
        source.offset = read
    source.insert(2)
    source.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    time.sleep(1.5)  # the server keeps a file that a reader has just left
    source.run(f"PURGE BINARY LOGS TO '{source.now().file}'")
    assert isinstance(source.refusal(), LogPurged)
