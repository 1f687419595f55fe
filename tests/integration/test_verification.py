"""Verification of a live MariaDB against tables that pyiceberg wrote: finds what differs, invents nothing."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

from replicator.verification import (
    CatalogConfig,
    DifferenceKind,
    Options,
    SourceConfig,
    TablePair,
    TableReport,
    compare,
)
from replicator.verification.mysql.reader import MySqlReader

Write = Callable[[str, pa.Table], None]
UTC = dt.UTC
FLOAT = struct.unpack("f", struct.pack("f", 0.1))[0]
# SQL type, literal in the source, Arrow type of the target's column, value there
TYPES: list[tuple[str, str, pa.DataType, Any]] = [
    ("tinyint", "-128", pa.int32(), -128),
    ("tinyint unsigned", "255", pa.int32(), 255),
    ("smallint", "-32768", pa.int32(), -32768),
    ("smallint unsigned", "65535", pa.int32(), 65535),
    ("mediumint", "-8388608", pa.int32(), -8388608),
    ("mediumint unsigned", "16777215", pa.int32(), 16777215),
    ("int", "-2147483648", pa.int32(), -2147483648),
    ("int unsigned", "4294967295", pa.int64(), 4294967295),
    ("int(10) unsigned zerofill", "42", pa.int64(), 42),
    ("bigint", "-9223372036854775808", pa.int64(), -(2**63)),
    ("bigint unsigned", "18446744073709551615", pa.decimal128(20, 0), Decimal(2**64 - 1)),
    ("decimal(10,2)", "-0.05", pa.decimal128(10, 2), Decimal("-0.05")),
    ("decimal(5,0)", "0", pa.decimal128(5, 0), Decimal(0)),
    ("decimal(38,20)", "-123456789012345678.00000000000000000001", pa.decimal128(38, 20),
     Decimal("-123456789012345678.00000000000000000001")),
    ("decimal(38,10)", "0.0000000001", pa.decimal128(38, 10), Decimal("0.0000000001")),
    ("decimal(65,30)", "1.5", pa.string(), "1.500000000000000000000000000000"),
    ("float", "0.1", pa.float32(), FLOAT),
    ("float", "-16777217", pa.float32(), -16777216.0),
    ("float(7,3)", "1.5", pa.float32(), 1.5),
    ("double", "0.1", pa.float64(), 0.1),
    ("double(10,2)", "0.1", pa.float64(), 0.1),
    ("double", "-1.7976931348623157e308", pa.float64(), -1.7976931348623157e308),
    ("bit(1)", "b'1'", pa.bool_(), True),
    ("bit(9)", "b'100000001'", pa.int64(), 257),
    ("bit(64)", "18446744073709551615", pa.decimal128(20, 0), Decimal(2**64 - 1)),
    ("char(5)", "'ab  '", pa.string(), "ab"),
    ("varchar(20)", "'naïve 😀 '", pa.string(), "naïve 😀 "),
    ("varchar(20) character set latin1", "'é%s'", pa.string(), "é%s"),
    ("text", "''", pa.string(), ""),
    ("longtext", "'line\\nline'", pa.string(), "line\nline"),
    ("enum('a','b')", "'b'", pa.string(), "b"),
    ("set('a','b','c')", "'a,c'", pa.string(), "a,c"),
    ("json", "'{\"a\": [1, null]}'", pa.string(), '{"a": [1, null]}'),
    ("binary(4)", "x'6100'", pa.binary(), b"a\0\0\0"),
    ("varbinary(4)", "x'ff00'", pa.binary(), b"\xff\0"),
    ("blob", "x'00ff'", pa.binary(), b"\0\xff"),
    ("point", "st_geomfromtext('POINT(1 2)')", pa.binary(), struct.pack("<IBIdd", 0, 1, 1, 1.0, 2.0)),
    ("year", "2026", pa.int32(), 2026),
    ("year", "0", pa.int32(), 0),
    ("date", "'1000-01-01'", pa.date32(), dt.date(1000, 1, 1)),
    ("date", "'0000-00-00'", pa.date32(), None),
    ("datetime", "'9999-12-31 23:59:59'", pa.timestamp("us"), dt.datetime(9999, 12, 31, 23, 59, 59)),  # noqa: DTZ001
    ("datetime(3)", "'2026-01-01 00:00:00.120'", pa.timestamp("us"),
     dt.datetime(2026, 1, 1, 0, 0, 0, 120000)),  # noqa: DTZ001
    ("datetime(6)", "'0000-00-00'", pa.timestamp("us"), None),
    ("date", "'0000-01-01'", pa.date32(), None),
    ("date", "'2024-02-29'", pa.date32(), dt.date(2024, 2, 29)),
    ("timestamp null", "'2026-06-01 12:00:00'", pa.timestamp("us", "UTC"),
     dt.datetime(2026, 6, 1, 12, tzinfo=UTC)),
    ("timestamp(6) null", "'1970-01-01 00:00:01.000001'", pa.timestamp("us", "UTC"),
     dt.datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)),
    ("time", "'-838:59:59'", pa.string(), "-838:59:59"),
    ("time(3)", "'01:02:03.4'", pa.string(), "01:02:03.400"),
    ("uuid", "'123e4567-e89b-12d3-a456-426655440000'", pa.string(), "123e4567-e89b-12d3-a456-426655440000"),
    ("inet4", "'192.0.2.1'", pa.string(), "192.0.2.1"),
    ("inet6", "'2001:db8::1'", pa.string(), "2001:db8::1"),
]  # fmt: skip


@pytest.fixture
def config(mariadb: Any) -> SourceConfig:
    return SourceConfig(mariadb.host, mariadb.port, mariadb.user, mariadb.password)


@pytest.fixture
def sql(mariadb: Any) -> Iterator[Callable[[str], None]]:
    connection = mariadb.connect(init_command="SET time_zone = '+00:00', sql_mode = ''")
    with connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE `verify me` CHARACTER SET utf8mb4")
        cursor.execute("USE `verify me`")
        yield lambda statement: [cursor.execute(statement), None][1]
        cursor.execute("DROP DATABASE `verify me`")
    connection.close()


@pytest.fixture
def check(config: SourceConfig, lake: SqlCatalog) -> Callable[..., TableReport]:
    def check(
        table: str, key: tuple[str, ...] = ("id",), excluded: frozenset[str] = frozenset(), **options: Any
    ) -> TableReport:
        catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
        pair = TablePair("verify me", table, "verify me", table, key, excluded)
        [report] = compare(partial(MySqlReader, config), catalog, [pair], Options(**options))
        return report

    return check


def ids(report: TableReport, kind: DifferenceKind) -> list[str | None]:
    return sorted((d.row["id"] for d in report.differences if d.kind is kind), key=str)


def small(rows: list[tuple[int, str | None]]) -> pa.Table:
    return pa.table(
        {"id": pa.array([r[0] for r in rows], pa.int32()), "v": pa.array([r[1] for r in rows], pa.string())}
    )


@pytest.fixture
def small_source(sql: Callable[[str], None]) -> Callable[[str], None]:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, '')")
    return sql


def test_every_type_is_equal_to_its_copy(sql: Any, write: Write, check: Any) -> None:
    sql("CREATE TABLE `types` (id INT PRIMARY KEY, " + ", ".join(f"c{i} {t[0]}" for i, t in enumerate(TYPES)) + ")")
    sql("INSERT INTO `types` VALUES (1, " + ", ".join(t[1] for t in TYPES) + "), (2" + ", NULL" * len(TYPES) + ")")
    columns = {"id": pa.array([1, 2], pa.int32())}
    write("types", pa.table(columns | {f"c{i}": pa.array([t[3], None], t[2]) for i, t in enumerate(TYPES)}))
    report = check("types")
    named = {f"c{i}": t[0] for i, t in enumerate(TYPES)}
    assert report.equal, (report.lines(), [named[c] for d in report.differences for c in d.columns])
    assert report.source_rows == report.target_rows == 2


@pytest.mark.parametrize("index", range(len(TYPES)), ids=[t[0] for t in TYPES])
def test_a_null_in_place_of_the_value_is_found(index: int, sql: Any, write: Write, check: Any) -> None:
    kind, literal, arrow, value = TYPES[index]
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
    sql(f"INSERT INTO t VALUES (1, {literal})")
    write("t", pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([None], arrow)}))
    report = check("t")
    assert report.different == (0 if value is None else 1)


def test_each_kind_of_difference_is_found_with_its_key_and_column(small_source: Any, write: Write, check: Any) -> None:
    write("t", small([(1, "uno"), (3, None), (4, "four")]))
    report = check("t")
    assert (report.missing, report.extra, report.different) == (1, 1, 2)
    assert ids(report, DifferenceKind.MISSING) == ["2"]
    assert ids(report, DifferenceKind.EXTRA) == ["4"]
    assert ids(report, DifferenceKind.DIFFERENT) == ["1", "3"]
    assert {d.columns for d in report.differences if d.kind is DifferenceKind.DIFFERENT} == {("v",)}


def test_a_row_that_is_there_twice_is_extra_once(small_source: Any, write: Write, check: Any) -> None:
    write("t", small([(1, "one"), (1, "one"), (2, None), (3, "")]))
    report = check("t")
    assert (report.missing, report.extra, report.different) == (0, 1, 0)


def test_rows_without_key_are_compared_with_their_number(sql: Any, write: Write, check: Any) -> None:
    sql("CREATE TABLE t (id INT, v VARCHAR(20))")
    sql("INSERT INTO t VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, NULL)")
    write("t", small([(1, "a"), (1, "a"), (2, None), (2, None)]))
    report = check("t", ())
    assert (report.missing, report.extra) == (1, 1)
    assert {str(d) for d in report.differences} == {
        "missing in target: id='1', v='a'", "extra in target: id='2', v=None"
    }  # fmt: skip
    write("t", small([(1, "a"), (2, None), (1, "a"), (1, "a")]))
    assert check("t", ()).equal


def test_columns_are_compared_by_name_type_and_order(small_source: Any, write: Write, check: Any) -> None:
    rows = small([(1, "one"), (2, None), (3, "")])
    write("t", rows.select(["v", "id"]))
    assert check("t").columns == ["the target's columns have another order: v, id"]
    write("t", rows.set_column(0, "id", rows["id"].cast(pa.int64())).rename_columns(["id", "w"]))
    assert check("t").columns == [
        "column v is missing in the target",
        "column w of the target is not in the source",
        "column id (int(11)) is long in the target, not int",
    ]
    write("t", rows.select(["id"]))
    assert check("t", excluded=frozenset({"v"})).equal


def test_sequence_numbers_are_unique_and_never_null(small_source: Any, write: Write, check: Any) -> None:
    rows = small([(1, "one"), (2, None), (3, "")])
    write("t", rows.append_column("_sequence_num", pa.array([7, 7, None], pa.int64())))
    report = check("t")
    assert (report.duplicate_sequences, report.null_sequences, report.equal) == (1, 1, False)
    assert (report.missing, report.extra, report.different) == (0, 0, 0)


def test_what_differed_is_read_again_while_the_target_follows(small_source: Any, write: Write, check: Any) -> None:
    small_source("UPDATE t SET v = 'new' WHERE id = 1")
    small_source("DELETE FROM t WHERE id = 3")
    write("t", small([(1, "one"), (2, None), (3, "")]))
    report = check("t", retries=2, before_recheck=lambda: write("t", small([(1, "new"), (2, None)])))
    assert (report.equal, report.rechecks) == (True, 1)
    write("t", small([(1, "one"), (2, None)]))
    assert check("t", retries=1, before_recheck=lambda: None).different == 1


def test_a_table_without_key_is_read_again_as_a_whole(small_source: Any, write: Write, check: Any) -> None:
    write("t", small([(1, "one")]))
    rows = small([(1, "one"), (2, None), (3, "")])
    assert check("t", (), retries=1, before_recheck=lambda: write("t", rows)).equal


def test_a_table_without_key_that_never_rests_is_equal_by_what_lasts(
    small_source: Any, write: Write, check: Any
) -> None:
    """One row is always on its way; a row that is lost is lost at every look."""
    target = [(1, "one"), (2, None), (3, "")]

    def later(lost: int) -> Callable[[], None]:
        def goes_on() -> None:
            number = len(target) + 1
            small_source(f"INSERT INTO t VALUES ({number + 1}, 'steady')")
            target.append((number, "steady"))
            write("t", small([row for row in target if row[0] != lost]))

        return goes_on

    small_source("INSERT INTO t VALUES (4, 'steady')")
    write("t", small(target))
    report = check("t", (), retries=3, before_recheck=later(lost=0))
    assert (report.equal, report.rechecks) == (True, 1)
    write("t", small(target[1:]))
    report = check("t", (), retries=2, before_recheck=later(lost=1))
    assert (report.missing, report.extra, report.rechecks) == (1, 0, 2)
    assert report.differences[0].row["id"] == "1"


KEYS = [(kind, literal, arrow, value) for kind, literal, arrow, value in TYPES
        if value is not None and kind not in {"json", "point", "decimal(65,30)"}
        and not kind.endswith(("text", "blob"))]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=[key[0] for key in KEYS])
def test_rows_are_found_again_by_a_key_of_any_type(key: tuple[Any, ...], sql: Any, write: Write, check: Any) -> None:
    kind, literal, arrow, value = key
    sql(f"CREATE TABLE t (`a.b``c` {kind}, `%s` INT, PRIMARY KEY (`a.b``c`, `%s`))")
    sql(f"INSERT INTO t VALUES ({literal}, 1), ({literal}, 2)")

    def rows(count: int) -> pa.Table:
        return pa.table({"a.b`c": pa.array([value] * count, arrow), "%s": pa.array(range(1, count + 1), pa.int32())})

    write("t", rows(1))
    report = check("t", ("a.b`c", "%s"), retries=1, before_recheck=lambda: write("t", rows(2)))
    assert (report.rechecks, report.lines()) == (1, ["verify me.t: equal, 2 rows"])


@pytest.mark.parametrize("text", ["utf8mb4 collate utf8mb4_unicode_ci", "latin1 collate latin1_bin", "utf16", "sjis"])
@pytest.mark.parametrize("key", [("k",), ("k", "n")], ids=["one", "two"])
def test_rows_are_found_again_by_a_key_of_any_collation(
    text: str, key: tuple[str, ...], sql: Any, write: Write, check: Any
) -> None:
    sql(f"CREATE TABLE t (k VARCHAR(20) CHARACTER SET {text}, n INT, PRIMARY KEY ({', '.join(key)}))")
    sql("INSERT INTO t VALUES ('Key 1', 1), ('Key 2', 2)")
    rows = pa.table({"k": pa.array(["Key 1", "Key 2"]), "n": pa.array([1, 2], pa.int32())})
    write("t", rows.slice(0, 1))
    report = check("t", key, retries=1, before_recheck=lambda: write("t", rows))
    assert (report.rechecks, report.lines()) == (1, ["verify me.t: equal, 2 rows"])


def test_names_may_hold_any_character(sql: Any, lake: SqlCatalog, config: SourceConfig, tmp_path: Path) -> None:
    name = 'Größe "x".`y` %s 表'
    quoted = "`" + name.replace("`", "``") + "`"
    sql(f"CREATE TABLE {quoted} ({quoted} INT PRIMARY KEY)")
    sql(f"INSERT INTO {quoted} VALUES (1), (2)")
    schema = pa.schema([pa.field(name, pa.int32()), pa.field("_sequence_num", pa.int64())])
    table = lake.create_table(("verify me", "any"), schema)
    table.append(pa.table([pa.array([1], pa.int32()), pa.array([0])], schema=schema))
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    [report] = compare(
        partial(MySqlReader, config), catalog, [TablePair("verify me", name, "verify me", "any", (name,))]
    )
    assert [(d.kind, dict(d.row)) for d in report.differences] == [(DifferenceKind.MISSING, {name: "2"})]
    assert not report.columns


def test_dates_that_no_calendar_has_are_null(sql: Any, write: Write, check: Any) -> None:
    sql("SET sql_mode = 'ALLOW_INVALID_DATES'")
    sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE, m DATETIME)")
    sql("INSERT INTO t VALUES (1, '2026-02-31', '2026-04-31 01:02:03')")
    nothing = {"d": pa.array([None], pa.date32()), "m": pa.array([None], pa.timestamp("us"))}
    write("t", pa.table({"id": pa.array([1], pa.int32()), **nothing}))
    assert check("t").equal


def test_zero_dates_as_text(sql: Any, write: Write, check: Any) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE, m DATETIME(3))")
    sql("INSERT INTO t VALUES (1, '2026-00-10', '0000-00-00'), (2, '2026-01-02', '2026-01-02 03:04:05.678')")
    columns = {
        "id": pa.array([1, 2], pa.int32()),
        "d": ["2026-00-10", "2026-01-02"],
        "m": ["0000-00-00 00:00:00.000", "2026-01-02 03:04:05.678"],
    }
    write("t", pa.table(columns))
    assert check("t", zero_dates="text").equal
    assert not check("t").equal


def test_a_table_that_cannot_be_compared_says_why_and_the_others_go_on(
    small_source: Any, write: Write, lake: SqlCatalog, config: SourceConfig
) -> None:
    write("t", small([(1, "one"), (2, None), (3, "")]))
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    pairs = [TablePair("verify me", n, "verify me", m, ("id",)) for n, m in (("no", "t"), ("t", "no"), ("t", "t"))]
    reports = compare(partial(MySqlReader, config), catalog, pairs)
    assert [r.error for r in reports] == [
        "verify me.no does not exist in the source", "verify me.no does not exist in the target", ""
    ]  # fmt: skip
    assert [r.equal for r in reports] == [False, False, True]


def test_a_large_table_is_compared_in_partitions(sql: Any, write: Write, check: Any) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO t SELECT seq, concat('v', seq) FROM seq_1_to_30000")
    write("t", small([(i, f"v{i}") for i in range(30_000, 0, -1) if i != 12345] + [(30001, "x")]))
    report = check("t", partition_rows=7_000)
    assert (report.missing, report.extra, report.different) == (1, 1, 0)
    assert ids(report, DifferenceKind.MISSING) == ["12345"]


def test_a_table_of_many_files_with_deletes_and_a_widened_column(
    sql: Any, write: Write, lake: SqlCatalog, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.verification.target.GROUP_BYTES", 3_000)
    sql("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)")
    sql("INSERT INTO t SELECT seq, seq FROM seq_1_to_80")
    rows = pa.table(
        {name: pa.array(range(1, 11), pa.int32()) for name in ("id", "v")}
        | {"_sequence_num": pa.array(range(10), pa.int64())}
    )
    lake.create_table(("verify me", "t"), rows.schema).append(rows)
    table = lake.load_table(("verify me", "t"))
    with table.update_schema() as update:
        update.update_column("v", LongType())
    for start in range(11, 91, 10):
        ids = range(start, start + 10)
        numbers = pa.array(range(start, start + 10), pa.int64())
        table.append(pa.table({"id": pa.array(ids, pa.int32()), "v": numbers, "_sequence_num": numbers}))
    assert check("t").extra == 10
    table.delete("id > 80")
    assert check("t").lines() == ["verify me.t: equal, 80 rows"]


@pytest.fixture
def check_all(config: SourceConfig, lake: SqlCatalog) -> Callable[..., list[TableReport]]:
    def check_all(pairs: list[TablePair], **options: Any) -> list[TableReport]:
        catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
        return compare(partial(MySqlReader, config), catalog, pairs, Options(**options))

    return check_all


def test_all_tables_that_differ_wait_together(sql: Any, write: Write, check_all: Any) -> None:
    """One wait for all of them before each look but the first, and only those that differ are compared again."""
    pairs, waits = [], 0
    for number in range(24):
        name, key = f"t{number}", () if number % 2 else ("id",)
        sql(f"CREATE TABLE {name} (id INT, v VARCHAR(20))")
        sql(f"INSERT INTO {name} VALUES (1, 'one'), (2, NULL)")
        write(name, small([(1, "one"), (2, None)][: 2 - (number % 3 == 0)]))
        target = name if number % 8 != 7 else "nowhere"
        pairs.append(TablePair("verify me", name, "verify me", target, key, still=number in {0, 3}))

    def again() -> None:
        nonlocal waits
        waits += 1
        write("t6", small([(1, "one"), (2, None)]))
        write("t9", small([(1, "one"), (2, None)]))

    reports = check_all(pairs, retries=3, before_recheck=again)
    assert waits == 3
    assert {report.pair.table: report.rechecks for report in reports if report.rechecks} == {
        "t6": 1, "t9": 1, "t12": 3, "t18": 3, "t21": 3
    }  # fmt: skip
    assert {report.pair.table for report in reports if report.error} == {"t7", "t15", "t23"}
    assert {report.pair.table for report in reports if report.missing == 1} == {"t0", "t3", "t12", "t18", "t21"}
    assert sum(report.equal for report in reports) == 24 - 3 - 5


def test_nothing_waits_where_no_copy_can_change(small_source: Any, write: Write, check_all: Any) -> None:
    write("t", small([(1, "one"), (3, "")]))
    waits: list[int] = []
    [report] = check_all(
        [TablePair("verify me", "t", "verify me", "t", ("id",), still=True)],
        retries=30, before_recheck=lambda: waits.append(1),
    )  # fmt: skip
    assert (waits, report.missing, report.rechecks) == ([], 1, 0)
    assert report.differences[0].row == {"id": "2"}


@pytest.mark.parametrize("key", [("id",), ()], ids=["keyed", "keyless"])
def test_a_copy_that_held_everything_is_not_looked_at_again(
    key: tuple[str, ...], small_source: Any, write: Write, check_all: Any
) -> None:
    """What differed at the last look counts, with its key and columns; the others go on."""
    write("t", small([(1, "one"), (2, "two")]))
    small_source("CREATE TABLE u LIKE t")
    small_source("INSERT INTO u SELECT * FROM t")
    write("u", small([(1, "uno"), (2, None), (3, "")]))
    named = iter([{"verify me.t"}, set(), set()])
    pairs = [TablePair("verify me", name, "verify me", name, key) for name in ("t", "u")]
    first, second = check_all(pairs, retries=3, before_recheck=lambda: next(named))
    assert (first.rechecks, second.rechecks) == (0, 3)
    expected = (1, 0, 1) if key else (2, 1, 0)
    assert (first.missing, first.extra, first.different) == expected
    assert ("different: id='2' (in v)" in [str(one) for one in first.differences]) == bool(key)


@pytest.fixture(params=["mariadb", "mysql"])
def any_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Either product, with the database `verify me`."""
    server = request.getfixturevalue(request.param)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS `verify me`")
        cursor.execute("CREATE DATABASE `verify me`")
        cursor.execute("USE `verify me`")
        yield server, cursor
        cursor.execute("SET GLOBAL sql_select_limit = DEFAULT")
        cursor.execute("DROP USER IF EXISTS looker")
        cursor.execute("DROP DATABASE `verify me`")


