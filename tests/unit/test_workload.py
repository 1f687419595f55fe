"""The workload's generator and shrinker, without a server."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

import pytest

from replicator.testing import kinds
from replicator.testing.alterations import ALTERATIONS
from replicator.testing.changes import OPERATIONS
from replicator.testing.histories import MEDIUM, SMALL, Maker, Size, generate
from replicator.testing.keys import numbered, styles
from replicator.testing.kinds import Kind
from replicator.testing.literals import spells
from replicator.testing.partitions import PARTITIONS
from replicator.testing.shrinking import shrink
from replicator.testing.surroundings import SURROUNDINGS
from replicator.testing.tables import TABLES
from replicator.testing.workload import History, Phase, Session, Step

SEEDS = 60
MARIADB_ONLY = {"hide column", "create select", "sequence", "insert returning", "alter if exists"}
TYPES = {
    "bool", *kinds.INTEGERS, *(f"{name} unsigned" for name in kinds.INTEGERS), "decimal", "float", "double", "bit", "date",
    "datetime", "timestamp", "time", "year", "json", "enum", "set", *kinds.CHARACTERS, *kinds.BYTES, *kinds.GEOMETRIES,
}  # fmt: skip


def every_statement(history: History) -> list[str]:
    steps = [statement for phase in history.phases for step in phase.steps for statement in step.statements]
    return [*history.setup, *steps]


@pytest.mark.parametrize("dialect", ["mariadb", "mysql"])
def test_the_same_seed_gives_the_same_history_and_another_seed_another(dialect: Literal["mariadb", "mysql"]) -> None:
    first = generate(7, dialect, SMALL)
    assert first == generate(7, dialect, SMALL)
    assert first != generate(8, dialect, SMALL)
    assert first != generate(7, dialect, MEDIUM)


def test_a_history_survives_json_unchanged() -> None:
    for seed in range(10):
        history = generate(seed)
        assert History.from_json(history.to_json()) == history


@pytest.mark.parametrize("dialect", ["mariadb", "mysql"])
def test_every_operation_type_key_and_session_occurs_within_sixty_seeds(dialect: Literal["mariadb", "mysql"]) -> None:
    used: Counter[str] = Counter()
    sessions: set[Session] = set()
    refused = 0
    for seed in range(SEEDS):
        maker = Maker(seed, dialect, SMALL)
        history = maker.history()
        used.update(maker.draft.used)
        sessions.update(history.sessions)
        refused += len(history.refused)
    expected = {
        *OPERATIONS,
        *ALTERATIONS,
        *TABLES,
        *SURROUNDINGS,
        *PARTITIONS,
        "xa",
        "ddl in a transaction",
        "delete all",
    }
    expected |= {"foreign key", "rollback", "savepoint rolled back"}
    expected |= {f"type {name}" for name in TYPES} | {f"key {style.strip()}" for style in styles(dialect)}
    if dialect == "mariadb":
        expected |= {"type uuid", "type inet6", "type inet4", "invisible column", "next value"}
    else:
        expected -= MARIADB_ONLY
    assert expected - used.keys() == set()
    assert refused > 0
    assert len({session.time_zone for session in sessions}) >= 5
    assert len({session.charset for session in sessions}) >= 5
    assert len({session.sql_mode for session in sessions}) >= 8


def test_every_statement_can_be_spelled_in_its_session_s_character_set() -> None:
    codecs = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "koi8r": "koi8-r"}
    for seed in range(15):
        history = generate(seed)
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
    assert numbered("label", "3", Kind("enum", labels=("a", "it's"))) == "ELT(1 + (3) % 2, 'a', 'it''s')"


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
