"""Discovery and description of tables on a live server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from replicator.errors import SelectionDoesNotFit, SourcePermissionDenied, TableDisappeared, TableError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
DATABASE = "catalog_tests"


@pytest.fixture(scope="module")
def connection(mariadb: EmbeddedMariaDB) -> Iterator[pymysql.Connection[Any]]:
    connection = connect(MySqlConfig.parse(mariadb.address))
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE DATABASE {DATABASE}")
        cursor.execute("CREATE OR REPLACE DATABASE catalog_marks")
        cursor.execute("CREATE TABLE catalog_marks.watermark (i int)")
    connection.select_db(DATABASE)
    yield connection
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {DATABASE}")
        cursor.execute("DROP DATABASE catalog_marks")
    connection.close()


@pytest.fixture
def catalog(connection: pymysql.Connection[Any]) -> MySqlCatalog:
    return MySqlCatalog(connection, hidden=frozenset({"catalog_marks"}))


def make(connection: pymysql.Connection[Any], name: str, definition: str) -> TableId:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE TABLE `{name}` {definition}")
    return TableId(DATABASE, name)


def described(catalog: MySqlCatalog, table: TableId) -> TableSchema:
    found = catalog.describe([table])[table]
    assert isinstance(found, TableSchema)
    return found


def test_base_tables_are_listed_and_nothing_else(connection: pymysql.Connection[Any], catalog: MySqlCatalog) -> None:
    table = make(connection, "listed", "(id int primary key)")
    with connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE VIEW seen AS SELECT * FROM listed")
        cursor.execute("CREATE OR REPLACE SEQUENCE numbers")
    names = catalog.names()
    assert table in names
    assert not {name.name for name in names} & {"seen", "numbers"}
    hidden = {"mysql", "sys", "performance_schema", "information_schema", "catalog_marks"}
    assert not {name.database for name in names} & hidden
    assert not {database.name for database in catalog.databases()} & hidden
    assert catalog.describe([TableId(DATABASE, "seen"), TableId(DATABASE, "numbers"), TableId(DATABASE, "no")]) == {}


def test_pages_and_searches_agree_on_the_total(connection: pymysql.Connection[Any], catalog: MySqlCatalog) -> None:
    for number in range(5):
        make(connection, f"Page_{number}", "(id int primary key)")
    make(connection, "page_unique", "(id int not null unique, v int)")
    make(connection, "page_keyless", "(id int unique) engine=MyISAM")
    pages = [catalog.tables(database=DATABASE, search="PAGE_", limit=3, offset=at) for at in (0, 3, 6)]
    assert [total for _, total in pages] == [7, 7, 7]
    infos = [info for page, _ in pages for info in page]
    assert [info.table.name for info in infos] == [*(f"Page_{n}" for n in range(5)), "page_keyless", "page_unique"]
    assert [info.key for info in infos] == ["primary"] * 5 + ["", "unique"]
    assert infos[5].engine == "MyISAM"
    assert catalog.tables(search="no such table") == ([], 0)


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        ("(a int, b int, primary key (b, a))", ("b", "a")),
        ("(a int not null, b int not null, unique (a, b), unique (b))", ("a", "b")),  # as the server
        ("(a int, b int not null, unique (a), unique (b))", ("b",)),
        ("(a int, b int, unique (a, b))", ()),
        ("(a varchar(99) not null, b int not null, unique (a(3)), unique z (b))", ("b",)),
        ("(a varchar(99) not null, unique (a(3)))", ()),  # the log shows only indexes of whole columns
        ("(a text not null, unique (a))", ()),
        ("(a int, index (a))", ()),
    ],
)
def test_the_key_is_the_primary_key_or_a_unique_index_without_nulls(
    connection: pymysql.Connection[Any], catalog: MySqlCatalog, definition: str, key: tuple[str, ...]
) -> None:
    assert described(catalog, make(connection, "keyed", definition)).key == key


def test_only_whole_key_columns_give_bounds(connection: pymysql.Connection[Any], catalog: MySqlCatalog) -> None:
    def bounded(definition: str) -> bool:
        table = make(connection, "keyed", definition)
        found = catalog.details([table])[table]
        assert isinstance(found, TableDescription)
        return found.bounded

    assert bounded("(a varchar(99) primary key)")
    assert not bounded("(a varchar(99), primary key (a(3)))")
    assert not bounded("(a text not null, unique (a))")
    assert not bounded("(a int)")


def test_all_columns_are_described_in_order(connection: pymysql.Connection[Any], catalog: MySqlCatalog) -> None:
    definition = (
        "(id int primary key, `_x y` enum('a''b','c,d') character set latin1 not null, hidden datetime(3) invisible, v"
        " int as (id + 1) virtual, s int as (id + 2) stored, z date not null default '0000-00-00', big bigint unsigned)"
    )
    table = make(connection, "columns", definition)
    schema = described(catalog, table)
    assert [(c.name, str(c.type), c.nullable) for c in schema.columns] == [
        ("id", "int", False),
        ("_x y", "string", False),
        ("hidden", "timestamp_ntz", True),
        ("v", "int", True),
        ("s", "int", True),
        ("z", "date", True),
        ("big", "decimal(20,0)", True),
    ]
    found = catalog.details([table])[table]
    assert isinstance(found, TableDescription)
    assert found.definition("_x y").labels == ("a'b", "c,d")
    assert [d.name for d in found.definitions if d.virtual or d.invisible] == ["hidden", "v"]
    assert found.definition("hidden").fsp == 3
    assert schema.column("big").source_type == "bigint(20) unsigned"


@pytest.mark.parametrize("name", ["_sequence_num", "_OPERATION", "_before_id"])
def test_a_reserved_column_name_stops_the_table(
    connection: pymysql.Connection[Any], catalog: MySqlCatalog, name: str
) -> None:
    table = make(connection, "reserved", f"(id int primary key, `{name}` int)")
    error = catalog.describe([table])[table]
    assert isinstance(error, UnsupportedType)
    assert name in error.message
    without = TableSet(excluded_columns={table: frozenset({name})})
    assert described(MySqlCatalog(connection, left_out=without), table).names == ("id",)


def test_a_column_left_out_that_is_not_there_stops_the_table_and_one_that_is_hidden_does_not(
    connection: pymysql.Connection[Any], mariadb: EmbeddedMariaDB
) -> None:
    table = make(connection, "kept", "(id int primary key, ssn int, v int)")
    with connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER reader_of_columns IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT SELECT (id, v) ON {DATABASE}.kept TO reader_of_columns")
    theirs = connect(replace(MySqlConfig.parse(mariadb.address), user="reader_of_columns", password="secret"))
    for one in (connection, theirs):
        left_out = TableSet(excluded_columns={table: frozenset({"SSN"})})
        assert described(MySqlCatalog(one, left_out=left_out), table).names == ("id", "v")
        left_out = TableSet(excluded_columns={table: frozenset({"ssn", "number"})})
        error = MySqlCatalog(one, left_out=left_out).describe([table])[table]
        assert isinstance(error, SelectionDoesNotFit)
        assert "has no column number, which is excluded" in error.message
    theirs.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP USER reader_of_columns")


def test_one_bad_table_does_not_hide_the_others(connection: pymysql.Connection[Any], catalog: MySqlCatalog) -> None:
    good = [make(connection, f"good_{n}", "(id int primary key)") for n in range(120)]
    bad = make(connection, "bad", "(id int primary key) with system versioning")
    found = catalog.describe([*good, bad])
    assert len(found) == 121
    assert isinstance(found[bad], TableError)
    assert all(isinstance(found[table], TableSchema) for table in good)


def test_names_are_told_apart_by_case_where_the_server_does(
    connection: pymysql.Connection[Any], catalog: MySqlCatalog
) -> None:
    upper, lower = make(connection, "Case", "(a int)"), make(connection, "case", "(b int)")
    assert described(catalog, upper).names == ("a",)
    assert described(catalog, lower).names == ("b",)


def test_a_table_that_goes_between_two_queries_is_not_there(
    connection: pymysql.Connection[Any], catalog: MySqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left out: without columns, the log's reader would take it for a table whose new columns are unknown."""
    table = make(connection, "going", "(id int primary key)")
    facts = catalog._facts

    def overtaken(tables: list[TableId]) -> dict[TableId, tuple[str, int, int, str]]:
        found = facts(tables)
        with connection.cursor() as cursor:
            cursor.execute("RENAME TABLE going TO gone")
        return found

    monkeypatch.setattr(catalog, "_facts", overtaken)
    assert catalog.details([table]) == {}


