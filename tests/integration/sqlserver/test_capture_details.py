"""What the guide says of masks, sparse columns, isolation of snapshots, capture instances of ours and retention."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replicator.errors import LogCorrupt, TableError
from replicator.model.change import Commit, Heartbeat, SchemaChange
from replicator.sources.base import CheckStatus, KeyRange, ReadOptions
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.source import open_source
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.contract.place import REPLICATOR, changes
from tests.contract.sqlserver import SqlServerPlace, captured_database
from tests.integration.sqlserver.emulated import PATIENCE_SECONDS, last
from tests.integration.sqlserver.test_change_tables import instances

pytestmark = pytest.mark.integration
ENABLE = "EXEC sys.sp_cdc_enable_table @source_schema = N'{}', @source_name = N'{}', @role_name = NULL"
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v nvarchar(20))"


def test_sparse_columns_are_columns_and_a_column_set_is_left_out(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/tables/use-sparse-columns and use-column-sets."""
    sparse = "a int SPARSE, b nvarchar(9) SPARSE, s xml COLUMN_SET FOR ALL_SPARSE_COLUMNS"
    place.run(f"CREATE TABLE @.t (id int PRIMARY KEY, {sparse})")
    start = place.follow("t")
    place.run("INSERT INTO @.t (id, a) VALUES (1, 7)", "INSERT INTO @.t (id, b) VALUES (2, N'x')")
    assert place.schemas[place.table("t")].names == ("id", "a", "b")
    assert place.source.catalog().infos([place.table("t")])[place.table("t")].absent == ("s",)
    captured = place.session.rows(
        "SELECT c.column_name FROM cdc.captured_columns c JOIN cdc.change_tables t ON t.object_id = c.object_id "
        f"WHERE t.source_object_id = OBJECT_ID(N'{place.name}.t') ORDER BY c.column_ordinal",
        place.name,
    )
    assert [name for (name,) in captured] == ["id", "a", "b"]
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    chunk = reader.read_chunk(place.table("t"), KeyRange())
    read = [tuple(row.values()) for batch in chunk.batches for row in batch.to_pylist()]
    reader.close()
    assert [row[1:] for row in changes(place.read(start), "id", "a", "b")] == read == [(1, 7, None), (2, None, "x")]


