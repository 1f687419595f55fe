"""The source over the emulator: transactions that stay open, logs that are switched, archived or gone, bad settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from replicator.errors import LogPurged, SourceMisconfigured, SourceReplaced, SourceUnreachable
from replicator.model.change import (
    ChangeBatch,
    Commit,
    Ddl,
    Heartbeat,
    LogMessage,
    SchemaChange,
    TableFailed,
    UndecodableRows,
)
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult, CheckStatus, KeyRange, ReadOptions
from replicator.sources.oracle import KIND
from replicator.sources.oracle.stream import reader as log_reader
from replicator.sources.oracle.stream.mining_session import MiningSession
from replicator.verification.model import TablePair
from replicator.verification.oracle.reader import OracleReader
from testing.servers.oracle.server.embedded import EmbeddedOracle
from testing.servers.tls import certificate
from tests.contract.oracle import OracleKeptPlace, OraclePlace, spelled
from tests.contract.place import SECONDS, changes
from tests.crash.sources import copied
from tests.integration.oracle.conftest import KEYED

pytestmark = pytest.mark.integration


class ArchivedPlace(OraclePlace):
    settings: ClassVar[Mapping[str, str]] = {"logs": "archived"}


@pytest.fixture(params=[OraclePlace, OracleKeptPlace])
def place(request: pytest.FixtureRequest) -> Iterator[OraclePlace]:
    opened = request.param.opened(request)
    yield opened
    opened.close()


@pytest.fixture
def archived(request: pytest.FixtureRequest) -> Iterator[ArchivedPlace]:
    opened = ArchivedPlace.opened(request)
    yield opened
    opened.close()


@pytest.mark.parametrize("mode", ["required", "verify_ca", "verify_identity"])
def test_a_certificate_is_held_against_its_authority_and_its_name(oracle_source: EmbeddedOracle, mode: str) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/dbseg/configuring-secure-sockets-layer-authentication.html"""
    there = {**oracle_source.address, "host": "localhost", "port": oracle_source.tls_port, "tls": mode}
    (first, *_) = KIND.open({**there, "ca": oracle_source.ca}).check()
    assert first.status is CheckStatus.OK, first
    (first, *_) = KIND.open({**there, "ca": certificate()[0]}).check()
    assert first.status is (CheckStatus.OK if mode == "required" else CheckStatus.FAILED)
    if mode != "required":
        assert "certificate verify failed" in first.detail
    (first, *_) = KIND.open({**there, "host": oracle_source.host, "ca": oracle_source.ca}).check()
    if mode == "verify_identity":  # the driver knows names, and no addresses
        assert "The name on the server certificate does not match" in first.detail


def execute(place: OraclePlace, statement: str) -> None:
    with place.session.cursor() as cursor:
        cursor.execute(statement)


def check_an_open_transaction_is_read_whole(place: OraclePlace, server: EmbeddedOracle) -> None:
    """It begins in one range of the log and ends in another, which another reader reads."""
    place.run(KEYED)
    start = place.follow("t")
    with closing(server.connect()) as other, other.cursor() as cursor:
        cursor.execute(f'INSERT INTO "{place.name}"."t" VALUES (1, \'open\')')
        place.run("INSERT INTO @.t VALUES (2, 'x')")
        messages = place.read(start)
        assert changes(messages, "id") == [("INSERT", 2)]
        (*_, last) = (m.offset for m in messages if isinstance(m, Commit))
        cursor.execute(f'INSERT INTO "{place.name}"."t" VALUES (3, \'still\')')
        other.commit()
    assert changes(place.read(KIND.parse_offset(last.to_dict())), "id") == [("INSERT", 1), ("INSERT", 3)]