def compared(server: Any, lake: SqlCatalog, pair: TablePair, **account: str) -> TableReport:
    account = {"user": server.user, "password": server.password} | account
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    [report] = compare(partial(MySqlReader, SourceConfig(server.host, server.port, **account)), catalog, [pair])
    return report


def test_a_limit_of_the_server_hides_no_rows(any_server: Any, write: Write, lake: SqlCatalog) -> None:
    server, cursor = any_server
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w INT)")
    cursor.execute("INSERT INTO t VALUES (1, 'one', 1), (2, NULL, 2), (3, '', 3)")
    cursor.execute("SET GLOBAL sql_select_limit = 2")
    write("t", small([(1, "one"), (2, None)]))
    report = compared(server, lake, TablePair("verify me", "t", "verify me", "t", ("id",)))
    assert (report.source_rows, report.missing) == (3, 1)
    assert report.columns == ["column w is missing in the target"]


def test_columns_that_the_account_may_not_see_are_an_error(any_server: Any, write: Write, lake: SqlCatalog) -> None:
    server, cursor = any_server
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), secret INT)")
    native = "WITH mysql_native_password" if "mysql" in type(server).__name__.lower() else ""  # the other one needs TLS
    cursor.execute(f"CREATE USER looker IDENTIFIED {native} BY 'looker'")
    cursor.execute("GRANT SELECT (id, v) ON t TO looker")
    write("t", small([]))
    pair = TablePair("verify me", "t", "verify me", "t", ("id",))
    report = compared(server, lake, pair, user="looker", password="looker")
    assert "may not read all columns of verify me.t" in report.error
    left_out = replace(pair, excluded_columns=frozenset({"secret"}))
    assert compared(server, lake, left_out, user="looker", password="looker").equal


def test_names_that_differ_in_case_are_two_tables(any_server: Any, write: Write, lake: SqlCatalog) -> None:
    server, cursor = any_server
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    cursor.execute("CREATE TABLE T (other INT PRIMARY KEY)")
    cursor.execute("INSERT INTO t VALUES (1, 'one')")
    write("t", small([(1, "one")]))
    assert compared(server, lake, TablePair("verify me", "t", "verify me", "t", ("id",))).equal
    assert compared(server, lake, TablePair("verify me", "T", "verify me", "t")).columns == [
        "column other is missing in the target",
        "column id of the target is not in the source",
        "column v of the target is not in the source",
    ]
