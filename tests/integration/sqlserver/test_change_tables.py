"""What a reader of change tables must know beyond the contract: definitions, instances, cleanup, the job, types.

On the emulator (testing/servers/sqlserver), with the habits that real servers have.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from replicator.errors import (
    LogPurged,
    SourceMisconfigured,
    SourceReplaced,
    SourceUnreachable,
    TableDisappeared,
    TableError,
    UnsupportedEngine,
)
from replicator.model.change import ChangeBatch, Commit, Ddl, LogMessage, SchemaChange, TableFailed, Watermark
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckStatus, KeyRange, ReadOptions
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import connect
from replicator.sources.sqlserver.offset import LsnOffset
from replicator.sources.sqlserver.stream import capture_instances
from tests.contract.place import REPLICATOR, changes
from tests.contract.sqlserver import SqlServerPlace, captured_database
from tests.integration.sqlserver.emulated import last, told
from tests.integration.sqlserver.variants import VARIANTS, insert_variants

pytestmark = pytest.mark.integration
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v nvarchar(20))"


@pytest.fixture
def place(place: SqlServerPlace) -> SqlServerPlace:
    for habit in ("seqval_disorder", "unordered"):
        place.session.run(f"EXEC sp_emulator @name = 'habit', @value = '{habit}', @on = 1", "emulator")
    return place


def instances(place: SqlServerPlace, table: str = "t") -> list[str]:
    rows = place.session.rows(
        f"SELECT capture_instance FROM cdc.change_tables WHERE source_object_id = OBJECT_ID(N'{place.name}.{table}') "
        "ORDER BY create_date, object_id",
        place.name,
    )
    return [str(name) for (name,) in rows]


def until(place: SqlServerPlace, start: Any, done: Any) -> list[LogMessage]:
    """Messages up to the commit after the first for which `done` is true; confirmed as they are durable."""
    reader, found, hit = place.source.log_reader(REPLICATOR, ReadOptions()), list[LogMessage](), False
    for message in reader.read(start, place.tables, place.schemas):
        found.append(message)
        hit = hit or done(message)
        if isinstance(message, Commit):
            reader.confirm(message.offset)
        if hit and isinstance(message, Commit | TableFailed):
            break
    reader.close()
    return found


def test_an_added_column_comes_through_a_second_instance_and_rows_between_are_read_again(
    place: SqlServerPlace,
) -> None:
    """learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server,
    "Handling changes to source tables": new columns are ignored, and a second instance has them.
    """
    place.run(KEYED)
    start = place.follow("t")
    (first,) = instances(place)
    place.session.run(f"ALTER TABLE {place.name}.t ADD w int", place.name)
    place.run("INSERT INTO @.t VALUES (1, N'a', 7)")  # its w is in no change table
    messages = until(place, start, lambda one: isinstance(one, SchemaChange) and one.reload)
    assert told(messages) == [("INSERT", 1, None), (Ddl.ALTER_TABLE, True)]
    change = next(one for one in messages if isinstance(one, SchemaChange))
    assert change.schema is not None
    assert change.schema.names == ("id", "v", "w")
    assert "ADD w" in change.statement
    place.run("INSERT INTO @.t VALUES (2, N'b', 8)")
    place.schemas = place.described("t")
    after = next(one for one in reversed(messages) if isinstance(one, Commit)).offset
    later = until(place, after, lambda one: isinstance(one, ChangeBatch))
    assert ("INSERT", 2, 8) in told(later)
    (second,) = set(instances(place)) - {first}
    assert second.startswith("tidemark_")


def test_two_instances_of_the_user_and_a_new_column_fail_the_connection_test(
    place: SqlServerPlace,
) -> None:
    """learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql: two
    instances at most.
    """
    place.run(KEYED)
    names = [f"{place.name}_mine_{n}" for n in (1, 2)]
    for name in names:
        place.session.run(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{place.name}', @source_name = N't', @role_name = NULL, "
            f"@capture_instance = N'{name}'",
            place.name,
        )
    place.follow("t")
    assert instances(place) == names  # they are taken as they are
    place.session.run(f"ALTER TABLE {place.name}.t ADD w int", place.name)
    (check,) = [one for one in place.source.check(place.tables) if one.name == "captured"]
    assert check.status is CheckStatus.FAILED
    assert "sp_cdc_disable_table" in check.remedy
    assert names[0] in check.remedy


def test_rows_from_before_the_newest_instance_come_through_the_one_before(place: SqlServerPlace) -> None:
    """A worker described the table by an instance that another one had made meanwhile (seed 831, history 0); both are
    filled (learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server).
    """
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    place.session.run(
        f"EXEC sys.sp_cdc_enable_table @source_schema = N'{place.name}', @source_name = N't', @role_name = NULL, "
        f"@capture_instance = N'{place.name}_second'",
        place.name,
    )
    place.run("INSERT INTO @.t VALUES (2, N'b')")
    place.schemas = place.described("t")
    assert changes(place.read(start), "id") == [("INSERT", 1), ("INSERT", 2)]


def test_an_instance_that_was_dropped_is_made_again_and_the_table_is_read_again(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-disable-table-transact-sql."""
    place.run(KEYED)
    start = place.follow("t")
    (name,) = instances(place)
    place.session.run(
        f"EXEC sys.sp_cdc_disable_table @source_schema = N'{place.name}', @source_name = N't', @capture_instance = "
        f"N'{name}'",
        place.name,
    )
    place.run("TRUNCATE TABLE @.t", "INSERT INTO @.t VALUES (1, N'unseen')")
    messages = until(place, start, lambda one: isinstance(one, SchemaChange) and one.reload)
    assert told(messages) == [(Ddl.ALTER_TABLE, True)]
    assert len(instances(place)) == 1