def test_a_transaction_that_stays_open_is_whole_after_a_restart_in_its_middle(
    place: OraclePlace, oracle_source: EmbeddedOracle
) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/sutil/oracle-logminer-utility.html: with
    COMMITTED_DATA_ONLY, rows before STARTSCN are not there."""
    check_an_open_transaction_is_read_whole(place, oracle_source)


def test_rows_are_read_over_switches_of_the_log(place: OraclePlace) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/V-ARCHIVED_LOG.html: a file's SCNs
    are those from FIRST_CHANGE# to below NEXT_CHANGE#."""
    place.run(KEYED)
    start = place.follow("t")
    for number in range(4):
        place.run(f"INSERT INTO @.t VALUES ({number}, 'x')")
        execute(place, "ALTER SYSTEM SWITCH LOGFILE")
    assert changes(place.read(start), "id") == [("INSERT", number) for number in range(4)]


def test_columns_that_their_owner_made_invisible_are_read_as_any_other(place: OraclePlace) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/ALL_TAB_COLS.html: they are hidden, and
    generated by the user; columns of the server are hidden, and are not."""
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v varchar(9) INVISIBLE, w varchar(9))")
    place.run("INSERT INTO @.t (id, v, w) VALUES (1, 'a', 'b')")
    with place.session.cursor() as cursor:
        assert cursor.execute(spelled("SELECT * FROM @.t", place.name)).fetchall() == [(1, "b")]
    start = place.follow("t")
    with closing(place.source.snapshot_reader("contract", ReadOptions())) as reader:
        (batch,) = reader.read_chunk(place.table("t"), KeyRange()).batches
        assert batch.to_pylist() == [{"id": 1, "v": "a", "w": "b"}]
    place.run("UPDATE @.t SET v = 'c'", "ALTER TABLE @.t MODIFY (v VISIBLE)", "ALTER TABLE @.t MODIFY (w INVISIBLE)")
    place.run("INSERT INTO @.t (id, v, w) VALUES (2, 'd', 'e')")
    found = place.read(start)
    assert changes(found, "id", "v", "w") == [("UPDATE", 1, "c", "b"), ("INSERT", 2, "d", "e")]
    assert not [one for one in found if isinstance(one, SchemaChange | TableFailed)]
    pair = TablePair(place.name, "t", "", "")
    independent = OracleReader(place.config)
    with independent.reading(pair):
        columns = independent.describe(pair, "null").columns
    independent.close()
    assert {column.name for column, _ in columns} == {"id", "v", "w"}


def test_archived_logs_alone_are_read_up_to_the_last_switch(archived: ArchivedPlace) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/ARCHIVE_LAG_TARGET.html: forces one."""
    archived.run(KEYED)
    start = archived.follow("t")
    archived.run("INSERT INTO @.t VALUES (1, 'x')")
    execute(archived, "ALTER SYSTEM SWITCH LOGFILE")
    archived.run("INSERT INTO @.t VALUES (2, 'x')")
    found: list[LogMessage] = []
    for message in archived.messages(start):
        found.append(message)
        if isinstance(message, Commit):
            break
    assert changes(found, "id") == [("INSERT", 1)]


