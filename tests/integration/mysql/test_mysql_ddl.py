"""What statements of all forms in the log do to a replicator's tables, on MariaDB and on MySQL 8.0."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pymysql
import pytest

from replicator.model.change import CascadesAdded, ChangeBatch, Ddl, SchemaChange, TableFailed
from replicator.model.table_set import TableSet
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from tests.integration.mysql.test_mysql_log import Log, changes, rows

pytestmark = pytest.mark.integration


@pytest.fixture
def log_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Log]]:
    """log_of("mysql"): a database with the tables `t` and `u`, of two rows each."""
    logs: list[Log] = []

    def of(server: str) -> Log:
        found = Log(request.getfixturevalue(server), f"ddl_{abs(hash(request.node.name)) % 100000}")
        logs.append(found)
        for table in ("t", "u"):
            found.run(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
                f"INSERT INTO {table} VALUES (1, 1, 'a'), (2, -2, 'b')",
            )
        found.here()
        return found

    yield of
    for log in logs:
        log.run(f"DROP DATABASE {log.database}")
        log.control.close()


BOTH = ("mariadb", "mysql")
Change = tuple[str, str, bool]
TRUNCATED, ALTERED = [("TRUNCATE_TABLE", "t", False)], [("ALTER_TABLE", "t", False)]
RENAMED, DROPPED = [("RENAME_TABLE", "t", False)], [("DROP_TABLE", "t", False)]
REREAD = [("ALTER_TABLE", "t", True)]
FORMS: dict[str, tuple[tuple[str, ...], list[str], list[Change]]] = {
    "comments": (BOTH, ["/* a */ TRUNCATE /* b */ TABLE -- c\n t # d"], TRUNCATED),
    "versioned": (BOTH, ["/*!40000 ALTER TABLE t */ DROP COLUMN a"], ALTERED),
    "versioned, other part": (BOTH, ["ALTER TABLE t /*!50000 DROP a, */ COMMENT 'x'"], ALTERED),
    "versioned, not executed": (BOTH, ["ALTER TABLE t /*!999999 DROP a, */ COMMENT 'x'"], []),
    "for MariaDB": (("mariadb",), ["ALTER TABLE t /*M!100100 DROP a, */ COMMENT 'x'"], ALTERED),
    "for MariaDB, on MySQL": (("mysql",), ["ALTER TABLE t /*M!100100 DROP a, */ COMMENT 'x'"], []),
    "prepared": (BOTH, ["PREPARE s FROM 'TRUNCATE TABLE t'", "EXECUTE s"], TRUNCATED),
    "procedure": (BOTH, ["CREATE PROCEDURE p() BEGIN TRUNCATE t; RENAME TABLE t TO n; END", "CALL p()"],
        TRUNCATED + RENAMED),
    "other quotes": (BOTH, ["SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" DROP "a"'], ALTERED),
    "other quotes when prepared": (
        BOTH,
        ["SET sql_mode = 'ANSI_QUOTES'", "PREPARE s FROM 'ALTER TABLE \"t\" DROP \"a\"'", "SET sql_mode = ''",
            "EXECUTE s"],
        ALTERED,
    ),
    "plain backslash": (BOTH, ["SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "ALTER TABLE t COMMENT 'x\\', DROP a"],
        ALTERED),
    "plain backslash when prepared": (
        BOTH,
        [
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "PREPARE s FROM 'ALTER TABLE t COMMENT ''x\\'', DROP a'",
            "SET sql_mode = ''", "EXECUTE s",
        ],
        ALTERED,
    ),
    "backslash in a quoted name": (
        BOTH, ["SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE t ADD "x\\" INT, DROP a'], ALTERED,
    ),
    "SET STATEMENT TRUNCATE": (("mariadb",), ["SET STATEMENT max_statement_time = 10 FOR TRUNCATE t"], TRUNCATED),
    "SET STATEMENT ALTER": (
        ("mariadb",),
        [("SET STATEMENT max_statement_time = (SELECT 10), lock_wait_timeout = 5 "
            "FOR ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT")],
        REREAD,
    ),
    "SET STATEMENT twice": (
        ("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR SET STATEMENT max_statement_time = 9 FOR TRUNCATE t"],
        TRUNCATED,
    ),
    "SET STATEMENT RENAME": (("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR RENAME TABLE t TO n"], RENAMED),
    "SET STATEMENT DROP": (("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR DROP TABLE t"], DROPPED),
    "SET STATEMENT CREATE": (
        ("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR CREATE TABLE n (x INT)"],
        [("CREATE_TABLE", "n", False)],
    ),
    "SET STATEMENT CREATE SELECT": (
        ("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR CREATE TABLE n SELECT * FROM t"],
        [("CREATE_TABLE", "n", False)],
    ),
    "SET STATEMENT, read with other quotes": (
        ("mariadb",), ["SET sql_mode = 'ANSI_QUOTES'", "SET STATEMENT sql_mode = '' FOR ALTER TABLE \"t\" DROP \"a\""],
        ALTERED,
    ),
    "SET STATEMENT, read with plain backslash": (
        ("mariadb",),
        ["SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
            "SET STATEMENT sql_mode = '' FOR ALTER TABLE t COMMENT 'x\\', DROP a"],
        ALTERED,
    ),
    "EXECUTE IMMEDIATE": (("mariadb",), ["EXECUTE IMMEDIATE CONCAT('TRUNCATE ', 't')"], TRUNCATED),
    "EXECUTE IMMEDIATE of SET STATEMENT": (
        ("mariadb",), ["EXECUTE IMMEDIATE 'SET STATEMENT lock_wait_timeout = 9 FOR TRUNCATE t'"], TRUNCATED,
    ),
    "compound": (("mariadb",), ["BEGIN NOT ATOMIC IF 1 THEN TRUNCATE t; END IF; ALTER TABLE t DROP a; END"],
        TRUNCATED + ALTERED),
    "CREATE OR REPLACE": (("mariadb",), ["CREATE OR REPLACE TABLE t (z INT)"],
        [*DROPPED, ("CREATE_TABLE", "t", False)]),
    "renamed to itself": (BOTH, ["ALTER TABLE t RENAME TO t", "ALTER TABLE t RENAME t, DROP a"], ALTERED),
    "in two phases": (("mariadb",),
        ["SET binlog_alter_two_phase = ON", "ALTER TABLE t DROP a", "SET binlog_alter_two_phase = OFF"], ALTERED),
    "a table that begins like a sequence": (
        BOTH, ["ALTER TABLE t CHANGE id next_not_cached_value INT", "INSERT INTO t VALUES (9, 9, 'i')"], ALTERED,
    ),
    "repair": (BOTH, ["REPAIR TABLE t"], REREAD),
    "repair of a partition": (BOTH, ["ALTER TABLE t PARTITION BY KEY (id)", "ALTER TABLE t REPAIR PARTITION ALL"],
        REREAD),
    "a function in a statement": (
        BOTH,
        [
            "CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO t VALUES (7, 7, 'f'); RETURN 1; END",
            "SET SESSION binlog_format = 'STATEMENT'", "SELECT f()",
        ],
        [*REREAD, ("ALTER_TABLE", "u", True)],
    ),
    "rows of a query in a statement": (
        ("mariadb",), ["SET SESSION binlog_format = 'STATEMENT'", "CREATE TABLE n SELECT * FROM t"],
        [("CREATE_TABLE", "n", True)],
    ),
    "what changes no table": (
        BOTH,
        [
            "CREATE VIEW v AS SELECT * FROM t", "ALTER VIEW v AS SELECT 1", "DROP VIEW v", "ANALYZE TABLE t",
            "OPTIMIZE TABLE t", "FLUSH TABLES",
            "CREATE EVENT e ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO TRUNCATE t", "ALTER EVENT e DISABLE",
            "DROP EVENT e",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", "DROP TRIGGER g", "CREATE ROLE r9",
            "DROP ROLE r9",
            "CREATE SERVER s9 FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')", "DROP SERVER s9",
            "CREATE INDEX i ON t (a)",
            "DROP INDEX i ON t", "CREATE USER u9", "SET PASSWORD FOR u9 = ''", "RENAME USER u9 TO u8",
            "ALTER USER u8 ACCOUNT LOCK",
            "GRANT SELECT ON t TO u8", "DROP USER u8",
        ],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("server", "form"), [(server, form) for form in FORMS for server in FORMS[form][0]])
def test_a_statement_of_any_form_is_what_it_does(log_of: Callable[[str], Log], server: str, form: str) -> None:
    _, statements, expected = FORMS[form]
    log = log_of(server)
    schemas = log.schemas(TableSet(), "t", "u")
    log.run(*statements, "SET SESSION binlog_format = 'ROW'", "SET sql_mode = ''")
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert not [message for message in messages if isinstance(message, TableFailed)]
    assert changes(messages) == expected
    last = [m for m in messages if isinstance(m, SchemaChange) and m.schema and m.operation is not Ddl.TRUNCATE_TABLE]
    if last and last[-1].schema:
        assert last[-1].schema == log.schemas(TableSet(), last[-1].schema.table.name)[last[-1].schema.table]
    if form == "SET STATEMENT CREATE SELECT":
        assert rows(messages, "id", "b") == [("INSERT", 1, "a"), ("INSERT", 2, "b")]


SECOND: dict[str, tuple[tuple[str, ...], list[str], str, list[Change]]] = {
    "a column named vector": (BOTH, [], "ALTER TABLE t ADD vector INT", ALTERED),
    "a column named vector goes": (BOTH, ["ALTER TABLE t ADD vector INT"], "ALTER TABLE t DROP vector", ALTERED),
    "digits": (BOTH, ["ALTER TABLE t ADD d DOUBLE"], "ALTER TABLE t MODIFY d DOUBLE(9,1)", REREAD),
    "digits, with a copy": (BOTH, ["ALTER TABLE t ADD d DOUBLE(9,4)"],
        "ALTER TABLE t MODIFY d DOUBLE(9,1), ALGORITHM = COPY", REREAD),
    "a copy after digits": (
        BOTH, ["ALTER TABLE t ADD d DOUBLE(9,4)", "UPDATE t SET d = 1.2345", "ALTER TABLE t MODIFY d DOUBLE(9,1)"],
        "ALTER TABLE t MODIFY a BIGINT", REREAD,
    ),
    "two phases that fail": (
        ("mariadb",), ["UPDATE t SET a = 5", "SET binlog_alter_two_phase = ON"],
        "ALTER TABLE t ADD UNIQUE (a), DROP b, RENAME n", [],
    ),
    "prepared by a client of another character set": (
        BOTH, ["ALTER TABLE t RENAME té", "PREPARE s FROM 'TRUNCATE té'", "SET NAMES latin1"], "EXECUTE s",
        [("TRUNCATE_TABLE", "té", False)],
    ),
    "prepared by a client of latin1": (
        BOTH, ["ALTER TABLE t RENAME té", "SET @s = 'TRUNCATE té'", "SET NAMES latin1", "PREPARE s FROM @s",
            "SET NAMES utf8mb4"],
        "EXECUTE s", [("TRUNCATE_TABLE", "té", False)],
    ),
    "a client of two bytes a character": (
        BOTH, ["SET NAMES sjis", "ALTER TABLE t CHANGE a ソ能 INT"],
        "ALTER TABLE t CHANGE ソ能 表 INT, ADD c VARCHAR(9) CHARACTER SET sjis", ALTERED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("server", "form"), [(server, form) for form in SECOND for server in SECOND[form][0]])
def test_a_statement_is_what_it_does_to_a_table_that_others_have_changed(
    log_of: Callable[[str], Log], server: str, form: str
) -> None:
    """Each has the catalog as it left it."""
    _, before, statement, expected = SECOND[form]
    log = log_of(server)
    encoding = "sjis" if "SET NAMES sjis" in before else "utf-8"
    with closing(log.server.connect(database=log.database)) as client:
        client.query("SET sql_mode = ''")
        for one in before:
            client.query(one.encode(encoding))  # type: ignore[arg-type]
        schemas = log.schemas(TableSet(), "t", "té", "u")
        log.here()
        with suppress(pymysql.err.IntegrityError):
            client.query(statement.encode(encoding))  # type: ignore[arg-type]
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert not [message for message in messages if isinstance(message, TableFailed)]
    assert changes(messages) == expected
    last = [m.schema for m in messages if isinstance(m, SchemaChange) and m.schema]
    if last:
        assert last[-1] == log.schemas(TableSet(), "t")[log.table("t")]


FOREIGN_KEYS: dict[str, tuple[list[str], list[tuple[str, str, tuple[str, ...], bool, bool]]]] = {
    "of a new table": (
        [("CREATE TABLE c (i INT, p INT, FOREIGN KEY f (p) REFERENCES `t` (id) MATCH SIMPLE "
            "ON UPDATE NO ACTION ON DELETE SET NULL, CHECK (i > 0))")],
        [("t", "c", ("id",), True, False)],
    ),
    "of a table that is there": (
        [("ALTER TABLE u ADD COLUMN (p INT), ADD CONSTRAINT k FOREIGN KEY (p) "
            "REFERENCES {0}.t(id) ON UPDATE CASCADE, RENAME v")],
        [("t", "v", ("id",), False, True)],
    ),
    "several": (
        [
            "CREATE TABLE p (a INT, b INT, PRIMARY KEY (a, b))",
            """CREATE TABLE c (a INT, b INT, FOREIGN KEY (a, b) REFERENCES p (a, b) ON DELETE CASCADE ON UPDATE CASCADE,
            FOREIGN KEY (a) REFERENCES t (id) ON DELETE CASCADE)""",
        ],
        [("p", "c", ("a", "b"), True, True), ("t", "c", ("id",), True, False)],
    ),
    "without actions": (
        ["CREATE TABLE c (p INT, `references` INT, FOREIGN KEY (p) REFERENCES t (id) ON DELETE RESTRICT)"], []),
}  # fmt: skip


@pytest.mark.parametrize("form", FOREIGN_KEYS)
@pytest.mark.parametrize("server", BOTH)
def test_the_log_tells_of_foreign_keys_whose_actions_it_does_not_show(
    log_of: Callable[[str], Log], server: str, form: str
) -> None:
    statements, expected = FOREIGN_KEYS[form]
    log = log_of(server)
    log.run(*(one.replace("{0}", log.database) for one in statements))
    messages = log.read(TableSet(databases=frozenset({log.database})), log.schemas(TableSet(), "t", "u"))
    told = [rule for message in messages if isinstance(message, CascadesAdded) for rule in message.rules]
    catalog = MySqlCatalog(log.control).cascades(sorted({log.table(name) for _, name, *_ in expected}))
    log.run("SET foreign_key_checks = 0")
    assert [(r.parent.name, r.child.name, r.columns, r.on_delete, r.on_update) for r in told] == expected
    assert sorted(told, key=repr) == sorted(catalog, key=repr)


AS_STATEMENTS: dict[str, tuple[list[str], list[str], set[str]]] = {
    "of two tables": ([], ["DELETE FROM t, u USING t JOIN u ON t.id = u.id WHERE t.id = 1"], {"t", "u"}),
    "with a trigger": (["CREATE TRIGGER o.g AFTER INSERT ON o.o FOR EACH ROW DELETE FROM d.t"],
        ["INSERT INTO o.o VALUES (1)"], {"t", "u"}),
    "of a view": (["CREATE VIEW o.v AS SELECT * FROM d.t"], ["DELETE FROM o.v WHERE id = 1"], {"t", "u"}),
    "with a function": (
        ["CREATE FUNCTION o.f() RETURNS INT DETERMINISTIC BEGIN DELETE FROM d.t; RETURN 1; END"],
        ["INSERT INTO o.o VALUES (o.f())"], {"t", "u"},
    ),
    "of a table alone": ([], ["INSERT INTO o.o VALUES (1)", "UPDATE o.o SET id = ABS(id) + 2",
            "DELETE FROM o.o WHERE id = 3"], set()),
}  # fmt: skip


@pytest.mark.parametrize("form", AS_STATEMENTS)
@pytest.mark.parametrize("server", BOTH)
def test_what_else_rows_in_statement_format_change_is_read_again(
    log_of: Callable[[str], Log], server: str, form: str
) -> None:
    """Or fails.  The other database is not selected."""
    before, statements, expected = AS_STATEMENTS[form]
    log = log_of(server)
    other = f"{log.database}_o"
    log.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.o (id INT PRIMARY KEY)")
    schemas = log.schemas(TableSet(), "t", "u")
    log.run(*(re.sub(r"\b[do]\.", lambda m: f"{other if m[0] == 'o.' else log.database}.", one) for one in before))
    log.here()
    log.run(
        STATEMENTS, *(re.sub(r"\bo\.", f"{other}.", one) for one in statements), "SET SESSION binlog_format = 'ROW'"
    )
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    log.run(f"DROP DATABASE {other}")
    failed = {one.table.name for one in messages if isinstance(one, TableFailed)}
    assert failed | {name for _, name, again in changes(messages) if again} == expected


def test_a_database_that_replaces_another_drops_its_tables(log_of: Callable[[str], Log]) -> None:
    log = log_of("mariadb")
    schemas = log.schemas(TableSet(), "t", "u")
    log.run(f"CREATE OR REPLACE DATABASE {log.database}", f"CREATE TABLE {log.database}.u (z INT)")
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    dropped = [("DROP_TABLE", "t", False), ("DROP_TABLE", "u", False)]
    assert changes(messages) == [*dropped, ("CREATE_DATABASE", "", False), ("CREATE_TABLE", "u", False)]


def test_a_system_versioned_table_is_refused_whatever_its_name_is_by_now(log_of: Callable[[str], Log]) -> None:
    log = log_of("mariadb")
    schemas = log.schemas(TableSet(), "t", "u")
    log.run(
        "CREATE TABLE n (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING", "CREATE TABLE l LIKE n",
        "INSERT INTO n VALUES (1, 1)",
        "RENAME TABLE n TO m, t TO n", "UPDATE m SET a = 2", "INSERT INTO n VALUES (3, 3, 'c')",
    )  # fmt: skip
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    failed = {one.table.name for one in messages if isinstance(one, TableFailed)}
    assert {"l", "m"} <= failed <= {"l", "m", "n"}
    assert not {"l", "m"} & {one.table.name for one in messages if isinstance(one, ChangeBatch)}
    assert rows(messages, "id") == [("INSERT", 3)]


PARTITIONED = (
    "CREATE TABLE p (id INT PRIMARY KEY, a INT, b VARCHAR(20)) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))"
)
ROWS_MOVED: dict[str, tuple[tuple[str, ...], list[str], list[Change]]] = {
    "EXCHANGE PARTITION p0 WITH TABLE t": (BOTH, [], [("ALTER_TABLE", "t", True), ("ALTER_TABLE", "p", True)]),
    "CONVERT PARTITION p0 TO TABLE n": (("mariadb",), [], [("CREATE_TABLE", "n", True), ("ALTER_TABLE", "p", True)]),
    "CONVERT TABLE t TO PARTITION p9 VALUES LESS THAN (90)": (
        ("mariadb",), ["UPDATE t SET id = id + 80"], [("DROP_TABLE", "t", False), ("ALTER_TABLE", "p", True)],
    ),
    "TRUNCATE PARTITION p0": (BOTH, [], [("ALTER_TABLE", "p", True)]),
    "DROP PARTITION p0, p1": (BOTH, [], [("ALTER_TABLE", "p", True)]),
    "DISCARD TABLESPACE": (("mysql",), ["ALTER TABLE p REMOVE PARTITIONING"], [("ALTER_TABLE", "p", True)]),
    "DISCARD PARTITION p0 TABLESPACE": (("mysql",), [], [("ALTER_TABLE", "p", True)]),
    "REORGANIZE PARTITION p0 INTO (PARTITION q VALUES LESS THAN (5), PARTITION r VALUES LESS THAN (10))": (BOTH, [],
        []),
    "ADD PARTITION (PARTITION p9 VALUES LESS THAN (90))": (BOTH, [], []),
    "REBUILD PARTITION p0": (BOTH, [], []),
    "PARTITION BY KEY (id) PARTITIONS 3": (BOTH, [], []),
    "COALESCE PARTITION 1": (BOTH, ["ALTER TABLE p PARTITION BY KEY (id) PARTITIONS 3"], []),
    "REMOVE PARTITIONING": (BOTH, [], []),
}  # fmt: skip


@pytest.mark.parametrize(("server", "form"), [(server, form) for form in ROWS_MOVED for server in ROWS_MOVED[form][0]])
def test_rows_that_change_places_without_a_row_in_the_log_are_read_again(
    log_of: Callable[[str], Log], server: str, form: str
) -> None:
    _, before, expected = ROWS_MOVED[form]
    log = log_of(server)
    log.run(PARTITIONED, "INSERT INTO p VALUES (1, 1, 'a'), (11, 11, 'b'), (21, 21, 'c')", *before)
    schemas = log.schemas(TableSet(), "t", "u", "p")
    log.here()
    log.run(f"ALTER TABLE p {form}")
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert changes(messages) == expected


@pytest.mark.parametrize(
    ("server", "statement"),
    [
        *((server, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t") for server in BOTH),
        ("mariadb", "ALTER TABLE p CONVERT TABLE u TO PARTITION p9 VALUES LESS THAN (90)"),
        ("mysql", "ALTER TABLE n DISCARD TABLESPACE"),
    ],
)
def test_rows_that_come_into_a_table_which_the_log_has_just_made_are_read(
    log_of: Callable[[str], Log], server: str, statement: str
) -> None:
    log = log_of(server)
    log.run("UPDATE u SET id = id + 80")
    schemas = log.schemas(TableSet(), "t", "u")
    log.here()
    log.run(PARTITIONED, "CREATE TABLE n LIKE t", statement)
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert ("ALTER_TABLE", statement.split()[2], True) in changes(messages)


HIDING = "CREATE TEMPORARY TABLE t (z INT)"
STATEMENTS = "SET SESSION binlog_format = 'STATEMENT'"
HIDDEN: dict[str, tuple[tuple[str, ...], list[str], list[Change]]] = {
    "as rows": (
        BOTH, [HIDING, "ALTER TABLE t ADD q INT", "INSERT INTO t VALUES (1, 2)", "TRUNCATE t",
            "CREATE INDEX i ON t (z)", "DROP TABLE t"], [],
    ),
    "as statements": (
        BOTH,
        [
            STATEMENTS, HIDING, "ALTER TABLE t ADD q INT", "INSERT INTO t VALUES (1, 2)", "UPDATE t SET z = 3",
            "DELETE FROM t",
            "CREATE INDEX i ON t (z)", "TRUNCATE t", "DROP TABLE t",
        ],
        [],
    ),
    "mixed": (
        BOTH, ["SET SESSION binlog_format = 'MIXED'", HIDING, "INSERT INTO t VALUES (1)", "TRUNCATE t",
            "DROP TEMPORARY TABLE t"], [],
    ),
    "hidden no more": (BOTH, [STATEMENTS, HIDING, "DROP TABLE t", "TRUNCATE t"], TRUNCATED),
    "a copy": (BOTH, [STATEMENTS, HIDING, "CREATE TABLE n LIKE t"], [("CREATE_TABLE", "n", False)]),
    "renamed by ALTER": (
        ("mariadb",), [STATEMENTS, HIDING, "ALTER TABLE t RENAME TO n", "ALTER TABLE t DROP a", "TRUNCATE n"], ALTERED,
    ),
    "renamed": (("mariadb",), [STATEMENTS, HIDING, "RENAME TABLE t TO n", "ALTER TABLE t DROP a", "TRUNCATE n"],
        ALTERED),
    "renamed, as rows": (("mariadb",), [HIDING, "RENAME TABLE t TO n"], REREAD),
    "renamed before the one that it hides": (("mariadb",), [HIDING, "RENAME TABLE t TO n, t TO m"], RENAMED),
    "not hidden from RENAME": (("mysql",), [STATEMENTS, HIDING, "RENAME TABLE t TO n"], RENAMED),
    "something of its own": (("mariadb",), ["ALTER TABLE t ALTER a SET DEFAULT (CONNECTION_ID())"], REREAD),
    "after it in a procedure": (
        ("mysql",),
        [
            STATEMENTS,
            (f"CREATE PROCEDURE p() BEGIN {HIDING.replace(' t ', ' x ')}; INSERT INTO x VALUES (1); "
            "ALTER TABLE t ADD c INT; END"),
            "CALL p()",
        ],
        REREAD,
    ),
    "rows exchanged after it in a procedure": (
        ("mysql",),
        [
            ("CREATE TABLE p (id INT PRIMARY KEY, a INT, b VARCHAR(20)) PARTITION BY RANGE (id) "
            "(PARTITION p0 VALUES LESS THAN (9))"),
            STATEMENTS,
            (f"CREATE PROCEDURE q() BEGIN {HIDING.replace(' t ', ' x ')}; INSERT INTO x VALUES (1); "
            "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t; END"),
            "CALL q()",
        ],
        [("CREATE_TABLE", "p", False), ("ALTER_TABLE", "p", True), *REREAD],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("server", "form"), [(server, form) for form in HIDDEN for server in HIDDEN[form][0]])
def test_a_temporary_table_changes_nothing_of_the_one_that_it_hides(
    log_of: Callable[[str], Log], server: str, form: str
) -> None:
    _, statements, expected = HIDDEN[form]
    log = log_of(server)
    schemas = log.schemas(TableSet(), "t", "u")
    log.run(*statements, "SET SESSION binlog_format = 'ROW'")
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert not [message for message in messages if isinstance(message, TableFailed)]
    assert changes(messages) == expected


def test_a_reader_that_has_not_seen_the_temporary_table_made_reads_the_table_again(
    log_of: Callable[[str], Log],
) -> None:
    log = log_of("mariadb")
    schemas = log.schemas(TableSet(), "t", "u")
    log.run(STATEMENTS, HIDING)
    log.here()
    log.run("INSERT INTO t VALUES (1)", "TRUNCATE t", "DROP TEMPORARY TABLE t", "SET SESSION binlog_format = 'ROW'")
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert not [message for message in messages if isinstance(message, TableFailed)]
    assert changes(messages) == REREAD * 2


@pytest.mark.parametrize("row", [True, False])
@pytest.mark.parametrize("server", BOTH)
def test_a_character_set_that_a_statement_left_to_the_table_is_not_taken_from_a_later_one(
    log_of: Callable[[str], Log], server: str, *, row: bool
) -> None:
    """The first statement makes question marks of characters, and when the log is read the catalog has the second
    one's.
    """
    log = log_of(server)
    log.run("CREATE TABLE p (id INT PRIMARY KEY, c VARCHAR(9) CHARACTER SET utf8mb4) DEFAULT CHARACTER SET latin1")
    log.run("INSERT INTO p VALUES (1, '中')", "SET sql_mode = ''")
    schemas = log.schemas(TableSet(), "p")
    log.here()
    log.run("UPDATE p SET id = 2", "ALTER TABLE p MODIFY c VARCHAR(10)", *["INSERT INTO p VALUES (3, 'x')"][:row])
    log.run("ALTER TABLE p MODIFY c VARCHAR(10) CHARACTER SET utf8mb4")
    messages = log.read(log.all("p"), schemas)
    assert any(message.reload for message in messages if isinstance(message, SchemaChange))


@pytest.mark.parametrize("server", BOTH)
def test_a_definition_that_was_another_tables_is_seen_when_its_table_is_renamed(
    log_of: Callable[[str], Log], server: str
) -> None:
    """When the log is read the catalog has `u` under the name `t`; no row of either follows."""
    log = log_of(server)
    log.run("ALTER TABLE u DROP b")
    everything = TableSet(databases=frozenset({log.database}))
    schemas = log.schemas(TableSet(), "t", "u")
    log.here()
    log.run("ALTER TABLE t ADD c INT, MODIFY a BIGINT", "RENAME TABLE t TO n, u TO t, n TO u")
    assert ("ALTER_TABLE", "u", True) in changes(log.read(everything, schemas))


@pytest.mark.parametrize("server", BOTH)
def test_a_table_like_one_whose_definition_the_journal_does_not_know_for_certain_is_read(
    log_of: Callable[[str], Log], server: str
) -> None:
    """The reader before could not say what a statement had made of a column, and this one has seen no row of the
    table.
    """
    log = log_of(server)
    everything = TableSet(databases=frozenset({log.database}))
    schemas = log.schemas(TableSet(), "t")
    log.run("DELETE FROM t", "ALTER TABLE t MODIFY b FLOAT")
    log.here()
    log.run("RENAME TABLE t TO n", "CREATE TABLE x LIKE n", "RENAME TABLE x TO y")
    found = changes(log.read(everything, schemas))
    assert ("ALTER_TABLE", "n", True) in found
    assert [change for change in found if change[1] in "xy"] == [("CREATE_TABLE", "y", True)]


@pytest.mark.parametrize("server", BOTH)
def test_a_table_that_is_renamed_is_not_read_again_where_its_definition_is_certain(
    log_of: Callable[[str], Log], server: str
) -> None:
    log = log_of(server)
    schemas = log.schemas(TableSet(), "t", "u")
    log.here()
    log.run("UPDATE t SET a = 7", "RENAME TABLE t TO n, u TO m", "ALTER TABLE n ADD c INT")
    found = changes(log.read(TableSet(databases=frozenset({log.database})), schemas))
    assert found == [("RENAME_TABLE", "t", False), ("RENAME_TABLE", "u", False), ("ALTER_TABLE", "n", False)]
