"""Every kind of key, cut into chunks."""

from __future__ import annotations

from contextlib import closing

import pytest

from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
from tests.integration.postgres_snapshot.tables import (
    assert_chunks_are_the_table,
    execute,
    make,
    reader_of,
    whole,
)

pytestmark = pytest.mark.integration


TEXTS = ["'a'", "'A '", "'ß'", "'ss'", "'á'", "'b'", "'B'", "'ba'", "''", "'ab'", "'zz'", "'_'", "'Z%'", "E'q\\\\'",
    "''''", "'é'", "'NULL'", "E'\\n'"]  # fmt: skip


KEYS: dict[str, tuple[str, list[str]]] = {
    "int": ("k int", [str(n) for n in (-5, 0, 3, -2147483648, 2147483647, 7, 8, 9, 10)]),
    "bigint": ("k bigint", ["0", "9223372036854775807", "-9223372036854775808", "1", "2"]),
    "numeric": ("k numeric", ["-1.5", "0", "0.0000000001", "1e100", "1e100 + 0.1", "3", "'NaN'", "2.00"]),
    "numeric(30,10)": ("k numeric(30,10)", ["-1.5", "0", "0.0000000001", "12345678901234567890.0000000001", "3"]),
    "float4": ("k float4", ["0.1", "0.2", "-0.3", "1e30", "-1e-30", "16777216", "'NaN'", "'Infinity'", "'-Infinity'"]),
    "float8": ("k float8", ["0.1", "0.30000000000000004", "0.3", "-1e300", "1e-300", "'NaN'", "'-Infinity'", "'-0'"]),
    "text": ("k text", TEXTS),
    "C text": ('k text collate "C"', TEXTS),
    "icu text": ('k text collate "de-x-icu"', TEXTS),
    "varchar": ("k varchar(30)", TEXTS),
    "char": ("k char(9)", TEXTS),
    "name": ("k name", TEXTS),
    "citext": ("k citext", TEXTS),
    "ltree": ("k ltree", ["'a'", "'A'", "'a.b'", "'a.b.c'", "'b'", "''"]),
    "bytea": ("k bytea", ["''", "'\\x00'", "'\\x0000'", "'\\x20'", "'\\xff'", "'\\x5c'", "'\\x27'"]),
    "mood": ("k mood", ["'sad'", "'ok'", "'it''s, \"fine\"'"]),
    "domain of mood": ("k moods", ["'sad'", "'ok'", "'it''s, \"fine\"'"]),
    "domain": ("k dear", ["10", "11.5", "12", "100"]),
    "bool": ("k bool", ["true", "false"]),
    "date": ("k date", ["'2020-01-01'", "'1000-01-01'", "'9999-12-31'", "'2020-02-29'", "'2020-03-01'"]),
    "timestamp": ("k timestamp", ["'2020-01-01 00:00:00.000001'", "'2020-01-01 00:00:00.000002'", "'2020-01-01'",
            "'9999-12-31 23:59:59.999999'"]),
    "timestamptz": ("k timestamptz",
        ["'2020-10-25 01:30:00.001+02'", "'2020-10-25 01:30:00.001+01'", "'1970-01-01 00:00:01+00'", "'2030-01-01'"]),
    "time": ("k time(6)", ["'24:00:00'", "'00:00:00.000001'", "'00:00:00'", "'10:00:00'"]),
    "interval": ("k interval", ["'1 mon'", "'29 days'", "'31 days'", "'-1 sec'", "'1 year'", "'00:00:00.000001'"]),
    "uuid": ("k uuid", [f"'{n:08x}-1111-{n % 3 + 1}000-8000-{(n * 7919) % 97:012x}'" for n in range(20)]),
    "inet": ("k inet", ["'10.0.0.1'", "'10.0.0.1/8'", "'::1'", "'9.255.0.1'", "'10.0.0.0/8'"]),
    "macaddr": ("k macaddr", ["'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'", "'00:00:00:00:00:00'",
            "'ff:ff:ff:ff:ff:ff'"]),
    "bit": ("k bit(4)", ["B'0000'", "B'1000'", "B'0001'", "B'1111'"]),
    "varbit": ("k varbit", ["B''", "B'0'", "B'00'", "B'1'", "B'0001'"]),
    "money": ("k money", ["-1.5", "0", "1234567.89", "2", "3"]),
    "jsonb": ("k jsonb", ["'1'", "'\"a\"'", "'{\"a\": 1}'", "'[]'", "'null'", "'[1, 2]'"]),
    "array": ("k int[]", ["'{}'", "'{1}'", "'{1,2}'", "'{0,5}'", "'{NULL}'"]),
    "range": ("k int4range", ["'empty'", "'[1,2]'", "'[1,)'", "'(,1]'", "'[0,5)'"]),
    "composite": ("k pair", ["ROW(1, NULL)", "ROW(1, '2020-01-01')", "ROW(NULL, NULL)", "ROW(0, '2021-01-01')"]),
    "oid": ("k oid", ["0", "4294967295", "5", "6"]),
    "pg_lsn": ("k pg_lsn", ["'0/0'", "'16/B374D848'", "'FFFFFFFF/0'", "'1/0'"]),
}  # fmt: skip


