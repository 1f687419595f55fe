"""Servers that compare names without case (lower_case_table_names = 1): each name means the table that it means to the
server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.model.change import SchemaChange
from replicator.model.identifiers import TableId, TablePattern
from replicator.model.table_set import TableSet
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.names import lowered, names_of
from replicator.sources.mysql.source import MySqlSource
from testing.servers.mysql import EmbeddedMySQL
from tests.integration.mysql.test_mysql_log import Log, changes, rows
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
SERVERS = {"mariadb": EmbeddedMariaDB, "mysql": EmbeddedMySQL}


@pytest.fixture(scope="module", params=list(SERVERS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMariaDB | EmbeddedMySQL]:
    """Made with the setting: MySQL 8 takes it at no other time."""
    folder = tmp_path_factory.mktemp(request.param)
    server = SERVERS[request.param](folder, options={"lower-case-table-names": "1"})
    server.start()
    yield server
    server.stop()


@pytest.fixture
def log(server: EmbeddedMariaDB | EmbeddedMySQL, request: pytest.FixtureRequest) -> Iterator[Log]:
    log = Log(server, f"Names_{abs(hash(request.node.name)) % 100000}")
    yield log
    log.run(f"DROP DATABASE IF EXISTS {log.database}")
    log.control.close()


def whole(log: Log) -> TableSet:
    return TableSet(databases=frozenset({log.database}))


def table(log: Log, name: str) -> TableId:
    return TableId(log.database.lower(), name)


def test_statements_in_another_case_mean_the_same_tables(log: Log) -> None:
    log.run("CREATE TABLE T4 (id INT PRIMARY KEY)", "CREATE TABLE t5 (id INT PRIMARY KEY)", "INSERT INTO T4 VALUES (1)")
    log.run("CREATE TABLE T6 (id INT PRIMARY KEY)", "INSERT INTO t6 VALUES (1)", "CREATE TABLE T7 LIKE T6")
    catalog = MySqlCatalog(log.control)
    known = {s.table: s for s in catalog.describe(catalog.names(log.database)).values()}  # type: ignore[union-attr]
    log.here()
    log.run("TRUNCATE TABLE T4", "RENAME TABLE T6 TO T6B", f"RENAME TABLE {log.database.upper()}.t7 TO T8")
    log.run("INSERT INTO t6b VALUES (2)", "ALTER TABLE T5 ADD COLUMN Foo INT", "ALTER TABLE t5 DROP COLUMN foo")
    log.run("DROP TABLE T5", "INSERT INTO T8 VALUES (3)", "CREATE TABLE T9 LIKE T8", "ALTER TABLE T9 RENAME TO T9b")
    messages = log.read(whole(log), known)
    assert changes(messages) == [
        ("TRUNCATE_TABLE", "t4", False),
        ("RENAME_TABLE", "t6", False),
        ("RENAME_TABLE", "t7", False),
        ("DROP_TABLE", "t5", False),
        ("CREATE_TABLE", "t9", False),
        ("RENAME_TABLE", "t9", False),
    ]
    assert [m.new_table.name for m in messages if isinstance(m, SchemaChange) and m.new_table] == ["t6b", "t8", "t9b"]
    assert rows(messages, "id") == [("INSERT", 2), ("INSERT", 3)]


def test_a_database_is_dropped_in_another_case(log: Log) -> None:
    log.run("CREATE TABLE T (id INT PRIMARY KEY)")
    catalog = MySqlCatalog(log.control)
    known = {s.table: s for s in catalog.describe(catalog.names(log.database)).values()}  # type: ignore[union-attr]
    log.here()
    log.run(f"DROP DATABASE {log.database.upper()}", f"CREATE DATABASE {log.database}")
    found = changes(log.read(whole(log), known))
    assert found[0] == ("DROP_TABLE", "t", False)
    assert [name for name, _, _ in found[1:]] == ["DROP_DATABASE", "CREATE_DATABASE"]


def test_a_selection_takes_and_leaves_out_what_the_server_understands_by_its_names(log: Log) -> None:
    log.run("CREATE TABLE Orders (id INT PRIMARY KEY, Email INT)", "CREATE TABLE Secret (id INT PRIMARY KEY)")
    log.run("CREATE TABLE Old_1 (id INT PRIMARY KEY)")
    config = MySqlConfig(log.config.host, log.config.port, log.config.user, log.config.password)
    source = MySqlSource(config)
    typed = TableSet(
        databases=frozenset({log.database}),
        excluded=frozenset({log.table("SECRET")}),
        excluded_patterns=frozenset({TablePattern(log.database, "OLD_?")}),
        excluded_columns={log.table("ORDERS"): frozenset({"EMAIL"})},
    )
    source.tables = source.names().selection(typed)
    names = [name for name in source.catalog().names(log.database) if name in source.tables]
    assert names == [table(log, "orders")]
    schema = source.catalog().describe(names)[names[0]]
    assert schema.names == ("id",)  # type: ignore[union-attr]
    assert not [line for line in source.check(typed) if line.status == "failed"]
    source.close()
    log.here()
    log.run("INSERT INTO ORDERS VALUES (1, 2)", "INSERT INTO SECRET VALUES (1)", "INSERT INTO OLD_1 VALUES (1)")
    messages = log.read(typed)
    assert {m.table for m in messages if hasattr(m, "table")} == {table(log, "orders")}
    assert all("Email" not in m.data.schema.names for m in messages if hasattr(m, "data"))


def test_foreign_keys_and_marks_in_another_case(log: Log) -> None:
    database = log.database.upper()
    log.run("CREATE TABLE Parent (id INT PRIMARY KEY)")
    key = f"FOREIGN KEY (p) REFERENCES {database}.PARENT (ID) ON DELETE CASCADE"
    log.run(f"CREATE TABLE Child (id INT PRIMARY KEY, p INT, {key})")
    (rule,) = MySqlCatalog(log.control).cascades([TableId(database, "CHILD")])
    assert (rule.parent, rule.child) == (table(log, "parent"), table(log, "child"))
    assert [column.lower() for column in rule.columns] == ["id"]


def test_every_letter_is_folded_as_the_server_does(log: Log) -> None:
    assert names_of(log.control).folds
    letters = [chr(code) for code in range(1, 0x10000) if not 0xD800 <= code < 0xE000]
    with log.control.cursor() as cursor:
        for at in range(0, len(letters), 1000):
            some = "".join(letters[at : at + 1000])
            cursor.execute("SELECT LOWER(CONVERT(%s USING utf8) COLLATE utf8_general_ci)", (some,))
            assert lowered(some) == cursor.fetchone()[0]


def test_columns_in_another_case_are_the_same_columns(log: Log) -> None:
    log.run("CREATE TABLE t (Id INT PRIMARY KEY, Foo INT, Bar INT, Gone INT)", "INSERT INTO t VALUES (1, 2, 3, 4)")
    known = MySqlCatalog(log.control).describe([table(log, "t")])
    log.here()
    log.run("ALTER TABLE t MODIFY FOO BIGINT, RENAME COLUMN bar TO BAR, DROP COLUMN GONE")
    log.run("UPDATE T SET foo = 5 WHERE ID = 1")
    messages = log.read(whole(log), known)  # type: ignore[arg-type]
    change = next(m for m in messages if isinstance(m, SchemaChange))
    assert change.schema is not None
    assert change.schema.names == ("Id", "FOO", "BAR")
    assert (change.renamed_columns, change.reload) == ({"Foo": "FOO", "Bar": "BAR"}, False)
    assert changes(messages) == [("ALTER_TABLE", "t", False)]
    assert rows(messages, "Id", "FOO", "BAR") == [("UPDATE", 1, 5, 3)]


def test_columns_that_the_catalog_has_in_the_case_of_a_later_statement_keep_their_values(log: Log) -> None:
    """A history: the values of `c6` were null in the copy, because `C6` was dropped there and made again."""
    log.here()
    log.run(
        "CREATE TABLE t (Id INT NOT NULL, c6 DATE, c7 INT, PRIMARY KEY (Id))",
        "INSERT INTO t VALUES (1, '2000-02-29', 1)",
        "ALTER TABLE t ADD COLUMN c12 INT",
        "INSERT INTO t VALUES (2, '2000-02-28', 1, 1)",
        "ALTER TABLE t MODIFY C6 DATE COMMENT 'x', MODIFY ID INT NOT NULL, ADD COLUMN C13 INT, DROP PRIMARY KEY, ADD"
        " PRIMARY KEY (ID)",
        "INSERT INTO t VALUES (3, '2000-02-27', 1, 1, 1)",
    )
    told = [m for m in log.read(whole(log)) if isinstance(m, SchemaChange)]
    assert all(not change.reload and change.schema is not None for change in told)
    schemas = [change.schema for change in told if change.schema is not None]
    # Columns as a target has them after each change, with their name at first.
    kept = {name: name for name in schemas[0].names if name.lower() in {"id", "c6", "c7"}}
    for change, schema in zip(told[1:], schemas[1:], strict=True):
        kept = {change.renamed_columns.get(name, name): was for name, was in kept.items()}
        assert kept.keys() <= set(schema.names)
    assert any(change.renamed_columns and not change.statement for change in told)  # the catalog was ahead of the log
    assert kept.keys() == {"ID", "C6", "c7"}
    assert schemas[-1].names == ("ID", "C6", "c7", "c12", "C13")
    assert schemas[-1].key == ("ID",)
