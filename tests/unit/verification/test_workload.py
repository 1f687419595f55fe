"""The workload's generator and shrinker, without a server."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain

import pytest

from testing.workload import mysql, sqlserver
from testing.workload.dialects import grammar
from testing.workload.histories import MEDIUM, SMALL, Maker, Size, generate
from testing.workload.model import Grammar
from testing.workload.mysql import kinds
from testing.workload.mysql.keys import numbered
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.oracle.kinds import KINDS as ORACLE_TYPES
from testing.workload.postgres import shapes
from testing.workload.postgres.values import kinds as postgres_kinds
from testing.workload.postgres.values import temporal_values
from testing.workload.postgres.values.rng_literals import text
from testing.workload.rng_literals import Pen, spells
from testing.workload.shrinker import shrink
from testing.workload.sqlserver import kinds as sql_server_kinds
from testing.workload.workload import AnySession, Dialect, History, Phase, PostgresSession, Session, Step

SEEDS = 150
DIALECTS: tuple[Dialect, ...] = ("mariadb", "mysql", "postgres", "sqlserver", "oracle")
MARIADB_ONLY = {"hide column", "create select", "sequence", "insert returning", "alter if exists"}
TYPES = {
    "bool", *kinds.INTEGERS, *(f"{name} unsigned" for name in kinds.INTEGERS), "decimal", "float", "double", "bit",
    "date",
    "datetime", "timestamp", "time", "year", "json", "enum", "set", *kinds.CHARACTERS, *kinds.BYTES, *kinds.GEOMETRIES,
}  # fmt: skip
POSTGRES_TYPES = {
    "boolean", *postgres_kinds.INTEGERS, *postgres_kinds.NUMBERS, "numeric with precision", *postgres_kinds.CHARACTERS,
    *postgres_kinds.BITS, "bytea", *temporal_values.VALUES, *shapes.VALUES, "array of others", "domain of others",
    "domain of array", "composite", "enum", "custom range", "label range",
    *(f"large {name}" for name in postgres_kinds.LARGE),
}  # fmt: skip
SQL_SERVER_TYPES = {
    "bit", "decimal", "money", "smallmoney", "float", "real", "date", "time", "datetime2", "datetime", "smalldatetime",
    "datetimeoffset", "uniqueidentifier", "xml", "hierarchyid", "geography", "geometry", "varchar(max)",
    "nvarchar(max)",
    "varbinary(max)", *sql_server_kinds.INTEGERS, *sql_server_kinds.CHARACTERS, *sql_server_kinds.BINARIES,
}  # fmt: skip


def every_statement(history: History) -> list[str]:
    steps = [statement for phase in history.phases for step in phase.steps for statement in step.statements]
    return [*history.setup, *steps]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_seed_gives_the_same_history_and_another_seed_another(dialect: Dialect) -> None:
    first = generate(7, dialect, SMALL)
    assert first == generate(7, dialect, SMALL)
    assert first != generate(8, dialect, SMALL)
    assert first != generate(7, dialect, MEDIUM)


@pytest.mark.parametrize(
    ("dialect", "digest"),
    [
        ("mariadb", "459db6e8d0868783b8759ec8841ee0837b55de451af3f930a53d24ba96076089"),
        ("mysql", "06631f484a677aa04a0bcb252022d8ec84a8aea48cb74b528333e1d4e22fb1cb"),
    ],
)
def test_a_seed_that_was_noted_gives_the_history_that_was_played(dialect: Dialect, digest: str) -> None:
    """Findings name their seed: a change of the generator that changes histories changes these on purpose only."""
    text_of_all = "".join(generate(seed, dialect, SMALL).to_json() for seed in range(12))
    assert hashlib.sha256(text_of_all.encode()).hexdigest() == digest


@pytest.mark.parametrize("dialect", ["mariadb", "mysql"])
def test_histories_for_servers_that_ignore_case_have_names_in_any_case_and_are_else_the_same(dialect: Dialect) -> None:
    tables = set[str]()
    for seed in range(5):
        plain, other = generate(seed, dialect), generate(seed, dialect, caseless=True)
        pairs = list(zip(every_statement(plain), every_statement(other), strict=True))
        assert all(one.lower() == two.lower() for one, two in pairs)
        tables |= {two.partition("`")[2].partition("`")[0] for _, two in pairs if two.startswith("ALTER TABLE")}
    assert any(name != name.lower() and name.lower() in tables for name in tables)


@pytest.mark.parametrize("dialect", ["mariadb", "mysql"])
def test_engines_that_a_kill_may_harm_occur_where_the_server_is_not_killed(dialect: Dialect) -> None:
    killed = "\n".join(chain.from_iterable(every_statement(one) for _, one in small_histories(dialect)))
    assert "ENGINE=MEMORY" in killed
    assert re.search(r"\) ENGINE=(MERGE UNION=\(|CSV|BLACKHOLE|ARCHIVE)", killed)
    assert not re.search(r"ALTER TABLE \S+ ENGINE=(MyISAM|Aria)", killed)
    others = (every_statement(generate(seed, dialect, SMALL, unkilled=True)) for seed in range(SEEDS))
    assert any(re.search(r"ALTER TABLE \S+ ENGINE=MyISAM", one) for one in chain.from_iterable(others))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_history_survives_json_unchanged(dialect: Dialect) -> None:
    for seed in range(10):
        history = generate(seed, dialect)
        assert History.from_json(history.to_json()) == history


@cache
def small_histories(dialect: Dialect, version: int | None = None) -> list[tuple[Counter[str], History]]:
    """Of all seeds: what occurs in it, and the history."""
    makers = (Maker(seed, dialect, SMALL, version) for seed in range(SEEDS))
    return [(maker.draft.used, history) for maker in makers for history in (maker.history(),)]


def used_in(dialect: Dialect, version: int | None = None) -> tuple[Counter[str], set[AnySession], int]:
    """What occurs within the seeds, the sessions, and how many tables are to be refused."""
    used: Counter[str] = Counter()
    sessions: set[AnySession] = set()
    refused = 0
    for uses, history in small_histories(dialect, version):
        used.update(uses)
        sessions.update(history.sessions)
        refused += len(history.refused)
    return used, sessions, refused


def operations(of: Grammar) -> set[str]:
    groups = (of.changes, of.rare, of.sequences, of.alterations, of.tables, of.partitions, of.surroundings)
    shapes = {"xa", "ddl in a transaction", "foreign key", "rollback", "savepoint rolled back"}
    return {name for group in groups for name in group} | {f"key {style.strip()}" for style in of.styles} | shapes


def test_every_operation_type_and_key_of_sql_server_occurs_within_the_seeds() -> None:
    used, sessions, _ = used_in("sqlserver")
    expected = operations(sqlserver.grammar()) - {"xa"} | {f"type {name}" for name in SQL_SERVER_TYPES}
    assert not expected - set(used)
    levels = {value for session in sessions for name, value in session.settings if name.endswith("LEVEL")}
    assert levels == {"READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"}


@pytest.mark.parametrize("dialect", ["mariadb", "mysql"])
def test_every_operation_type_key_and_session_occurs_within_the_seeds(dialect: Dialect) -> None:
    used, sessions, refused = used_in(dialect)
    expected = operations(mysql.grammar(dialect)) | {f"type {name}" for name in TYPES} | {"foreign key later"}
    if dialect == "mariadb":
        expected |= {"type uuid", "type inet6", "type inet4", "invisible column", "form two phases"}
    else:
        expected -= MARIADB_ONLY | {"next value", "convert partition"}
    assert expected - used.keys() == set()
    assert refused > 0
    assert len({session.time_zone for session in sessions}) >= 5
    assert len({session.charset for session in sessions}) >= 5
    assert len({session.sql_mode for session in sessions if isinstance(session, Session)}) >= 8


@pytest.mark.parametrize("version", [13, 17])
def test_every_operation_type_key_and_session_of_postgres_occurs_within_the_seeds(version: int) -> None:
    used, sessions, refused = used_in("postgres", version)
    expected = operations(grammar("postgres", version)) | {f"type {name}" for name in POSTGRES_TYPES}
    expected |= {f"partitioned by {how}" for how in ("range", "list", "hash")}
    expected |= {f"identity {what}" for what in ("default", "index", "full")} | {
        "deferrable key",
        "shift deferred keys",
    }
    expected |= {f"add column with {what}" for what in ("no default", "constant default", "volatile default")}
    expected |= {"ddl rolled back", "ddl after a savepoint rolled back", "generated stored", "generated identity"}
    expected |= {"commit prepared", "rollback prepared", "truncate several", "retype by an expression"}
    if version >= 14:
        expected |= {f"type {name}" for name in (*postgres_kinds.MULTIRANGES, "label multirange")}
    else:
        expected -= {"merge"}
    assert expected - used.keys() == set()
    assert refused > 0
    assert len({session.time_zone for session in sessions}) >= 5
    assert len({session.charset for session in sessions}) >= 5
    assert len({session.settings for session in sessions if isinstance(session, PostgresSession)}) >= 8


def test_every_operation_type_and_key_of_oracle_occurs_within_the_seeds() -> None:
    used, sessions, refused = used_in("oracle")
    expected = operations(grammar("oracle")) | {f"type {name}" for name in (*ORACLE_TYPES, "NUMBER with precision")}
    expected |= {f"add column with {what} default" for what in ("a", "no")} | {"foreign key later"}
    assert expected - {"xa"} - used.keys() == set()
    assert refused > 0
    assert len({session.time_zone for session in sessions}) >= 4


def test_histories_for_oracle_hold_nothing_that_only_others_know() -> None:
    words = (" LIMIT ", "`", "RELEASE SAVEPOINT", "VALUES (1), (", " % ", "ON UPDATE", "IF EXISTS", "TRUE")
    for seed in range(30):
        for statement in every_statement(generate(seed, "oracle", SMALL)):
            assert not any(word in re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", "", statement) for word in words), statement


def test_histories_for_an_old_postgres_hold_nothing_newer() -> None:
    words = ("MERGE INTO", "multirange", "'Infinity'::numeric", "numeric(3,-2)", "VIRTUAL", "'infinity'::interval")
    for seed in range(30):
        for statement in every_statement(generate(seed, "postgres", SMALL, 13)):
            assert not any(word in statement for word in words), statement


@pytest.mark.parametrize("dialect", ["mariadb", "postgres"])
def test_every_statement_can_be_spelled_in_its_session_s_character_set(dialect: Dialect) -> None:
    codecs = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "koi8r": "koi8-r", "WIN1251": "cp1251",
        "KOI8R": "koi8-r",
              "SJIS": "shift_jis"}  # fmt: skip
    for seed in range(15):
        history = generate(seed, dialect)
        for phase in history.phases:
            for step in phase.steps:
                charset = history.sessions[step.writer].charset
                for statement in step.statements:
                    statement.encode(codecs.get(charset, charset))


def test_no_statement_needs_an_sql_mode() -> None:
    """No backslash outside hexadecimal or identifiers, no double quote as a delimiter."""
    assert not spells("utf8mb4", "back\\slash")
    assert not spells("latin1", "表")
    assert spells("sjis", "表")
    assert numbered("label", "3", MySQLKind("enum", labels=("a", "it's"))) == "ELT(1 + (3) % 2, 'a', 'it''s')"


def test_no_literal_of_postgres_needs_a_setting() -> None:
    """No backslash outside E strings, where quotes are doubled; what the session cannot spell is escaped."""
    pen = Pen(1)
    pen.charset = "SJIS"
    assert text("it's \\ é\n", pen) == "E'it''s \\\\ \\u00e9\\u000a'"
    assert text("it's", pen) == "'it''s'"
    assert text("🎈", pen) == "E'\\U0001f388'"


def test_mysql_histories_hold_nothing_that_only_mariadb_knows() -> None:
    words = (
        "INVISIBLE",
        "OR REPLACE TABLE",
        "uca1400",
        "nopad",
        " UUID",
        " INET6",
        "seq_0_to",
        "COMPRESSED",
        "RETURNING",
    )
    for seed in range(15):
        for statement in every_statement(generate(seed, "mysql")):
            if statement.startswith(("CREATE TABLE", "ALTER TABLE", "INSERT", "DELETE")):
                assert not any(word in statement for word in words), statement


def history_of(*phases: tuple[Step, ...]) -> History:
    sessions = (Session("+00:00", "utf8mb4", ""),)
    return History(
        1, "mariadb", sessions, ("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)"), tuple(map(Phase, phases))
    )


def test_the_shrinker_finds_the_one_step_that_fails() -> None:
    history = generate(3, "mariadb", Size(phases=(6, 6), steps=(40, 40)))
    culprit = "UPDATE culprit SET a = 1"
    middle = history.phases[3].steps
    step = Step(0, ("SAVEPOINT x", culprit, "SELECT 1"), "commit", 0.05)
    phases = (*history.phases[:3], Phase((*middle[:20], step, *middle[20:])), *history.phases[4:])
    attempts = 0

    def fails(smaller: History) -> bool:
        nonlocal attempts
        attempts += 1
        return culprit in every_statement(smaller)

    smallest = shrink(replace(history, phases=phases), fails, 10.0)
    assert smallest.phases == (Phase((Step(0, (culprit,), "commit", 0.0),)),)
    assert smallest.setup == ()
    assert attempts < 100


def test_the_shrinker_keeps_all_that_a_failure_needs_and_its_order() -> None:
    steps = tuple(Step(0, (f"S{number}",), "autocommit") for number in range(12))

    def fails(smaller: History) -> bool:
        return [s for s in every_statement(smaller) if s in ("S2", "S9", "CREATE TABLE u (a INT)")] == [
            "CREATE TABLE u (a INT)", "S2", "S9",
        ]  # fmt: skip

    smallest = shrink(history_of(steps[:6], steps[6:]), fails, 10.0)
    assert every_statement(smallest) == ["CREATE TABLE u (a INT)", "S2", "S9"]


def test_the_shrinker_ends_with_its_time() -> None:
    history = history_of(tuple(Step(0, (f"S{number}",), "autocommit") for number in range(12)))
    assert shrink(history, lambda _: True, 0.0) == history