def test_changes_that_the_cleanup_job_has_removed_are_missed_and_said(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-cleanup-change-table-transact-sql:
    start_lsn moves up to @low_water_mark.
    """
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    messages = place.read(start)
    end = next(one for one in reversed(messages) if isinstance(one, Commit)).offset
    assert isinstance(end, LsnOffset)
    (name,) = instances(place)
    place.session.run(
        f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'{name}', @low_water_mark = 0x{end.lsn.hex()}",
        place.name,
    )
    with pytest.raises(LogPurged, match="cleanup job"):
        place.read(start)
    assert changes(place.read(end), "id") == []  # what was read may be purged


def test_another_past_of_the_database_is_recognised(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql: tran_id."""
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    end = last(place, start)
    assert end.commit is not None
    stored = end.to_dict()
    stored["commit"]["transaction"] = "0000000000AA"
    with pytest.raises(SourceReplaced, match="restored from an older backup"):
        place.read(place.kind.parse_offset(stored))


def test_a_commit_where_the_log_had_none_when_it_was_read_is_another_past(place: SqlServerPlace) -> None:
    """Where a capture instance took over, reading stands beyond the last commit; so it does until the next one."""
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    first = last(place, start)
    place.run("INSERT INTO @.t VALUES (2, N'b')")
    second = last(place, first)
    assert isinstance(first, LsnOffset)
    assert isinstance(second, LsnOffset)
    place.run("INSERT INTO @.t VALUES (3, N'c')")
    with pytest.raises(SourceReplaced, match="where it had none"):
        place.read(LsnOffset(second.lsn, first.commit))


def test_times_of_commits_are_those_of_the_server_s_zone_at_that_time(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql: tran_end_time;
    learn.microsoft.com/sql/t-sql/queries/at-time-zone-transact-sql.
    """
    place.session.run("EXEC sp_emulator @name = 'habit', @value = 'zone W. Europe Standard Time', @on = 1", "emulator")
    place.run(KEYED)
    start = place.follow("t")
    for number in (1, 2):
        place.run(f"INSERT INTO @.t VALUES ({number}, N'a')")
    assert len(changes(place.read(start), "id")) == 2
    (name,) = instances(place)
    lsns = f"(SELECT [__$start_lsn] FROM cdc.[{name}_CT] WHERE id = "
    for number, local in ((1, "2026-07-01 12:30:00"), (2, "2026-12-01 12:30:00")):
        place.session.run(
            f"UPDATE cdc.lsn_time_mapping SET tran_end_time = '{local}' WHERE start_lsn = {lsns}{number})", place.name
        )
    try:
        times = [row[2] for row in changes(place.read(start), "id", "_commit_ts")]
    finally:
        place.session.run(
            "EXEC sp_emulator @name = 'habit', @value = 'zone W. Europe Standard Time', @on = 0", "emulator"
        )
    assert [str(time) for time in times] == ["2026-07-01 10:30:00+00:00", "2026-12-01 11:30:00+00:00"]


def test_a_transaction_larger_than_a_window_is_one_commit_within_bounds(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql: all changes of a
    transaction have its commit LSN as __$start_lsn.
    """
    place.run(KEYED, "CREATE TABLE @.u (id int PRIMARY KEY, v nvarchar(20))")
    start = place.follow("t", "u")
    rows = ", ".join(f"({n}, N'row {n}')" for n in range(900))
    place.run(f"INSERT INTO @.t VALUES {rows}", f"INSERT INTO @.u VALUES {rows}", "UPDATE @.t SET v = N'x'")
    token, sizes, seen = place.mark(), list[int](), 0
    reader = place.source.log_reader(REPLICATOR, ReadOptions(batch_rows=100))
    for message in reader.read(start, place.tables, place.schemas):
        if isinstance(message, ChangeBatch):
            sizes.append(message.data.num_rows)
        elif isinstance(message, Commit):
            seen += bool(sizes)
        if isinstance(message, Watermark) and message.token == token:
            break
    reader.close()
    assert sum(sizes) == 2700
    assert max(sizes) <= 100
    assert seen == 1


def test_every_type_is_the_same_from_the_log_and_from_a_snapshot(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/t-sql/data-types/data-types-transact-sql."""
    types = {
        "a": ("tinyint", "255"), "b": ("bigint", "-9223372036854775808"), "c": ("bit", "1"),
        "d": ("decimal(38,10)", "-1234567890123456789012345678.0123456789"), "e": ("money", "-922337203685477.5808"),
        "f": ("smallmoney", "214748.3647"), "g": ("float", "1e-300"), "h": ("real", "3.4028235e38"),
        "i": ("date", "'0001-01-01'"), "j": ("datetime", "'2026-01-02 03:04:05.007'"),
        "k": ("smalldatetime", "'2026-01-02 03:04'"), "l": ("datetime2(7)", "'9999-12-31 23:59:59.9999999'"),
        "m": ("datetime2(3)", "'2026-01-02 03:04:05.123'"),
        "n": ("datetimeoffset(7)", "'2026-01-02 03:04:05.1234567 -05:30'"),
        "o": ("time(7)", "'23:59:59.9999999'"), "p": ("char(5)", "'ab'"), "q": ("varchar(max)", "N'Ünï'"),
        "r": ("nvarchar(50)", "N'\U0001f600 \u4e2d'"), "s": ("binary(4)", "0x01"), "t": ("varbinary(max)", "0x00ff00"),
        "u": ("uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'"), "v": ("xml", "N'<a>1</a>'"),
        "w": ("ntext", "N'old'"), "x": ("rowversion", ""), "y": ("datetime2(0)", "'2026-01-02 03:04:05'"),
    }  # fmt: skip
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in types.items())
    given = {name: value for name, (_, value) in types.items() if value}
    place.run(f"CREATE TABLE @.t (id int PRIMARY KEY, {columns}, twice AS (id * 2), z sql_variant)")
    start = place.follow("t")
    place.run(
        f"INSERT INTO @.t (id, {', '.join(given)}) VALUES (1, {', '.join(given.values())})",
        "INSERT INTO @.t (id) VALUES (2)",
    )
    insert_variants(place, "z", 3)
    schema = place.schemas[place.table("t")]
    assert "twice" not in schema.names
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    read = [row for batch in reader.read_chunk(place.table("t"), KeyRange()).batches for row in batch.to_pylist()]
    reader.close()
    names = schema.names
    logged = [dict(zip(names, row[1:], strict=True)) for row in changes(place.read(start), *names)]
    assert logged == read
    shown = {name: str(read[0][name]) for name in ("d", "e", "l", "n", "o", "u", "j")}
    assert shown == {
        "d": "-1234567890123456789012345678.0123456789", "e": "-922337203685477.5808",
        "l": "9999-12-31 23:59:59.9999999", "n": "2026-01-02 03:04:05.1234567 -05:30", "o": "23:59:59.9999999",
        "u": "6F9619FF-8B86-D011-B42D-00C04FC964FF", "j": "2026-01-02 03:04:05.007000",
    }  # fmt: skip
    assert [row["z"] for row in read] == [None, None, *(text for _, text in VARIANTS)]


def test_alias_types_and_sysname_are_the_types_behind_them(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/t-sql/statements/create-type-transact-sql, and of sysname
    learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-types-transact-sql.
    """
    kinds = {"code": "varchar(20) NOT NULL", "price": "decimal(12,3)", "moment": "datetime2(3)"}
    kinds["words"] = "nvarchar(max)"
    for name, base in kinds.items():
        place.session.run(f"CREATE TYPE {place.name}.{name} FROM {base}", place.name)
    columns = ", ".join(f"{name} {place.name}.{name}" for name in kinds)
    place.run(f"CREATE TABLE @.t (id sysname PRIMARY KEY, {columns}, other sysname NULL)")
    start = place.follow("t")
    values = "N'k\u00e4', '\u00fc', -1.500, '2026-01-02 03:04:05.123', N'\u4e2d', N'o'"
    place.run(f"INSERT INTO @.t VALUES ({values})", "INSERT INTO @.t (id, code) VALUES (N'l', '')")
    schema = place.schemas[place.table("t")]
    assert [(str(one.type), one.source_type, one.nullable) for one in schema.columns] == [
        ("string", "nvarchar(128)", False), ("string", "code", False), ("decimal(12,3)", "price", True),
        ("timestamp_ntz", "moment", True), ("string", "words", True), ("string", "nvarchar(128)", True),
    ]  # fmt: skip
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    chunk = reader.read_chunk(place.table("t"), KeyRange())
    read = [tuple(row.values()) for batch in chunk.batches for row in batch.to_pylist()]
    reader.close()
    logged = [row[1:] for row in changes(place.read(start), *schema.names)]
    assert sorted(logged) == sorted(read)
    assert logged[0][:3] == ("k\u00e4", "\u00fc", Decimal("-1.500"))
    place.session.run(f"ALTER TABLE {place.name}.t ALTER COLUMN other nvarchar(200)", place.name)
    assert place.described("t")[place.table("t")].columns[-1].source_type == "nvarchar(200)"
    (one,) = [one for one in place.source.check(place.tables) if one.name == "definitions"]
    assert one.status is CheckStatus.OK
    place.session.run(f"DROP TABLE {place.name}.t", place.name)
    for name in kinds:
        place.session.run(f"DROP TYPE {place.name}.{name}", place.name)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("uniqueidentifier", [f"'{n:02x}000000-0000-0000-0000-0000000000{99 - n:02x}'" for n in range(20)]),
        ("nvarchar(20) COLLATE Latin1_General_CI_AS", [f"N'{'aB'[n % 2]}{n:02}'" for n in range(20)]),
        ("varchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS", [f"'{'Ab'[n % 2]}-{n:02}'" for n in range(20)]),
        ("datetime2(7)", [f"'2026-01-01 00:00:00.00000{n:02}'" for n in range(20)]),
        ("int", [str(n * 7 + 1) for n in range(20)]),
        ("varbinary(8)", [f"0x{n * 7 % 20:02x}" for n in range(20)]),
        ("float", [f"{n}.1e-3" for n in range(20)]),
    ],
)  # fmt: skip
def test_ranges_follow_the_server_s_own_order_of_keys(place: SqlServerPlace, key: str, values: list[str]) -> None:
    """Of uniqueidentifier: learn.microsoft.com/sql/t-sql/data-types/uniqueidentifier-transact-sql."""
    place.run(f"CREATE TABLE @.t (k0 {key} PRIMARY KEY, n int)")
    place.run("INSERT INTO @.t (k0, n) VALUES " + ", ".join(f"({value}, {n})" for n, value in enumerate(values)))
    place.follow("t")
    table, reader = place.table("t"), place.source.snapshot_reader(REPLICATOR, ReadOptions())
    end, after, seen = reader.end_key(table), None, list[int]()
    assert end is not None
    while after != end:
        bound = reader.next_bound(table, after, end, 6)
        chunk = reader.read_chunk(table, KeyRange(after, bound))
        part = [row["n"] for batch in chunk.batches for row in batch.to_pylist()]
        assert 0 < len(part) <= 6
        seen += part
        after = bound
    reader.close()
    assert sorted(seen) == list(range(20))


@pytest.mark.parametrize(("flag", "says"), [("memory", "memory-optimised"), ("history", "history table")])
def test_tables_that_are_not_captured_are_refused_by_name(place: SqlServerPlace, flag: str, says: str) -> None:
    """Of history tables:
    learn.microsoft.com/sql/relational-databases/tables/temporal-table-considerations-and-limitations.
    """
    place.run(KEYED)
    flags = {"memory": ("memory", 1), "history": ("temporal", 1)}
    name, value = flags[flag]
    place.session.run(
        f"EXEC sp_emulator @name = 'flag', @table = '{place.name}.t', @value = '{name}', @on = {value}", place.name
    )
    (found,) = place.source.catalog().describe([place.table("t")]).values()
    assert isinstance(found, UnsupportedEngine)
    assert says in found.message


def test_a_table_that_was_refused_and_is_gone_is_told_of_as_dropped(place: SqlServerPlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    place.tables = TableSet(databases=frozenset({place.table("t").above}))
    place.run("CREATE TABLE @.refused (v image)")
    refused: list[TableFailed] = []
    for message in place.messages(start):
        if isinstance(message, TableFailed):
            refused.append(message)
            place.run("DROP TABLE @.refused")
        if refused and isinstance(message, SchemaChange):
            break
    assert [one.table for one in refused] == [message.table] == [place.table("refused")]
    assert message.operation is Ddl.DROP_TABLE


@pytest.mark.parametrize("goes", ["DROP TABLE @.t", "EXEC sp_rename '@.t', 'u'"])
def test_a_table_that_goes_before_it_is_captured_has_not_failed(place: SqlServerPlace, goes: str) -> None:
    place.run(KEYED)
    (found,) = SqlServerCatalog(place.session).details([place.table("t")]).values()
    assert isinstance(found, TableDescription)
    place.run(goes)
    with pytest.raises(TableDisappeared):
        capture_instances.enable(place.session, found)


def test_names_are_taken_as_the_database_compares_them(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/databases/database-identifiers."""
    place.run("CREATE TABLE @.Orders (Id int PRIMARY KEY)")
    table = place.source.names().table(TableId(place.name.upper(), "ORDERS"))
    (found,) = place.source.catalog().describe([table]).values()
    assert not isinstance(found, TableError)
    assert (found.table, found.names) == (TableId(place.name, "orders"), ("Id",))


def test_a_database_without_change_data_capture_and_a_stopped_agent_are_told_with_their_sql(
    place: SqlServerPlace, request: pytest.FixtureRequest
) -> None:
    """learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server: the
    capture process needs SQL Server Agent.
    """
    server = request.getfixturevalue("sqlserver")
    settings = captured_database(server, "plain")
    source = place.kind.open(settings)
    session = SqlServerPlace.live(settings).session
    session.run("EXEC sys.sp_cdc_disable_db", "plain")
    with pytest.raises(SourceMisconfigured) as caught:
        source.log(REPLICATOR).state()
    assert "USE [plain]; EXEC sys.sp_cdc_enable_db;" in caught.value.remedy
    failed = {one.name: one.remedy for one in source.check() if one.status is CheckStatus.FAILED}
    assert "sp_cdc_enable_db" in failed["cdc"]
    session.run("EXEC sys.sp_cdc_enable_db", "plain")
    session.run("EXEC sp_emulator @name = 'agent', @on = 0", "plain")
    try:
        (agent,) = [one for one in source.check() if one.name == "agent"]
        assert agent.status is CheckStatus.FAILED
        assert "sp_cdc_start_job" in agent.remedy
    finally:
        session.run("EXEC sp_emulator @name = 'agent', @on = 1", "plain")
        source.close()
        session.close()


# Forwards one connection to the given port, and stalls after 300,000 bytes from the server.
_STALLED = """
import socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def carry(source, sink, left):
    while data := source.recv(min(65536, left)):
        sink.sendall(data)
        left -= len(data)
        while not left:
            time.sleep(60)
threading.Thread(target=carry, args=(client, server, 1 << 40), daemon=True).start()
carry(server, client, 300_000)
"""


def test_a_server_that_stands_still_in_the_midst_of_a_value_is_left(
    place: SqlServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver holds the GIL meanwhile, so no other thread could end it; the stalled proxy is a separate process."""
    monkeypatch.setattr("replicator.sources.sqlserver.connection.SILENT_SECONDS", 2)  # 1 is none to the driver
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v nvarchar(max))")
    place.run("INSERT INTO @.t SELECT 1, REPLICATE(CAST(N'0123456789' AS nvarchar(max)), 100000)")
    command = [sys.executable, "-c", _STALLED, str(place.config["port"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        connection = connect(SqlServerConfig.parse({**place.config, "port": process.stdout.readline()}))
        with pytest.raises(SourceUnreachable, match="sent nothing for 2 s in the midst of a result"):
            connection.rows(f"SELECT v FROM {place.name}.t", "the server")
        assert not connection.open
        process.kill()


def test_marks_of_others_are_not_ours(place: SqlServerPlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    other = place.source.snapshot_reader("another", ReadOptions())
    other.mark("theirs")
    other.close()
    tokens = [one.token for one in place.read(start) if isinstance(one, Watermark)]
    assert "theirs" not in tokens
    assert all(later != earlier for earlier, later in itertools.pairwise(tokens))