def test_a_log_that_is_gone_is_named(place: OraclePlace, oracle_source: EmbeddedOracle) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/V-ARCHIVED_LOG.html: DELETED says that
    RMAN has deleted it."""
    place.run(KEYED)
    start = place.follow("t")
    for _ in range(5):  # more than there are groups: the first one is overwritten
        place.run("DELETE FROM @.t")
        execute(place, "ALTER SYSTEM SWITCH LOGFILE")
    oracle_source.delete_archived()
    with pytest.raises(LogPurged, match=r"the archived log of thread 1, sequence \d+, is gone"):
        next(iter(place.messages(start)))
    held = place.source.log("contract").held(start)  # type: ignore[attr-defined]
    assert held.lost


def test_what_is_not_set_up_is_told_with_the_sql_for_it(tmp_path: Path) -> None:
    """Each remedy is pasted, and its check passes then.

    https://docs.oracle.com/en/database/oracle/oracle-database/19/sutil/oracle-logminer-utility.html,
    "Supplemental Logging": minimal for the database, all columns for each table.
    """
    server = EmbeddedOracle(tmp_path)
    server.start()
    try:
        with closing(server.connect()) as session, session.cursor() as cursor:
            cursor.execute('CREATE USER "SHOP" IDENTIFIED BY a1 QUOTA UNLIMITED ON users')
            cursor.execute('CREATE TABLE "SHOP"."T" ("ID" NUMBER(9) PRIMARY KEY, "V" VARCHAR2(10))')
            source = KIND.open(server.address)
            with pytest.raises(SourceMisconfigured, match="Supplemental logging is off") as refused:
                source.log("r").state()
            assert refused.value.remedy == "ALTER DATABASE ADD SUPPLEMENTAL LOG DATA;"
            tables = TableSet(tables=frozenset({TableId("SHOP", "T")}))
            for name in ("supplemental_min", "supplemental_tables"):
                failed = one_of(source.check(tables), name)
                assert failed.status is CheckStatus.FAILED
                cursor.execute(failed.remedy.partition(";")[0])
                assert one_of(source.check(tables), name).status is CheckStatus.OK
            source.close()
    finally:
        server.stop()


def one_of(checks: list[CheckResult], name: str) -> CheckResult:
    return next(one for one in checks if one.name == name)


def test_a_server_that_goes_on_is_read_on_and_another_past_of_it_is_told_from_the_one_that_was_read(
    oracle: EmbeddedOracle, minimal: OraclePlace, tmp_path: Path
) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/bradv/rman-data-repair-concepts.html, "Database
    Incarnations": OPEN RESETLOGS begins another log, whose sequences begin with 1; what was archived of the one before
    holds up to there."""

    def put(folder: Path, to: Path, *, reset: bool = False) -> None:
        oracle.stop()
        copied(folder, to)
        if reset:
            oracle.reset_logs()
        oracle.start()
        minimal.session, minimal.source = oracle.connect(), KIND.open(oracle.address)

    data, copy = oracle.folder / "data", tmp_path / "copy"
    start = minimal.follow("t")
    minimal.run("INSERT INTO @.t VALUES (1, 'kept')")
    messages = minimal.messages(start)
    assert changes([next(m for m in messages if isinstance(m, ChangeBatch))], "v") == [("INSERT", "kept")]
    put(data, copy)
    with pytest.raises(SourceUnreachable):
        for _ in messages:
            pass
    minimal.run("INSERT INTO @.t VALUES (2, 'lost')")
    told = minimal.read(start)
    assert changes(told, "v") == [("INSERT", "kept"), ("INSERT", "lost")]
    read = next(m.offset for m in reversed(told) if isinstance(m, Commit))
    put(copy, data, reset=True)
    with pytest.raises(SourceReplaced, match="was opened with RESETLOGS at SCN"):
        next(minimal.messages(read))
    minimal.run("INSERT INTO @.t VALUES (3, 'new')")
    assert changes(minimal.read(start), "v") == [("INSERT", "kept"), ("INSERT", "new")]
    put(copy, data)  # as it was, and no RESETLOGS: the same SCNs come again
    while minimal.source.log("contract").state().offset < read:
        minimal.run("UPDATE @.t SET v = 'other'")
    with pytest.raises(SourceReplaced, match="was set back"):
        next(minimal.messages(read))
    minimal.close()


def test_a_quiet_log_is_not_mined_until_something_is_written(
    place: OraclePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "_QUIET", SECONDS)
    monkeypatch.setattr(log_reader, "_POLL", 0.01)
    mined, mine = list[int](), MiningSession.mine

    def counted(session: MiningSession, *given: Any) -> Iterator[Any]:
        mined.append(1)
        return mine(session, *given)

    monkeypatch.setattr(MiningSession, "mine", counted)
    place.run(KEYED)
    messages = place.messages(place.follow("t"))
    before = -1
    while len(mined) != before:  # other tests write there, too
        before = len(mined)
        for _ in range(5):
            assert isinstance(next(messages), Heartbeat)
    place.run("INSERT INTO @.t VALUES (1, 'x')")
    found = next(message for message in messages if not isinstance(message, Heartbeat))
    assert changes([found], "id") == [("INSERT", 1)]


