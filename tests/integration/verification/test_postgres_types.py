"""Every type of Postgres: equal to its copy, and unequal to what is near it."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.integration.verification.conftest import PREPARE, SCHEMA, Check, Sql, Write, checker, runs
from webapp.embedded.java_artifacts import POSTGRES
from webapp.embedded.postgres_source import EmbeddedPostgresSource

UTC = dt.UTC
FLOAT = struct.unpack("f", struct.pack("f", 0.1))[0]
NEGATIVE_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8000000000000))[0]
MOMENT = dt.datetime(2026, 6, 1, 12, 0, 0, 120000, UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
FIRST = dt.datetime(1, 1, 1, tzinfo=UTC)
# SQL type, literal in the source, Arrow type of the target's column, value there
NTZ, TZ = pa.timestamp("us"), pa.timestamp("us", "UTC")
TYPES: list[tuple[str, str, pa.DataType, Any]] = [
    ("boolean", "true", pa.bool_(), True),
    ("boolean", "false", pa.bool_(), False),
    ("smallint", "-32768", pa.int32(), -32768),
    ("integer", "-2147483648", pa.int32(), -2147483648),
    ("bigint", "-9223372036854775808", pa.int64(), -(2**63)),
    ("oid", "4294967295", pa.int64(), 4294967295),
    ("real", "0.1", pa.float32(), FLOAT),
    ("real", "'-0'", pa.float32(), -0.0),
    ("real", "'NaN'", pa.float32(), math.nan),
    ("real", "'-Infinity'", pa.float32(), -math.inf),
    ("real", "1e-45", pa.float32(), struct.unpack("f", struct.pack("I", 1))[0]),
    ("double precision", "0.1", pa.float64(), 0.1),
    ("double precision", "-1.7976931348623157e308", pa.float64(), -1.7976931348623157e308),
    ("double precision", "'Infinity'", pa.float64(), math.inf),
    ("double precision", "'NaN'", pa.float64(), NEGATIVE_NAN),
    ("double precision", "'-0'", pa.float64(), -0.0),
    ("numeric(10,2)", "-0.05", pa.decimal128(10, 2), Decimal("-0.05")),
    ("numeric(5)", "0", pa.decimal128(5, 0), Decimal(0)),
    ("numeric(3,3)", "0.007", pa.decimal128(3, 3), Decimal("0.007")),
    ("numeric(38,20)", "-123456789012345678.00000000000000000001", pa.decimal128(38, 20),
     Decimal("-123456789012345678.00000000000000000001")),
    ("numeric(39,1)", "1.5", pa.string(), "1.5"),
    ("numeric", "1.50", pa.string(), "1.50"),
    ("numeric", "'NaN'", pa.string(), "NaN"),
    ("char(5)", "'ab'", pa.string(), "ab   "),
    ("char(5)", "'é😀'", pa.string(), "é😀   "),
    ("varchar(20)", "'naïve 😀 '", pa.string(), "naïve 😀 "),
    ("text", "''", pa.string(), ""),
    ("text", "E'line\\nl\\\\ine\\t%s'", pa.string(), "line\nl\\ine\t%s"),
    ('"char"', "'x'", pa.string(), "x"),
    ("name", "'a name'", pa.string(), "a name"),
    ("public.citext", "'CaSe'", pa.string(), "CaSe"),
    ("public.hstore", "'b=>NULL, a=>1'", pa.string(), '"a"=>"1", "b"=>NULL'),
    ("public.ltree", "'a.b.c'", pa.string(), "a.b.c"),
    ("bytea", "'\\x00ff'", pa.binary(), b"\0\xff"),
    ("bytea", "''", pa.binary(), b""),
    ("date", "'0001-01-01'", pa.date32(), dt.date(1, 1, 1)),
    ("date", "'9999-12-31'", pa.date32(), dt.date(9999, 12, 31)),
    ("date", "'infinity'", pa.date32(), None),
    ("date", "'0044-03-15 BC'", pa.date32(), None),
    ("date", "'10000-01-01'", pa.date32(), None),
    ("timestamp", "'2026-06-01 12:00:00.12'", NTZ, MOMENT.replace(tzinfo=None)),
    ("timestamp(0)", "'2026-06-01 12:00:00'", NTZ, dt.datetime(2026, 6, 1, 12)),  # noqa: DTZ001
    ("timestamp", "'9999-12-31 23:59:59.999999'", NTZ, LAST.replace(tzinfo=None)),
    ("timestamp", "'-infinity'", NTZ, None),
    ("timestamp", "'0044-03-15 12:00:00 BC'", NTZ, None),
    ("timestamp", "'12026-01-01 12:00:00'", NTZ, None),
    ("timestamptz", "'2026-06-01 15:00:00.12+03'", TZ, MOMENT),
    ("timestamptz", "'0001-01-01 00:00:00+00'", TZ, FIRST),
    ("timestamptz", "'infinity'", TZ, None),
    ("timestamptz", "'0001-12-31 23:59:59.5+00 BC'", TZ, None),
    ("time", "'24:00:00'", pa.string(), "24:00:00"),
    ("time(3)", "'01:02:03.4'", pa.string(), "01:02:03.4"),
    ("timetz", "'01:02:03+05:30'", pa.string(), "01:02:03+05:30"),
    ("interval", "'1 year 2 days -00:00:00.5'", pa.string(), "1 year 2 days -00:00:00.5"),
    ("json", """'{"b" : [1, null]}'""", pa.string(), '{"b" : [1, null]}'),
    ("jsonb", """'{"b" : [1, null], "a": 2}'""", pa.string(), '{"a": 2, "b": [1, null]}'),
    ("uuid", "'123E4567-e89b-12d3-a456-426655440000'", pa.string(), "123e4567-e89b-12d3-a456-426655440000"),
    ("inet", "'192.0.2.1'", pa.string(), "192.0.2.1"),
    ("cidr", "'192.0.2.0/24'", pa.string(), "192.0.2.0/24"),
    ("macaddr", "'08-00-2b-01-02-03'", pa.string(), "08:00:2b:01:02:03"),
    ("xml", "xmlparse(content '<a>é</a>')", pa.string(), "<a>é</a>"),
    ("bit(3)", "B'101'", pa.string(), "101"),
    ("varbit", "B''", pa.string(), ""),
    ("money", "'-1234.5'", pa.string(), "-$1,234.50"),
    ("point", "'(1,-0.5)'", pa.string(), "(1,-0.5)"),
    ("tsvector", "'fat:2 a:1'", pa.string(), "'a':1 'fat':2"),
    ("int4range", "'[1,5]'", pa.string(), "[1,6)"),
    ("pg_lsn", "'16/B374D848'", pa.string(), "16/B374D848"),
    ("integer[]", "'{{1,NULL},{3,4}}'", pa.string(), "{{1,NULL},{3,4}}"),
    ("text[]", """'{a,"b,c",NULL,"NULL"}'""", pa.string(), '{a,"b,c",NULL,"NULL"}'),
    ("timestamptz[]", "'{2026-01-01 02:00:00+02}'", pa.string(), '{"2026-01-01 00:00:00+00"}'),
    (f"{SCHEMA}.mood", "'oh ''well'''", pa.string(), "oh 'well'"),
    (f"{SCHEMA}.pair", "(NULL, NULL)", pa.string(), "(,)"),
    (f"{SCHEMA}.pair[]", "ARRAY[(1, 'x y')::\"verify me\".pair]", pa.string(), '{"(1,\\"x y\\")"}'),
    (f"{SCHEMA}.good_price", "7.5", pa.decimal128(10, 2), Decimal("7.50")),
    (f"{SCHEMA}.code", "'x'", pa.string(), "x   "),
    (f"{SCHEMA}.yes", "true", pa.bool_(), True),
    (f"{SCHEMA}.ratio", "0.1", pa.float32(), FLOAT),
    (f"{SCHEMA}.raw", "'\\x01'", pa.binary(), b"\1"),
    (f"{SCHEMA}.day", "'2024-02-29'", pa.date32(), dt.date(2024, 2, 29)),
]  # fmt: skip
NAMES = [f"{kind} {literal}" for kind, literal, _, _ in TYPES]


@pytest.mark.parametrize("version", sorted(POSTGRES))
def test_every_type_is_equal_to_its_copy(
    version: str, postgres_version: Callable[[str], EmbeddedPostgresSource], write: Write, lake: SqlCatalog
) -> None:
    server = postgres_version(version)
    sql = runs(server)
    sql(PREPARE)
    columns = ", ".join(f"c{i} {t[0]}" for i, t in enumerate(TYPES))
    sql(f"CREATE TABLE {SCHEMA}.types (id int PRIMARY KEY, {columns})")
    sql(f"INSERT INTO {SCHEMA}.types VALUES (1, {', '.join(t[1] for t in TYPES)}), (2{', NULL' * len(TYPES)})")
    copy = {f"c{i}": pa.array([t[3], None], t[2]) for i, t in enumerate(TYPES)}
    write("types", pa.table({"id": pa.array([1, 2], pa.int32())} | copy))
    report = checker(server, lake)("types")
    assert report.equal, (report.lines(), [NAMES[int(c[1:])] for d in report.differences for c in d.columns])
    assert report.source_rows == report.target_rows == 2


def test_another_value_in_its_place_is_found(sql: Sql, write: Write, check: Check) -> None:
    columns = ", ".join(f"c{i} {t[0]}" for i, t in enumerate(TYPES))
    sql(f"CREATE TABLE {SCHEMA}.types (id int PRIMARY KEY, {columns})")
    sql(f"INSERT INTO {SCHEMA}.types VALUES (1, {', '.join(t[1] for t in TYPES)}), (2{', NULL' * len(TYPES)})")
    wrong = {f"c{i}": pa.array([other(t[3], t[2]), t[3]], t[2]) for i, t in enumerate(TYPES)}
    write("types", pa.table({"id": pa.array([1, 2], pa.int32())} | wrong))
    found = {d.row["id"]: set(d.columns) for d in check("types").differences}
    unseen = [name for i, name in enumerate(NAMES) if f"c{i}" not in found["1"]]
    assert not unseen, "another value"
    unseen = [name for i, name in enumerate(NAMES) if f"c{i}" not in found["2"] and TYPES[i][3] is not None]
    assert not unseen, "a value in place of NULL"


def other(value: Any, arrow: pa.DataType) -> Any:
    """Near `value`, and not it."""
    moment = isinstance(value, dt.date)
    ways: list[tuple[bool, Callable[[], Any]]] = [
        (value is None, lambda: dt.datetime(1970, 1, 1)),  # noqa: DTZ001
        (isinstance(value, bool), lambda: not value),
        (isinstance(value, float), lambda: -value if value and math.isfinite(value) else 0.0),
        (isinstance(value, int), lambda: value // 2),
        (isinstance(value, Decimal), lambda: value + Decimal(1).scaleb(-arrow.scale)),
        (moment, lambda: value + smallest(value) * (1 if value.year == 1 else -1)),
        (isinstance(value, bytes), lambda: value + b"\0"),
        (isinstance(value, str), lambda: value.rstrip() if value.endswith(" ") else value + " "),
    ]
    return next(way() for fits, way in ways if fits)


def smallest(value: dt.date) -> dt.timedelta:
    return dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else dt.timedelta(1)


KEYS = [t for t in TYPES if t[3] is not None and t[0] not in {"json", "xml", "point"}]


@pytest.mark.parametrize("key", KEYS, ids=[f"{key[0]} {key[1]}" for key in KEYS])
def test_rows_are_found_again_by_a_key_of_any_type(key: tuple[Any, ...], sql: Sql, write: Write, check: Check) -> None:
    kind, literal, arrow, value = key
    name = '"a.b""c"'
    sql(f'CREATE TABLE {SCHEMA}.t ({name} {kind}, "%s" int, PRIMARY KEY ({name}, "%s"))')
    sql(f"INSERT INTO {SCHEMA}.t VALUES ({literal}, 1), ({literal}, 2)")

    def rows(count: int) -> pa.Table:
        return pa.table({'a.b"c': pa.array([value] * count, arrow), "%s": pa.array(range(1, count + 1), pa.int32())})

    write("t", rows(1))
    report = check("t", ('a.b"c', "%s"), retries=1, before_recheck=lambda: write("t", rows(2)))
    assert (report.rechecks, report.lines()) == (1, ["verify me.t: equal, 2 rows"])


def test_a_key_that_the_source_takes_for_equal_is_not_the_same_row(sql: Sql, write: Write, check: Check) -> None:
    sql(f"CREATE TABLE {SCHEMA}.t (k public.citext PRIMARY KEY); INSERT INTO {SCHEMA}.t VALUES ('Key')")
    write("t", pa.table({"k": ["KEY"]}))
    report = check("t", ("k",), retries=1, before_recheck=lambda: None)
    assert (report.missing, report.extra, report.rechecks) == (1, 1, 1)


def test_what_no_calendar_has_is_text_under_that_policy(sql: Sql, write: Write, check: Check) -> None:
    sql(f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, d {SCHEMA}.day, m timestamp, z timestamptz)")
    sql(f"INSERT INTO {SCHEMA}.t VALUES (1, 'infinity', '0044-03-15 12:00:00 BC', '2026-01-02 03:04:05.5+03')")
    texts = {"d": ["infinity"], "m": ["0044-03-15 12:00:00 BC"], "z": ["2026-01-02 00:04:05.5+00"]}
    write("t", pa.table({"id": pa.array([1], pa.int32())} | texts))
    assert check("t", zero_dates="text").equal
    assert not check("t").equal


def test_a_nan_that_no_decimal_holds_is_a_difference(sql: Sql, write: Write, check: Check) -> None:
    sql(f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v numeric(5,2)); INSERT INTO {SCHEMA}.t VALUES (1, 'NaN')")
    for value in (None, Decimal(0)):
        write("t", pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([value], pa.decimal128(5, 2))}))
        assert check("t").different == 1


def test_a_key_that_the_target_cannot_hold_is_found_however_often_it_is_read(
    sql: Sql, write: Write, check: Check
) -> None:
    sql(f"CREATE TABLE {SCHEMA}.t (d date PRIMARY KEY); INSERT INTO {SCHEMA}.t VALUES ('infinity'), ('2026-01-02')")
    write("t", pa.table({"d": pa.array([dt.date(2026, 1, 2)], pa.date32())}))
    report = check("t", ("d",), retries=2, before_recheck=lambda: None)
    assert (report.missing, report.rechecks) == (1, 2)
