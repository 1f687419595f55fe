"""Storage engines: a table is taken where the log has just its rows, else refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.errors import TableError, UnsupportedEngine
from replicator.model.change import LogMessage, SchemaChange, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.connection import connect
from testing.servers.mysql import EmbeddedMySQL
from tests.integration.mysql.test_mysql_log import Log, changes, rows
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
SERVERS = {"mariadb": EmbeddedMariaDB, "mysql": EmbeddedMySQL}
TAKEN = ("InnoDB", "MyISAM", "MEMORY", "HEAP", "Aria")
REFUSED = {"CSV": "as text", "MERGE": "rows of other tables", "BLACKHOLE": "stores no rows", "ARCHIVE": "are lost"}


@pytest.fixture(scope="module", params=list(SERVERS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMariaDB | EmbeddedMySQL]:
    server = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def log(server: EmbeddedMariaDB | EmbeddedMySQL, request: pytest.FixtureRequest) -> Iterator[Log]:
    log = Log(server, f"engines_{abs(hash(request.node.name)) % 100000}")
    log.run("SET sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'")
    yield log
    log.run(f"DROP DATABASE IF EXISTS {log.database}")
    log.control.close()


def has(log: Log, engine: str) -> bool:
    with log.control.cursor() as cursor:
        name = {"MERGE": "MRG_MyISAM", "HEAP": "MEMORY"}.get(engine, engine)
        cursor.execute(
            "SELECT 1 FROM information_schema.ENGINES WHERE ENGINE = %s AND SUPPORT IN ('YES', 'DEFAULT')", (name,)
        )
        return cursor.fetchone() is not None


def whole(log: Log) -> TableSet:
    return TableSet(databases=frozenset({log.database}))


def described(log: Log) -> dict[TableId, TableSchema | TableError]:
    catalog = MySqlCatalog(log.control)
    return catalog.describe(catalog.names(log.database))


def known(log: Log) -> dict[TableId, TableSchema]:
    return {table: found for table, found in described(log).items() if isinstance(found, TableSchema)}


def failures(messages: list[LogMessage]) -> dict[str, TableError]:
    return {m.table.name: m.error for m in messages if isinstance(m, TableFailed)}


def test_what_of_each_engine_the_catalog_takes(log: Log) -> None:
    taken = [engine for engine in TAKEN if has(log, engine)]
    refused = [engine for engine in REFUSED if has(log, engine)]
    log.run(*(f"CREATE TABLE {engine} (id INT NOT NULL) ENGINE={engine}" for engine in (*taken, *refused)))
    found = {table.name: error for table, error in described(log).items()}
    assert all(isinstance(found[engine], TableSchema) for engine in taken)
    for engine in refused:
        error = found[engine]
        assert isinstance(error, UnsupportedEngine)
        assert REFUSED[engine] in error.message
        assert "ENGINE = InnoDB" in error.remedy


def test_tables_that_come_in_the_log_are_taken_or_fail_alone(log: Log) -> None:
    engines = [engine for engine in (*TAKEN, *REFUSED) if has(log, engine)]
    for engine in engines:
        log.run(f"CREATE TABLE {engine} (id INT NOT NULL) ENGINE={engine}")
        if engine != "MERGE":  # which is read-only without a UNION
            log.run(f"INSERT INTO {engine} VALUES (1)")
    messages = log.read(whole(log))
    assert set(failures(messages)) == {engine for engine in engines if engine in REFUSED}
    assert sorted(m.table.name for m in messages if isinstance(m, SchemaChange)) == sorted(set(TAKEN) & set(engines))
    assert len(rows(messages, "id")) == len(set(TAKEN) & set(engines))


def test_a_table_that_is_put_into_such_an_engine_fails_alone_though_it_is_back_by_now(log: Log) -> None:
    engine = "BLACKHOLE" if has(log, "BLACKHOLE") else "CSV"
    for name in ("a", "b", "c", "d"):
        log.run(f"CREATE TABLE {name} (id INT NOT NULL)", f"INSERT INTO {name} VALUES (1)")
    log.run("ALTER TABLE d ADD engine INT, ADD type INT")
    schemas = known(log)
    log.here()
    log.run(f"ALTER TABLE a COMMENT = 'x' ENGINE {engine}", "INSERT INTO a VALUES (2)", "ALTER TABLE a ENGINE=InnoDB")
    log.run(f"ALTER TABLE b ENGINE='{engine}', RENAME TO b2", "INSERT INTO b2 VALUES (2)")
    log.run("ALTER TABLE c ENGINE=MyISAM", "ALTER TABLE c ENGINE = InnoDB, FORCE", "INSERT INTO c VALUES (2)")
    log.run("ALTER TABLE d MODIFY engine BIGINT, ORDER BY type, engine DESC")
    messages = log.read(whole(log), schemas)
    assert {"a", "b2"} <= set(failures(messages)) <= {"a", "b", "b2"}
    assert engine in failures(messages)["a"].message
    assert rows(messages, "id") == [("INSERT", 2)]
    assert [change for change in changes(messages) if change[1] in "cd"] == [("ALTER_TABLE", "d", False)]


def test_a_copy_of_a_table_in_such_an_engine_is_one_as_well(log: Log) -> None:
    engine = "BLACKHOLE" if has(log, "BLACKHOLE") else "CSV"
    log.run("CREATE TABLE a (id INT NOT NULL)")
    schemas = known(log)
    log.here()
    log.run(f"ALTER TABLE a ENGINE={engine}", "CREATE TABLE b LIKE a", "INSERT INTO b VALUES (1)")
    messages = log.read(whole(log), schemas)
    assert set(failures(messages)) == {"a", "b"}
    assert not rows(messages, "id")


def test_tables_of_a_union_are_refused_in_the_catalog_and_when_they_come_to_one(log: Log) -> None:
    for name in ("u1", "u2", "u3", "u4"):
        log.run(f"CREATE TABLE {name} (id INT NOT NULL) ENGINE=MyISAM")
    log.run("CREATE TABLE mg (id INT NOT NULL) ENGINE=MERGE UNION=(u1) INSERT_METHOD=LAST")
    found = {table.name: error for table, error in described(log).items()}
    assert isinstance(found["u1"], UnsupportedEngine)
    assert "the MERGE table" in found["u1"].message
    assert all(isinstance(found[name], TableSchema) for name in ("u2", "u3", "u4"))
    schemas = known(log)
    log.here()
    log.run("ALTER TABLE mg UNION=(u1, u2) INSERT_METHOD=LAST", "INSERT INTO mg VALUES (2)")
    log.run(f"CREATE TABLE mg2 (id INT NOT NULL) INSERT_METHOD=FIRST UNION ({log.database}.u3) ENGINE=MRG_MyISAM")
    log.run("TRUNCATE TABLE mg2", "DROP TABLE mg, mg2", "INSERT INTO u4 VALUES (4)")
    messages = log.read(TableSet(databases=frozenset({log.database}), excluded=frozenset({log.table("mg")})), schemas)
    assert set(failures(messages)) == {"u2", "u3", "mg2"}
    assert rows(messages, "id") == [("INSERT", 4)]


@pytest.mark.parametrize("statement", ["RENAME TABLE r1 TO r2", "ALTER TABLE r1 RENAME TO r2"])
def test_a_table_that_is_renamed_into_a_union_fails(log: Log, statement: str) -> None:
    for name in ("r1", "r2"):
        log.run(f"CREATE TABLE {name} (id INT NOT NULL) ENGINE=MyISAM")
    log.run("CREATE TABLE mg (id INT NOT NULL) ENGINE=MERGE UNION=(r2) INSERT_METHOD=LAST", "DROP TABLE r2")
    schemas = known(log)
    log.here()
    log.run("INSERT INTO r1 VALUES (1)", statement, "INSERT INTO mg VALUES (2)", "INSERT INTO r2 VALUES (3)")
    messages = log.read(TableSet(databases=frozenset({log.database}), excluded=frozenset({log.table("mg")})), schemas)
    assert {"r2"} <= set(failures(messages)) <= {"r1", "r2"}
    assert rows(messages, "id") == [("INSERT", 1)]


def test_rows_of_failed_and_rolled_back_statements_stay_and_are_in_the_log(log: Log) -> None:
    for engine in ("MyISAM", "MEMORY", "Aria"):
        if has(log, engine):
            log.run(f"CREATE TABLE {engine} (id INT PRIMARY KEY) ENGINE={engine}", f"INSERT INTO {engine} VALUES (1)")
    schemas = known(log)
    log.here()
    expected = []
    for table in schemas:
        with pytest.raises(Exception, match="Duplicate"):
            log.run(f"INSERT INTO {table} VALUES (2), (1), (3)")
        log.run("BEGIN", f"INSERT INTO {table} VALUES (4)", "ROLLBACK")
        expected += [("INSERT", 2), ("INSERT", 4)]
        with log.control.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {table} ORDER BY id")
            assert [row[0] for row in cursor.fetchall()] == [1, 2, 4]
    assert rows(log.read(whole(log), schemas), "id") == expected


def test_a_memory_table_that_a_restart_emptied_is_emptied_in_the_log(
    log: Log, server: EmbeddedMariaDB | EmbeddedMySQL
) -> None:
    log.run("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO m VALUES (1)")
    schemas = known(log)
    log.run("CREATE TABLE n (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO n VALUES (1)")
    log.here()
    server.restart()
    log.control = connect(log.config)
    table = TableId(log.database, "n")
    catalog = MySqlCatalog(log.control)  # 8.0.12 crashes on statistics of a table that was never opened and has none
    assert table in catalog.describe([table])
    assert catalog.infos([table])[table].engine == "MEMORY"
    assert log.database in {one.name for one in catalog.databases()}
    with log.control.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {log.database}.m")
        assert cursor.fetchone() == (0,)
    assert changes(log.read(whole(log), schemas)) == [("TRUNCATE_TABLE", "m", False)]
