"""What statements of all forms in the log do to a replicator's tables, on MariaDB and on MySQL 8.0."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from replicator.model.change import Ddl, SchemaChange, TableFailed
from replicator.model.identifiers import TableSet
from tests.integration.test_mysql_log import Log, changes, rows

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
    "procedure": (BOTH, ["CREATE PROCEDURE p() BEGIN TRUNCATE t; RENAME TABLE t TO n; END", "CALL p()"], TRUNCATED + RENAMED),
    "other quotes": (BOTH, ["SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "t" DROP "a"'], ALTERED),
    "other quotes when prepared": (
        BOTH,
        ["SET sql_mode = 'ANSI_QUOTES'", "PREPARE s FROM 'ALTER TABLE \"t\" DROP \"a\"'", "SET sql_mode = ''", "EXECUTE s"],
        ALTERED,
    ),
    "plain backslash": (BOTH, ["SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "ALTER TABLE t COMMENT 'x\\', DROP a"], ALTERED),
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
        ["SET STATEMENT max_statement_time = (SELECT 10), lock_wait_timeout = 5 FOR ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT"],
        REREAD,
    ),
    "SET STATEMENT twice": (
        ("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR SET STATEMENT max_statement_time = 9 FOR TRUNCATE t"], TRUNCATED,
    ),
    "SET STATEMENT RENAME": (("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR RENAME TABLE t TO n"], RENAMED),
    "SET STATEMENT DROP": (("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR DROP TABLE t"], DROPPED),
    "SET STATEMENT CREATE": (
        ("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR CREATE TABLE n (x INT)"], [("CREATE_TABLE", "n", False)],
    ),
    "SET STATEMENT CREATE SELECT": (
        ("mariadb",), ["SET STATEMENT lock_wait_timeout = 9 FOR CREATE TABLE n SELECT * FROM t"], [("CREATE_TABLE", "n", False)],
    ),
    "SET STATEMENT, read with other quotes": (
        ("mariadb",), ["SET sql_mode = 'ANSI_QUOTES'", "SET STATEMENT sql_mode = '' FOR ALTER TABLE \"t\" DROP \"a\""], ALTERED,
    ),
    "SET STATEMENT, read with plain backslash": (
        ("mariadb",),
        ["SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET STATEMENT sql_mode = '' FOR ALTER TABLE t COMMENT 'x\\', DROP a"],
        ALTERED,
    ),
    "EXECUTE IMMEDIATE": (("mariadb",), ["EXECUTE IMMEDIATE CONCAT('TRUNCATE ', 't')"], TRUNCATED),
    "EXECUTE IMMEDIATE of SET STATEMENT": (
        ("mariadb",), ["EXECUTE IMMEDIATE 'SET STATEMENT lock_wait_timeout = 9 FOR TRUNCATE t'"], TRUNCATED,
    ),
    "compound": (("mariadb",), ["BEGIN NOT ATOMIC IF 1 THEN TRUNCATE t; END IF; ALTER TABLE t DROP a; END"], TRUNCATED + ALTERED),
    "CREATE OR REPLACE": (("mariadb",), ["CREATE OR REPLACE TABLE t (z INT)"], [*DROPPED, ("CREATE_TABLE", "t", False)]),
    "renamed to itself": (BOTH, ["ALTER TABLE t RENAME TO t", "ALTER TABLE t RENAME t, DROP a"], ALTERED),
    "repair": (BOTH, ["REPAIR TABLE t"], REREAD),
    "repair of a partition": (BOTH, ["ALTER TABLE t PARTITION BY KEY (id)", "ALTER TABLE t REPAIR PARTITION ALL"], REREAD),
    "a function in a statement": (
        BOTH,
        [
            "CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO t VALUES (7, 7, 'f'); RETURN 1; END",
            "SET SESSION binlog_format = 'STATEMENT'", "SELECT f()",
        ],
        [*REREAD, ("ALTER_TABLE", "u", True)],
    ),
    "rows of a query in a statement": (
        ("mariadb",), ["SET SESSION binlog_format = 'STATEMENT'", "CREATE TABLE n SELECT * FROM t"], [("CREATE_TABLE", "n", True)],
    ),
    "what changes no table": (
        BOTH,
        [
            "CREATE VIEW v AS SELECT * FROM t", "ALTER VIEW v AS SELECT 1", "DROP VIEW v", "ANALYZE TABLE t", "OPTIMIZE TABLE t", "FLUSH TABLES",
            "CREATE EVENT e ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO TRUNCATE t", "ALTER EVENT e DISABLE", "DROP EVENT e",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", "DROP TRIGGER g", "CREATE ROLE r9", "DROP ROLE r9",
            "CREATE SERVER s9 FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')", "DROP SERVER s9", "CREATE INDEX i ON t (a)",
            "DROP INDEX i ON t", "CREATE USER u9", "SET PASSWORD FOR u9 = ''", "RENAME USER u9 TO u8", "ALTER USER u8 ACCOUNT LOCK",
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
    "REORGANIZE PARTITION p0 INTO (PARTITION q VALUES LESS THAN (5), PARTITION r VALUES LESS THAN (10))": (BOTH, [], []),
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


HIDING = "CREATE TEMPORARY TABLE t (z INT)"
STATEMENTS = "SET SESSION binlog_format = 'STATEMENT'"
HIDDEN: dict[str, tuple[tuple[str, ...], list[str], list[Change]]] = {
    "as rows": (
        BOTH, [HIDING, "ALTER TABLE t ADD q INT", "INSERT INTO t VALUES (1, 2)", "TRUNCATE t", "CREATE INDEX i ON t (z)", "DROP TABLE t"], [],
    ),
    "as statements": (
        BOTH,
        [
            STATEMENTS, HIDING, "ALTER TABLE t ADD q INT", "INSERT INTO t VALUES (1, 2)", "UPDATE t SET z = 3", "DELETE FROM t",
            "CREATE INDEX i ON t (z)", "TRUNCATE t", "DROP TABLE t",
        ],
        [],
    ),
    "mixed": (
        BOTH, ["SET SESSION binlog_format = 'MIXED'", HIDING, "INSERT INTO t VALUES (1)", "TRUNCATE t", "DROP TEMPORARY TABLE t"], [],
    ),
    "hidden no more": (BOTH, [STATEMENTS, HIDING, "DROP TABLE t", "TRUNCATE t"], TRUNCATED),
    "a copy": (BOTH, [STATEMENTS, HIDING, "CREATE TABLE n LIKE t"], [("CREATE_TABLE", "n", False)]),
    "renamed by ALTER": (
        ("mariadb",), [STATEMENTS, HIDING, "ALTER TABLE t RENAME TO n", "ALTER TABLE t DROP a", "TRUNCATE n"], ALTERED,
    ),
    "renamed": (("mariadb",), [STATEMENTS, HIDING, "RENAME TABLE t TO n", "ALTER TABLE t DROP a", "TRUNCATE n"], ALTERED),
    "renamed, as rows": (("mariadb",), [HIDING, "RENAME TABLE t TO n"], REREAD),
    "not hidden from RENAME": (("mysql",), [STATEMENTS, HIDING, "RENAME TABLE t TO n"], RENAMED),
    "something of its own": (("mariadb",), ["ALTER TABLE t ALTER a SET DEFAULT (CONNECTION_ID())"], REREAD),
    "after it in a procedure": (
        ("mysql",),
        [STATEMENTS, f"CREATE PROCEDURE p() BEGIN {HIDING.replace(' t ', ' x ')}; INSERT INTO x VALUES (1); ALTER TABLE t ADD c INT; END", "CALL p()"],
        REREAD,
    ),
    "rows exchanged after it in a procedure": (
        ("mysql",),
        [
            "CREATE TABLE p (id INT PRIMARY KEY, a INT, b VARCHAR(20)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))", STATEMENTS,
            f"CREATE PROCEDURE q() BEGIN {HIDING.replace(' t ', ' x ')}; INSERT INTO x VALUES (1); ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t; END",
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
    """The first statement makes question marks of characters, and when the log is read the catalog has the second one's."""
    log = log_of(server)
    log.run("CREATE TABLE p (id INT PRIMARY KEY, c VARCHAR(9) CHARACTER SET utf8mb4) DEFAULT CHARACTER SET latin1")
    log.run("INSERT INTO p VALUES (1, '中')", "SET sql_mode = ''")
    schemas = log.schemas(TableSet(), "p")
    log.here()
    log.run("UPDATE p SET id = 2", "ALTER TABLE p MODIFY c VARCHAR(10)", *["INSERT INTO p VALUES (3, 'x')"][:row])
    log.run("ALTER TABLE p MODIFY c VARCHAR(10) CHARACTER SET utf8mb4")
    messages = log.read(log.all("p"), schemas)
    assert any(message.reload for message in messages if isinstance(message, SchemaChange))
