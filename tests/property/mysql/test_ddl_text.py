"""Statements that are none: an answer or Unparsable, never another exception, never more than linear time."""

from __future__ import annotations

import random
import time

import pytest

from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.ddl.alter_table import alter
from replicator.sources.mysql.ddl.tokenizer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from tests.property.budget import examples, seed
from tests.property.ddl_grammar import Grammar

MEGABYTE = 1_000_000
SECONDS = 6.0  # of the processor, for a megabyte: what is not linear takes minutes
PIECES = (
    *"`'\"()*,.;=@-#\\ \n\t/!%?:[]{}",
    "''", "``", '""', "\\'", "/*", "*/", "/*!", "/*!50100 ", "/*M!", "-- ", "ADD", "DROP", "COLUMN", "ALTER TABLE",
    "CREATE", "TABLE",
    "RENAME", "TO", "CHANGE", "MODIFY", "IF EXISTS", "IF NOT EXISTS", "PARTITION", "WITH TABLE", "EXCHANGE",
    "XA COMMIT", "X'00'",
    "ROLLBACK TO", "DELETE FROM", "INSERT", "UPDATE", "SET", "WAIT", "UNION", "CONVERT TO", "a", "`b`", "é", "😀", "\0",
    "\u00a0", "1", "'s'",
)  # fmt: skip
SCHEMA = TableSchema(
    TableId("db", "t"),
    (
        Column("id", INT, nullable=False, source_type="int"),
        Column("c", STRING, nullable=True, source_type="varchar(10)"),
    ),
    ("id",),
)
LONG = {
    "escaped quotes": "ALTER TABLE a " + "'\\" * (MEGABYTE // 2),
    "an open string": "ALTER TABLE a ADD c int COMMENT '" + "\\'" * (MEGABYTE // 2),
    "open parentheses": "ALTER TABLE a ADD " + "(" * MEGABYTE,
    "lists in lists": "ALTER TABLE a " + "ADD COLUMN (" * (MEGABYTE // 12),
    "renames": "RENAME TABLE " + ",".join(f"a{i} TO b{i}" for i in range(MEGABYTE // 16)),
    "comment ends": "DROP TABLE a " + "*/" * (MEGABYTE // 2),
    "an unknown verb": "FROBNICATE " + "a.b " * (MEGABYTE // 4),
    "values": "INSERT INTO a VALUES " + "(1,'x')," * (MEGABYTE // 8),
    "an update": "UPDATE a JOIN " + "b.c, " * (MEGABYTE // 5) + "SET x = 1",
    "a union": "ALTER TABLE a UNION=(" + "bbb," * (MEGABYTE // 4),
}


@pytest.mark.parametrize("name", LONG)
def test_a_megabyte_is_read_in_seconds(name: str) -> None:
    first = _seconds(LONG[name])
    assert (
        first < SECONDS or _seconds(LONG[name]) < SECONDS
    )  # once more: another program may have had the processor's caches


def _seconds(sql: str) -> float:
    began = time.process_time()
    parser.parse(sql, "db")
    return time.process_time() - began


def test_a_damaged_statement_is_classified_without_failing() -> None:
    start = seed()
    for number in range(examples(3000, 300_000)):
        rng = random.Random(f"{start}/{number}")
        text = _garbage(rng) if rng.random() < 0.4 else _damaged(rng)
        mode = rng.choice((0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, ANSI_QUOTES | NO_BACKSLASH_ESCAPES))
        found = parser.parse(text, "db", mode, mariadb=rng.random() < 0.5)
        if isinstance(found, parser.AlterTable):
            result = alter(SCHEMA, found.clauses, None, {})
            assert set(result.schema.key) <= set(result.schema.names), f"seed {start}, case {number}: {text!r}"
            assert len(set(result.schema.names)) == len(result.schema.names), f"seed {start}, case {number}: {text!r}"


def _garbage(rng: random.Random) -> str:
    return rng.choice(("", "ALTER TABLE t ", "XA ")) + rng.choice(("", " ")).join(
        rng.choices(PIECES, k=rng.randint(0, 30))
    )


def _damaged(rng: random.Random) -> str:
    text = list(Grammar(rng).statement({"t": ["pk", "id", "c"], "u": ["pk"], "v": ["pk"], "w": ["pk"]}).sql)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        how = rng.randrange(4)
        if how == 0:
            text[at] = rng.choice(PIECES)
        elif how == 1:
            text.insert(at, rng.choice(PIECES))
        elif how == 2:
            del text[at:]
        else:
            del text[at : at + rng.randint(1, 6)]
        if not text:
            return ""
    return "".join(text)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DROP TABLE a€b, x·y", parser.DropTables((TableId("db", "a€b"), TableId("db", "x·y")))),
        (
            "DROP TABLE a\u00a0b",
            parser.DropTables((TableId("db", "a\u00a0b"),)),
        ),  # a blank only for Unicode, a letter for the server
        ("DROP TABLE a /* ' */, b -- '\n, c", parser.DropTables(tuple(TableId("db", name) for name in "abc"))),
        ("DROP TABLE /*!50100 a /* inner */ , */ b", parser.DropTables((TableId("db", "a"), TableId("db", "b")))),
    ],
)
def test_lexical_rules_are_the_servers(sql: str, expected: parser.Statement) -> None:
    assert parser.parse(sql, "db") == expected


def test_comments_for_mariadb_say_nothing_to_mysql() -> None:
    assert parser.parse("DROP TABLE a /*M!100000 , b */", "db", mariadb=False) == parser.DropTables(
        (TableId("db", "a"),)
    )
    assert parser.parse("DROP TABLE a /*!50000 , b */", "db", mariadb=False) == parser.DropTables(
        (TableId("db", "a"), TableId("db", "b"))
    )


def test_a_comment_between_operators_hides_nothing() -> None:
    found = parser.parse("ALTER TABLE t ADD x int AS (2*/* , DROP c */3), DROP d", "db")
    assert isinstance(found, parser.AlterTable)
    assert [clause.column for clause in found.clauses] == ["x", "d"]
