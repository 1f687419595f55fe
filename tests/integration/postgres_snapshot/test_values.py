"""Every type's values, in the snapshot and in the log."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from replicator.errors import TableError, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.sources.base import KeyRange
from replicator.sources.postgres.catalog.attributes import TableDescription
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, quoted
from replicator.sources.postgres.rows.columns import RowConverter, binary_exact
from replicator.sources.postgres.rows.tuples import find_values, tuple_ends
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
from replicator.sources.postgres.watermark import MESSAGES_SINCE
from tests.integration.postgres_snapshot.tables import (
    REPLICATOR,
    execute,
    make,
    reader_of,
    whole,
)

pytestmark = pytest.mark.integration


def naive(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[misc]  # noqa: DTZ001 - without zone is the point


D = Decimal


NAN, INFINITY = float("nan"), float("inf")


VALUES: list[tuple[str, list[tuple[str, Any]]]] = [
    ("bool", [("true", True), ("false", False)]),
    ("int2", [("-32768", -32768), ("32767", 32767)]),
    ("int4", [("-2147483648", -2147483648), ("2147483647", 2147483647)]),
    ("int8", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("oid", [("4294967295", 4294967295), ("0", 0)]),
    ("float4", [("0.1", 0.10000000149011612), ("'NaN'", NAN), ("'-Infinity'", -INFINITY),
            ("1e-45", 1.401298464324817e-45), ("'-0'", -0.0), ("3.4028235e38", 3.4028234663852886e38)]),
    ("float8", [("0.1", 0.1), ("'NaN'", NAN), ("'Infinity'", INFINITY), ("5e-324", 5e-324), ("'-0'", -0.0),
            ("1.7976931348623157e308", 1.7976931348623157e308)]),
    ("numeric(38,10)", [("9999999999999999999999999999.9999999999", D("9999999999999999999999999999.9999999999")),
            ("-0.0000000001", D("-1E-10")), ("0", D(0))]),
    ("numeric(38,0)", [("9" * 38, D("9" * 38)), ("-" + "9" * 38, D("-" + "9" * 38)), ("10000", D(10000))]),
    ("numeric(38,38)", [("0." + "9" * 38, D("0." + "9" * 38)), ("-0." + "0" * 37 + "1", D("-1E-38"))]),
    ("numeric(38,1)", [("-" + "9" * 37 + ".9", D("-" + "9" * 37 + ".9")), ("1e36", D(10**36))]),
    ("numeric(38,37)", [("9." + "9" * 37, D("9." + "9" * 37))]),
    ("numeric(5,3)", [("12.34", D("12.340")), ("0.001", D("0.001")), ("-99.999", D("-99.999"))]),
    ("numeric", [("1.50", "1.50"), ("'NaN'", "NaN"), ("-0.000", "0.000"), ("1e130000", "1" + "0" * 130000),
            ("1e-16000", "0." + "0" * 15999 + "1"), ("10000", "10000"), ("-1234567.00012300", "-1234567.00012300")]),
    ("numeric(40,2)", [("9" * 38, "9" * 38 + ".00")]),
    ("price", [("1.5", D("1.50"))]),
    ("dear", [("10", D("10.00"))]),
    ("char(4)", [("'ab'", "ab  "), ("''", "    ")]),
    ("varchar(20)", [("'ab  '", "ab  "), ("'😀'", "😀"), ("'NULL'", "NULL"), ("E'a\\\\b\\n\\t'", "a\\b\n\t")]),
    ("text", [("repeat('é', 100000)", "é" * 100000), ("''", ""), ("E'\\x01\\x7f'", "\x01\x7f")]),
    ("name", [("'abc'", "abc")]),
    ('"char"', [("'a'", "a"), ("''", "")]),
    ("citext", [("'aB'", "aB")]),
    ("mood", [("'ok'", "ok"), ("'it''s, \"fine\"'", "it's, \"fine\"")]),
    ("moods", [("'sad'", "sad")]),
    ("json", [('\'{"b" : 1,  "a":[1,null]}\'', '{"b" : 1,  "a":[1,null]}')]),
    ("jsonb", [('\'{"b" : 1,  "a":[1.50,null]}\'', '{"a": [1.50, null], "b": 1}'), ("'\"\\u00e9\"'", '"é"'),
            ("'null'", "null")]),
    ("jsonpath", [("'$.a[*]'", '$."a"[*]')]),
    ("uuid", [("'123E4567-E89B-12D3-A456-426655440000'", "123e4567-e89b-12d3-a456-426655440000")]),
    ("xml", [("'<?xml version=\"1.0\" encoding=\"UTF-8\"?><a>é</a>'", "<a>é</a>"), ("'a<b/>c'", "a<b/>c")]),
    ("inet", [("'10.0.0.1'", "10.0.0.1"), ("'10.1.2.3/8'", "10.1.2.3/8"), ("'2001:db8::ff00'", "2001:db8::ff00")]),
    ("cidr", [("'10.0.0.0/8'", "10.0.0.0/8"), ("'10.0.0.1'", "10.0.0.1/32")]),
    ("macaddr", [("'08-00-2B-01-02-03'", "08:00:2b:01:02:03")]),
    ("macaddr8", [("'08-00-2B-01-02-03'", "08:00:2b:ff:fe:01:02:03")]),
    ("bytea", [("'\\x00ff'", b"\0\xff"), ("''", b""), ("decode(repeat('5c27', 1000), 'hex')", b"\\'" * 1000)]),
    ("date", [("'2020-02-29'", date(2020, 2, 29)), ("'0001-01-01'", date(1, 1, 1)),
            ("'9999-12-31'", date(9999, 12, 31)), ("'infinity'", None), ("'-infinity'", None),
            ("'0044-03-15 BC'", None), ("'10000-01-01'", None), ("'0001-12-31 BC'", None)]),
    ("timestamp", [("'0001-01-01'", naive(1, 1, 1)),
            ("'9999-12-31 23:59:59.999999'", naive(9999, 12, 31, 23, 59, 59, 999999)),
            ("'1969-12-31 23:59:59.000001'", naive(1969, 12, 31, 23, 59, 59, 1)), ("'infinity'", None),
            ("'4713-01-01 BC'", None), ("'294276-12-31 23:59:59.999999'", None), ("'10000-01-01'", None)]),
    ("timestamp(3)", [("'2020-01-01 00:00:00.1236'", naive(2020, 1, 1, 0, 0, 0, 124000))]),
    ("timestamptz", [("'2020-10-25 01:30:00+01:30'", datetime(2020, 10, 25, tzinfo=UTC)),
            ("'9999-12-31 23:59:59.999999+00'", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
            ("'0001-01-01 00:00:00+00'", datetime(1, 1, 1, tzinfo=UTC)), ("'-infinity'", None),
            ("'0001-01-01 00:00:00+01'", None)]),
    ("time", [("'24:00:00'", "24:00:00"), ("'00:00:00.000001'", "00:00:00.000001")]),
    ("timetz", [("'01:02:03+05:30'", "01:02:03+05:30")]),
    ("interval", [("'1 year 2 mons -3 days 04:05:06.789'", "1 year 2 mons -3 days +04:05:06.789"),
            ("'-1 sec'", "-00:00:01"), ("'0'", "00:00:00")]),
    ("bit(3)", [("B'101'", "101")]),
    ("varbit", [("B''", ""), ("B'0001'", "0001")]),
    ("money", [("'-1234.5'", "-$1,234.50"), ("92233720368547758.07", "$92,233,720,368,547,758.07")]),
    ("point", [("'(0.1,-1e300)'", "(0.1,-1e+300)")]),
    ("polygon", [("'((0,0),(1,1),(1,0))'", "((0,0),(1,1),(1,0))")]),
    ("circle", [("'<(1,2),3>'", "<(1,2),3>")]),
    ("int4range", [("'[1,5]'", "[1,6)"), ("'empty'", "empty")]),
    ("tstzrange", [("'[2020-01-01 00:00+00,)'", '["2020-01-01 00:00:00+00",)')]),
    ("int4[]", [("'{1,NULL,3}'", "{1,NULL,3}"), ("'{}'", "{}"), ("'[2:3]={1,2}'", "[2:3]={1,2}")]),
    ("text[]", [("ARRAY['a,b', '\"', NULL, 'NULL', '']", '{"a,b","\\"",NULL,"NULL",""}')]),
    ("float8[]", [("'{NaN,0.1}'", "{NaN,0.1}")]),
    ("mood[]", [("ARRAY['sad','ok']::mood[]", "{sad,ok}")]),
    ("price[]", [("ARRAY[1.5]::price[]", "{1.50}")]),
    ("pair", [("ROW(1, '2020-01-01 00:00+00')", '(1,"2020-01-01 00:00:00+00")'), ("ROW(NULL, NULL)", "(,)")]),
    ("pair[]", [("ARRAY[ROW(1, NULL)::pair]", '{"(1,)"}')]),
    ("hstore", [("'a=>1, b=>NULL'", '"a"=>"1", "b"=>NULL')]),
    ("ltree", [("'Top.Science'", "Top.Science")]),
    ("tsvector", [("'a:1 b:2'", "'a':1 'b':2")]),
    ("tsquery", [("'a & !b'", "'a' & !'b'")]),
    ("pg_lsn", [("'16/B374D848'", "16/B374D848")]),
    ("xid", [("'4294967295'", "4294967295")]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_are_those_of_the_server(
    server: Connection, reader: PostgresSnapshotReader, kind: str, values: list[tuple[str, Any]]
) -> None:
    rows = [f"({n}, {literal})" for n, (literal, _) in enumerate(values)] + [f"({len(values)}, NULL)"]
    table = make(server, "values", f"id int primary key, v {kind}", rows)
    read = whole(reader, table).sort_by("id").column("v").to_pylist()
    for (literal, expected), value in zip(values, read, strict=False):
        assert type(value) is type(expected), f"{kind} {literal}"
        assert str(value) == str(expected) if isinstance(value, float) else value == expected, f"{kind} {literal}"
    assert read[-1] is None


def logged(server: Connection, config: PostgresConfig, slot: str, operation: bytes, **options: str) -> list[bytes]:
    """The messages of this kind that the log has for what was done since the last time."""
    pairs = {"proto_version": "1", "publication_names": quoted(config.publication_for(REPLICATOR))} | options
    more = ", ".join(f"'{name}', '{value}'" for name, value in pairs.items())
    rows = execute(server, f"SELECT data FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, {more})")
    return [bytes(row[0]) for row in rows if bytes(row[0][:1]) == operation]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_in_the_log_are_those_of_the_snapshot(
    server: Connection,
    config: PostgresConfig,
    reader: PostgresSnapshotReader,
    slot: str,
    kind: str,
    values: list[tuple[str, Any]],
) -> None:
    table = make(server, "values", f"id int primary key, v {kind}", [])
    execute(server, f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    rows = ", ".join(f"({n}, {literal})" for n, literal in enumerate([*(one for one, _ in values), "NULL"]))
    execute(server, f"INSERT INTO values VALUES {rows}".replace("INTO values", 'INTO "values"'))
    description = PostgresCatalog(server).details([table])[table]
    assert isinstance(description, TableDescription)
    expected = whole(reader, table).sort_by("id").to_batches()[0]
    exact = binary_exact(*description.attribute("v").plain)
    for binary in ("false", "true") if exact and server.server_version >= MESSAGES_SINCE else ("false",):
        parts = logged(server, config, slot, b"I", **({"binary": binary} if binary == "true" else {}))
        offsets = np.cumsum([6, *(len(part) for part in parts)])[:-1]
        cells = [found.cells() for found in find_values(b"".join(parts), offsets, 2)]
        assert set(cells[1].kind.tolist()) == {ord("n"), ord("b" if binary == "true" else "t")}
        found = RowConverter(description, "null").batch(cells)
        same = [str(column.to_pylist()) for column in found.columns] == [
            str(column.to_pylist()) for column in expected.columns
        ]
        assert same, f"{kind} binary={binary}"


def test_an_update_leaves_out_a_large_value_that_it_did_not_change(
    server: Connection, config: PostgresConfig, slot: str
) -> None:
    make(server, "toasted", "id int primary key, v text, w int", [])
    execute(server, "ALTER TABLE toasted ALTER v SET STORAGE EXTERNAL")
    execute(server, "INSERT INTO toasted SELECT n, repeat('v', 10000), n FROM generate_series(1, 3) n")
    execute(server, f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    execute(server, "UPDATE toasted SET w = w + 10 WHERE id < 3; UPDATE toasted SET id = 30, v = 'small' WHERE id = 3")
    parts = logged(server, config, slot, b"U")
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    data = b"".join(parts)
    assert [part[5:6] for part in parts] == [b"N", b"N", b"K"]
    old_end = tuple_ends(data, starts[2:] + 6)
    assert data[int(old_end[0])] == ord("N")
    places = np.array([starts[0] + 6, starts[1] + 6, old_end[0] + 1])
    new = [found.cells() for found in find_values(data, places, 3)]
    assert [column.values.to_pylist() for column in new] == [
        [b"1", b"2", b"30"],
        [None, None, b"small"],
        [b"11", b"12", b"3"],
    ]
    assert new[1].unchanged.tolist() == [True, True, False]
    assert find_values(data, starts[2:] + 6, 3)[1].kinds.tolist() == [ord("n")]
    assert tuple_ends(data, np.array([old_end[0] + 1])).tolist() == [len(data)]


def test_infinity_in_numeric_is_text(server: Connection, reader: PostgresSnapshotReader) -> None:
    if server.server_version < 140000:
        pytest.skip("13 has no infinite numeric")
    table = make(server, "values", "id int primary key, v numeric", ["(1, 'Infinity')", "(2, '-Infinity')"])
    assert whole(reader, table).sort_by("id").column("v").to_pylist() == ["Infinity", "-Infinity"]


def test_nan_in_a_numeric_with_precision_is_refused_by_name(server: Connection, reader: PostgresSnapshotReader) -> None:
    table = make(server, "values", "id int primary key, v numeric(5,2)", ["(1, 1)", "(2, 'NaN')"])
    with pytest.raises(
        ValueDoesNotFit, match=r"v of snapshot tests\.values: 'NaN' is not a valid value of decimal\(5,2\)"
    ):
        whole(reader, table)


def test_infinite_dates_follow_the_policy(server: Connection, config: PostgresConfig) -> None:
    rows = ["(1, 'infinity', '0044-03-15 BC')", "(2, '2020-02-02', '-infinity')", "(3, '2020-02-02', '2020-02-02')"]
    table = make(server, "dates", "id int primary key, a date not null, b timestamptz(3) not null", rows)
    with closing(reader_of(config)) as nulls:
        chunk = nulls.read_chunk(table, KeyRange())
        batch = next(chunk.batches)
        counts = chunk.replaced()
        assert counts is not None
        assert dict(zip(batch.column("id").to_pylist(), counts.to_pylist(), strict=True)) == {1: 2, 2: 1, 3: 0}
        assert batch.column("a").to_pylist() == [None, date(2020, 2, 2), date(2020, 2, 2)]
        assert list(chunk.batches) == []
        assert nulls.replaced == 3
    with closing(reader_of(config, values={"zero_dates": "text"})) as texts:
        read = whole(texts, table)
        assert read.column("a").to_pylist() == ["infinity", "2020-02-02", "2020-02-02"]
        assert read.column("b").to_pylist() == ["0044-03-15 00:00:00+00 BC", "-infinity", "2020-02-02 00:00:00+00"]
    with (
        closing(reader_of(config, values={"zero_dates": "fail"})) as fails,
        pytest.raises(ValueDoesNotFit, match="'infinity'"),
    ):
        whole(fails, table)


def test_an_infinite_date_in_a_key_is_never_made_null(server: Connection, reader: PostgresSnapshotReader) -> None:
    table = make(server, "dates", "id int, k date primary key", ["(1, 'infinity')"])
    with pytest.raises(ValueDoesNotFit, match=r"k of snapshot tests\.dates: 'infinity'"):
        whole(reader, table)


def test_text_that_is_no_unicode_is_refused(server: Connection, config: PostgresConfig) -> None:
    execute(server, "DROP DATABASE IF EXISTS unchecked")
    execute(server, "CREATE DATABASE unchecked TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    other = PostgresConfig.parse(vars(config) | {"database": "unchecked"})
    with closing(connect(other)) as connection:
        execute(connection, "SET client_encoding = 'SQL_ASCII'")
        execute(connection, "CREATE TABLE public.t (id int PRIMARY KEY, v text)")
        execute(connection, "INSERT INTO public.t VALUES (1, E'\\xe9')")
        execute(connection, f"CREATE PUBLICATION {quoted(other.publication_for(REPLICATOR))} FOR ALL TABLES")
    with closing(reader_of(other)) as reader, pytest.raises(TableError, match=r"Unicode|byte sequence"):
        whole(reader, TableId("public", "t"))
    execute(server, "DROP DATABASE unchecked")
