"""Two workers that both believe they own a replicator: what one makes on the source, the other does not take away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import connect
from replicator.sources.postgres.stream.slot import ReplicationSlot
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
A, B = TableId("lease", "a"), TableId("lease", "b")


@pytest.fixture
def config(postgres_source: EmbeddedPostgresSource) -> PostgresConfig:
    address = postgres_source.address
    return PostgresConfig(address["host"], address["port"], address["user"], address["password"], address["dbname"])


@pytest.fixture
def connection(config: PostgresConfig) -> Iterator[Any]:
    connection = connect(config)
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA lease")
        cursor.execute("CREATE TABLE lease.a (id int PRIMARY KEY); CREATE TABLE lease.b (id int PRIMARY KEY)")
    yield connection
    ReplicationSlot(connection, config, "lease").remove()
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA lease CASCADE")
    connection.close()


def test_a_worker_whose_lease_ran_out_leaves_the_others_slot_and_tables_as_they_are(
    connection: Any, config: PostgresConfig
) -> None:
    stale, owner = (ReplicationSlot(connection, config, "lease") for _ in range(2))
    begun = owner.prepare(TableSet(tables=frozenset({A, B})), first=True)
    again = stale.prepare(TableSet(tables=frozenset({A})), first=True)
    assert again.offset == begun.offset, "the slot was made anew: what lies between is lost to its owner"
    assert owner._members() == {A, B}, "a table that the owner has published must stay so"
    owner.withdraw(TableSet(tables=frozenset({B})))
    assert owner._members() == {B}


@pytest.mark.parametrize("hangs_at", ["publish", "_begin"])
def test_a_worker_that_hung_on_its_way_to_the_first_slot_leaves_its_successors(
    connection: Any, config: PostgresConfig, monkeypatch: pytest.MonkeyPatch, hangs_at: str
) -> None:
    """Its lease has run out meanwhile; at the second place the publication is its own, the slot that reads it is
    not.
    """
    stale, owner = (ReplicationSlot(connection, config, "lease") for _ in range(2))
    tables, begun = TableSet(tables=frozenset({A})), []
    go_on = getattr(stale, hangs_at)

    def hang(*given: Any, **more: Any) -> Any:
        begun.append(owner.prepare(tables, first=True).offset)
        return go_on(*given, **more)

    monkeypatch.setattr(stale, hangs_at, hang)
    assert [stale.prepare(tables, first=True).offset] == begun
    assert owner.confirmed() == begun[0].lsn


def test_a_slot_whose_publication_was_made_anew_is_made_anew(connection: Any, config: PostgresConfig) -> None:
    """The log is decoded with the catalog as of its LSN: for the older slot the new publication does not exist yet."""
    log = ReplicationSlot(connection, config, "lease")
    begun = log.prepare(TableSet(tables=frozenset({A})), first=True)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP PUBLICATION {log.publication}")
    assert begun.offset < log.prepare(TableSet(tables=frozenset({A})), first=True).offset


def test_a_table_that_is_gone_again_is_left_to_the_log_to_tell(connection: Any, config: PostgresConfig) -> None:
    log = ReplicationSlot(connection, config, "lease")
    log.prepare(TableSet(tables=frozenset({A})), first=True)
    log.add(TableId("lease", "gone"))
    assert log._members() == {A}