@pytest.fixture
def reader(connection: pymysql.Connection[Any], mariadb: EmbeddedMariaDB) -> Iterator[MySqlCatalog]:
    """The catalog as a user sees it who may read single tables; and one that is gone, which no right needs to be there
    for.
    """
    with connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER reader_of_some IDENTIFIED BY 'secret'")
        for name in ("shown", "dropped"):
            make(connection, name, "(id int primary key)")
            cursor.execute(f"GRANT SELECT ON {DATABASE}.{name} TO reader_of_some")
        cursor.execute("DROP TABLE dropped")
    config = replace(MySqlConfig.parse(mariadb.address), user="reader_of_some", password="secret")
    theirs = connect(config)
    yield MySqlCatalog(theirs)
    theirs.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP USER reader_of_some")


def test_what_the_user_may_not_see_is_not_taken_for_gone(
    connection: pymysql.Connection[Any], reader: MySqlCatalog
) -> None:
    shown, dropped, hidden = (
        TableId(DATABASE, "shown"),
        TableId(DATABASE, "dropped"),
        make(connection, "kept", "(i int)"),
    )
    assert reader.describe([shown, dropped, hidden]).keys() == {shown}
    reader.try_rows(shown, KeyRange())
    with pytest.raises(TableDisappeared):
        reader.try_rows(dropped, KeyRange())
    for unseen in (hidden, TableId("nowhere", "t")):
        with pytest.raises(SourcePermissionDenied):
            reader.try_rows(unseen, KeyRange())


def test_comments_are_read_and_make_no_schema_another_one(
    connection: pymysql.Connection[Any], catalog: MySqlCatalog
) -> None:
    table = make(connection, "commented", "(id int primary key comment 'It''s \N{SNOWMAN}', v int) comment 'Orders'")
    before = described(catalog, table)
    assert (before.comment, [column.comment for column in before.columns]) == ("Orders", ["It's \N{SNOWMAN}", ""])
    assert TableSchema.from_dict(before.to_dict()).to_dict() == before.to_dict()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE commented COMMENT 'All orders', MODIFY v int COMMENT 'Value'")
    after = described(catalog, table)
    assert (after.comment, [column.comment for column in after.columns]) == (
        "All orders",
        ["It's \N{SNOWMAN}", "Value"],
    )
    assert after.same_as(before)
