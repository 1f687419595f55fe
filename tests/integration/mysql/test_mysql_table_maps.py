"""What the logs of MySQL 8.0.12 and of MariaDB say of columns of every type, in any order, in tables that are made
while it is read.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from replicator.model.change import ChangeBatch, LogMessage, TableFailed
from replicator.model.table_set import TableSet
from replicator.sources.mysql.stream import reader as mysql_log
from testing.servers.mysql import EmbeddedMySQL
from tests.integration.mysql.test_mysql_log import COLUMNS, Log, _literal, _selected, changes, rows
from tests.property.budget import examples, seed
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration

LABELS = {
    f"{kind}_{charset}": (f"{kind}('a','{letter}','two words') character set {charset}", letter)
    for kind in ("enum", "set")
    for charset, letter in {
        "latin1": "é", "latin2": "ł", "utf8mb4": "é", "utf16": "é", "ucs2": "é", "utf16le": "é", "utf32": "é",
        "cp1251": "я",
        "sjis": "表", "koi8r": "Ж",
    }.items()
}  # fmt: skip
YEARS = {f"y{number}": "year" for number in range(4)}


@pytest.fixture(params=["mysql", "mariadb"])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    server: EmbeddedMySQL | EmbeddedMariaDB = request.getfixturevalue(request.param)
    log = Log(server, f"maps_{uuid.uuid4().hex[:8]}")
    yield log
    log.run(f"DROP DATABASE {log.database}")
    log.control.close()


def everything(log: Log) -> TableSet:
    return TableSet(databases=frozenset({log.database}))


def failures(messages: list[LogMessage]) -> dict[str, str]:
    return {m.table.name: m.error.message for m in messages if isinstance(m, TableFailed)}


def copied(messages: list[LogMessage], table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ChangeBatch) and message.table.name == table:
            found += [{name: row[name] for name in message.schema.names} for row in message.data.to_pylist()]
    return sorted(found, key=lambda row: row["id"])


def test_an_unsigned_column_behind_a_year_keeps_its_sign(log: Log) -> None:
    log.here()
    log.run(
        "CREATE TABLE y3 (id int primary key, y year, u int unsigned, s int)",
        "INSERT INTO y3 VALUES (1, 2000, 4000000000, -1), (2, NULL, 4294967295, 5)",
        "CREATE TABLE n8 (a int primary key, b int unsigned, c int, d int, y year, e int, f int, g int, h int"
        " unsigned)",
        "INSERT INTO n8 VALUES (1, 4000000000, -1, -1, 1999, -1, -1, -1, 4000000001)",
    )
    messages = log.read(everything(log))
    assert rows([m for m in messages if getattr(m, "table", None) == log.table("y3")], "y", "u", "s") == [
        ("INSERT", 2000, 4_000_000_000, -1),
        ("INSERT", None, 4_294_967_295, 5),
    ]
    assert rows([m for m in messages if getattr(m, "table", None) == log.table("n8")], "b", "c", "y", "e", "h") == [
        ("INSERT", 4_000_000_000, -1, 1999, -1, 4_000_000_001)
    ]


def test_labels_are_those_of_their_character_set(log: Log) -> None:
    log.here()
    columns = ", ".join(f"{name} {definition}" for name, (definition, _) in LABELS.items())
    letters = ", ".join(f"'{letter}'" for _, letter in LABELS.values())
    log.run(
        f"CREATE TABLE l (id int primary key, {columns})",
        f"INSERT INTO l VALUES (1, {letters})",
        f"INSERT INTO l VALUES (2, {', '.join(['%s'] * len(LABELS))})".replace("%s", "'a'"),
        f"INSERT INTO l VALUES (3, {', '.join(['%s'] * len(LABELS))})".replace("%s", "''"),
    )
    messages = log.read(everything(log))
    assert failures(messages) == {}
    assert copied(messages, "l") == _selected(log, "l", log.options).to_pylist()
    assert [row["enum_utf16"] for row in copied(messages, "l")] == ["é", "a", ""]


def test_labels_that_change_while_nobody_reads(log: Log) -> None:
    """The catalog knows the last definition only; what it knew before holds until a statement changes it."""
    log.run("CREATE TABLE l (id int primary key, e enum('x','é') character set utf16)")
    tables = everything(log)
    known = log.schemas(tables, "l")
    log.here()
    log.run(
        "INSERT INTO l VALUES (1, 'é')",
        "ALTER TABLE l MODIFY e enum('x','é','neu') character set latin1",
        "INSERT INTO l VALUES (2, 'neu'), (3, 'é')",
    )
    messages = log.read(tables, known)
    assert failures(messages) == {}
    assert [row["e"] for row in copied(messages, "l")] == ["é", "neu", "é"]


def test_labels_of_a_table_that_is_gone_are_never_guessed(mysql: EmbeddedMySQL) -> None:
    log = Log(mysql, "gone_labels")
    log.here()
    log.run(
        "CREATE TABLE l (id int primary key, e enum('xy','é') character set utf16)",
        "INSERT INTO l VALUES (1, 'xy')",
        "DROP TABLE l",
        "CREATE TABLE after_it (id int primary key)",
        "INSERT INTO after_it VALUES (7)",
    )
    messages = log.read(everything(log))
    assert "character set" in failures(messages)["l"]
    assert copied(messages, "l") == []
    assert copied(messages, "after_it") == [{"id": 7}]
    log.run(f"DROP DATABASE {log.database}")
    log.control.close()


def test_a_failed_table_whose_name_goes_to_another_is_taken_as_a_new_one(mysql: EmbeddedMySQL) -> None:
    """What was known of it was read from the catalog, where the name had gone already."""
    log = Log(mysql, "labels_that_moved")
    log.run(
        "CREATE TABLE l (id int primary key, e enum('xy','é') character set utf16)",
        "CREATE TABLE m (id int primary key, n int)",
    )
    log.here()
    log.run(
        "INSERT INTO l VALUES (1, 'xy')", "RENAME TABLE l TO kept, m TO l", "INSERT INTO l VALUES (2, 3)",
        "INSERT INTO kept VALUES (3, 'é')",
    )  # fmt: skip
    tables = everything(log)
    messages = log.read(tables, log.schemas(tables, "l"))
    assert list(failures(messages)) == ["l"]
    assert changes(messages) == [("CREATE_TABLE", "kept", True), ("CREATE_TABLE", "l", True)]
    assert copied(messages, "l") == [{"id": 2, "n": 3}]
    assert copied(messages, "kept") == [{"id": 3, "e": "é"}]
    log.run(f"DROP DATABASE {log.database}")
    log.control.close()


def test_labels_that_the_server_has_spoiled_are_told_with_what_mends_them(mysql: EmbeddedMySQL) -> None:
    log = Log(mysql, "spoiled_labels")
    log.run("CREATE TABLE l (id int primary key, e enum('x','é') character set latin1)")
    log.run("ALTER TABLE l CONVERT TO CHARACTER SET utf8mb4")  # 8.0.12 keeps the byte of latin1's é
    log.here()
    log.run("INSERT INTO l VALUES (1, 'x')")
    messages = log.read(everything(log))
    assert "column e" in failures(messages)["l"]
    assert "not valid in utf8mb4" in failures(messages)["l"]
    log.here()
    log.run("ALTER TABLE l MODIFY e enum('x','é') character set utf8mb4", "INSERT INTO l VALUES (2, 'é')")
    messages = log.read(everything(log))
    assert failures(messages) == {}
    assert [row["e"] for row in copied(messages, "l")] == ["é"]
    log.run(f"DROP DATABASE {log.database}")
    log.control.close()


def test_a_table_whose_labels_were_changed_before_its_rows_were_read_is_read_again_at_that_statement(
    mysql: EmbeddedMySQL,
) -> None:
    log = Log(mysql, "overtaken_labels")
    log.here()
    log.run(
        "CREATE TABLE l (id int primary key, e enum('xy','é') character set utf16)",
        "INSERT INTO l VALUES (1, 'xy')",
        "ALTER TABLE l MODIFY e varchar(20), ADD COLUMN n int",
        "INSERT INTO l VALUES (2, 'free', 3)",
    )
    messages = log.read(everything(log))
    assert "character set" in failures(messages)["l"]
    assert changes(messages)[-1] == ("CREATE_TABLE", "l", True)
    assert rows(messages, "e", "n") == [("INSERT", "free", 3)]
    log.run(f"DROP DATABASE {log.database}")
    log.control.close()


def _columns(log: Log, rng: random.Random) -> dict[str, str]:
    """Some of all, in any order; those that only MariaDB has, there."""
    definitions = {**COLUMNS, **YEARS, **{name: definition for name, (definition, _) in LABELS.items()}}
    mariadb = isinstance(log.server, EmbeddedMariaDB)
    names = [
        name
        for name, definition in definitions.items()
        if name not in ("vv", "vp")
        and (mariadb or not any(word in definition for word in ("uuid", "inet", "compressed", "invisible")))
    ]
    numbers = [name for name in names if definitions[name].split("(")[0].split(" ")[0] in _NUMBERS]
    drawn = rng.sample(numbers, rng.randint(4, 20)) + rng.sample(names, rng.randint(2, 20))
    drawn = list(dict.fromkeys(drawn))
    rng.shuffle(drawn)
    return {name: definitions[name] for name in drawn}


_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year"})


def _value(name: str, definition: str, rng: random.Random) -> str:
    if name in LABELS:
        return f"'{rng.choice(['a', LABELS[name][1], 'two words'])}'"
    value = _literal(name, definition, rng)
    return value.replace("4326", "0") if definition in ("geometry", "point") else value


def test_columns_of_all_types_in_any_order(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    start = seed()
    rng = random.Random(start)
    log.here()
    log.run("SET SESSION innodb_strict_mode = OFF")
    names = [f"t{number}" for number in range(examples(12, 300))]
    for table in names:
        columns = _columns(log, rng)
        log.run(
            f"CREATE TABLE {table} (id int primary key, {', '.join(f'`{n}` {d}' for n, d in columns.items())})"
            " ROW_FORMAT=DYNAMIC"
        )
        for number in range(4):
            values = ["NULL" if rng.random() < 0.1 else _value(n, d, rng) for n, d in columns.items()]
            listed = ", ".join(f"`{name}`" for name in ("id", *columns))
            log.run(f"INSERT INTO {table} ({listed}) VALUES ({number}, {', '.join(values)})")
    in_runs = log.read(everything(log))
    monkeypatch.setattr(mysql_log, "PLAIN", frozenset())
    one_by_one = log.read(everything(log))
    for messages in (in_runs, one_by_one):
        assert failures(messages) == {}, f"seed {start}"
        for table in names:
            expected = _selected(log, table, log.options).to_pylist()
            assert copied(messages, table) == expected, f"seed {start}, {table}"
