"""Tables of a live Postgres against tables that pyiceberg wrote: finds what differs, invents nothing."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from replicator.verification import CatalogConfig, DifferenceKind, TablePair, TableReport, compare
from tests.integration.verification.conftest import PREPARE, SCHEMA, Check, Sql, Write, checker, reader_of, runs, small
from webapp.embedded.postgres_source import EmbeddedPostgresSource


def ids(report: TableReport, kind: DifferenceKind) -> list[str | None]:
    return sorted((d.row["id"] for d in report.differences if d.kind is kind), key=str)


def test_each_kind_of_difference_is_found_with_its_key_and_column(
    small_source: Sql, write: Write, check: Check
) -> None:
    write("t", small([(1, "uno"), (3, None), (4, "four")]))
    report = check("t")
    assert (report.missing, report.extra, report.different) == (1, 1, 2)
    assert ids(report, DifferenceKind.MISSING) == ["2"]
    assert ids(report, DifferenceKind.EXTRA) == ["4"]
    assert ids(report, DifferenceKind.DIFFERENT) == ["1", "3"]
    assert {d.columns for d in report.differences if d.kind is DifferenceKind.DIFFERENT} == {("v",)}


def test_rows_without_key_are_compared_with_their_number(sql: Sql, write: Write, check: Check) -> None:
    sql(f"CREATE TABLE {SCHEMA}.t (id int, v text)")
    sql(f"INSERT INTO {SCHEMA}.t VALUES (1, 'a'), (1, 'a'), (1, 'a'), (2, NULL)")
    write("t", small([(1, "a"), (1, "a"), (2, None), (2, None)]))
    report = check("t", ())
    assert (report.missing, report.extra) == (1, 1)
    write("t", small([(1, "a"), (2, None), (1, "a"), (1, "a")]))
    assert check("t", ()).equal


def test_columns_are_compared_by_name_and_type(small_source: Sql, write: Write, check: Check) -> None:
    rows = small([(1, "one"), (2, None), (3, "")])
    small_source(f"ALTER TABLE {SCHEMA}.t ADD COLUMN gone numeric(4,1); ALTER TABLE {SCHEMA}.t DROP COLUMN gone")
    write("t", rows)
    assert check("t").equal
    small_source(f"ALTER TABLE {SCHEMA}.t ADD COLUMN hidden int; ALTER TABLE {SCHEMA}.t ALTER id TYPE {SCHEMA}.price")
    assert check("t").columns == [
        "column hidden is missing in the target",
        'column id ("verify me".price) is int in the target, not decimal(10, 2)',
    ]
    small_source(f"ALTER TABLE {SCHEMA}.t ALTER id TYPE int")
    assert check("t", excluded=frozenset({"hidden"})).equal


@pytest.mark.parametrize("version", ["17.5.0", "18.0.0"])
def test_generated_columns_are_where_the_log_has_them(
    version: str, postgres_version: Callable[[str], EmbeddedPostgresSource], write: Write, lake: SqlCatalog
) -> None:
    server = postgres_version(version)
    sql, check = runs(server), checker(server, lake)
    sql(PREPARE)
    virtual = ", virtual int GENERATED ALWAYS AS (id + 1) VIRTUAL" if version >= "18" else ""
    stored = f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, stored int GENERATED ALWAYS AS (id * 2) STORED{virtual})"
    sql(f"{stored}; INSERT INTO {SCHEMA}.t VALUES (1)")
    without = pa.table({"id": pa.array([1], pa.int32())})
    both = without.append_column("stored", pa.array([2], pa.int32()))
    write("t", both)
    logged = check("t")
    write("t", without)
    bare = check("t")
    if version >= "18":
        assert (logged.lines(), bare.columns) == (
            ["verify me.t: equal, 1 row"], ["column stored is missing in the target"]
        )  # fmt: skip
        write("t", both.append_column("virtual", pa.array([2], pa.int32())))
        assert "virtual), so the log never has it" in check("t").columns[0]
    else:
        assert bare.equal
        reason = "it is generated (stored), and Postgres 17 does not log such columns"
        assert logged.columns == [f"column stored of the target should not exist: {reason}"]


def test_what_differed_is_read_again_while_the_target_follows(small_source: Sql, write: Write, check: Check) -> None:
    small_source(f"UPDATE {SCHEMA}.t SET v = 'new' WHERE id = 1; DELETE FROM {SCHEMA}.t WHERE id = 3")
    write("t", small([(1, "one"), (2, None), (3, "")]))
    report = check("t", retries=2, before_recheck=lambda: write("t", small([(1, "new"), (2, None)])))
    assert (report.equal, report.rechecks) == (True, 1)
    write("t", small([(1, "one"), (2, None)]))
    assert check("t", retries=1, before_recheck=lambda: None).different == 1


def test_a_row_that_the_source_gets_between_two_looks_is_seen(small_source: Sql, write: Write, check: Check) -> None:
    write("t", small([(1, "one"), (2, None), (3, ""), (4, "four")]))
    late = f"INSERT INTO {SCHEMA}.t VALUES (4, 'four')"
    assert check("t", retries=1, before_recheck=lambda: small_source(late)).equal


def test_a_partitioned_table_is_one_table_or_its_leaves(sql: Sql, write: Write, check: Check) -> None:
    sql(
        f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
        f"CREATE TABLE {SCHEMA}.low PARTITION OF {SCHEMA}.t FOR VALUES FROM (0) TO (10);"
        f"CREATE TABLE {SCHEMA}.high PARTITION OF {SCHEMA}.t FOR VALUES FROM (10) TO (20);"
        f"INSERT INTO {SCHEMA}.t VALUES (1, 'a'), (11, 'b')"
    )
    write("t", small([(1, "a"), (11, "b")]))
    write("high", small([(11, "b")]))
    assert check("t").equal
    assert check("high").equal
    write("t", small([(1, "a")]))
    assert check("t").missing == 1


def test_a_parent_has_its_childrens_rows(sql: Sql, write: Write, check: Check) -> None:
    """As a SELECT from the parent sees it: a copy without them is not equal."""
    sql(
        f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v text); CREATE TABLE {SCHEMA}.child () INHERITS ({SCHEMA}.t);"
        f"INSERT INTO {SCHEMA}.t VALUES (1, 'a'); INSERT INTO {SCHEMA}.child VALUES (2, 'b')"
    )
    write("t", small([(1, "a")]))
    report = check("t", retries=1, before_recheck=lambda: None)
    assert (report.source_rows, report.missing, ids(report, DifferenceKind.MISSING)) == (2, 1, ["2"])
    write("t", small([(1, "a"), (2, "b")]))
    assert check("t").equal


def test_names_may_hold_any_character(sql: Sql, lake: SqlCatalog, postgres_source: EmbeddedPostgresSource) -> None:
    name = 'Größe "x".`y` %s \'表'
    quoted = '"' + name.replace('"', '""') + '"'
    sql(f"CREATE TABLE {SCHEMA}.{quoted} ({quoted} int PRIMARY KEY); INSERT INTO {SCHEMA}.{quoted} VALUES (1), (2)")
    schema = pa.schema([pa.field(name, pa.int32()), pa.field("_sequence_num", pa.int64())])
    table = lake.create_table(("verify me", "any"), schema)
    table.append(pa.table([pa.array([1], pa.int32()), pa.array([0])], schema=schema))
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    pair = TablePair("verify me", name, "verify me", "any", (name,))
    [report] = compare(reader_of(postgres_source), catalog, [pair])
    assert [(d.kind, dict(d.row)) for d in report.differences] == [(DifferenceKind.MISSING, {name: "2"})]
    assert not report.columns


def test_a_large_table_is_compared_in_partitions(sql: Sql, write: Write, check: Check) -> None:
    sql(f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v text)")
    sql(f"INSERT INTO {SCHEMA}.t SELECT i, 'v' || i FROM generate_series(1, 30000) i")
    write("t", small([(i, f"v{i}") for i in range(30_000, 0, -1) if i != 12345] + [(30001, "x")]))
    report = check("t", partition_rows=7_000)
    assert (report.missing, report.extra, report.different) == (1, 1, 0)
    assert ids(report, DifferenceKind.MISSING) == ["12345"]


def test_a_table_that_cannot_be_compared_says_why_and_the_others_go_on(
    small_source: Sql, write: Write, lake: SqlCatalog, postgres_source: EmbeddedPostgresSource
) -> None:
    small_source(f"CREATE VIEW {SCHEMA}.seen AS SELECT * FROM {SCHEMA}.t")
    write("t", small([(1, "one"), (2, None), (3, "")]))
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    asked = (("no", "t"), ("seen", "t"), ("t", "no"), ("t", "t"))
    pairs = [TablePair("verify me", n, "verify me", m, ("id",)) for n, m in asked]
    reports = compare(reader_of(postgres_source), catalog, pairs)
    assert [r.error for r in reports] == [
        "verify me.no does not exist in the source",
        "verify me.seen is not a table in the source",
        "verify me.no does not exist in the target",
        "",
    ]
    assert [r.equal for r in reports] == [False, False, False, True]
