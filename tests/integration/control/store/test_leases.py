"""Leases and fences: a stale owner writes nothing."""

from __future__ import annotations

import pytest

from replicator.errors import FenceLost
from replicator.state.journal import SchemaVersion
from tests.integration.control.conftest import ORDERS, Captured, schema_of, segment
from webapp.replicators.models import Replicator, SegmentRow, TableEventRow
from webapp.replicators.models import SchemaVersion as SchemaVersionRow
from webapp.worker.lease.lease_store import OrmLeaseStore, live_leases

pytestmark = pytest.mark.django_db


def test_a_live_lease_is_not_given_to_another_owner() -> None:
    leases = OrmLeaseStore()
    assert leases.acquire("capture:1", "a") is not None
    assert leases.acquire("capture:1", "b") is None


def test_the_fence_grows_with_every_owner() -> None:
    leases = OrmLeaseStore()
    first = leases.acquire("capture:1", "a", seconds=-1)
    second = leases.acquire("capture:1", "b")
    assert first is not None
    assert second is not None
    assert second.fence > first.fence


def test_a_released_lease_keeps_its_fence() -> None:
    leases = OrmLeaseStore()
    first = leases.acquire("capture:1", "a")
    assert first is not None
    leases.release(first)
    assert live_leases() == set()
    second = leases.acquire("capture:1", "b")
    assert second is not None
    assert second.fence == first.fence + 1


def test_a_lease_that_ran_out_cannot_be_renewed() -> None:
    leases = OrmLeaseStore()
    lease = leases.acquire("capture:1", "a", seconds=-1)
    assert lease is not None
    assert not leases.renew(lease)


def test_a_lease_that_was_taken_over_cannot_be_renewed_or_released() -> None:
    leases = OrmLeaseStore()
    stale = leases.acquire("capture:1", "a", seconds=-1)
    assert stale is not None
    assert leases.acquire("capture:1", "b") is not None
    assert not leases.renew(stale)
    leases.release(stale)
    assert live_leases() == {"capture:1"}


def test_who_gives_a_lease_back_after_it_ran_out_is_told_as_lost() -> None:
    """An owner that was cut off for longer than its lease, and is there again before another one took it."""
    leases = OrmLeaseStore()
    late = leases.acquire("capture:1", "a", seconds=-1)
    assert late is not None
    leases.release(late)
    taken = leases.take("capture:1", "b")
    assert taken is not None
    assert taken[1] is not None


def test_a_stale_owner_commits_nothing(captured: Captured) -> None:
    """Invariant 2."""
    leases = OrmLeaseStore()
    leases.release(captured.lease)
    assert leases.acquire(captured.lease.name, "standby") is not None
    before = Replicator.objects.get().checkpoint_offset
    with pytest.raises(FenceLost):
        captured.commit(
            next_sequence=10,
            schemas=(SchemaVersion(1, schema_of(ORDERS)),),
            segments=(segment(ORDERS, 0, 9),),
        )
    assert Replicator.objects.get().checkpoint_offset == before
    assert not SegmentRow.objects.exists()
    assert not SchemaVersionRow.objects.exists()


def test_an_owner_whose_lease_ran_out_commits_nothing_even_if_nobody_took_it(captured: Captured) -> None:
    OrmLeaseStore().release(captured.lease)
    with pytest.raises(FenceLost):
        captured.commit(next_sequence=10, segments=(segment(ORDERS, 0, 9),))
    assert not SegmentRow.objects.exists()
    assert not TableEventRow.objects.exists()
