"""A server that goes on from another past than the one that was read, and one that only was restarted or crashed."""

from __future__ import annotations

import itertools
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import SourceReplaced, SourceUnreachable
from replicator.model.change import ChangeBatch, Commit, Heartbeat, Watermark
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import connect
from replicator.sources.postgres.offset import LsnOffset, parse_offset
from replicator.sources.postgres.stream import decoder
from replicator.sources.postgres.stream.reader import HEARTBEAT, PgOutputReader
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.postgres.watermark import write_mark
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
NAME, SECONDS = "past", 40.0
TABLES = TableSet(tables=frozenset({TableId("p", "t")}))
_ends = itertools.count(1)


class Life:
    """A separate server, a replicator's position in its log, and copies of its data folder."""

    def __init__(self, folder: Path, version: str) -> None:
        self.server = EmbeddedPostgresSource(folder / "server", version=version, durable=False)
        self.server.start()
        address = self.server.address
        self.config = PostgresConfig(
            address["host"], address["port"], address["user"], address["password"], address["dbname"]
        )
        self.run("CREATE SCHEMA p", "CREATE TABLE p.t (id int PRIMARY KEY, v text)", "CREATE TABLE p.other (id int)")
        control = connect(self.config)
        self.offset: Any = ReplicationSlot(control, self.config, NAME).prepare(TABLES, first=True).offset
        self.schemas: dict[TableId, Any] = dict(
            PostgresCatalog(control, left_out=TABLES).describe(sorted(TABLES.tables))
        )
        control.close()

    def run(self, *statements: str) -> None:
        connection = self.server.connect()
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def read(self, *, confirmed: bool = True) -> list[int]:
        """Ids of rows up to a mark that is written now; the offset is stored as the journal stores it."""
        end = f"end {next(_ends)}"
        control = connect(self.config)
        write_mark(control, NAME, end, "")
        control.close()
        return self.until(lambda m: isinstance(m, Watermark) and m.token == end, confirmed=confirmed)

    def until(self, last: Callable[[Any], bool], *, confirmed: bool = True) -> list[int]:
        reader = PgOutputReader(self.config, ReadOptions(), NAME)
        deadline, met, ids = time.monotonic() + SECONDS, False, list[int]()
        try:
            for message in reader.read(self.offset, TABLES, self.schemas):
                assert time.monotonic() < deadline, "the log does not show what it should"
                if isinstance(message, ChangeBatch):
                    ids += message.data.column("id").to_pylist()
                met = met or last(message)
                if met and isinstance(message, Commit | Heartbeat) and message.offset is not None:
                    self.offset = parse_offset(message.offset.to_dict())
                    if confirmed:
                        reader.confirm(message.offset)
                    break
        finally:
            reader.close()
        return ids

    def copy(self) -> Path:
        """Of the data folder, of a server that has stopped."""
        self.server.stop()
        kept = self.server.folder / "copy"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.server.folder / "data", kept)
        self._owned(kept)
        self.server.start()
        return kept

    def restore(self, kept: Path) -> None:
        self.server.stop()
        shutil.rmtree(self.server.folder / "data")
        shutil.move(kept, self.server.folder / "data")
        self.server.start()

    def _owned(self, kept: Path) -> None:
        data = (self.server.folder / "data").stat()
        for path in (kept, *kept.rglob("*")):
            shutil.chown(path, data.st_uid, data.st_gid)
        kept.chmod(0o700)

    def slot(self) -> int:
        control = connect(self.config)
        try:
            return ReplicationSlot(control, self.config, NAME).confirmed()
        finally:
            control.close()


@pytest.fixture(params=["13.22.0", pytest.param("14.18.0", marks=pytest.mark.long), "17.5.0"])
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    life = Life(tmp_path_factory.mktemp("past"), request.param)
    yield life
    life.server.stop()


def other_past(life: Life, *, beyond: bool) -> None:
    """What a restored server does; `beyond`: past the place that was read."""
    number = itertools.count(1000)
    life.run(f"INSERT INTO p.t VALUES ({next(number)}, 'other')")
    while beyond and life_end(life) <= life.offset.lsn:
        life.run(f"INSERT INTO p.t VALUES ({next(number)}, 'other')", "SELECT pg_switch_wal()")
    life.run(f"INSERT INTO p.t VALUES ({next(number)}, 'other')")


