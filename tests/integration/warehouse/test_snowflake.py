"""Snowflake by its stand-in: what ends, what is cut, what is left behind, and what a destination's page shows."""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from snowflake import connector
from snowflake.connector import errors

from replicator import faults
from replicator.errors import (
    ConfigurationError,
    TableError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    ValueDoesNotFit,
)
from replicator.faults import Fault, FaultInjected
from replicator.sources.base import CheckStatus
from replicator.staging.storage import Storage
from replicator.targets.base import Append, Create, Drop, Evolve, Merge, Rename, Target, TargetChange, TargetTable
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.kind import Opening
from replicator.targets.snowflake.config import destination, place
from replicator.targets.snowflake.connection import STAGE, SnowflakeSession, private_key
from replicator.targets.snowflake.dialect import SnowflakeDialect
from replicator.targets.snowflake.failures import explained
from replicator.targets.snowflake.kind import SNOWFLAKE
from replicator.targets.snowflake.value_limits import MAX_BYTES, MAX_TEXT, check_values
from testing.servers.snowflake.embedded import EmbeddedSnowflake
from tests.staged import Change, Row, delete, insert, read, schema_of, segment, update

pytestmark = pytest.mark.integration
NAMES = itertools.count(1)
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "bigint", "v": "string", "w": "float"}, ["id"])
KEYLESS = schema_of({"v": "string", "f": "double"})


class Copies:
    """A schema of the stand-in, and targets over it."""

    def __init__(self, server: EmbeddedSnowflake, folder: Path) -> None:
        self.server, self.namespace = server, f"copies {next(NAMES)}"
        self.storage, self.settings = Storage(f"file://{folder}/staging"), dict(server.settings)
        self.dialect = SnowflakeDialect(destination(self.settings))
        self._opened: list[Target] = []
        self.target = self.another_worker()

    def another_worker(self) -> Target:
        lake: Any = None
        made = SNOWFLAKE.open(Opening(lake, lake, self.storage, "r1", self.settings, "mysql"))
        self._opened.append(made)
        return made

    def close(self) -> None:
        for one in self._opened:
            one.close()

    def query(self, sql: str) -> list[Any]:
        with closing(connector.connect(**self.server.options)) as db, db.cursor() as cursor:
            return list(cursor.execute(sql).fetchall())

    def filled(self) -> TargetTable:
        table = TargetTable(self.namespace, f"T {next(NAMES)}")
        self.target.apply(table, Create(KEYED, 1, -1, "L1"))
        self.target.apply(table, self.merge(insert(0, 1, "a"), insert(1, 2, "b")))
        return table

    def merge(self, *changes: Change) -> Merge:
        staged = segment(self.storage, KEYED, changes)
        return Merge([staged], KEYED, staged.last_sequence)

    def rows(self, table: TargetTable, *names: str) -> Counter[Row]:
        listed = ", ".join(f'"{name}"' for name in names or ("id", "v"))
        return Counter(self.query(f"SELECT {listed} FROM {self.dialect.place(table)}"))

    def tables(self) -> set[str]:
        found = self.query(
            f'SELECT table_name FROM "{self.server.database}".INFORMATION_SCHEMA.TABLES'
            f" WHERE table_schema = '{self.namespace}'"
        )
        return {name for (name,) in found}

    def trouble(self, what: str) -> None:
        urlopen(Request(f"{self.settings['host']}/trouble/{what}", method="POST"), timeout=20).close()


@pytest.fixture
def copies(snowflake_server: EmbeddedSnowflake, tmp_path: Path) -> Iterator[Copies]:
    made = Copies(snowflake_server, tmp_path)
    yield made
    faults.disarm()
    made.close()