def test_a_definition_that_changes_while_it_is_read_is_read_again(
    place: SqlServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns, keys and capture instances are read by separate statements."""
    place.run(KEYED)
    place.follow("t")
    table, between = place.table("t"), ["ALTER TABLE @.t ADD w int"]
    asked = SqlServerCatalog._keys

    def with_a_statement_before(catalog: SqlServerCatalog, ids: str) -> Any:
        if between:
            place.run(between.pop())
        return asked(catalog, ids)

    monkeypatch.setattr(SqlServerCatalog, "_keys", with_a_statement_before)
    (found,) = place.source.catalog().details([table]).values()
    assert isinstance(found, TableDescription)
    assert [one.name for one in found.columns] == ["id", "v", "w"]


def test_an_instance_that_lacks_columns_for_good_has_its_table_read_twice_only_once(
    place: SqlServerPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own, or one of ours where columns are left out."""
    place.run(KEYED)
    place.session.run(f"{ENABLE.format(place.name, 't')}, @captured_column_list = N'id'", place.name)
    asked, times, catalog = SqlServerCatalog._asked, list[str](), place.source.catalog()

    def counted(catalog: SqlServerCatalog, ids: str) -> Any:
        times.append(ids)
        return asked(catalog, ids)

    monkeypatch.setattr(SqlServerCatalog, "_asked", counted)
    for expected in (2, 3, 4):
        (found,) = catalog.details([place.table("t")]).values()
        assert isinstance(found, TableDescription)
        assert (found.missing, len(times)) == (("v",), expected)


def test_masked_columns_need_unmask(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking: a db_owner sees through the mask."""
    user, table = f"{place.name}_masked", place.table("t")
    place.run(KEYED)
    place.session.run(f"ALTER TABLE {place.name}.t ALTER COLUMN v ADD MASKED WITH (FUNCTION = 'default()')", place.name)
    place.follow("t")
    assert table in place.described("t")
    for statement in (
        f"CREATE LOGIN {user} WITH PASSWORD = 'Masked-1234'", f"CREATE USER {user} FOR LOGIN {user}",
        f"GRANT SELECT ON SCHEMA::{place.name} TO {user}", f"GRANT SELECT ON SCHEMA::cdc TO {user}",
    ):  # fmt: skip
        place.session.run(statement, place.name)
    with closing(open_source({**place.config, "user": user, "password": "Masked-1234"})) as source:
        refused = source.catalog().describe([table])[table]
        assert isinstance(refused, TableError)
        assert "masked columns" in refused.message
        place.session.run(refused.remedy.replace("[tidemark]", f"[{user}]"), place.name)
        assert not isinstance(source.catalog().describe([table])[table], TableError)
    place.session.run(f"DROP USER {user}", place.name)
    place.session.run(f"DROP LOGIN {user}", place.name)


def test_snapshots_under_snapshot_isolation_wait_for_no_writer(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/t-sql/statements/set-transaction-isolation-level-transact-sql, SNAPSHOT."""
    place.run(KEYED, "INSERT INTO @.t VALUES (1, N'before')")
    place.follow("t")
    place.session.run(f"BEGIN TRANSACTION; UPDATE {place.name}.t SET v = N'open' WHERE id = 1", place.name)
    with closing(open_source({**place.config, "chunk_reads": "snapshot"})) as source:
        reader = source.snapshot_reader(REPLICATOR, ReadOptions())
        chunk = reader.read_chunk(place.table("t"), KeyRange())
        assert [row["v"] for batch in chunk.batches for row in batch.to_pylist()] == ["before"]
        place.session.run("COMMIT TRANSACTION", place.name)
        chunk = reader.read_chunk(place.table("t"), KeyRange())
        assert [row["v"] for batch in chunk.batches for row in batch.to_pylist()] == ["open"]
        reader.close()


def test_an_instance_of_ours_that_another_took_over_from_is_dropped_when_no_one_else_reads(
    place: SqlServerPlace,
) -> None:
    place.run(KEYED)
    start = place.follow("t")
    (first,) = instances(place)
    place.session.run(f"DELETE FROM tidemark.watermark WHERE replicator <> N'{REPLICATOR}'", place.name)
    other = place.source.snapshot_reader("another", ReadOptions())
    other.mark("theirs")  # it may stand at any place of the log
    other.close()
    place.session.run(f"ALTER TABLE {place.name}.t ADD w int", place.name)
    place.run("INSERT INTO @.t VALUES (1, N'a', 7)", "CREATE TABLE @.more (id int PRIMARY KEY)")
    reader, taken_over, looked, alone = place.source.log_reader(REPLICATOR, ReadOptions()), False, 0, False
    deadline = time.monotonic() + PATIENCE_SECONDS
    for message in reader.read(start, place.tables, place.schemas):
        assert time.monotonic() < deadline
        if isinstance(message, Commit):
            reader.confirm(message.offset)
        if isinstance(message, SchemaChange) and message.schema is not None:
            taken_over = "w" in message.schema.names
        elif isinstance(message, Commit) and taken_over and not looked:
            looked = 1
            place.session.run(ENABLE.format(place.name, "more"), place.name)  # a look at the catalog follows
        elif isinstance(message, Heartbeat) and looked:
            looked += 1
            if looked > 3 and not alone:
                assert first in instances(place)
                place.session.run("DELETE FROM tidemark.watermark WHERE replicator = N'another'", place.name)
                alone = True
            if alone and first not in instances(place):
                break
    reader.close()
    (second,) = instances(place)
    assert second.startswith("tidemark_")


def test_a_replicator_that_stands_still_too_long_is_threatened_by_the_cleanup(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-change-job-transact-sql,
    @retention: minutes.
    """
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    end = last(place, start)
    assert end.commit is not None

    def threatened(minutes: float) -> bool:
        assert end.commit is not None
        at = (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S.000")
        held = place.log.held(replace(end, commit=replace(end.commit, ended=at)))  # type: ignore[union-attr]
        assert held is not None
        assert not held.lost
        return bool(held.threatened)

    assert [threatened(4320 * part) for part in (0.75, 0.85)] == [False, True]
    job = "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = {}; -- minutes"
    place.session.run(job.format(10080), place.name)
    assert [threatened(4320 * part) for part in (0.85, 2)] == [False, True]
    place.session.run(job.format(4320), place.name)


def test_a_watermark_table_that_is_captured_no_more_is_told_with_the_sql(place: SqlServerPlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    statement = (
        "SELECT capture_instance FROM cdc.change_tables WHERE source_object_id = OBJECT_ID(N'tidemark.watermark')"
    )
    for (name,) in place.session.rows(statement, place.name):
        place.session.run(
            "EXEC sys.sp_cdc_disable_table @source_schema = N'tidemark', @source_name = N'watermark', "
            f"@capture_instance = N'{name}'",
            place.name,
        )
    with pytest.raises(LogCorrupt, match=r"tidemark\.watermark is not captured") as refused:
        next(place.messages(start))
    place.session.run(refused.value.remedy, place.name)
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    assert len(place.session.rows(statement, place.name)) == 1


def test_a_database_without_a_captured_table_misses_no_job(sqlserver: EmbeddedSQLServer) -> None:
    """learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql: the
    first table makes the jobs.
    """
    settings = captured_database(sqlserver, "jobless")
    with closing(sqlserver.connect("jobless")) as own, closing(open_source(settings)) as source:
        own.execute("EXEC sys.sp_cdc_drop_job @job_type = N'capture'")
        (found,) = [one for one in source.check() if one.name == "agent"]
        assert found.status is CheckStatus.OK
        own.execute("CREATE TABLE dbo.t (id int)")
        own.execute(ENABLE.format("dbo", "t"))
        (found,) = [one for one in source.check() if one.name == "agent"]
        assert (found.status, "sp_cdc_add_job" in found.remedy) == (CheckStatus.FAILED, True)
