"""Reading from a readable secondary, and failovers.

On two of the emulator's servers, over a primary and a standby of Postgres (testing/servers/sqlserver).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from replicator.errors import (
    SourceBusy,
    SourcePermissionDenied,
    SourceReplaced,
    SourceUnreachable,
    TidemarkError,
)
from replicator.model.change import Heartbeat, LogMessage, Notice, Watermark
from replicator.model.identifiers import TableId
from replicator.sources.base import CheckStatus, ReadOptions
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import connect, tidemark_error
from testing.servers.sqlserver.availability_group import AvailabilityGroup
from tests.contract.place import REPLICATOR, changes
from tests.contract.sqlserver import SecondaryPlace
from tests.integration.sqlserver.emulated import Database, last, until

pytestmark = pytest.mark.integration
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v nvarchar(20))"
READ_ONLY = {"role": "secondary", "allow": "read_only"}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[SecondaryPlace]:
    opened = SecondaryPlace.opened(request)
    opened.run(KEYED)
    yield opened
    opened.close()


def reopen(place: SecondaryPlace) -> None:
    """With connections to the primary that there is now."""
    place.session = connect(SqlServerConfig.parse(place.config))
    place.source = place.kind.open(place.config)
    place.log = place.source.log(REPLICATOR)


def finding(place: SecondaryPlace, name: str, **other: Any) -> Any:
    with closing(place.kind.open({**place.config, **other})) as source:
        return next(one for one in source.check() if one.name == name)


def test_a_secondary_reads_under_snapshots_takes_no_writes_and_shows_what_it_has_redone(
    availability_group: AvailabilityGroup, place: SecondaryPlace
) -> None:
    """learn.microsoft.com/sql/database-engine/availability-groups/windows/active-secondaries-readable-secondary-replicas-always-on-availability-groups:
    all queries are mapped to snapshot isolation, hints are ignored; change tables can be read.
    """
    with closing(Database(availability_group.secondary, "contract")) as secondary:
        read = f"SELECT id FROM {place.name}.t WITH (READCOMMITTEDLOCK)"
        place.run("INSERT INTO @.t VALUES (1, N'a')")
        availability_group.caught_up()
        secondary.run("BEGIN TRANSACTION")
        assert secondary.run(read) == [(1,)]
        place.run("INSERT INTO @.t VALUES (2, N'b')")
        availability_group.caught_up()
        assert secondary.run(read) == [(1,)]
        secondary.run("COMMIT TRANSACTION")
        assert secondary.run(read) == [(1,), (2,)]
        delete = f"DELETE FROM {place.name}.t"
        for statement in (delete, "CREATE TABLE dbo.u (id int)", f"BEGIN TRANSACTION; {delete}"):
            assert "because the database is read-only" in secondary.refused(statement)
        secondary.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")
        primary = "SELECT sys.fn_hadr_is_primary_replica(DB_NAME())"
        assert (secondary.run(primary), place.session.rows(primary, "emulator")) == ([(False,)], [(True,)])


def test_rows_come_when_the_secondary_has_redone_them_and_marks_lie_between_them(
    availability_group: AvailabilityGroup, place: SecondaryPlace
) -> None:
    start = place.follow("t")
    with availability_group.held():
        place.run("INSERT INTO @.t VALUES (1, N'a')")
        token = place.mark()
        captured = "SELECT COUNT(*) FROM cdc.lsn_time_mapping"
        before = place.session.rows(captured, "emulator")
        place.run("INSERT INTO @.t VALUES (2, N'b')", "UPDATE @.t SET v = N'c' WHERE id = 1")
        until(lambda: place.session.rows(captured, "emulator") != before)
        messages = place.messages(start)
        quiet = [next(messages) for _ in range(4)]
        assert all(isinstance(one, Heartbeat) for one in quiet)  # the primary has them, and the secondary does not
    found: list[LogMessage] = []
    while len(changes(found, "id")) < 3:
        found.append(next(messages))
    (at,) = [place for place, one in enumerate(found) if isinstance(one, Watermark) and one.token == token]
    assert changes(found[:at], "id", "v") == [("INSERT", 1, "a")]
    assert changes(found[at:], "id", "v") == [("INSERT", 2, "b"), ("UPDATE", 1, "c")]


def test_after_a_failover_without_loss_reading_goes_on_and_a_missing_capture_job_is_told_with_its_sql(
    availability_group: AvailabilityGroup, place: SecondaryPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """learn.microsoft.com/sql/database-engine/availability-groups/windows/replicate-track-change-data-capture-always-on-availability:
    the change tables are those of the group; jobs have to be made at the new primary.
    """
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    end = last(place, start)
    broken: list[BaseException] = []

    def follow() -> None:
        try:
            for _ in place.messages(end):
                pass
        except TidemarkError as error:
            broken.append(error)

    running = threading.Thread(target=follow)
    running.start()
    availability_group.join()
    place.run("INSERT INTO @.t VALUES (2, N'b')")
    availability_group.failover(jobs=False)
    running.join(30)
    assert [type(one) for one in broken] == [SourceUnreachable]  # it is retried
    reopen(place)
    agent = finding(place, "agent", read_from="primary")
    assert (agent.status, "sp_cdc_add_job" in agent.remedy) == (CheckStatus.FAILED, True)
    availability_group.renew()
    place.run("INSERT INTO @.t VALUES (3, N'c')")
    monkeypatch.setattr("replicator.sources.sqlserver.stream.reader.STALLED_SECONDS", 0.5)
    with pytest.raises(SourceBusy, match="no capture job") as caught:
        place.read(end)
    assert "sys.sp_cdc_add_job @job_type = N'capture'" in caught.value.remedy
    for job in ("capture", "cleanup"):
        place.session.run(f"EXEC sys.sp_cdc_add_job @job_type = N'{job}'", "emulator")
    monkeypatch.undo()
    assert changes(place.read(end), "id") == [("INSERT", 2), ("INSERT", 3)]


def test_a_failover_that_lost_commits_and_a_secondary_that_kept_them_are_another_past(
    availability_group: AvailabilityGroup, place: SecondaryPlace
) -> None:
    """learn.microsoft.com/sql/database-engine/availability-groups/windows/perform-a-forced-manual-failover-of-an-availability-group-sql-server"""
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    kept = last(place, start)
    availability_group.caught_up()
    availability_group.suspend()
    secondary = finding(place, "secondary")
    assert (secondary.status, "HADR RESUME" in secondary.remedy) == (CheckStatus.FAILED, True)
    place.run("INSERT INTO @.t VALUES (2, N'lost')")
    config, place.config = place.config, {**place.config, "read_from": "primary"}
    place.source = place.kind.open(place.config)
    lost = last(place, kept)
    availability_group.diverge()
    with closing(Database(availability_group.secondary, "contract")) as other:
        other.run(f"INSERT INTO {place.name}.t VALUES (2, N'other')")
        until(lambda: len(other.run("SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn > 0x" + kept.lsn.hex())) > 0)
    place.source = place.kind.open(config)
    with pytest.raises(SourceUnreachable, match="has another past") as caught:
        place.read(kept)
    assert caught.value.retryable
    availability_group.failover()
    reopen(place)
    with pytest.raises(SourceReplaced, match="a replica without it took over"):
        place.read(lost)
    assert changes(place.read(kept), "id", "v") == [("INSERT", 2, "other")]
    availability_group.renew()


NO_READERS = "no secondary replica accepts readers"


@pytest.mark.parametrize(
    ("told", "other", "says", "helps"),
    [
        ({"secondary": {"role": "secondary", "allow": "no"}}, {}, NO_READERS, "ALLOW_CONNECTIONS"),
        ({"primary": {"role": "primary", "route": False}}, {"secondary_host": ""}, NO_READERS, "HADR RESUME"),
        ({"secondary": {"role": "resolving"}}, {}, NO_READERS, "ALLOW_CONNECTIONS"),
        ({"secondary": READ_ONLY}, {"read_from": "primary", "port": 0}, "this is a secondary replica", "listener"),
        ({}, {"read_from": "primary", "port": 0}, "is a secondary replica, where", "listener"),
    ],
)
def test_a_replica_that_does_not_answer_as_it_should_is_retried_and_told_with_what_helps(
    availability_group: AvailabilityGroup, place: SecondaryPlace, told: Any, other: Any, says: str, helps: str
) -> None:
    """learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors, 976 to 983."""
    start = place.follow("t")
    given = {**place.config, **other}
    given["port"] = given["port"] or availability_group.secondary.port
    source = place.kind.open(given)
    availability_group.states(**told)
    try:
        with pytest.raises(SourceUnreachable, match=says) as caught:
            next(iter(source.log_reader(REPLICATOR, ReadOptions()).read(start, place.tables, place.schemas)))
        assert helps in caught.value.remedy
        name = "secondary" if given["read_from"] == "secondary" else "primary" if not told else "reachable"
        assert finding(place, name, **given).status is CheckStatus.FAILED
    finally:
        availability_group.states(primary={"role": "primary"}, secondary={"role": "secondary"})
        source.close()


def test_a_listener_routes_readers_to_the_secondary_or_they_read_from_the_primary(
    availability_group: AvailabilityGroup, place: SecondaryPlace
) -> None:
    """learn.microsoft.com/sql/database-engine/availability-groups/windows/configure-read-only-routing-for-an-availability-group-sql-server"""
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    secondary = availability_group.secondary
    given = {**place.config, "secondary_host": ""}
    place.source = place.kind.open(given)
    first = place.read(start)
    assert any(isinstance(one, Notice) and "primary replica" in one.text for one in first)
    assert finding(place, "secondary", **given).status is CheckStatus.WARNING
    availability_group.states(primary={"role": "primary", "route": [secondary.host, secondary.port]})
    try:
        found = finding(place, "secondary", **given)
        assert (found.status, "s behind the primary replica" in found.detail) == (CheckStatus.OK, True)
        place.run("INSERT INTO @.t VALUES (2, N'b')")
        messages = place.read(start)
        assert not any(isinstance(one, Notice) for one in messages)
        assert changes(messages, "id") == [("INSERT", 1), ("INSERT", 2)]
    finally:
        availability_group.states(primary={"role": "primary"})


@pytest.mark.parametrize(
    "text",
    [
        "is participating in an availability group and is currently not accessible for queries.",  # 976
        "is currently accessible for connections when the application intent is set to read only.",  # 978
        "is in an availability group and currently does not allow read only connections.",  # 979
        "because no online secondary replicas are enabled for read-only access.",  # 982
        "because the database replica is not in the PRIMARY or SECONDARY role.",  # 983
        "because it lacks a quorum of nodes for high availability.",  # 988
        'Failed to update database "shop" because the database is read-only.',  # 3906
        "Database 'shop' on server 'one' is not currently available.",  # 40613
    ],
)
def test_a_failover_in_the_midst_of_a_statement_is_the_server_s_trouble_and_passes(text: str) -> None:
    """The same page: none of them is the table's that was asked about."""
    found = tidemark_error(RuntimeError(f"[Microsoft][SQL Server]{text}"), TableId("dbo", "t"))
    assert isinstance(found, SourceUnreachable)
    assert found.retryable
    assert found.remedy != SourceUnreachable.default_remedy


def test_the_grant_that_is_shown_names_the_table_as_the_server_would_write_it() -> None:
    text = "The SELECT permission was denied on the object 'Order Details', database 'shop', schema 'dbo'."
    found = tidemark_error(RuntimeError(f"[Microsoft][SQL Server]{text}"), TableId("dbo", "Order Details"))
    assert (
        found.remedy
        == "GRANT SELECT ON [dbo].[Order Details] TO [tidemark]; -- or to the connection's user, if it has another name"
    )


def test_a_login_that_the_database_alone_refuses_is_not_a_wrong_password(
    availability_group: AvailabilityGroup, place: SecondaryPlace
) -> None:
    config = SqlServerConfig.parse({**place.config, "read_from": "primary"})
    with pytest.raises(SourcePermissionDenied, match="there is none of that name"):
        connect(replace(config, database="nowhere"))
    with closing(availability_group.primary.connect("master")) as master:
        master.execute("CREATE LOGIN outsider WITH PASSWORD = 'Outside-1234'")
        with pytest.raises(SourcePermissionDenied, match="the database does not admit it") as caught:
            connect(replace(config, user="outsider", password="Outside-1234"))
        master.execute("DROP LOGIN outsider")
    assert "CREATE USER" in caught.value.remedy