@pytest.mark.parametrize("point", ["apply.step.before", "apply.step.between", "apply.step.after"])
def test_definitions_are_made_whole_whatever_ends_between_two_steps(copies: Copies, point: str) -> None:
    new = TargetTable(copies.namespace, f"new {next(NAMES)}")
    changes: list[TargetChange] = [Create(WIDER, 2, 9, "L2"), Evolve(WIDER, 2), Rename(new), Drop()]
    for change in changes:
        table = copies.filled()
        faults.arm([Fault(point, "fail")])
        with pytest.raises(FaultInjected):
            copies.another_worker().apply(table, change, "L1")
        faults.disarm()
        worker = copies.another_worker()
        at, moved = worker.position(table), worker.position(new)
        if isinstance(change, Rename):
            assert (at is None) == (moved is not None) == (point == "apply.step.after")
            worker.apply(table, change)
            assert copies.rows(new) == Counter([(1, "a"), (2, "b")])
        elif isinstance(change, Drop):
            assert at is None
            assert table.name not in copies.tables()
        else:
            assert at is not None
            assert at.load == ("L2" if isinstance(change, Create) else "L1")
            kept = Counter() if isinstance(change, Create) else Counter([(1, "a", None), (2, "b", None)])
            assert copies.rows(table, "id", "v", "w") == kept
    assert not [name for name in copies.tables() if name.startswith("_tidemark_stage")]


@pytest.mark.parametrize(
    "point", ["apply.read.after", "apply.stage.before", "apply.publish.before", "apply.publish.after"]
)
def test_rows_change_with_their_position_or_not_at_all(copies: Copies, point: str) -> None:
    table = copies.filled()
    chunk = segment(copies.storage, KEYED, [read(4, 4, "d")])
    log = copies.merge(update(2, (1, "a"), (1, "A")), insert(3, 3, "c"))
    for change, after in (
        (log, Counter([(1, "A"), (2, "b"), (3, "c")])),
        (Append([chunk], KEYED, 4), Counter([(1, "A"), (2, "b"), (3, "c"), (4, "d")])),
    ):
        before = copies.rows(table)
        faults.arm([Fault(point, "fail")])
        with pytest.raises(FaultInjected):
            copies.target.apply(table, change)
        faults.disarm()
        assert copies.rows(table) == (after if point == "apply.publish.after" else before)
        copies.target.apply(table, change)
        assert copies.rows(table) == after


def test_a_worker_that_died_in_a_transaction_is_in_nobodys_way_for_long(copies: Copies) -> None:
    """Its session is left open, as a process that is killed leaves it."""
    table = copies.filled()
    session = SnowflakeSession(destination(copies.settings))
    session.execute("BEGIN")
    session.execute(f"UPDATE {copies.dialect.place(copies.dialect.positions(table))} SET applied = 99")
    change = copies.merge(insert(2, 3, "c"))
    with pytest.raises(TargetConflict, match="lock"):
        copies.target.apply(table, change)
    over = threading.Event()
    for _ in range(100):
        try:
            copies.another_worker().apply(table, change)
            break
        except TargetConflict:
            over.wait(0.1)
    assert copies.rows(table) == Counter([(1, "a"), (2, "b"), (3, "c")])
    session.close()


@pytest.mark.long
def test_of_two_workers_whose_sessions_are_cut_every_change_is_done_once(copies: Copies) -> None:
    random, rows, seq = Random(7), list[Row](), 0  # 0.0 and -0.0 are two, which no Counter tells apart
    table = TargetTable(copies.namespace, "keyless")
    copies.target.apply(table, Create(KEYLESS, 1, -1, "L1"))
    batches = []
    for _ in range(10):
        changes: list[Change] = []
        for _ in range(random.randint(1, 6)):
            if rows and random.random() < 0.4:
                changes.append(delete(seq, *rows.pop(random.randrange(len(rows)))))
            else:
                new = (random.choice(["a", "", None]), random.choice([0.0, -0.0, 1.5, None]))
                rows.append(new)
                changes.append(insert(seq, *new))
            seq += 1
        batches.append(Merge([segment(copies.storage, KEYLESS, changes)], KEYLESS, seq - 1))
    done, over = Counter[str](), threading.Event()

    def work(_: int) -> None:
        target = copies.another_worker()
        while True:
            try:
                at = target.position(table)
                assert at is not None
                todo = [one for one in batches if one.upto > at.applied]
                if not todo:
                    return
                done[target.apply(table, todo[0], "L1").how] += 1
            except TargetError as error:
                done[error.code] += 1

    def cut() -> None:
        while not over.wait(1.0):
            copies.trouble("cut")

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
    finally:
        over.set()
        cutter.join()
    found = copies.query(f'SELECT "v", "f" FROM {copies.dialect.place(table)}')
    assert Counter(map(repr, found)) == Counter(map(repr, rows))
    assert done["target_conflict"] + done["target"] > 0


