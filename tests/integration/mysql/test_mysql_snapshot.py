"""Snapshots of a live server: every type's values, every kind of key, marks, streams, odd tables.

TIDEMARK_TEST_MYSQL=host:port:user:password runs the same against another server (MySQL, say).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from replicator.errors import SourceUnreachable, TableDisappeared, UnsupportedDdl, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect, quoted, server_is_mariadb
from replicator.sources.mysql.snapshot.reader import MySqlSnapshotReader

pytestmark = pytest.mark.integration
DATABASE = "snapshot tests"


@pytest.fixture(scope="module")
def config(request: pytest.FixtureRequest) -> MySqlConfig:
    if other := os.environ.get("TIDEMARK_TEST_MYSQL"):
        address = dict(zip(("host", "port", "user", "password"), other.split(":"), strict=True))
    else:
        address = request.getfixturevalue("mariadb").address
    return MySqlConfig.parse(address | {"watermark_database": "snapshot_marks"})


@pytest.fixture(scope="module")
def server(config: MySqlConfig) -> Iterator[pymysql.Connection[Any]]:
    connection = connect(config)
    execute(connection, f"DROP DATABASE IF EXISTS {quoted(DATABASE)}")
    execute(connection, f"CREATE DATABASE {quoted(DATABASE)} CHARACTER SET utf8mb4")
    connection.select_db(DATABASE)
    yield connection
    execute(connection, f"DROP DATABASE {quoted(DATABASE)}")
    connection.close()


@pytest.fixture
def reader(config: MySqlConfig) -> Iterator[MySqlSnapshotReader]:
    reader = MySqlSnapshotReader(config, ReadOptions(), "test")
    yield reader
    reader.close()


def execute(connection: pymysql.Connection[Any], sql: str) -> tuple[tuple[Any, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def make(connection: pymysql.Connection[Any], name: str, columns: str, rows: list[str], options: str = "") -> TableId:
    execute(connection, f"DROP TABLE IF EXISTS {quoted(name)}")
    execute(connection, f"CREATE TABLE {quoted(name)} ({columns}) {options}")
    if rows:
        execute(connection, f"INSERT INTO {quoted(name)} VALUES {', '.join(rows)}")
    return TableId(DATABASE, name)


def whole(reader: MySqlSnapshotReader, table: TableId) -> pa.Table:
    chunk = reader.read_chunk(table, KeyRange())
    return pa.Table.from_batches(chunk.batches, schema=chunk.schema.row_arrow)


D = Decimal
VALUES: list[tuple[str, list[tuple[str, Any]]]] = [
    ("tinyint", [("-128", -128), ("127", 127), ("0", 0)]),
    ("tinyint unsigned", [("255", 255)]),
    ("bool", [("true", 1), ("2", 2)]),
    ("smallint", [("-32768", -32768)]),
    ("mediumint unsigned", [("16777215", 16777215)]),
    ("int(10) unsigned zerofill", [("4294967295", 4294967295), ("42", 42)]),
    ("int", [("-2147483648", -2147483648), ("2147483647", 2147483647)]),
    ("bigint", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("bigint unsigned", [("18446744073709551615", D(2**64 - 1)), ("0", D(0))]),
    ("decimal(38,10)", [("9999999999999999999999999999.9999999999", D("9999999999999999999999999999.9999999999"))]),
    ("decimal(5,2) zerofill", [("1.5", D("1.50"))]),
    ("decimal(5,0)", [("-99999", D(-99999))]),
    ("decimal(30,30)", [("-0.000000000000000000000000000001", D("-1E-30"))]),
    ("decimal(65,30)", [("12345678901234567890123456789012345.5",
                "12345678901234567890123456789012345." + "5".ljust(30, "0"))]),
    ("float", [("16777216", 16777216.0), ("0.1", 0.10000000149011612), ("1234567.9", 1234567.875),
            ("-3.4028234e38", -3.4028234663852886e38), ("1e-45", 1.401298464324817e-45)]),
    ("float(7,2)", [("12345.67", 12345.669921875)]),
    ("double", [("1.7976931348623157e308", 1.7976931348623157e308), ("5e-324", 5e-324), ("0.1", 0.1),
            ("-1e22", -1e22)]),
    ("double(20,3)", [("12345678901234.567", 12345678901234.567)]),
    ("bit(1)", [("b'1'", True), ("b'0'", False)]),
    ("bit(9)", [("b'100000001'", 257), ("0", 0)]),
    ("bit(63)", [("b'" + "1" * 63 + "'", 2**63 - 1)]),
    ("bit(64)", [("b'" + "1" * 64 + "'", D(2**64 - 1))]),
    ("char(4)", [("'ab  '", "ab"), ("''", ""), ("'ßé'", "ßé")]),
    ("varchar(20)", [("'ab  '", "ab  "), ("'😀'", "😀"), (r"'a\0b\n'", "a\0b\n"), ("'NULL'", "NULL")]),
    ("varchar(9) character set latin1", [("'é€'", "é€"), ("0x8190", "\x81\x90")]),
    ("varchar(9) character set utf16", [("'😀é'", "😀é")]),
    ("varchar(9) character set ucs2", [("'漢é'", "漢é")]),
    ("varchar(9) character set utf32", [("'😀'", "😀")]),
    ("varchar(9) character set sjis", [("'漢字ｱ'", "漢字ｱ")]),
    ("varchar(9) character set gbk", [("'汉字'", "汉字")]),
    ("varchar(9) character set koi8r", [("'Привет'", "Привет")]),
    ("longtext", [("repeat('é', 300)", "é" * 300), ("''", "")]),
    ("binary(4)", [("x'0100'", b"\1\0\0\0"), ("x''", b"\0\0\0\0"), ("x'20202020'", b"    ")]),
    ("varbinary(9)", [("x'00ff0000'", b"\0\xff\0\0"), ("x''", b"")]),
    ("blob", [("x'fbfcfdfeff'", b"\xfb\xfc\xfd\xfe\xff")]),
    ("enum('a','b,c','d''e','')", [("'b,c'", "b,c"), ("3", "d'e"), ("''", "")]),
    ("enum('x','é') character set latin1", [("'é'", "é"), ("'nonsense'", "")]),
    ("set('a','b','c')", [("'c,a'", "a,c"), ("''", "")]),
    ("year", [("0", 0), ("'0000'", 0), ("1901", 1901), ("2155", 2155)]),
    ("date", [("'1000-01-01'", date(1000, 1, 1)), ("'9999-12-31'", date(9999, 12, 31)), ("'0001-01-01'", date(1, 1, 1)),
            ("'0000-00-00'", None), ("'2020-00-10'", None)]),
    ("datetime", [("'1999-12-31 23:59:59'", datetime(1999, 12, 31, 23, 59, 59)), ("'0000-00-00'", None)]),  # noqa: DTZ001
    ("datetime(6)", [("'0001-01-01 00:00:00.000001'", datetime(1, 1, 1, 0, 0, 0, 1))]),  # noqa: DTZ001
    ("timestamp(3) null", [("'2038-01-19 03:14:07.123'", datetime(2038, 1, 19, 3, 14, 7, 123000, tzinfo=UTC)),
            ("'0000-00-00'", None)]),
    ("time", [("'-838:59:59'", "-838:59:59"), ("'01:02:03'", "01:02:03"), ("'838:59:59'", "838:59:59")]),
    ("time(3)", [("'-00:00:00.001'", "-00:00:00.001"), ("'100:00:00'", "100:00:00.000")]),
    ("point", [("ST_GeomFromText('POINT(1 2)', 0)",
                bytes.fromhex("000000000101000000000000000000f03f0000000000000040"))]),
    ("geometry", [("ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)", "4326")]),
]  # fmt: skip
MARIADB_VALUES: list[tuple[str, list[tuple[str, Any]]]] = [
    ("json", [("'{\"a\": [1, null]}'", '{"a": [1, null]}')]),
    ("uuid", [("'123E4567-E89B-12D3-A456-426655440000'", "123e4567-e89b-12d3-a456-426655440000")]),
    ("inet6", [("'::1'", "::1"), ("'2001:DB8::FF00'", "2001:db8::ff00")]),
    ("inet4", [("'10.0.0.1'", "10.0.0.1")]),
    ("varchar(300) compressed", [("repeat('ab', 150)", "ab" * 150)]),
    ("blob compressed", [("repeat(x'00ff', 150)", b"\0\xff" * 150)]),
]
MYSQL_VALUES: list[tuple[str, list[tuple[str, Any]]]] = [
    ("json", [('\'{"b":1, "a":[1,null]}\'', '{"a": [1, null], "b": 1}')])
]


def check_values(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader, kind: str, values: list[tuple[str, Any]]
) -> None:
    null = [f"({len(values)}, NULL)"]
    rows = [f"({n}, {literal})" for n, (literal, _) in enumerate(values)] + null
    table = make(server, "values", f"id int primary key, v {kind}", rows)
    read = whole(reader, table).sort_by("id").column("v").to_pylist()
    for (literal, expected), value in zip(values, read, strict=False):
        seen = str(int.from_bytes(value[:4], "little")) if expected == "4326" else value
        assert seen == expected, f"{kind} {literal}"
        assert type(seen) is type(expected)
    assert read[-1] is None


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_are_those_of_the_server(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader, kind: str, values: list[tuple[str, Any]]
) -> None:
    check_values(server, reader, kind, values)


def test_values_that_only_this_product_has(server: pymysql.Connection[Any], reader: MySqlSnapshotReader) -> None:
    for kind, values in MARIADB_VALUES if server_is_mariadb(server) else MYSQL_VALUES:
        check_values(server, reader, kind, values)


def test_negative_zero_stays_negative(server: pymysql.Connection[Any], reader: MySqlSnapshotReader) -> None:
    table = make(server, "zero", "id int primary key, f float, d double", ["(1, -0e0, -0e0)"])
    row = whole(reader, table).to_pylist()[0]
    assert (str(row["f"]), str(row["d"])) == ("-0.0", "-0.0")


def test_zero_dates_follow_the_policy(server: pymysql.Connection[Any], config: MySqlConfig) -> None:
    columns = "id int primary key, a date not null, b datetime(3) not null"
    table = make(
        server,
        "zero dates",
        columns,
        ["(1, '0000-00-00', '0000-00-00')", "(2, '2020-02-02', '2020-00-01 01:02:03.004')"],
    )
    reader = MySqlSnapshotReader(config, ReadOptions(), "test")
    assert whole(reader, table).drop_columns("id").to_pylist() == [
        {"a": None, "b": None},
        {"a": date(2020, 2, 2), "b": None},
    ]
    assert reader.replaced == 3
    texts = MySqlSnapshotReader(config, ReadOptions(values={"zero_dates": "text"}), "test")
    assert whole(texts, table).column("b").to_pylist() == ["0000-00-00 00:00:00.000", "2020-00-01 01:02:03.004"]
    with pytest.raises(ValueDoesNotFit, match=r"a of snapshot tests\.zero dates: '0000-00-00'"):
        whole(MySqlSnapshotReader(config, ReadOptions(values={"zero_dates": "fail"}), "test"), table)


TEXTS = [
    "'a'",
    "'A '",
    "'ß'",
    "'ss'",
    "'á'",
    "'b'",
    "'B'",
    "'ba'",
    "''",
    "'ab'",
    "'zz'",
    "'_'",
    "'Z%'",
    r"'q\\'",
    r"'\''",
    "'é'",
]
KEYS: dict[str, tuple[str, list[str]]] = {
    "int": ("k int", [str(n) for n in (-5, 0, 3, -2147483648, 2147483647, 7, 8, 9, 10)]),
    "bigint unsigned": ("k bigint unsigned",
        ["0", "9223372036854775807", "9223372036854775808", "18446744073709551615", "1", "2"]),
    "decimal": ("k decimal(30,10)",
        ["-1.5", "0", "0.0000000001", "12345678901234567890.0000000001", "12345678901234567890.0000000002", "3"]),
    "float": ("k float", ["0.1", "0.2", "-0.3", "1e30", "-1e-30", "16777216", "16777217.5", "3"]),
    "double": ("k double", ["0.1", "0.30000000000000004", "0.3", "-1e300", "1e-300", "3"]),
    "float(7,2)": ("k float(7,2)", ["0.1", "12345.67", "12345.68", "-3.33", "7", "8"]),
    "ci text": ("k varchar(20)", TEXTS),
    "bin text": ("k varchar(20) collate utf8mb4_bin", TEXTS),
    "latin1": ("k varchar(20) character set latin1 collate latin1_german1_ci", TEXTS),
    "latin1 default": ("k char(20) character set latin1", TEXTS),
    "utf16": ("k varchar(20) character set utf16", TEXTS),
    "utf32": ("k varchar(20) character set utf32", TEXTS),
    "ucs2": ("k varchar(20) character set ucs2", TEXTS),
    "sjis": ("k varchar(20) character set sjis", ["'漢'", "'字'", "'ｱ'", "'表'", "'a'", "'b '", r"'\\'"]),
    "gbk": ("k varchar(20) character set gbk", ["'汉'", "'字'", "'a'", "'b '", "'誠'", "'體'"]),
    "binary": ("k binary(3)", ["x''", "x'00'", "x'0001'", "x'ff'", "x'ffff'", "x'5c'", "x'27'"]),
    "varbinary": ("k varbinary(9)", ["x''", "x'00'", "x'0000'", "x'20'", "x'ff'", "x'5c'", "x'27'"]),
    "enum": ("k enum('z','a','m','b','é')", ["'z'", "'a'", "'m'", "'b'", "'é'"]),
    "set": ("k set('z','a','m')", ["''", "'z'", "'a'", "'z,a'", "'m'", "'z,m'", "'a,m'"]),
    "year": ("k year", ["0", "1901", "2000", "2155", "1999", "2069"]),
    "date": ("k date", ["'2020-01-01'", "'1000-01-01'", "'9999-12-31'", "'2020-02-29'", "'2020-03-01'"]),
    "datetime(6)": ("k datetime(6)",
        ["'2020-01-01 00:00:00.000001'", "'2020-01-01 00:00:00.000002'", "'2020-01-01'", "'1000-01-01'",
            "'9999-12-31 23:59:59.999999'"]),
    "timestamp": ("k timestamp(3)",
        ["'2020-10-25 01:30:00.001'", "'2020-10-25 01:30:00.002'", "'1970-01-01 00:00:01'", "'2030-01-01'"]),
    "time": ("k time(6)", ["'-838:59:59'", "'838:59:59'", "'-00:00:00.000001'", "'00:00:00'", "'00:00:00.000001'",
            "'10:00:00'"]),
    "bit": ("k bit(64)", ["0", "1", "b'" + "1" * 64 + "'", "b'1" + "0" * 63 + "'", "255", "256"]),
}  # fmt: skip
MARIADB_KEYS = {
    "uuid": ("k uuid", [f"'{n:08x}-1111-{n % 3 + 1}000-8000-{(n * 7919) % 97:012x}'" for n in range(20)]),
    "inet6": ("k inet6", ["'::1'", "'::'", "'2001:db8::1'", "'ffff::'", "'::ffff:10.0.0.1'"]),
    "inet4": ("k inet4", ["'0.0.0.0'", "'10.0.0.1'", "'9.255.0.1'", "'255.255.255.255'"]),
}


def chunks(reader: MySqlSnapshotReader, table: TableId, rows: int) -> list[pa.Table]:
    """As the engine does it: bounds first, then a chunk for each."""
    end = reader.end_key(table)
    assert end is not None
    lower, found = None, []
    while lower != end:
        upper = reader.next_bound(table, lower, end, rows)
        assert upper != lower, "planning does not move on"
        chunk = reader.read_chunk(table, KeyRange(lower, upper))
        found.append(pa.Table.from_batches(chunk.batches, schema=chunk.schema.row_arrow))
        lower = upper
    return found


def assert_chunks_are_the_table(reader: MySqlSnapshotReader, table: TableId, ids: list[int]) -> None:
    for rows in (1, 3, 7):
        parts = chunks(reader, table, rows)
        assert sorted(i for part in parts for i in part.column("id").to_pylist()) == ids
        assert all(part.num_rows == rows for part in parts[:-1])
        assert 1 <= parts[-1].num_rows <= rows


def check_key(server: pymysql.Connection[Any], reader: MySqlSnapshotReader, column: str, literals: list[str]) -> None:
    table = make(server, "keys", f"id int, {column} not null primary key", [])
    for number, literal in enumerate(literals):
        with suppress(pymysql.err.IntegrityError):  # equal to another one under this collation
            execute(server, f"INSERT INTO `keys` VALUES ({number}, {literal})")
    ids = sorted(row[0] for row in execute(server, "SELECT id FROM `keys`"))
    assert len(ids) > 3
    assert_chunks_are_the_table(reader, table, ids)


@pytest.mark.parametrize("name", KEYS)
def test_chunks_over_a_key_are_the_table(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader, name: str
) -> None:
    check_key(server, reader, *KEYS[name])


def test_chunks_over_keys_that_only_mariadb_has(server: pymysql.Connection[Any], reader: MySqlSnapshotReader) -> None:
    if not server_is_mariadb(server):
        pytest.skip("MySQL has no such types")
    for column, literals in MARIADB_KEYS.values():
        check_key(server, reader, column, literals)


def test_chunks_over_a_zero_date_keep_it_as_text(server: pymysql.Connection[Any], config: MySqlConfig) -> None:
    reader = MySqlSnapshotReader(config, ReadOptions(values={"zero_dates": "text"}), "test")
    dates = ["'0000-00-00'", "'2020-00-10'", "'2020-01-00'", "'2020-02-31'", "'2021-01-01'"]
    check_key(server, reader, "k date", dates)
    check_key(server, reader, "k datetime(2)", dates)


@pytest.mark.parametrize(
    "columns",
    ["a int not null, b varchar(9) not null", "a enum('y','x','w') not null, b bigint unsigned not null",
        "a date not null, b varbinary(4) not null"],
)  # fmt: skip
def test_chunks_over_a_composite_key_are_the_table(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader, columns: str
) -> None:
    table = make(server, "composite", f"{columns}, c smallint not null, id int, primary key (a, b, c)", [])
    first = "1 + n DIV 20" if "date" not in columns else "DATE'2020-01-01' + INTERVAL n DIV 20 DAY"
    digits = "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6)"
    numbers = f"(SELECT x.d * 7 + y.d n FROM {digits} x, {digits} y) numbers"
    execute(server, f"INSERT INTO composite SELECT {first}, n MOD 4, n - 20, n FROM {numbers}")
    assert_chunks_are_the_table(reader, table, list(range(49)))


def test_a_unique_index_serves_where_there_is_no_primary_key(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader
) -> None:
    columns = "id int, u int not null, n int, unique key nullable (n), unique key `my ``key` (u)"
    table = make(server, "uniq", columns, [f"({n}, {-n}, NULL)" for n in range(10)])
    assert_chunks_are_the_table(reader, table, list(range(10)))


@pytest.mark.parametrize(
    "key", ["k varchar(30) not null, primary key (k(4))", "k text not null, primary key (k(300))",
        "k blob not null, unique (k(9))"]
)  # fmt: skip
def test_a_key_without_exact_bounds_is_read_in_one_piece(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader, key: str
) -> None:
    table = make(server, "prefixed", f"id int, {key}", ["(1, 'abc')", "(2, 'abd')"])
    assert reader.end_key(table) is None
    assert sorted(whole(reader, table).column("id").to_pylist()) == [1, 2]


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM", "MEMORY", "Aria"])
def test_an_empty_table_has_no_end_and_no_rows(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader, engine: str
) -> None:
    if engine == "Aria" and not server_is_mariadb(server):
        pytest.skip("MySQL has no Aria")
    table = make(server, "empty", "id int primary key", [], f"engine={engine}")
    assert reader.end_key(table) is None
    assert whole(reader, table).num_rows == 0
    execute(server, "INSERT INTO `empty` VALUES (1), (2), (3), (4)")
    assert_chunks_are_the_table(reader, table, [1, 2, 3, 4])


@pytest.mark.parametrize(
    "name", ["select", "with space", "a.b", "a/b\\c", "`tick`", "漢字é", "quote'\"", "UPPER lower", "%s %(x)s", "-- x;"]
)  # fmt: skip
def test_any_name_is_quoted(server: pymysql.Connection[Any], reader: MySqlSnapshotReader, name: str) -> None:
    other = quoted(name + "2")
    table = make(server, name, f"{quoted(name)} int primary key, {other} int", ["(1, 2)", "(3, 4)", "(5, 6)"])
    assert [part.num_rows for part in chunks(reader, table, 2)] == [2, 1]
    assert whole(reader, table).to_pylist()[0] == {name: 1, name + "2": 2}


def test_generated_invisible_partitioned_and_wide_tables_are_read(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader
) -> None:
    generated = (
        "id int primary key, v int as (id * 2) virtual, s varchar(9) as (concat('x', id)) stored, d int default (1 + 1)"
    )
    if not server_is_mariadb(server) and server.get_server_info() < "8.0.13":
        generated = generated.replace("(1 + 1)", "2")
    table = make(server, "generated", generated, [])
    execute(server, "INSERT INTO `generated` (id) VALUES (1), (2)")
    assert whole(reader, table).to_pylist()[1] == {"id": 2, "v": 4, "s": "x2", "d": 2}
    split = make(
        server, "split", "id int primary key", [f"({n})" for n in range(9)], "partition by hash (id) partitions 3"
    )
    assert_chunks_are_the_table(reader, split, list(range(9)))
    wide = make(
        server, "wide", ", ".join(["id int primary key", *(f"c{n} int" for n in range(999))]), [], "engine=MyISAM"
    )
    execute(server, "INSERT INTO wide (id, c998) VALUES (1, 7)")
    assert whole(reader, wide).to_pylist()[0]["c998"] == 7
    if server_is_mariadb(server):
        hidden = make(server, "hidden", "id int primary key, secret int invisible default 5", [])
        execute(server, "INSERT INTO hidden (id) VALUES (1)")
        assert whole(reader, hidden).to_pylist() == [{"id": 1, "secret": 5}]


def test_a_limit_of_the_server_ends_no_read(server: pymysql.Connection[Any], config: MySqlConfig) -> None:
    """`sql_select_limit`, set for all sessions, cuts any SELECT short without a word."""
    table = make(server, "limited", "id INT PRIMARY KEY, v INT", [f"({i}, {i})" for i in range(5)])
    execute(server, "SET GLOBAL sql_select_limit = 2")
    reader = MySqlSnapshotReader(config, ReadOptions(), "test")
    try:
        assert whole(reader, table).num_rows == 5
    finally:
        reader.close()
        execute(server, "SET GLOBAL sql_select_limit = DEFAULT")


def test_excluded_columns_are_never_selected(server: pymysql.Connection[Any], config: MySqlConfig) -> None:
    table = make(server, "private", "id int primary key, secret int, v int", ["(1, 2, 3)"])
    tables = TableSet(tables=frozenset({table}), excluded_columns={table: frozenset({"secret"})})
    reader = MySqlSnapshotReader(config, ReadOptions(), "test", tables)
    assert whole(reader, table).to_pylist() == [{"id": 1, "v": 3}]


def test_a_large_row_comes_whole_and_batches_stay_small(server: pymysql.Connection[Any], config: MySqlConfig) -> None:
    most = int(execute(server, "SELECT @@max_allowed_packet")[0][0])
    size = min(40_000_000, most - 1_000_000)
    table = make(server, "large", "id int primary key, v longblob, w int", ["(1, 'x', 1)"])
    for number in (2, 3, 4):
        execute(server, f"INSERT INTO large VALUES ({number}, REPEAT('{number}', {size}), {number})")
    edge = 2**24 - 1 - len("5") - 1 - 4 - 1 - len("5")  # the packet has exactly 2^24-1 bytes: an empty one follows
    execute(server, f"INSERT INTO large SELECT 5, REPEAT('e', {min(edge, size)}), 5 UNION SELECT 6, 'after', 6")
    reader = MySqlSnapshotReader(config, ReadOptions(batch_bytes=1_000_000), "test")
    seen = {}
    for batch in reader.read_chunk(table, KeyRange()).batches:
        assert batch.num_rows <= 2
        seen |= {i: (len(v), v[-1:], w) for i, v, w in zip(*(c.to_pylist() for c in batch.columns), strict=True)}
    assert [seen[n] for n in (1, 2, 4, 6)] == [(1, b"x", 1), (size, b"2", 2), (size, b"4", 4), (5, b"r", 6)]
    assert seen[5] == (min(edge, size), b"e", 5)
    reader.close()


def test_batches_have_the_wanted_size_and_a_read_can_be_left(
    server: pymysql.Connection[Any], config: MySqlConfig
) -> None:
    table = make(
        server, "many", "id int primary key, v varchar(100)", [f"({n}, REPEAT('v', 100))" for n in range(5000)]
    )
    reader = MySqlSnapshotReader(config, ReadOptions(batch_rows=700), "test")
    assert [batch.num_rows for batch in reader.read_chunk(table, KeyRange()).batches] == [700] * 7 + [100]
    next(reader.read_chunk(table, KeyRange()).batches)
    assert whole(reader, table).num_rows == 5000
    reader.read_chunk(table, KeyRange())
    reader.mark("still fine")
    assert whole(reader, table).num_rows == 5000
    reader.close()


def test_a_mark_is_one_row_of_the_watermark_table(
    server: pymysql.Connection[Any], config: MySqlConfig, reader: MySqlSnapshotReader
) -> None:
    execute(server, "DROP DATABASE IF EXISTS snapshot_marks")
    reader.mark("low:1")
    reader.mark("high:1")
    assert execute(server, "SELECT replicator, token FROM snapshot_marks.watermark") == (("test", "high:1"),)


def test_a_table_without_key_is_read_as_of_its_mark(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader
) -> None:
    table = make(server, "keyless", "v int", ["(1)", "(1)", "(2)"])
    chunk = reader.read_table(table, "opened")
    execute(server, "INSERT INTO keyless VALUES (3)")
    assert execute(server, "SELECT token FROM snapshot_marks.watermark") == (("opened",),)
    assert sorted(v for batch in chunk.batches for v in batch.column("v").to_pylist()) == [1, 1, 2]
    assert whole(reader, table).num_rows == 4


def test_an_engine_without_transactions_is_marked_after_the_last_row(
    server: pymysql.Connection[Any], reader: MySqlSnapshotReader
) -> None:
    table = make(server, "keyless", "v int", ["(1)", "(1)"], "engine=MyISAM")
    reader.mark("before")
    chunk = reader.read_table(table, "opened")
    assert execute(server, "SELECT token FROM snapshot_marks.watermark") == (("before",),)
    assert sum(batch.num_rows for batch in chunk.batches) == 2
    assert execute(server, "SELECT token FROM snapshot_marks.watermark") == (("opened",),)


def test_a_table_that_is_gone_is_said_to_be_gone(reader: MySqlSnapshotReader, server: pymysql.Connection[Any]) -> None:
    with pytest.raises(TableDisappeared, match=r"snapshot tests\.nothing"):
        reader.read_chunk(TableId(DATABASE, "nothing"), KeyRange())
    if server_is_mariadb(server):
        table = make(server, "history", "id int primary key", [], "with system versioning")
        with pytest.raises(UnsupportedDdl):
            reader.read_chunk(table, KeyRange())


def test_a_killed_connection_is_an_error_once_and_then_replaced(
    server: pymysql.Connection[Any], config: MySqlConfig
) -> None:
    rows = [f"({n}, REPEAT('v', 1000))" for n in range(5000)]
    table = make(server, "killed", "id int primary key, v varchar(1000)", rows)
    for _ in range(3):
        execute(server, "INSERT INTO killed SELECT id + (SELECT COUNT(*) FROM killed k), v FROM killed")
    reader = MySqlSnapshotReader(config, ReadOptions(batch_rows=100), "test")
    batches = reader.read_chunk(table, KeyRange()).batches
    next(batches)
    assert reader._reading is not None
    execute(server, f"KILL {reader._reading.thread_id()}")
    with pytest.raises(SourceUnreachable):
        list(batches)
    assert whole(reader, table).num_rows == 40_000
    reader.close()