def test_rows_without_all_columns_stop_their_table_with_the_sql_for_it(minimal: OraclePlace) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/sutil/oracle-logminer-utility.html,
    "Supplemental Logging": without it an UPDATE's row has the columns alone that changed."""
    minimal.run("INSERT INTO @.t VALUES (1, 'x')")
    start = minimal.follow("t")
    minimal.run("UPDATE @.t SET v = 'y' WHERE id = 1")
    (failed,) = (m for m in _up_to_a_commit(minimal, start) if isinstance(m, TableFailed))
    assert failed.error.remedy.startswith(f'ALTER TABLE "{minimal.name}"."t" ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS')
    minimal.close()


@pytest.mark.parametrize("kept", [False, True])
def test_rows_of_a_definition_before_the_one_that_was_told_make_their_table_be_read_again(
    minimal: OraclePlace, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """CREATE TABLE is described with a column that ALTER TABLE adds after LogMiner has shown the rows between: they
    lack it, and supplemental logging does not."""
    describe, place = log_reader.LogMinerReader._describe, minimal
    start = place.follow("u")
    late = [f'ALTER TABLE "{place.name}"."u" ADD ("n" int)']

    def with_what_comes_later(reader: log_reader.LogMinerReader, table: TableId) -> Any:
        if table.name == "u" and late:
            execute(place, late.pop())
        return describe(reader, table)

    monkeypatch.setattr(log_reader.LogMinerReader, "_describe", with_what_comes_later)
    place.run("CREATE TABLE @.u (id int PRIMARY KEY)", "INSERT INTO @.u (id) VALUES (1)", "UPDATE @.u SET id = 2")
    place.schemas = {}
    reader = place.source.log_reader("contract", ReadOptions(keep_undecodable=kept))
    told = list[tuple[Ddl, bool] | list[tuple[Any, ...]]]()
    for message in reader.read(start, place.tables, place.schemas):
        assert not isinstance(message, TableFailed | UndecodableRows), message
        if isinstance(message, SchemaChange):
            told.append((message.operation, message.reload))
            if message.statement.startswith("ALTER"):
                place.run("INSERT INTO @.u (id, n) VALUES (3, 4)")
        if isinstance(message, ChangeBatch):
            told.append(changes([message], "id", "n"))
            break
    created, added = Ddl.CREATE_TABLE, Ddl.ALTER_TABLE
    assert told == [(created, False), (added, True), (added, False), [("INSERT", 3, 4)]]
    reader.close()
    place.close()


def _rename(place: OraclePlace, before: str, after: str) -> str:
    return f'ALTER TABLE "{place.name}"."{before}" RENAME TO "{after}"'


@pytest.mark.parametrize("swapped", [False, True])
def test_rows_whose_name_has_gone_since_logminer_gave_it_make_their_table_be_read_again(
    minimal: OraclePlace, monkeypatch: pytest.MonkeyPatch, *, swapped: bool
) -> None:
    """The online catalog names rows when they are mined; they are described a moment later.  Their object number says
    whose they are."""
    describe, place = log_reader.LogMinerReader._describe, minimal
    place.run("CREATE TABLE @.u (id int PRIMARY KEY, v VARCHAR2(9))", "CREATE TABLE @.w (id int PRIMARY KEY)")
    start = place.follow("t", "u")

    late = [_rename(place, "t", "x")] + [_rename(place, "u", "t"), _rename(place, "x", "u")] * swapped

    def with_what_comes_later(reader: log_reader.LogMinerReader, table: TableId) -> Any:
        while late:
            place.run(late.pop(0))
        return describe(reader, table)

    monkeypatch.setattr(log_reader.LogMinerReader, "_describe", with_what_comes_later)
    place.tables = TableSet(databases=frozenset({place.name}))
    place.run("INSERT INTO @.t VALUES (1, 'x')", "INSERT INTO @.u VALUES (2, 'y')")
    told, rows, again = [], [], set[str]()
    for message in place.messages(start):
        if isinstance(message, ChangeBatch):
            rows += [(message.table.name, *row) for row in changes([message], "id")]
        if isinstance(message, SchemaChange):
            again |= {message.table.name} if message.reload else set()
            if message.new_table is not None:
                told.append((message.table.name, message.new_table.name))
                again |= {message.new_table.name} if message.table.name in again else set()
        if len(told) == 1 + 2 * swapped and isinstance(message, Commit):
            break
    assert told == [("t", "x")] + [("u", "t"), ("x", "u")] * swapped
    assert rows == [] if swapped else [("u", "INSERT", 2)]
    assert again >= ({"t", "u"} if swapped else {"x"})
    minimal.close()


def test_rows_of_an_earlier_definition_are_so_after_a_rename_too(
    minimal: OraclePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is described under its first name, which it has again; LogMiner shows rows between the two renames."""
    describe, place = log_reader.LogMinerReader._describe, minimal
    start = place.follow("u")

    late = [_rename(place, "w", "u"), 'ALTER TABLE @.w ADD ("n" int)']

    def with_what_comes_later(reader: log_reader.LogMinerReader, table: TableId) -> Any:
        while table.name == "u" and late:
            place.run(late.pop())
        return describe(reader, table)

    monkeypatch.setattr(log_reader.LogMinerReader, "_describe", with_what_comes_later)
    place.tables = TableSet(tables=frozenset({place.table("u"), place.table("w")}))
    place.run("CREATE TABLE @.u (id int PRIMARY KEY)", _rename(place, "u", "w"), "INSERT INTO @.w (id) VALUES (1)")
    place.schemas = {}
    told = list[tuple[Ddl, str, bool] | list[tuple[Any, ...]]]()
    for message in place.messages(start):
        assert not isinstance(message, TableFailed | UndecodableRows), message
        if isinstance(message, SchemaChange):
            told.append((message.operation, message.table.name, message.reload))
            if told[-1][:2] == (Ddl.RENAME_TABLE, "w"):
                place.run("INSERT INTO @.u (id, n) VALUES (3, 4)")
        if isinstance(message, ChangeBatch):
            told.append(changes([message], "id", "n"))
            break
    assert told == [
        (Ddl.CREATE_TABLE, "u", False), (Ddl.RENAME_TABLE, "u", False), (Ddl.ALTER_TABLE, "w", True),
        (Ddl.RENAME_TABLE, "w", False), [("INSERT", 3, 4)],
    ]  # fmt: skip
    place.close()


def test_a_table_that_was_refused_and_is_gone_is_told_of_as_dropped(minimal: OraclePlace) -> None:
    start = minimal.follow("t")
    minimal.tables = TableSet(databases=frozenset({minimal.name}))
    minimal.run("CREATE TABLE @.refused (v LONG)")
    told: list[tuple[TableId, Ddl | None]] = []
    for message in minimal.messages(start):
        if isinstance(message, TableFailed):
            told.append((message.table, None))
            minimal.run("DROP TABLE @.refused")
        if isinstance(message, SchemaChange):
            told.append((message.table, message.operation))
            break
    assert told == [(minimal.table("refused"), None), (minimal.table("refused"), Ddl.DROP_TABLE)]
    minimal.close()


def _up_to_a_commit(place: OraclePlace, start: Any) -> Iterator[LogMessage]:
    for message in place.messages(start):
        yield message
        if isinstance(message, Commit):
            return


def test_a_reader_that_is_closed_by_another_thread_ends(place: OraclePlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    reader = place.source.log_reader("contract", ReadOptions())
    messages = reader.read(start, place.tables, place.schemas)
    next(iter(messages))
    closing_thread = threading.Thread(target=reader.close)
    closing_thread.start()
    with pytest.raises(SourceUnreachable):
        for _ in messages:
            pass
    closing_thread.join(20)
    assert not closing_thread.is_alive()


def test_a_table_that_took_anothers_name_before_the_start_is_followed(minimal: OraclePlace) -> None:
    """The log gives that name away once more: what is known of it is the other's."""
    place = minimal
    place.run("CREATE TABLE @.a (id int PRIMARY KEY)", "CREATE TABLE @.b (id int PRIMARY KEY)")
    start = place.follow("a", "b")
    for before, after in (("a", "c"), ("b", "a")):
        execute(place, _rename(place, before, after))
    place.tables = TableSet(tables=place.tables.tables, databases=frozenset({place.name}))
    right, known = ({t: s.identity for t, s in place.described(*names).items()} for names in (("a", "c", "t"), ("a",)))
    reader, reloaded = place.source.log_reader("contract", ReadOptions()), set()
    for message in reader.read(start, place.tables, place.described("a")):
        if isinstance(message, Heartbeat):
            place.mark()  # as chunks write
        if isinstance(message, SchemaChange):
            known.pop(message.table, None)
            if message.schema is not None:
                known[message.new_table or message.table] = message.schema.identity
            reloaded |= {message.new_table or message.table} if message.reload else set()
        if known == right:
            break
    assert reloaded == set(right)
    reader.close()
    place.close()


def test_tables_that_were_described_after_they_swapped_names_are_told_apart_by_rows_that_were_read(
    minimal: OraclePlace,
) -> None:
    """A replicator starts behind renames, with definitions of now: its log gives the names once more.  Of one pair, the
    columns are alike, too."""
    place, swaps = minimal, (("t", "s"), ("u", "w"))
    place.run("CREATE TABLE @.s (id int PRIMARY KEY, n int)")
    place.run("CREATE TABLE @.u (id int PRIMARY KEY)", "CREATE TABLE @.w (id int PRIMARY KEY)")
    start = place.follow("t", "s", "u", "w")
    for one, other in swaps:
        for before, after in ((one, "x"), (other, one), ("x", other)):
            execute(place, _rename(place, before, after))
    place.tables = TableSet(tables=place.tables.tables, databases=frozenset({place.name}))
    place.schemas = right = place.described("t", "s", "u", "w")
    reader = place.source.log_reader("contract", ReadOptions())
    known, seen = dict(place.schemas), list[SchemaChange]()
    messages = reader.read(start, place.tables, place.schemas)
    for message in messages:
        if isinstance(message, Heartbeat):
            place.mark()  # as chunks write
            if None not in [reader.learned(schema, known[table]) for table, schema in right.items()]:
                break
        if not isinstance(message, SchemaChange):
            continue
        seen.append(message)
        if message.operation is Ddl.RENAME_TABLE:
            del known[message.table]
        assert message.schema is not None
        known[message.new_table or message.table] = message.schema
    assert {table: schema.identity for table, schema in known.items()} == {
        table: schema.identity for table, schema in right.items()
    }
    assert {one.table for one in seen if one.reload} == set(right)
    for number, table in enumerate("tsuw"):
        place.run(f"INSERT INTO @.{table} (id) VALUES ({number})")
    found: dict[str, int] = {}
    for message in messages:
        if isinstance(message, ChangeBatch):
            found |= {message.table.name: message.data.column("id")[0].as_py()}
        if len(found) == len(right):
            break
    assert found == {"t": 0, "s": 1, "u": 2, "w": 3}
    reader.close()
    place.close()
