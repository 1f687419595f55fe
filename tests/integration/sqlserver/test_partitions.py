"""ALTER TABLE … SWITCH, whose rows no change table shows
(learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql,
@allow_partition_switch).
"""

from __future__ import annotations

import pytest

from replicator.errors import TidemarkError
from replicator.model.change import Commit, Ddl, LogMessage, SchemaChange
from replicator.sources.base import CheckStatus
from tests.contract.sqlserver import SqlServerPlace
from tests.integration.sqlserver.emulated import told

pytestmark = pytest.mark.integration


@pytest.fixture
def place(place: SqlServerPlace) -> SqlServerPlace:
    place.run(*(f"CREATE TABLE @.{name} (id int PRIMARY KEY, v nvarchar(20))" for name in ("t", "archive")))
    return place


def partitioned(place: SqlServerPlace) -> None:
    place.session.run(
        f"EXEC sp_emulator @name = 'flag', @table = '{place.name}.t', @value = 'partitions', @on = 3", place.name
    )


def switches(place: SqlServerPlace) -> list[tuple[object, ...]]:
    """Of the instances of the table."""
    where = f"source_object_id = OBJECT_ID(N'{place.name}.t')"
    return place.session.rows(f"SELECT partition_switch FROM cdc.change_tables WHERE {where}", place.name)


def captured(place: SqlServerPlace) -> CheckStatus:
    (found,) = [one for one in place.source.check(place.tables) if one.name == "captured"]
    return found.status


def until_reloaded(place: SqlServerPlace, start: object) -> list[LogMessage]:
    found: list[LogMessage] = []
    for message in place.messages(start):  # type: ignore[arg-type]
        found.append(message)
        if isinstance(message, Commit) and any(isinstance(one, SchemaChange) and one.reload for one in found):
            break
    return found


def test_a_partitioned_table_of_ours_refuses_it(place: SqlServerPlace) -> None:
    partitioned(place)
    place.follow("t")
    assert switches(place) == [(False,)]
    assert captured(place) is CheckStatus.OK
    with pytest.raises(TidemarkError, match="SWITCH"):
        place.session.run(f"ALTER TABLE {place.name}.t SWITCH PARTITION 1 TO {place.name}.archive", place.name)


@pytest.mark.parametrize("of_users", [True, False])
def test_rows_that_are_switched_out_are_read_again(place: SqlServerPlace, *, of_users: bool) -> None:
    """A partitioned table whose instance allows it, of which the check warns; and one that is not partitioned, whose
    setting SQL Server ignores, and which no check can look at.
    """
    if of_users:
        partitioned(place)
        place.session.run(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{place.name}', @source_name = N't', @role_name = NULL, "
            f"@capture_instance = N'{place.name}_t'",
            place.name,
        )
    start = place.follow("t")
    assert switches(place) == [(True,)]
    assert captured(place) is (CheckStatus.WARNING if of_users else CheckStatus.OK)
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    place.session.run(f"ALTER TABLE {place.name}.t SWITCH TO {place.name}.archive", place.name)
    assert (Ddl.ALTER_TABLE, True) in told(until_reloaded(place, start))
    assert place.session.rows(f"SELECT id FROM {place.name}.t", place.name) == []
