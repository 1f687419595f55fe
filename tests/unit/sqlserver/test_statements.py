"""Statements that are pasted or logged: what they say, and that they can be pasted."""

from __future__ import annotations

import pytest

from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.ddl.history import Statement
from replicator.sources.sqlserver.stream.capture_instances import enable_statement
from replicator.sources.sqlserver.stream.followed_tables import _purged


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("ALTER TABLE dbo.t SWITCH TO dbo.archive", True),
        ("alter table [dbo].[t]\n\tswitch partition 3 to [dbo].[archive] partition 3", True),
        ("ALTER TABLE dbo.staging SWITCH PARTITION $PARTITION.f('2026') TO dbo.t PARTITION 5", True),
        ("ALTER TABLE dbo.t ALTER COLUMN v varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8", True),
        ("ALTER TABLE dbo.t ADD switched bit", False),
        ("ALTER TABLE dbo.t DROP COLUMN v", False),
        ("ALTER TABLE dbo.t ALTER COLUMN v nvarchar(max)", False),
    ],
)
def test_a_switch_and_a_collation_may_change_rows_that_the_log_does_not_show(text: str, *, changes: bool) -> None:
    """learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql: ddl_command."""
    assert Statement(1, text, bytes(10)).changes_rows is changes


def test_partition_switching_is_said_of_partitioned_tables_alone() -> None:
    """ "If the switch is explicitly set to 0 for a nonpartitioned table, warning 22857 is issued"
    (learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql).
    """
    table = TableId("dbo", "t")
    assert "@allow_partition_switch = 0" in enable_statement(table, "i", partitioned=True)
    assert "partition_switch" not in enable_statement(table, "i")


def test_what_follows_the_sql_of_a_remedy_is_a_comment() -> None:
    purged = _purged(TableId("dbo", "t"), bytes(10), bytes(10))
    assert (purged.remedy or "").endswith("@job_type = N'cleanup', @retention = 10080; -- minutes")