def test_a_restored_data_folder_is_another_past(life: Life) -> None:
    life.run("INSERT INTO p.t VALUES (1, 'kept')")
    assert life.read() == [1]
    kept = life.copy()
    life.run("INSERT INTO p.t SELECT n, 'lost' FROM generate_series(2, 5) n", "INSERT INTO p.t VALUES (6, 'lost')")
    assert life.read() == [2, 3, 4, 5, 6]
    life.restore(kept)
    other_past(life, beyond=True)
    with pytest.raises(SourceReplaced, match="older backup"):
        life.read()


def test_a_copy_from_behind_the_last_commit_is_another_past_where_it_has_more(life: Life) -> None:
    """All that was read is there, and the place that was read up to lies in what it has written since."""
    life.run("INSERT INTO p.t VALUES (1, 'kept')")
    assert life.read() == [1]
    kept = life.copy()
    for _ in range(20):
        life.run("CREATE TABLE p.gone AS SELECT repeat('x', 1000) FROM generate_series(1, 100)", "DROP TABLE p.gone")
    was, lsn = life.offset.last_commit, life.offset.lsn
    ends = life_end(life)
    life.until(lambda m: isinstance(m, Heartbeat) and m.offset is not None and not m.offset < LsnOffset(ends))
    assert life.offset.lsn > lsn
    tells_empty = int(life.server.version.partition(".")[0]) < 15
    assert (life.offset.last_commit == was) is not tells_empty
    life.restore(kept)
    other_past(life, beyond=True)
    with pytest.raises(SourceReplaced, match="older backup"):
        life.read()


def life_end(life: Life) -> int:
    control = connect(life.config)
    try:
        end = ReplicationSlot(control, life.config, NAME).state().offset
    finally:
        control.close()
    assert isinstance(end, LsnOffset)
    return end.lsn


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_restarts_has_the_past_that_was_read(life: Life, how: signal.Signals) -> None:
    """Wherever its slot is then."""
    read = list[int]()
    for number in range(1, 5):
        life.run(f"INSERT INTO p.t VALUES ({number}, 'kept')", "INSERT INTO p.other VALUES (1)")
        read += life.read(confirmed=bool(number % 2))
        life.server.restart(how)
    life.run("ALTER TABLE p.t ADD COLUMN w int DEFAULT 7", "INSERT INTO p.t VALUES (5, 'kept', 1)")
    read += life.read()
    life.server.restart(how)
    life.run("INSERT INTO p.t VALUES (6, 'kept', 1)")
    read += life.read()
    assert read == [1, 2, 3, 4, 5, 6]


def test_a_server_shuts_down_while_its_log_is_read(life: Life) -> None:
    """Although the end of the last commit is not confirmed to its slot."""
    life.run("INSERT INTO p.t VALUES (1, 'kept')")
    stopping = threading.Thread(target=life.server.stop)

    def stop(message: Any) -> bool:
        if isinstance(message, Heartbeat) and stopping.ident is None:
            stopping.start()
        return False

    with pytest.raises(SourceUnreachable):
        life.until(stop)
    stopping.join()
    life.server.start()
    assert "not properly shut down" not in life.server.log.read_text()
    assert life.read() == [1]


def test_the_slot_does_not_stay_behind(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others write, and a large transaction, get a mark behind them."""
    life.read()
    monkeypatch.setattr(decoder, "UNMARKED", 50_000)
    monkeypatch.setattr(decoder, "LARGE", 50_000)
    life.run("INSERT INTO p.t SELECT n, repeat('x', 1000) FROM generate_series(1, 200) n")
    before = life_end(life)
    life.until(lambda m: isinstance(m, Watermark) and m.token == HEARTBEAT)
    assert life.offset.last_commit.record >= before
    for _ in range(5):
        life.run("CREATE TABLE p.gone AS SELECT repeat('x', 1000) FROM generate_series(1, 100)", "DROP TABLE p.gone")
    before = life_end(life)
    life.until(lambda m: isinstance(m, Heartbeat) and m.offset and m.offset.last_commit.record >= before - 50_000)
    assert life.slot() >= before - 60_000
