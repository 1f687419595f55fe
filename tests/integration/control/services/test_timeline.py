"""The timeline: what a replicator does without a user (failovers, statements, snapshots), and where failures lie."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.errors import SourceUnreachable, UnsupportedType
from replicator.sources.base import KeyRange
from replicator.state.chunks import PlannedChunk, RawChunk
from replicator.state.journal import ClosedChunk, DdlSeen, EventKind, TableEvent
from tests.integration.control.conftest import ITEMS, ORDERS, Captured, schema_of
from webapp.connections.services import update_connection
from webapp.monitoring.models import Failure, Stage, TimelineEvent
from webapp.monitoring.timeline import CHOICES, TimelineFilters, timeline
from webapp.replicators import services
from webapp.worker.failure.failures import stage_failed
from webapp.worker.lease.lease_holder import LeaseHolder
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.store.chunk_store import OrmChunkStore

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


def told(kind: str) -> list[str]:
    return list(TimelineEvent.objects.filter(kind=kind).order_by("id").values_list("summary", flat=True))


def test_a_lease_that_ran_out_is_told_as_a_failover(make: Any) -> None:
    replicator = make()
    name = f"capture:{replicator.pk}"
    OrmLeaseStore().acquire(name, "a worker that was killed", seconds=-7)
    with LeaseHolder(name, replicator.pk) as tenure:
        assert tenure.lease is not None
    event = TimelineEvent.objects.get(kind="failover")
    assert event.summary == "Failover: capture is taken over from a worker whose lease expired 7.0 s ago"
    assert event.detail["work"] == "capture"


def test_a_lease_that_was_given_back_or_is_ones_own_is_no_failover(make: Any) -> None:
    replicator = make()
    name = f"merge:{replicator.pk}"
    for _ in range(3):
        with LeaseHolder(name, replicator.pk) as tenure:
            assert tenure.lease is not None
    leases = OrmLeaseStore()
    leases.acquire(name, "the same", seconds=-5)
    again = leases.take(name, "the same")
    assert again is not None
    assert again[1] is None
    assert told("failover") == []


def test_the_moment_at_which_the_lease_ran_out_is_the_one_of_its_last_owner(make: Any) -> None:
    leases = OrmLeaseStore()
    leases.acquire("capture:1", "a", seconds=-100)
    leases.acquire("capture:1", "b", seconds=-1)
    taken = leases.take("capture:1", "c")
    assert taken is not None
    lease, ran_out = taken
    assert lease.fence == 3
    assert ran_out is not None
    with LeaseHolder("other", make().pk) as tenure:  # only to have the database's clock
        assert tenure.lease is not None
    from webapp.database import clock

    assert 1 <= (clock() - ran_out).total_seconds() < 50


def test_statements_are_told_with_what_was_decided(captured: Captured) -> None:
    statement = "TRUNCATE TABLE orders"
    seen = DdlSeen(ORDERS, "TRUNCATE_TABLE", statement, "truncate: ignored by policy")
    captured.commit(next_sequence=10, seen=(seen,))
    event = TimelineEvent.objects.get(kind="ddl")
    assert (event.summary, event.table) == ("TRUNCATE TABLE of shop.orders: truncate: ignored by policy", "shop.orders")
    assert event.detail == {"statement": statement, "decision": "truncate: ignored by policy"}


def test_a_drop_says_what_becomes_of_the_copy(captured: Captured) -> None:
    event = TableEvent(ORDERS, 9, EventKind.DROP_TABLE, detail={"statement": "DROP TABLE orders", "keep": True})
    captured.commit(next_sequence=10, events=(event,), dropped=(ORDERS,))
    assert told("table_dropped") == ["shop.orders was dropped in the source: the target table is kept by policy"]


def test_a_snapshot_is_told_when_it_begins_and_when_it_is_read(captured: Captured) -> None:
    store = OrmChunkStore(captured.replicator.pk)
    (run,) = store.to_plan()
    assert told("snapshot_began") == []
    store.planned([PlannedChunk(run.run, ("9",), KeyRange(None, ("9",)), done=True)])
    assert told("snapshot_began") == ["Snapshot of shop.orders started: initial load"]
    chunk = store.claim("w/1")
    assert chunk is not None
    assert store.read(RawChunk(chunk, "r/chunks/1", 1234, 100, 0.5, schema_of(ORDERS)))
    assert told("snapshot_done") == []
    captured.commit(next_sequence=10, closed=(ClosedChunk(chunk.chunk, chunk.run, chunk.attempt, None),))
    (summary,) = told("snapshot_done")
    assert summary.startswith("Snapshot of shop.orders read: 1,234 rows in ")
    assert len(told("snapshot_began")) == 1


def test_a_failure_of_capture_says_where_in_the_log(captured: Captured) -> None:
    error = UnsupportedType("The type hologram is not known.")
    error.place = ("log.7:120", "log.7:480")
    captured.commit(next_sequence=10, failures=((ORDERS, error),))
    one = Failure.objects.get()
    assert (one.offset_after, one.offset_until) == ("log.7:120", "log.7:480")
    stage_failed(captured.replicator.pk, Stage.CAPTURE, SourceUnreachable("gone"))
    whole = Failure.objects.get(table=None)
    assert (whole.offset_after, whole.offset_until) == (str(captured.at), "")
    stage_failed(captured.replicator.pk, Stage.APPLY, SourceUnreachable("gone"))
    assert Failure.objects.get(stage=Stage.APPLY).offset_after == ""


def test_a_changed_connection_is_told_to_its_replicators_without_a_value(make: Any, user: Any) -> None:
    one, other = make(), make("other", tables=(ITEMS,))
    update_connection(connection=one.connection, config={"host": "db2.example", "password": "n3w-s3cret"}, user=user)
    update_connection(connection=one.connection, config={"host": "db2.example", "password": ""}, user=user)
    events = TimelineEvent.objects.filter(kind="connection")
    assert {event.replicator_id for event in events} == {one.pk, other.pk}
    assert {event.summary for event in events} == {"The connection shop source was changed: host, password"}
    assert {event.user_id for event in events} == {user.pk}
    assert len(events) == 2


def test_the_timeline_is_filtered_by_group_person_and_table(captured: Captured, user: Any) -> None:
    services.skip_table(table=captured.row(ORDERS), user=user)
    TimelineEvent.objects.create(replicator=captured.replicator, kind="of the future", summary="?")

    def kinds(**query: str) -> set[str]:
        return {event.kind for event in timeline(captured.replicator, TimelineFilters.of(query))}

    everything = kinds()
    assert kinds(group="tables") == {"table_skipped"}
    assert kinds(by="people") == {"table_skipped"}
    assert kinds(by="itself") == everything - {"table_skipped"}
    assert kinds(table="ORDERS") == {"table_skipped"}
    assert kinds(group="more") == {"of the future"}
    assert kinds(kind="created") == {"created"}
    assert kinds(group="no such", by="nobody") == everything
    grouped = [kinds(group=group) for group in CHOICES]
    assert set().union(*grouped) == everything
    assert sum(map(len, grouped)) == len(everything)
