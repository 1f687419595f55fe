"""Discovery and descriptions from live servers: 17, and 13 and 18 for what differs there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from replicator.errors import TableError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import cascades_of
from replicator.sources.postgres.catalog.attributes import ColumnFingerprint, ReplicaIdentity, TableDescription
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, quoted
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
SCHEMA, OTHER = "catalog_tests", "catalog_tests_2"


def run(connection: Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def table(name: str) -> TableId:
    return TableId(SCHEMA, name)


def config_of(server: EmbeddedPostgresSource) -> PostgresConfig:
    return PostgresConfig.parse(server.address | {"database": server.database})


def emptied(server: EmbeddedPostgresSource) -> Connection:
    """A connection to a server whose test schemas are new."""
    connection = connect(config_of(server))
    for schema in (SCHEMA, OTHER):
        run(connection, f"DROP SCHEMA IF EXISTS {schema} CASCADE", f"CREATE SCHEMA {schema}")
    return connection


@pytest.fixture
def db(postgres_source: EmbeddedPostgresSource) -> Iterator[Connection]:
    connection = emptied(postgres_source)
    yield connection
    run(connection, f"DROP SCHEMA {SCHEMA} CASCADE", f"DROP SCHEMA {OTHER} CASCADE")
    connection.close()


@pytest.fixture(params=["13.22.0", "17.5.0", "18.0.0"])
def each(
    request: pytest.FixtureRequest, postgres_version: Callable[[str], EmbeddedPostgresSource]
) -> Iterator[Connection]:
    """The oldest, the usual and the newest server."""
    connection = emptied(postgres_version(request.param))
    yield connection
    run(connection, f"DROP SCHEMA {SCHEMA} CASCADE", f"DROP SCHEMA {OTHER} CASCADE")
    connection.close()


def described(connection: Connection, name: str, **options: Any) -> TableDescription:
    found = PostgresCatalog(connection, **options).details([table(name)])[table(name)]
    assert isinstance(found, TableDescription), found
    return found


def refused(connection: Connection, name: str, **options: Any) -> TableError:
    found = PostgresCatalog(connection, **options).describe([table(name)])[table(name)]
    assert isinstance(found, TableError), found
    return found


def test_schemas_are_listed_with_their_tables_and_sizes_and_the_servers_own_are_not(db: Connection) -> None:
    run(
        db,
        f"CREATE TABLE {SCHEMA}.a AS SELECT i, repeat('x', 100) AS t FROM generate_series(1, 1000) i",
        f"CREATE TABLE {SCHEMA}.b (id int PRIMARY KEY)",
        f"CREATE VIEW {SCHEMA}.v AS SELECT 1",
        f"CREATE MATERIALIZED VIEW {SCHEMA}.m AS SELECT 1",
        f"CREATE SEQUENCE {SCHEMA}.s",
    )
    found = {info.name: info for info in PostgresCatalog(db).databases()}
    assert found[SCHEMA].tables == 2
    assert found[SCHEMA].bytes > 100_000  # never vacuumed: the size is that of the files
    assert found[OTHER].tables == 0
    assert not {"pg_catalog", "information_schema", "pg_toast", "tidemark"} & found.keys()
    assert PostgresCatalog(db, hidden=frozenset({SCHEMA})).names(SCHEMA) == []
    assert PostgresCatalog(db).describe([table("v"), table("m"), table("s"), table("gone")]) == {}


def test_pages_are_ordered_and_counted_and_a_search_takes_part_of_a_name_in_any_case(db: Connection) -> None:
    for number in range(7):
        run(db, f'CREATE TABLE {SCHEMA}."Page_{number}" (id int PRIMARY KEY)')
    run(db, f"CREATE TABLE {SCHEMA}.other (id int)", f"ANALYZE {SCHEMA}.other")
    catalog = PostgresCatalog(db)
    pages = [catalog.tables(database=SCHEMA, search="pAGE_", limit=3, offset=at) for at in (0, 3, 6)]
    assert [[info.table.name for info in page] for page, _ in pages] == [
        ["Page_0", "Page_1", "Page_2"],
        ["Page_3", "Page_4", "Page_5"],
        ["Page_6"],
    ]
    assert {total for _, total in pages} == {7}
    assert catalog.tables(search="no such table") == ([], 0)
    info = catalog.infos([table("Page_0"), table("gone")])
    assert list(info) == [table("Page_0")]
    assert info[table("Page_0")].key == "primary"


def test_rows_are_estimated_with_and_without_statistics(db: Connection) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.counted (id int PRIMARY KEY)")
    run(db, f"INSERT INTO {SCHEMA}.counted SELECT generate_series(1, 5000)", f"ANALYZE {SCHEMA}.counted")
    run(db, f"CREATE TABLE {SCHEMA}.halves (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    run(db, f"CREATE TABLE {SCHEMA}.low PARTITION OF {SCHEMA}.halves FOR VALUES FROM (0) TO (500)")
    run(db, f"CREATE TABLE {SCHEMA}.high PARTITION OF {SCHEMA}.halves FOR VALUES FROM (500) TO (1000)")
    run(db, f"INSERT INTO {SCHEMA}.halves SELECT generate_series(0, 999)", f"ANALYZE {SCHEMA}.halves")
    infos = PostgresCatalog(db).infos([table("counted"), table("halves")])
    assert (infos[table("counted")].rows, infos[table("halves")].rows) == (5000, 1000)
    assert infos[table("counted")].bytes >= 5000 * 28
    assert infos[table("halves")].engine == "partitioned"


def test_sizes_are_not_waited_for_where_a_table_is_locked(
    db: Connection, postgres_source: EmbeddedPostgresSource
) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.locked (id int PRIMARY KEY)", f"INSERT INTO {SCHEMA}.locked VALUES (1)")
    other = connect(config_of(postgres_source))
    run(other, "BEGIN", f"LOCK TABLE {SCHEMA}.locked IN ACCESS EXCLUSIVE MODE")
    try:
        assert PostgresCatalog(db).infos([table("locked")])[table("locked")].bytes == 0
        assert PostgresCatalog(db).describe([table("locked")])[table("locked")].key == ("id",)  # type: ignore[union-attr]
    finally:
        other.close()
    with db.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchall() == [("10s",)]


def test_columns_have_their_types_numbers_and_places(each: Connection) -> None:
    run(
        each,
        f"CREATE TYPE {SCHEMA}.mood AS ENUM ('a', 'b')",
        f"CREATE DOMAIN {SCHEMA}.price AS numeric(10,2)",
        f"CREATE DOMAIN {SCHEMA}.dear AS {SCHEMA}.price CHECK (value > 100)",
        f"CREATE TYPE {SCHEMA}.pair AS (x int, m {SCHEMA}.mood)",
        f"CREATE TABLE {SCHEMA}.wide (id int PRIMARY KEY, gone int, m {SCHEMA}.mood, d {SCHEMA}.dear NOT NULL, "
        f"a text[], p {SCHEMA}.pair[], n numeric(50,2), s int NOT NULL DEFAULT 3, i int GENERATED ALWAYS AS IDENTITY)",
        f"ALTER TABLE {SCHEMA}.wide DROP COLUMN gone",
        f"INSERT INTO {SCHEMA}.wide (id, d) VALUES (1, 200)",
        f"ALTER TABLE {SCHEMA}.wide ADD COLUMN later int DEFAULT 7",
    )
    found = described(each, "wide")
    columns = {column.name: column for column in found.schema.columns}
    assert [(c.name, str(c.type), c.number) for c in found.schema.columns] == [
        ("id", "int", 1),
        ("m", "string", 3),
        ("d", "decimal(10,2)", 4),
        ("a", "string", 5),
        ("p", "string", 6),
        ("n", "string", 7),
        ("s", "int", 8),
        ("i", "int", 9),
        ("later", "int", 10),
    ]
    assert columns["m"].source_type == f"{SCHEMA}.mood"
    assert "38 digits" in columns["n"].warning
    assert [one.name for one in found.attributes] == list(columns)
    domain = found.attribute("d").type
    assert (domain.name, domain.kind) == ("dear", "d")
    assert domain.base is not None
    assert (domain.base.name, domain.base_typmod) == ("numeric", (10 << 16 | 2) + 4)
    elements = [found.attribute(name).type.element for name in ("a", "p")]
    assert [(e.schema, e.name) for e in elements if e] == [("pg_catalog", "text"), (SCHEMA, "pair")]
    assert {one.name for one in found.attributes if one.has_missing} == {"later"}
    assert {one.name for one in found.attributes if one.has_default} == {"s", "i", "later"}


def test_columns_left_out_are_not_described(db: Connection) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.secret (id int PRIMARY KEY, pin text, r regclass)")
    left_out = TableSet(
        tables=frozenset({table("secret")}), excluded_columns={table("secret"): frozenset({"pin", "r"})}
    )
    assert described(db, "secret", left_out=left_out).schema.names == ("id",)
    assert isinstance(refused(db, "secret"), UnsupportedType)


def test_the_replica_identity_decides_the_key(each: Connection) -> None:
    run(
        each,
        f"CREATE TABLE {SCHEMA}.usual (b int, a int, PRIMARY KEY (a, b))",
        f"CREATE TABLE {SCHEMA}.by_index (id int PRIMARY KEY, k int NOT NULL, v int)",
        f"CREATE UNIQUE INDEX by_k ON {SCHEMA}.by_index (k) INCLUDE (v)",
        f"ALTER TABLE {SCHEMA}.by_index REPLICA IDENTITY USING INDEX by_k",
        f"CREATE TABLE {SCHEMA}.whole (id int PRIMARY KEY)",
        f"ALTER TABLE {SCHEMA}.whole REPLICA IDENTITY FULL",
        f"CREATE TABLE {SCHEMA}.heap (a int)",
        f"ALTER TABLE {SCHEMA}.heap REPLICA IDENTITY FULL",
    )
    seen = {name: described(each, name) for name in ("usual", "by_index", "whole", "heap")}
    assert {name: (d.schema.key, d.key_index, d.identity, d.schema.partial) for name, d in seen.items()} == {
        "usual": (("a", "b"), "usual_pkey", ReplicaIdentity.DEFAULT, True),
        "by_index": (("k",), "by_k", ReplicaIdentity.INDEX, True),
        "whole": (("id",), "whole_pkey", ReplicaIdentity.FULL, False),
        "heap": ((), "", ReplicaIdentity.FULL, False),
    }
    infos = PostgresCatalog(each).infos([table(name) for name in seen])
    assert [info.key for info in infos.values()] == ["primary", "unique", "primary", ""]
    assert "FULL" in infos[table("heap")].notes[0]
    assert "REPLICA IDENTITY FULL;" in infos[table("usual")].notes[0]


def test_with_whole_old_rows_the_best_unique_index_is_the_key(db: Connection) -> None:
    run(
        db,
        f"CREATE TABLE {SCHEMA}.many (n int UNIQUE, p int NOT NULL, e int NOT NULL, "
        "d int NOT NULL UNIQUE DEFERRABLE, x int NOT NULL, y int NOT NULL, z int NOT NULL)",
        f"CREATE UNIQUE INDEX partial_one ON {SCHEMA}.many (p) WHERE p > 3",
        f"CREATE UNIQUE INDEX expression ON {SCHEMA}.many (abs(e))",
        f"CREATE UNIQUE INDEX a_two ON {SCHEMA}.many (x, y)",
        f"CREATE UNIQUE INDEX b_one ON {SCHEMA}.many (z)",
        f"ALTER TABLE {SCHEMA}.many REPLICA IDENTITY FULL",
    )
    assert described(db, "many").key_index == "b_one"
    without = TableSet(tables=frozenset({table("many")}), excluded_columns={table("many"): frozenset({"z"})})
    assert described(db, "many", left_out=without).key_index == "a_two"


@pytest.mark.parametrize(
    ("definition", "then", "said"),
    [
        ("(a int)", "", "no primary key"),
        ("(a int PRIMARY KEY DEFERRABLE)", "", "no primary key that can identify rows"),
        ("(a int PRIMARY KEY)", "ALTER TABLE {t} REPLICA IDENTITY NOTHING", "NOTHING"),
        (
            "(a int NOT NULL)",
            (
                "CREATE UNIQUE INDEX lost ON {t} (a); ALTER TABLE {t} REPLICA IDENTITY USING INDEX lost; "
                "DROP INDEX catalog_tests.lost"
            ),
            "lost the index",
        ),
    ],
)
def test_a_table_whose_rows_the_log_does_not_tell_apart_is_refused_with_what_to_do(
    db: Connection, definition: str, then: str, said: str
) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.told {definition}", *([then.format(t=f"{SCHEMA}.told")] if then else []))
    error = refused(db, "told")
    assert said in error.message
    run(db, error.remedy)
    assert described(db, "told").identity is ReplicaIdentity.FULL


def test_a_key_column_that_is_left_out_is_refused(db: Connection) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.keyed (id int PRIMARY KEY, v int)")
    without = TableSet(tables=frozenset({table("keyed")}), excluded_columns={table("keyed"): frozenset({"id"})})
    assert "id" in refused(db, "keyed", left_out=without).message


def test_a_not_null_that_older_rows_may_break_makes_no_key(
    postgres_version: Callable[[str], EmbeddedPostgresSource],
) -> None:
    newest = emptied(postgres_version("18.0.0"))
    run(
        newest,
        f"CREATE TABLE {SCHEMA}.lax (a int UNIQUE)",
        f"INSERT INTO {SCHEMA}.lax VALUES (NULL)",
        f"ALTER TABLE {SCHEMA}.lax ADD CONSTRAINT later NOT NULL a NOT VALID",
        f"ALTER TABLE {SCHEMA}.lax REPLICA IDENTITY FULL",
    )
    assert described(newest, "lax").schema.key == ()
    run(newest, f"DELETE FROM {SCHEMA}.lax", f"ALTER TABLE {SCHEMA}.lax VALIDATE CONSTRAINT later")
    assert described(newest, "lax").schema.key == ("a",)
    newest.close()


def test_generated_columns_are_described_where_the_log_has_them(each: Connection) -> None:
    run(
        each,
        f"CREATE TABLE {SCHEMA}.made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)",
        f"CREATE TABLE {SCHEMA}.made_key (id int, k int GENERATED ALWAYS AS (id * 2) STORED PRIMARY KEY)",
    )
    infos = PostgresCatalog(each).infos([table("made")])
    if each.server_version >= 180000:
        run(each, f"ALTER TABLE {SCHEMA}.made ADD COLUMN thrice int GENERATED ALWAYS AS (id * 3) VIRTUAL")
        assert described(each, "made").schema.names == ("id", "twice")
        assert PostgresCatalog(each).infos([table("made")])[table("made")].absent == ("thrice",)
        assert described(each, "made_key").schema.key == ("k",)
    else:
        assert described(each, "made").schema.names == ("id",)
        assert infos[table("made")].absent == ("twice",)
        assert "identified by k" in refused(each, "made_key").message


def test_tables_without_a_log_of_their_own_are_refused(each: Connection) -> None:
    run(
        each,
        f"CREATE UNLOGGED TABLE {SCHEMA}.unlogged (id int PRIMARY KEY)",
        f"CREATE TABLE {SCHEMA}.parent (id int PRIMARY KEY)",
        f"CREATE TABLE {SCHEMA}.child (PRIMARY KEY (id)) INHERITS ({SCHEMA}.parent)",
        f"CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA {SCHEMA}",
        "DROP SERVER IF EXISTS catalog_files CASCADE",
        "CREATE SERVER catalog_files FOREIGN DATA WRAPPER file_fdw",
        f"CREATE FOREIGN TABLE {SCHEMA}.elsewhere (a text) SERVER catalog_files OPTIONS (filename '/dev/null')",
        f"CREATE TABLE {SCHEMA}.nothing ()",
    )
    said = {name: refused(each, name) for name in ("unlogged", "parent", "child", "elsewhere", "nothing")}
    assert "unlogged" in said["unlogged"].message
    assert "inheritance" in said["parent"].message
    assert "inheritance" in said["child"].message
    assert "foreign table" in said["elsewhere"].message
    assert "no columns" in said["nothing"].message
    listed = {info.table.name: info.engine for info in PostgresCatalog(each).tables(database=SCHEMA)[0]}
    assert (listed["unlogged"], listed["elsewhere"]) == ("unlogged", "foreign")
    run(each, said["unlogged"].remedy, f"DROP TABLE {SCHEMA}.child")
    assert described(each, "unlogged").schema.key == ("id",)
    assert described(each, "parent").schema.key == ("id",)


def test_a_temporary_child_is_no_matter(db: Connection) -> None:
    """Other sessions do not see its rows, and a replicator's table is not to fail for what one of them does for
    itself.
    """
    run(
        db,
        f"CREATE TABLE {SCHEMA}.parent_of_fleeting (id int PRIMARY KEY)",
        f"CREATE TEMPORARY TABLE fleeting_child () INHERITS ({SCHEMA}.parent_of_fleeting)",
    )
    found = described(db, "parent_of_fleeting").schema
    run(db, "DROP TABLE fleeting_child")
    assert described(db, "parent_of_fleeting").schema.identity == found.identity


@pytest.mark.parametrize(
    "made",
    [
        "TYPE inner_{n} AS (a int, r regclass)",
        "TYPE inner_{n} AS (a int, r regclass[])",
        "TYPE inner_{n} AS RANGE (subtype = regtype)",
        "DOMAIN inner_{n} AS regclass[]",
    ],
)
def test_what_changes_with_what_it_names_is_refused_inside_a_type_too(each: Connection, made: str) -> None:
    """The text of a regclass is the name that the relation has now; no change of the row tells of another."""
    name = f"n{abs(hash(made)) % 10**6}"
    run(
        each,
        f"CREATE {made.replace('inner_{n}', f'{SCHEMA}.inner_{name}')}",
        f"CREATE TYPE {SCHEMA}.outer_{name} AS (i {SCHEMA}.inner_{name}, n numeric, d date)",
        f"CREATE TYPE {SCHEMA}.fine_{name} AS (n numeric(10,2)[], d date, m int4range, t text)",
        f"CREATE TABLE {SCHEMA}.of_{name} (id int PRIMARY KEY, v {SCHEMA}.inner_{name})",
        f"CREATE TABLE {SCHEMA}.deep_{name} (id int PRIMARY KEY, v {SCHEMA}.outer_{name}[])",
        f"CREATE TABLE {SCHEMA}.fine_{name}s (id int PRIMARY KEY, v {SCHEMA}.fine_{name}[])",
    )
    assert "does not know" in refused(each, f"of_{name}").message
    assert "does not know" in refused(each, f"deep_{name}").message
    assert described(each, f"fine_{name}s").schema.names == ("id", "v")


def test_temporary_tables_are_not_listed_and_are_refused(db: Connection) -> None:
    run(db, "CREATE TEMPORARY TABLE fleeting (id int PRIMARY KEY)")
    catalog = PostgresCatalog(db)
    assert not [name for name in catalog.names() if name.name == "fleeting"]
    with db.cursor() as cursor:
        cursor.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'fleeting'")
        ((schema,),) = cursor.fetchall()
    error = catalog.describe([TableId(schema, "fleeting")])[TableId(schema, "fleeting")]
    assert isinstance(error, TableError)
    assert "temporary" in error.message


def make_partitions(connection: Connection) -> None:
    run(
        connection,
        f"CREATE TABLE {SCHEMA}.sales (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        f"CREATE TABLE {SCHEMA}.sales_1 PARTITION OF {SCHEMA}.sales FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
        f"CREATE TABLE {SCHEMA}.sales_2 PARTITION OF {SCHEMA}.sales FOR VALUES FROM ('2021-01-01') TO ('2022-01-01') "
        "PARTITION BY RANGE (id)",
        f"CREATE TABLE {OTHER}.sales_2a PARTITION OF {SCHEMA}.sales_2 FOR VALUES FROM (0) TO (100)",
    )


def test_a_partitioned_table_is_listed_as_one_and_a_partition_to_who_asks_for_it(each: Connection) -> None:
    make_partitions(each)
    catalog = PostgresCatalog(each)
    assert catalog.names(SCHEMA) == [table("sales")]
    assert catalog.names(OTHER) == [TableId(OTHER, "sales_2a")]  # its table is in another schema
    assert catalog.tables(search="sales_")[0][0].table == TableId(OTHER, "sales_2a")
    for search in ("Sales_1", f"{SCHEMA}.sales_1"):
        (found,), total = catalog.tables(search=search)
        assert (found.table, found.engine, total) == (table("sales_1"), "partition", 1)
    assert described(each, "sales").kind == "p"
    assert described(each, "sales_1").kind == "r"


def test_a_partition_of_a_selected_table_is_refused_and_not_listed(db: Connection) -> None:
    make_partitions(db)
    leaf = TableId(OTHER, "sales_2a")
    whole = TableSet(tables=frozenset({table("sales")}), databases=frozenset({OTHER}))
    assert PostgresCatalog(db, left_out=whole).names(OTHER) == []
    error = PostgresCatalog(db, left_out=whole).describe([leaf])[leaf]
    assert isinstance(error, TableError)
    assert f"partition of {SCHEMA}.sales," in error.message
    alone = TableSet(tables=frozenset({leaf}))
    assert not isinstance(PostgresCatalog(db, left_out=alone).describe([leaf])[leaf], TableError)


def test_partitions_must_have_their_tables_replica_identity(db: Connection) -> None:
    make_partitions(db)
    run(db, f"ALTER TABLE {SCHEMA}.sales REPLICA IDENTITY FULL")
    error = refused(db, "sales")
    assert "2 partitions" in error.message
    for name in (f"{SCHEMA}.sales_1", f"{OTHER}.sales_2a"):
        run(db, f"ALTER TABLE {name} REPLICA IDENTITY FULL")
    assert described(db, "sales").identity is ReplicaIdentity.FULL
    run(db, f"ALTER TABLE {SCHEMA}.sales REPLICA IDENTITY DEFAULT")
    assert described(db, "sales").schema.key == ("id", "at")  # FULL below has more, which does no harm
    run(db, f"ALTER TABLE {SCHEMA}.sales_1 REPLICA IDENTITY NOTHING")
    assert "sales_1" in refused(db, "sales").message


def test_an_unlogged_partition_is_named(db: Connection) -> None:
    make_partitions(db)
    run(db, f"ALTER TABLE {SCHEMA}.sales_1 SET UNLOGGED")
    assert f"{SCHEMA}.sales_1, which is unlogged" in refused(db, "sales").message


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id int PRIMARY KEY, _operation text", "reserved by Tidemark"),
        ("id int PRIMARY KEY, _before_id int", "reserved by Tidemark"),
        ('"A" int PRIMARY KEY, a int', "differ only in case"),
        ("id int PRIMARY KEY, r regclass", "regclass"),
    ],
)
def test_columns_that_cannot_be_kept_are_named(db: Connection, columns: str, said: str) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.odd ({columns})")
    assert said in refused(db, "odd").message


@pytest.mark.parametrize("name", ['we"ird.x', "back\\slash", "tab\there", "Grüße", "x" * 63, "per%cent %s", "it's"])
def test_any_name_finds_its_table_and_no_other(db: Connection, name: str) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.{quoted(name)} ({quoted(name)} int PRIMARY KEY)")
    assert described(db, name).schema.key == (name,)
    assert PostgresCatalog(db).describe([table(name + "x"), table(name.upper() + "y")]) == {}


def test_a_table_is_told_from_another_of_its_name_and_from_itself_rewritten(each: Connection) -> None:
    run(each, f"CREATE TABLE {SCHEMA}.one (id int PRIMARY KEY, v int)", f"INSERT INTO {SCHEMA}.one VALUES (1, 1)")
    before = described(each, "one")
    assert described(each, "one").schema.identity == before.schema.identity
    run(each, f"TRUNCATE {SCHEMA}.one")
    emptied_one, first = described(each, "one"), ColumnFingerprint.parse(before.schema.identity)
    assert first is not None
    assert emptied_one.schema.identity != before.schema.identity
    second = ColumnFingerprint.parse(emptied_one.schema.identity)
    assert second is not None
    assert not second.rewritten(first)
    run(each, f"ALTER TABLE {SCHEMA}.one ALTER v TYPE text")
    third = ColumnFingerprint.parse(described(each, "one").schema.identity)
    assert third is not None
    assert third.rewritten(second)
    run(each, f"DROP TABLE {SCHEMA}.one", f"CREATE TABLE {SCHEMA}.one (id int PRIMARY KEY, v int)")
    assert described(each, "one").oid != before.oid


def test_descriptions_and_types_are_found_by_oid_under_the_names_of_now(db: Connection) -> None:
    run(db, f"CREATE TABLE {SCHEMA}.named (id int PRIMARY KEY)")
    oid = described(db, "named").oid
    run(db, f"ALTER TABLE {SCHEMA}.named RENAME TO renamed", f"ALTER TABLE {SCHEMA}.renamed SET SCHEMA {OTHER}")
    found = PostgresCatalog(db).details_by_oid({one: TableId("x", "y") for one in (oid, 1, 4_000_000_000)})
    assert list(found) == [oid]
    assert isinstance(found[oid], TableDescription)
    assert found[oid].schema.table == TableId(OTHER, "renamed")  # type: ignore[union-attr]
    types = PostgresCatalog(db).types([23, 1007, 4_000_000_000])
    assert {oid: one.name for oid, one in types.items()} == {23: "int4", 1007: "_int4"}
    assert types[1007].element == types[23]
    assert PostgresCatalog(db).types([]) == {}
    assert PostgresCatalog(db).details_by_oid({}) == {}


def test_no_foreign_key_changes_rows_behind_the_log(db: Connection) -> None:
    run(
        db,
        f"CREATE TABLE {SCHEMA}.parent (id int PRIMARY KEY)",
        f"CREATE TABLE {SCHEMA}.child (id int PRIMARY KEY, p int REFERENCES {SCHEMA}.parent ON DELETE CASCADE)",
    )
    assert cascades_of(PostgresCatalog(db), [table("child"), table("parent")]) == []


def test_thousands_of_tables_are_described_by_few_queries(db: Connection) -> None:
    run(
        db,
        f"DO $$ BEGIN FOR i IN 1..1200 LOOP EXECUTE format('CREATE TABLE {SCHEMA}.t%s (id int PRIMARY KEY, v text)',"
        " i); END LOOP; END $$",
    )
    catalog = PostgresCatalog(db)
    asked: list[str] = []
    plain = catalog._rows
    catalog._rows = lambda sql: asked.append(sql) or plain(sql)  # type: ignore[method-assign,func-returns-value]
    found = catalog.details(catalog.names(SCHEMA))
    assert len(found) == 1200
    assert all(isinstance(one, TableDescription) for one in found.values())
    assert len(asked) <= 4


def test_comments_are_read_and_make_no_schema_another_one(each: Connection) -> None:
    run(each, f"CREATE TABLE {SCHEMA}.commented (id int PRIMARY KEY, v int)")
    before = described(each, "commented").schema
    run(each, f"COMMENT ON TABLE {SCHEMA}.commented IS 'It''s \N{SNOWMAN}'")
    run(each, f"COMMENT ON COLUMN {SCHEMA}.commented.v IS 'Value'")
    after = described(each, "commented").schema
    assert (after.comment, [column.comment for column in after.columns]) == ("It's \N{SNOWMAN}", ["", "Value"])
    assert TableSchema.from_dict(after.to_dict()).to_dict() == after.to_dict()
    assert after.same_as(before)
