"""Azure SQL Database, as far as the emulator plays it: engine edition 5, no sys.database_recovery_status, no msdb, no
USE, jobs in cdc.cdc_jobs (learn.microsoft.com/azure/azure-sql/database/change-data-capture-overview).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from replicator.errors import SourceMisconfigured
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckStatus
from replicator.sources.sqlserver.connection import connect
from replicator.sources.sqlserver.source import open_source
from replicator.sources.sqlserver.stream import log_status
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.contract.place import changes
from tests.contract.sqlserver import SqlServerPlace, captured_database

pytestmark = pytest.mark.integration
AZURE = "EXEC sp_emulator @name = 'edition', @value = 'azure', @on = 1"
NOT_THERE = re.compile(r"\bUSE \[|\bmsdb\b|Agent", re.IGNORECASE)


@pytest.fixture
def place(sqlserver: EmbeddedSQLServer) -> Iterator[SqlServerPlace]:
    settings = captured_database(sqlserver, "azure")
    with closing(sqlserver.connect("azure")) as own:
        own.execute(AZURE)
    opened = SqlServerPlace.live(settings)
    yield opened
    opened.close()


def test_the_edition_has_what_azure_has_and_no_more(place: SqlServerPlace) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY)")
    place.follow("t")
    assert place.session.rows("SELECT CONVERT(int, SERVERPROPERTY('EngineEdition'))", "azure") == [(5,)]
    assert place.session.rows("SELECT retention FROM cdc.cdc_jobs WHERE job_type = N'cleanup'", "azure") == [(4320,)]
    for missing, said in (
        ("SELECT 1 FROM sys.database_recovery_status", "Invalid object name"),
        ("SELECT 1 FROM msdb.dbo.cdc_jobs", "not supported in this version"),
        ("USE master", "USE statement is not supported"),
    ):
        with pytest.raises(Exception, match=said):
            place.session.run(missing, "azure")


def test_a_connection_test_passes_and_what_is_read_is_all_that_was_written(place: SqlServerPlace) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v nvarchar(20))", "INSERT INTO @.t VALUES (1, N'before')")
    start = place.follow("t")
    found = {one.name: one for one in place.source.check(place.tables)}
    assert [name for name, one in found.items() if one.status is CheckStatus.FAILED] == []
    assert found["version"].detail.startswith("Azure SQL")
    assert found["agent"].status is CheckStatus.OK
    assert found["retention"].status is CheckStatus.OK, found["retention"]
    place.run("INSERT INTO @.t VALUES (2, N'a')", "UPDATE @.t SET v = N'b' WHERE id = 1")
    assert changes(place.read(start), "id") == [("INSERT", 2), ("UPDATE", 1)]


def test_the_identity_is_the_database_s_own_and_stays(place: SqlServerPlace, sqlserver: EmbeddedSQLServer) -> None:
    other = captured_database(sqlserver, "azure2")
    with closing(sqlserver.connect("azure2")) as own:
        own.execute(AZURE)
    place.run("CREATE TABLE @.t (id int PRIMARY KEY)")
    place.follow("t")
    first, again = (place.source.log("r").state().identity for _ in range(2))
    assert first == again
    with closing(open_source(other)) as second:
        assert second.log("r").state().identity != first


def test_remedies_name_nothing_that_azure_does_not_have(sqlserver: EmbeddedSQLServer) -> None:
    with closing(sqlserver.connect()) as master:
        master.execute("CREATE DATABASE azure_off")
    with closing(sqlserver.connect("azure_off")) as own:
        own.execute(AZURE)
    settings = sqlserver.address | {"database": "azure_off", "tls": "required"}
    with closing(open_source(settings)) as source:
        found = {one.name: one for one in source.check(TableSet())}
        assert found["cdc"].remedy == found["agent"].remedy == "EXEC sys.sp_cdc_enable_db;"
        assert [one for one in found.values() if NOT_THERE.search(one.remedy or "")] == []
        with pytest.raises(SourceMisconfigured) as refused:
            source.log("r").state()
        assert refused.value.remedy == "EXEC sys.sp_cdc_enable_db;"
        with closing(connect(source.config)) as connection:
            assert log_status.has_job(connection) is None
            assert not NOT_THERE.search(log_status.stalled(connection, 60))
            own_jobs = log_status.enable_statement("a]b", azure=False)
    assert own_jobs == "USE [a]]b]; EXEC sys.sp_cdc_enable_db;"