def fill(server: Connection, literals: list[str]) -> list[int]:
    """Rows of `keys`; those are left out that equal another under the column's order."""
    for number, literal in enumerate(literals):
        execute(server, f"INSERT INTO keys VALUES ({number}, {literal}) ON CONFLICT DO NOTHING")
    return sorted(row[0] for row in execute(server, "SELECT id FROM keys"))


@pytest.mark.parametrize("name", KEYS)
def test_chunks_over_a_key_are_the_table(server: Connection, reader: PostgresSnapshotReader, name: str) -> None:
    column, literals = KEYS[name]
    table = make(server, "keys", f"id int, {column} not null primary key", [])
    ids = fill(server, literals)
    assert len(ids) > 3 or name in ("bool", "mood", "domain of mood")
    assert_chunks_are_the_table(reader, table, ids)


def test_chunks_over_a_nondeterministic_collation_are_the_table(
    server: Connection, reader: PostgresSnapshotReader
) -> None:
    execute(server, "DROP COLLATION IF EXISTS anycase CASCADE")
    execute(server, "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    table = make(server, "keys", "id int, k text collate anycase primary key", [])
    assert_chunks_are_the_table(reader, table, fill(server, TEXTS))


def test_chunks_over_infinite_dates_keep_them_as_text(server: Connection, config: PostgresConfig) -> None:
    dates = ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'10000-01-01'", "'2021-01-01'"]
    with closing(reader_of(config, values={"zero_dates": "text"})) as reader:
        for kind in ("date", "timestamp", "timestamptz"):
            table = make(server, "keys", f"id int, k {kind} primary key", [])
            assert_chunks_are_the_table(reader, table, fill(server, dates))


@pytest.mark.parametrize(
    "columns",
    ["a int not null, b varchar(9) not null", "a citext not null, b bigint not null",
        "a date not null, b citext not null", "a mood not null, b ltree not null"],
)  # fmt: skip
def test_chunks_over_a_composite_key_are_the_table(
    server: Connection, reader: PostgresSnapshotReader, columns: str
) -> None:
    table = make(server, "composite", f"{columns}, c smallint not null, id int, primary key (a, b, c)", [])
    first = {
        "int": "n / 20",
        "citext": "(n / 20)::text",
        "date": "DATE '2020-01-01' + n / 20",
        "mood": "(enum_range(NULL::mood))[1 + n / 20]",
    }
    second = "(n % 4)::text::" + columns.rsplit(" not null", 1)[0].rsplit(" ", 1)[1]
    insert = f"SELECT {first[columns.split()[1]]}, {second}, n - 20, n FROM generate_series(0, 48) n"
    execute(server, f"INSERT INTO composite {insert}")
    assert_chunks_are_the_table(reader, table, list(range(49)))


@pytest.mark.parametrize("identity", ['USING INDEX "my ""key"', "FULL"])
def test_an_index_serves_where_there_is_no_primary_key(
    server: Connection, reader: PostgresSnapshotReader, identity: str
) -> None:
    rows = [f"({n}, {-n}, NULL)" for n in range(10)]
    table = make(server, "uniq", "id int, u int not null, n int unique", rows)
    execute(server, 'CREATE UNIQUE INDEX "my ""key" ON uniq (u) INCLUDE (n)')
    execute(server, f"ALTER TABLE uniq REPLICA IDENTITY {identity}")
    assert_chunks_are_the_table(reader, table, list(range(10)))


@pytest.mark.parametrize("index", ["(k text_pattern_ops)", "(k DESC)", '(k COLLATE "C")'])
def test_an_index_of_another_order_is_read_in_one_piece(
    server: Connection, reader: PostgresSnapshotReader, index: str
) -> None:
    table = make(server, "other", "id int, k text not null", ["(1, 'abc')", "(2, 'abd')"])
    execute(server, f"CREATE UNIQUE INDEX other_k ON other {index}")
    execute(server, "ALTER TABLE other REPLICA IDENTITY USING INDEX other_k")
    assert reader.end_key(table) is None
    assert sorted(whole(reader, table).column("id").to_pylist()) == [1, 2]
