"""No value of a column changes by an ALTER TABLE that is taken to keep all values: every pair of types, tried on the
servers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from replicator.model.identifiers import TableId
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.ddl.alter_table import Alteration, alter
from replicator.sources.mysql.snapshot.reader import MySqlSnapshotReader
from tests.property.budget import seed

pytestmark = pytest.mark.integration
DATABASE = "alter_values"
MODES = (
    "", "STRICT_ALL_TABLES", "PAD_CHAR_TO_FULL_LENGTH", "ALLOW_INVALID_DATES", "NO_ZERO_DATE,NO_ZERO_IN_DATE",
    "NO_AUTO_VALUE_ON_ZERO,NO_UNSIGNED_SUBTRACTION",
)  # fmt: skip
_WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_NUMBERS = ["-1.5", "0", "1.25", "2.345678", "1e10", "-1e10", "0.1", "123456.789", "-0.0001", "99999999.99"]
_TEXTS = [
    "''",
    "' '",
    "'a'",
    "'b  '",
    "'1'",
    "'é'",
    "'€'",
    "'中'",
    "'😀'",
    "REPEAT('é', 10)",
    "'2020-01-01'",
    "'-1.5'",
    "REPEAT('x', 255)",
]
_BYTES = ["''", "'a'", "X'00'", "X'6100'", "X'ff'", "REPEAT('x', 8)", "REPEAT('x', 255)"]
_TIMES = [
    "'2020-02-31 01:02:03.999999'", "'0000-00-00'", "'2020-00-10'", "'1970-01-01 00:00:01.5'",
    "'2037-10-25 02:30:00.123456'",
    "'9999-12-31 23:59:59.999999'", "'838:59:59'", "'-12:34:56.789'", "'2001'", "0", "70",
]  # fmt: skip


def _types() -> dict[str, list[str]]:
    """Type → literals; those that it cannot hold become something else, or are left out."""
    found: dict[str, list[str]] = {}
    for name, width in _WIDTHS.items():
        ends = [str(-(2 ** (width - 1))), str(2 ** (width - 1) - 1), str(2**width - 1), "-1", "0", "7"]
        found |= {f"{name}{sign}": ends for sign in ("", " UNSIGNED", " UNSIGNED ZEROFILL")}
    for name in (
        "DECIMAL(12,4)",
        "DECIMAL(14,4)",
        "DECIMAL(14,2)",
        "FLOAT",
        "DOUBLE",
        "FLOAT(7,2)",
        "DOUBLE(12,2)",
        "REAL",
        "DECIMAL",
    ):
        found |= {f"{name}{sign}": _NUMBERS for sign in ("", " UNSIGNED", " ZEROFILL")}
    for charset in ("latin1", "utf8mb3", "utf8mb4", "utf16", "cp1251"):
        for name in (
            "CHAR(10)",
            "VARCHAR(10)",
            "CHAR(20)",
            "VARCHAR(255)",
            "TINYTEXT",
            "TEXT",
            "ENUM('a','é','1')",
            "SET('a','é','1')",
        ):
            found[f"{name} CHARACTER SET {charset}"] = _TEXTS
    found |= dict.fromkeys(
        ("ENUM('a','é')", "ENUM('é','a','1')", "SET('a','é','1','2')", "VARCHAR(30) COLLATE utf8mb4_bin", "JSON"),
        _TEXTS,
    )
    for name in ("BINARY(4)", "BINARY(8)", "VARBINARY(4)", "VARBINARY(8)", "TINYBLOB", "BLOB", "LONGBLOB", "LONGTEXT"):
        found[name] = _BYTES
    for name in ("DATE", "YEAR", *(f"{name}{fsp}" for name in ("DATETIME", "TIME") for fsp in ("", "(3)", "(6)"))):
        found[name] = _TIMES
    found |= {f"TIMESTAMP{fsp} NULL": _TIMES for fsp in ("", "(3)", "(6)")}
    found |= {name: ["0", "1", "b'101'", "255"] for name in ("BIT(1)", "BIT(8)", "BIT(9)")}
    return found


TYPES = _types()
NULLS = [
    f"{name} NOT NULL" for name in ("INT", "VARCHAR(10)", "DATETIME", "DECIMAL(12,4)", "ENUM('a','é')", "TIMESTAMP")
]
# Columns of a table and the alteration of it; the value is the row that the table has.
STATEMENTS: dict[tuple[str, str], str] = {
    ("a INT, b INT", "ADD PRIMARY KEY (b)"): "1, NULL",
    ("a INT, b INT", "ADD CONSTRAINT x PRIMARY KEY (b, a)"): "1, NULL",
    ("a INT, b INT", "MODIFY b INT PRIMARY KEY"): "1, NULL",
    ("a INT, b INT, KEY (b)", "MODIFY b INT AUTO_INCREMENT"): "1, 0",
    ("a INT, b INT NOT NULL AUTO_INCREMENT, KEY (b)", "MODIFY b BIGINT NOT NULL AUTO_INCREMENT"): "1, 0",
    ("a INT, b INT", "MODIFY b INT FIRST"): "1, 2",
    ("a INT, b INT", "ALTER b SET DEFAULT 5, ADD CHECK (b < 100), COMMENT 'x'"): "1, NULL",
    ("a INT UNSIGNED, b VARCHAR(20) AS (CONCAT(a))", "MODIFY a INT(8) UNSIGNED ZEROFILL"): "1, DEFAULT",
    ("a DOUBLE(10,4), b INT", "MODIFY a DOUBLE(10,1), MODIFY b BIGINT"): "1.2345, 1",
    ("a FLOAT(7,3), b INT", "MODIFY a DOUBLE(10,1)"): "1.234, 1",
    ("a DOUBLE, b INT", "MODIFY a DOUBLE(10,1), ALGORITHM = COPY"): "1.2345, 1",
    ("a FLOAT, b VARCHAR(40) AS (CONCAT(a)) STORED", "MODIFY a DOUBLE"): "0.1, DEFAULT",
    ("a VARCHAR(9) CHARACTER SET latin1, b INT AS (LENGTH(a))",
        "MODIFY a VARCHAR(9) CHARACTER SET utf8mb4"): "'é', DEFAULT",
    ("a VARCHAR(9) CHARACTER SET latin1, b INT AS (LENGTH(a))", "CONVERT TO CHARACTER SET utf8mb4"): "'é', DEFAULT",
    ("a VARCHAR(9) COLLATE utf8mb4_bin, b INT AS (a = 'A')",
        "MODIFY a VARCHAR(9) COLLATE utf8mb4_general_ci"): "'a', DEFAULT",
    ("a TEXT CHARACTER SET latin1, b INT", "MODIFY a TEXT CHARACTER SET utf8mb4"): "REPEAT('é', 60000), 1",
    ("a TEXT CHARACTER SET latin1, b INT", "CONVERT TO CHARACTER SET utf8mb4"): "REPEAT('é', 60000), 1",
    ("a TEXT CHARACTER SET utf8mb4, b INT", "CONVERT TO CHARACTER SET utf16"): "REPEAT('x', 60000), 1",
    ("a VARCHAR(9) CHARACTER SET utf8mb4, b INT", "CONVERT TO CHARACTER SET latin1"): "'中', 1",
    ("a ENUM('é','x') CHARACTER SET latin1, b INT", "CONVERT TO CHARACTER SET utf8mb4"): "'é', 1",
}  # fmt: skip
Rows = list[tuple[Any, ...]]


class Server:
    """A server with a database for this."""

    def __init__(self, address: dict[str, Any]) -> None:
        self.config = MySqlConfig(address["host"], address["port"], address["user"], address["password"])
        self.control = connect(self.config)
        self.catalog = MySqlCatalog(self.control)
        self.reader = MySqlSnapshotReader(self.config, ReadOptions(), "me")
        self.run(
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
            f"USE {DATABASE}",
        )

    def run(self, *statements: str) -> None:
        with self.control.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def attempt(self, statement: str) -> bool:
        try:
            self.run(statement)
        except pymysql.err.MySQLError:
            return False
        return True

    def described(self, *names: str) -> dict[str, TableDescription]:
        found = self.catalog.details([TableId(DATABASE, name) for name in names])
        return {table.name: one for table, one in found.items() if isinstance(one, TableDescription)}

    def rows(self, name: str) -> Rows:
        """As a copy has them."""
        chunk = self.reader.read_chunk(TableId(DATABASE, name), KeyRange())
        found = pa.Table.from_batches(list(chunk.batches), chunk.schema.row_arrow)
        names = sorted(found.schema.names)
        return sorted(map(tuple, zip(*(found.column(n).to_pylist() for n in names), strict=True)), key=repr)

    def close(self) -> None:
        self.run(f"DROP DATABASE {DATABASE}")
        self.control.close()
        self.reader.close()


@pytest.fixture
def of(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(request.getfixturevalue(request.param).address)
    yield server
    server.close()


def _read_as(old: TableDescription, statement: str, new: TableDescription | None) -> Alteration:
    found = parser.parse(statement, DATABASE)
    assert isinstance(found, parser.AlterTable)
    charsets = {one.name: one.charset for one in old.definitions if one.charset}
    return alter(old.schema, found.clauses, new, charsets)


def _harmless(server: Server) -> list[tuple[str, str]]:
    """Pairs of types of which the one may become the other without a value being read again."""
    tables = {f"t{number}": name for number, name in enumerate([*TYPES, *NULLS])}
    for table, name in tables.items():
        server.attempt(f"CREATE TABLE {table} (id INT PRIMARY KEY, c {name})")
    found = {tables[table]: one for table, one in server.described(*tables).items()}
    return [
        (a, b)
        for a in TYPES
        for b in found
        if a != b and a in found and not _read_as(found[a], f"ALTER TABLE t MODIFY c {b}", found[b]).reload
    ]


def _fault(server: Server, old: str, new: str, mode: str) -> str:
    server.run("SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'", "DROP TABLE IF EXISTS x")
    server.run(f"CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, c {old})", "INSERT INTO x (c) VALUES (NULL)")
    for value in TYPES[old]:
        server.attempt(f"INSERT IGNORE INTO x (c) VALUES ({value})")
    before = server.rows("x")
    server.run(f"SET sql_mode = '{mode}'")
    if not server.attempt(f"ALTER TABLE x MODIFY c {new}"):
        return ""
    after = server.rows("x")
    return (
        ""
        if before == after
        else f"{old} → {new}, sql_mode {mode!r}: {set(before) - set(after)} became {set(after) - set(before)}"
    )


def _faults(server: Server, count: int | None) -> list[str]:
    start = seed()
    print(f"seed {start}")
    pairs = _harmless(server)
    print(f"{len(pairs)} pairs")
    assert ("INT", "BIGINT") in pairs
    tries = [(old, new, mode) for old, new in pairs for mode in MODES]
    random.Random(start).shuffle(tries)
    faults = [what for one in tries[:count] if (what := _fault(server, *one))]
    return [f"seed {start}", *faults] if faults else []


@pytest.mark.parametrize("of", ["mariadb", "mysql"], indirect=True)
def test_values_stay_where_a_type_is_taken_to_keep_them(of: Server) -> None:
    assert not _faults(of, 60)


@pytest.mark.long
@pytest.mark.parametrize("of", ["mariadb", "mysql"], indirect=True)
def test_values_stay_with_every_pair_of_types(of: Server) -> None:
    assert not _faults(of, None)


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.parametrize("of", ["mariadb", "mysql"], indirect=True)
def test_statements_that_change_values_have_the_table_read_again(of: Server, mode: str) -> None:
    changed = set()
    for (columns, clauses), row in STATEMENTS.items():
        of.run("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "DROP TABLE IF EXISTS x", f"CREATE TABLE x ({columns})")
        of.run(f"INSERT INTO x VALUES ({row})", f"SET sql_mode = '{mode}'")
        old, before = of.described("x")["x"], of.rows("x")
        if of.attempt(f"ALTER TABLE x {clauses}") and of.rows("x") != before:
            changed.add(clauses)
            assert _read_as(old, f"ALTER TABLE x {clauses}", of.described("x")["x"]).reload, (columns, clauses)
            assert _read_as(old, f"ALTER TABLE x {clauses}", _as_before(of, old)).reload, (columns, clauses)
    assert "MODIFY b INT AUTO_INCREMENT" in changed


def _as_before(server: Server, old: TableDescription) -> TableDescription:
    """What a later statement may have left: the columns as they were, as far as the key allows it."""
    now = server.described("x")["x"]
    return replace(old, schema=replace(old.schema, key=now.schema.key))