def test_a_batch_in_parts_stages_in_its_transaction_without_a_definition(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One would commit what the transaction has done."""
    monkeypatch.setattr("replicator.targets.warehouse.changes.MEMORY", 1)
    table = copies.filled()
    staged = [segment(copies.storage, KEYED, [insert(seq, seq, "x"), update(seq + 1, (1, "a"), (1, f"v{seq}"))])
        for seq in (2, 4, 6)]  # fmt: skip
    change = Merge(staged, KEYED, 7)
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        copies.target.apply(table, change)
    faults.disarm()
    assert copies.rows(table) == Counter([(1, "a"), (2, "b")])
    copies.target.apply(table, change)
    assert copies.rows(table) == Counter([(1, "v6"), (2, "x"), (4, "x"), (6, "x")])


def test_files_and_staging_tables_that_were_left_behind_are_deleted(copies: Copies) -> None:
    session = SnowflakeSession(destination(copies.settings))
    days = {days: f"{datetime.now(UTC) - timedelta(days=days):%Y%m%d}" for days in (0, 1, 2, 9)}
    file = Path(copies.storage.url.removeprefix("file://")).with_name("left.parquet")
    file.write_bytes(b"left")
    for day in days.values():
        session.query(f"PUT 'file://{file}' {STAGE}/{day}/attempt AUTO_COMPRESS=FALSE")
    stage = copies.dialect.stage(session, copies.filled(), pa.table({"id": pa.array([1], pa.int32())}))
    assert any(name in stage for name in copies.tables())
    session.close()
    assert not [name for name in copies.tables() if name.startswith("_tidemark_stage")]
    copies.another_worker().apply(TargetTable(copies.namespace, "first"), Create(KEYED, 1, -1, "L1"))
    left = str(copies.query(f"LIST {STAGE}/"))
    assert {day: text in left for day, text in days.items()} == {0: True, 1: True, 2: False, 9: False}


def test_interrupt_ends_what_is_done(copies: Copies) -> None:
    """Again and again, as the scheduler does: a statement may be on its way to the server."""
    session = SnowflakeSession(destination(copies.settings))
    started = threading.Event()

    def long() -> None:
        started.set()
        session.query(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 100000000)"
            " SELECT COUNT(*) FROM r"
        )

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(long)
        started.wait()
        for _ in range(60):
            session.interrupt()
            if wait([asked], timeout=0.5).done:
                break
        with pytest.raises(TargetError, match=r"cancelled the statement|was interrupted"):
            asked.result(timeout=0)
    session.close()


def test_the_test_of_a_destination_tries_all_and_leaves_nothing(copies: Copies) -> None:
    assert SNOWFLAKE.check is not None
    assert SNOWFLAKE.written is not None
    found = SNOWFLAKE.check(copies.settings)
    assert {one.status for one in found} == {CheckStatus.OK}, found
    assert len(found) == 8
    schemas = copies.query(f'SELECT schema_name FROM "{copies.server.database}".INFORMATION_SCHEMA.SCHEMATA')
    assert not [name for (name,) in schemas if name.startswith("tidemark_test")]
    copies.filled()
    assert SNOWFLAKE.written(copies.settings).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("changes", "told", "remedy"),
    [
        ({"password": "a-wrong-secret"}, "refused the login", "credentials"),
        ({"host": "http://127.0.0.1:1", "connect_timeout": "1"}, "cannot be reached|failed", "HTTPS"),
        ({"database": "none"}, "no such object", "GRANT USAGE, CREATE SCHEMA"),
        ({"account": "not an account"}, "account identifier", ""),
        ({"host": "http://snow.example"}, "host name", "this machine"),
        ({"host": "169.254.169.254"}, "link-local", ""),
        ({"authentication": "key_pair", "private_key": "no key"}, "PEM", "openssl"),
        ({"authentication": "oauth"}, "no token", ""),
    ],
)
def test_what_is_wrong_with_a_destination_is_told(
    copies: Copies, changes: dict[str, str], told: str, remedy: str
) -> None:
    assert SNOWFLAKE.check is not None
    (*_, last) = SNOWFLAKE.check(copies.settings | changes)
    assert last.status is CheckStatus.FAILED
    assert re.search(told, last.detail), last
    assert remedy in last.remedy
    assert "a-wrong-secret" not in str(last)


def test_a_key_pair_signs_in(copies: Copies) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for passphrase in (b"", b"pass"):
        hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        settings = copies.settings | {
            "authentication": "key_pair", "private_key": pem.decode(), "private_key_passphrase": passphrase.decode(),
        }  # fmt: skip
        session = SnowflakeSession(destination(settings))
        assert session.query("SELECT 1") == [(1,)]
        session.close()
    with pytest.raises(ConfigurationError, match="passphrase"):
        private_key(destination(settings | {"private_key_passphrase": "other"}))


def test_a_page_shows_figures_rows_and_what_to_paste(copies: Copies) -> None:
    table = copies.filled()
    assert SNOWFLAKE.report is not None
    assert SNOWFLAKE.preview is not None
    report = SNOWFLAKE.report(copies.settings, NO_LAKE, table.namespace, table.name)
    assert report is not None
    assert report.columns == 2
    assert EmbeddedSnowflake.password not in str(report.examples)
    assert 'SELECT * FROM "COPY"' in report.examples[0].text
    rows = SNOWFLAKE.preview(copies.settings, NO_LAKE, table, 5)
    assert rows is not None
    assert {row[:2] for row in map(tuple, rows.rows)} == {("1", "a"), ("2", "b")}
    gone = TargetTable(table.namespace, "gone")
    assert SNOWFLAKE.report(copies.settings, NO_LAKE, gone.namespace, gone.name) is None
    assert SNOWFLAKE.preview(copies.settings, NO_LAKE, gone, 5) is None


def test_a_place_tells_accounts_and_databases_apart() -> None:
    assert place({"account": "A-b", "database": "D"}) == "a-b/D"
    assert place({"account": "A-b", "database": "D", "host": "Link.example"}) == "link.example/D"
    assert place({"account": "A-b"}) == ""


def test_a_cell_that_is_too_long_stops_the_table_before_it_is_sent() -> None:
    for values, name in (
        (pa.array(["x" * (MAX_TEXT + 1)]), "text"),
        (pa.array([b"x" * (MAX_BYTES + 1)]), "binary value"),
        (pa.array([1 << 40], pa.timestamp("s")).cast(pa.timestamp("us")), "year"),
    ):
        with pytest.raises(ValueDoesNotFit, match=f"column c of shop.t .*{name}"):
            check_values(pa.table({"c": values}), "shop.t")
    check_values(pa.table({"a": ["x" * MAX_TEXT, None], "b": [b"x" * MAX_BYTES, None]}), "shop.t")


ANSWERS: list[tuple[Callable[[], errors.Error], type[TidemarkError], str]] = [
    (
        lambda: errors.DatabaseError(msg="Incorrect password", errno=390100, sqlstate="08001"),
        TargetUnauthorized,
        "login",
    ),
    (
        lambda: errors.DatabaseError(msg="OAuth token expired", errno=390318, sqlstate="08001"),
        TargetUnauthorized,
        "login",
    ),
    (lambda: errors.ProgrammingError(msg="gone", errno=390114, sqlstate="08001"), TargetError, "ended the session"),
    (lambda: errors.ProgrammingError(msg="no warehouse", errno=606, sqlstate="57P03"), TargetError, "warehouse"),
    (lambda: errors.ProgrammingError(msg="quota", errno=90073, sqlstate="57P03"), TargetError, "quota"),
    (lambda: errors.ProgrammingError(msg="locked", errno=625, sqlstate="57014"), TargetConflict, "lock"),
    (lambda: errors.ProgrammingError(msg="no", errno=3001, sqlstate="42501"), TargetUnauthorized, "allow"),
    (lambda: errors.ProgrammingError(msg="'v4lue'", errno=100038, sqlstate="22018"), ValueDoesNotFit, "value"),
    (lambda: errors.ProgrammingError(msg="no table", errno=2003, sqlstate="42S02"), TargetError, "no such object"),
    (lambda: errors.OperationalError(msg="503", errno=250003), TargetError, "failed"),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_each_answer_is_a_sentence_with_a_remedy(number: int) -> None:
    made, kind, told = ANSWERS[number]
    with pytest.raises(TidemarkError) as found, explained("Snowflake account A"):
        raise made()
    assert type(found.value) is kind
    assert told in found.value.message
    assert "v4lue" not in found.value.message
    assert found.value.remedy
    assert found.value.retryable == (not issubclass(kind, TableError))
