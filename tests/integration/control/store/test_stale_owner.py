"""An owner that slept longer than its lease, then went on, while another had taken over: it changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.db import connection as database

from replicator.engine.apply.table_applier import TableApplier
from replicator.engine.apply.table_session import TableSession
from replicator.errors import FenceLost, SourceAuthenticationFailed
from replicator.model.identifiers import TableId
from replicator.model.table_set import NameRule
from replicator.sources.base import KeyRange
from replicator.state.chunks import PlannedChunk, RawChunk
from replicator.state.journal import ClosedChunk, EventKind, JournalEntry, SchemaVersion, SegmentKind, TableEvent
from replicator.state.lease import Lease
from replicator.targets.base import (
    NO_TABLE,
    ApplyResult,
    Capabilities,
    Create,
    Drop,
    Merge,
    Position,
    TargetTable,
)
from tests.integration.control.conftest import ORDERS, Captured, MemoryCatalog, MemorySource, schema_of, segment
from webapp import database as worker_database
from webapp.database import fenced
from webapp.monitoring.models import Failure, Stage
from webapp.replicators import services
from webapp.replicators.models import Replicator, ReplicatorTable, SnapshotRun, TableEventRow
from webapp.worker.lease.lease_holder import LeaseHolder
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.models import Lease as LeaseRow
from webapp.worker.run import headless, work_slice
from webapp.worker.store.apply_store import OrmApplyStore
from webapp.worker.store.chunk_store import OrmChunkStore
from webapp.worker.store.table_discovery import discover
from webapp.worker.upkeep import replicator_deletion

pytestmark = pytest.mark.django_db


def taken_over(name: str) -> Lease:
    """Return an expired lease that another owner has acquired since."""
    leases = OrmLeaseStore()
    stale = leases.acquire(name, "stale", seconds=-1)
    assert stale is not None
    assert leases.acquire(name, "successor") is not None
    return stale


def tell(replicator: Replicator, lease: Lease) -> Replicator:
    error = SourceAuthenticationFailed("Access denied")
    work_slice._tell(Stage.CAPTURE, replicator, lease, error, error)
    return Replicator.objects.get(pk=replicator.pk)


@pytest.mark.django_db(transaction=True)
def test_a_stale_owners_failure_does_not_stop_the_replicator(make: Any) -> None:
    replicator = make()
    seen = tell(replicator, taken_over(f"capture:{replicator.pk}"))
    assert (seen.status, seen.error_code) == ("starting", "")
    assert not Failure.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_failure_that_took_longer_than_the_lease_counts_if_nobody_took_over(make: Any) -> None:
    replicator = make()
    lease = OrmLeaseStore().acquire(f"capture:{replicator.pk}", "slow", seconds=-1)
    assert lease is not None
    seen = tell(replicator, lease)
    assert (seen.status, seen.error_code) == ("failed", "source_authentication")


@pytest.mark.django_db(transaction=True)
def test_a_slice_knows_what_the_owner_before_has_written(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hung before it took the lease made a first checkpoint once more: what had been written meanwhile
    was never read.
    """
    replicator, known = make(), []
    take = OrmLeaseStore.take

    def overtaken(store: OrmLeaseStore, name: str, owner: str, seconds: float | None = None) -> Any:
        monkeypatch.setattr(OrmLeaseStore, "take", take)
        capture = Captured(replicator)
        capture.begin()
        capture.commit(next_sequence=10)
        OrmLeaseStore().release(capture.lease)
        return take(store, name, owner, seconds)

    def work(found: Replicator, *_: object) -> None:
        known.append((found.checkpoint_offset, found.next_sequence))

    monkeypatch.setattr(OrmLeaseStore, "take", overtaken)
    monkeypatch.setitem(work_slice.WORK, Stage.CAPTURE, work)
    assert work_slice.run_slice(Stage.CAPTURE, replicator.pk)
    replicator.refresh_from_db()
    assert replicator.checkpoint_offset is not None
    assert known == [(replicator.checkpoint_offset, 10)]


def test_a_stale_owners_success_resolves_nothing(make: Any) -> None:
    replicator = make()
    with pytest.raises(FenceLost):
        work_slice._works(Stage.APPLY, replicator.pk, taken_over(f"merge:{replicator.pk}"))


def test_a_stale_owner_does_not_say_that_tables_are_made(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    capture.commit(next_sequence=10, schemas=(SchemaVersion(1, schema_of(ORDERS)),), segments=(segment(ORDERS, 0, 9),))
    store = OrmApplyStore(capture.replicator.pk)
    assert store.tables()
    with pytest.raises(FenceLost):
        store.turned(taken_over(f"merge:{capture.replicator.pk}"), ORDERS)
    assert ReplicatorTable.objects.get().made_load == ""


def test_what_a_worker_found_before_another_looked_makes_no_rows(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables may be gone by then."""
    replicator = make(tables=(TableId("shop", ""),))
    asked = MemoryCatalog.tables

    def slow(self: MemoryCatalog, **filters: Any) -> Any:
        found = asked(self, **filters)
        replicator.selection.update(discovered=True)  # the successor
        return found

    monkeypatch.setattr(MemoryCatalog, "tables", slow)
    assert not discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    assert not ReplicatorTable.objects.exists()
    monkeypatch.setattr(MemoryCatalog, "tables", asked)
    replicator.selection.update(discovered=False)
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    assert ReplicatorTable.objects.count() == 2


def test_an_exclusion_stored_under_another_spelling_of_its_database_holds(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version stored it as it was typed."""
    replicator = make(tables=(TableId("shop", ""),))
    replicator.selection.create(database="SHOP", table=ORDERS.name.upper(), excluded=True, discovered=True)
    monkeypatch.setattr(MemorySource, "names", lambda _: NameRule(str.lower))
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    assert ORDERS.name not in set(ReplicatorTable.objects.values_list("name", flat=True))
    assert ReplicatorTable.objects.count() == 1


# A table that is dropped while a worker sleeps that is about to make it


@dataclass
class Tables:
    """A Target that keeps the position of each table; `meanwhile` happens while the first one is made."""

    meanwhile: Callable[[], None] = lambda: None
    positions: dict[TargetTable, Position] = field(default_factory=dict)
    capabilities = Capabilities()

    def position(self, table: TargetTable) -> Position | None:
        return self.positions.get(table)

    def apply(self, table: TargetTable, change: Any, seen: str | None = None) -> ApplyResult:
        happens, self.meanwhile = self.meanwhile, lambda: None
        happens()
        found = self.positions.get(table)
        assert (found.load if found else NO_TABLE) == seen
        if isinstance(change, Create):
            self.positions[table] = Position(change.applied, -1, change.version, change.load)
        elif isinstance(change, Drop):
            self.positions.pop(table, None)
        else:
            assert isinstance(change, Merge)
            assert found is not None
            self.positions[table] = replace(found, applied=change.upto)
        return ApplyResult(0, 0, 0, "", 0.0)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        del table, busy
        return ""


class Silent:
    def log(self, *_: object, **__: object) -> None: ...


def apply_all(capture: Captured, target: Tables, lease: Lease, keep: Callable[[], bool] = lambda: True) -> None:
    """Every table's turn, one after the other."""
    store = OrmApplyStore(capture.replicator.pk)
    for table in store.tables():
        session = TableSession(target=target, store=store, lease=lease, keep=keep, report=Silent(), table=table)  # type: ignore[arg-type]
        TableApplier(session, 1000).run()


def streaming(make: Any, *tables: TableId) -> Captured:
    """Nothing of it is in the target yet."""
    capture = Captured(make(tables=tables, initial_snapshot=False))
    capture.begin()
    schemas = tuple(SchemaVersion(1, schema_of(table)) for table in tables)
    capture.commit(next_sequence=10, schemas=schemas, segments=(segment(ORDERS, 0, 9),))
    return capture


def test_a_table_made_by_a_worker_that_slept_while_it_was_dropped_does_not_stay(make: Any) -> None:
    """It looked, slept longer than its lease, and made the table that its successor had found missing, as it should
    be.
    """
    capture, asleep = streaming(make, ORDERS), threading.Event()

    def dropped() -> None:
        asleep.set()
        capture.commit(next_sequence=20, events=(TableEvent(ORDERS, 15, EventKind.DROP_TABLE),), dropped=(ORDERS,))
        successor = OrmLeaseStore().acquire("merge:test", "successor")
        assert successor is not None
        apply_all(capture, target, successor)
        assert (capture.row(ORDERS).applied, target.positions) == (15, {})

    target = Tables(dropped)
    apply_all(capture, target, taken_over("merge:slept"), lambda: not asleep.is_set())
    assert target.positions == {}


def test_a_worker_whose_time_is_up_leaves_what_it_made(make: Any) -> None:
    capture, over = streaming(make, ORDERS), threading.Event()
    target = Tables(over.set)
    apply_all(capture, target, taken_over("merge:over"), lambda: not over.is_set())
    assert [position.load for position in target.positions.values()] == [capture.row(ORDERS).load]


def test_what_a_sleeper_made_of_a_dropped_table_is_not_in_the_next_ones_way(make: Any) -> None:
    """The sleeper died before it could take it back."""
    items = TableId("shop", "items")
    capture = streaming(make, ORDERS, items)
    name, load = TargetTable("shop", "items"), capture.row(ORDERS).load
    target = Tables()
    capture.commit(next_sequence=20, events=(TableEvent(ORDERS, 15, EventKind.DROP_TABLE),), dropped=(ORDERS,))
    lease = OrmLeaseStore().acquire("merge:next", "test")
    assert lease is not None
    apply_all(capture, target, lease)
    target.positions[name] = Position(-1, -1, 1, load)
    capture.commit(next_sequence=30, segments=(segment(items, 20, 29),))
    apply_all(capture, target, lease)
    assert target.positions[name] == Position(29, -1, 1, capture.row(items).load)


# A reload's last chunk that is not admitted after all


def reloading(make: Any) -> tuple[Captured, ClosedChunk]:
    """`orders` is read again in one chunk, which a reader has staged; capture has met its high mark."""
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    capture.commit(next_sequence=10, schemas=(SchemaVersion(1, schema_of(ORDERS)),), segments=(segment(ORDERS, 0, 9),))
    services.resnapshot_table(table=capture.row(ORDERS))
    capture.begin()
    store = OrmChunkStore(capture.replicator.pk)
    (run,) = store.to_plan()
    store.planned([PlannedChunk(run.run, None, KeyRange(), done=True)])
    chunk = store.claim("a/0")
    assert chunk is not None
    assert store.read(RawChunk(chunk, "r/raw", 1, 10, 0.1, schema_of(ORDERS)))
    rows = segment(ORDERS, 10, 10, kind=SegmentKind.CHUNK)
    return capture, ClosedChunk(chunk.chunk, run.run, chunk.attempt, rows)


def commit_with_sweep(capture: Captured, closed: ClosedChunk) -> list[str]:
    sweep = TableEvent(ORDERS, 11, EventKind.SWEEP, detail={"below": 10, "run": closed.run})
    capture.commit(next_sequence=12, closed=(closed,), events=(sweep,))
    return list(TableEventRow.objects.values_list("kind", flat=True))


def test_a_reload_ends_with_its_sweep(make: Any) -> None:
    assert commit_with_sweep(*reloading(make)) == ["SWEEP"]


def test_rows_are_not_swept_that_a_cancelled_snapshot_did_not_bring(make: Any) -> None:
    capture, closed = reloading(make)
    services.cancel_snapshot(table=capture.row(ORDERS))
    assert commit_with_sweep(capture, closed) == []


def test_rows_are_not_swept_whose_chunk_is_being_read_again(make: Any) -> None:
    capture, closed = reloading(make)
    OrmChunkStore(capture.replicator.pk)
    SnapshotRun.objects.get(pk=closed.run).chunks.update(state="reading", attempt="another")
    assert commit_with_sweep(capture, closed) == []


# Leases


def test_the_lease_time_is_a_setting(settings: Any) -> None:
    settings.TIDEMARK_LEASE_SECONDS = 2.0
    lease = OrmLeaseStore().acquire("capture:1", "a")
    assert lease is not None
    left = LeaseRow.objects.get().expires_at - worker_database.clock()
    assert 1.5 < left.total_seconds() <= 2.0


def test_a_tenure_that_may_have_run_out_is_over_for_good(make: Any) -> None:
    replicator = make()
    with LeaseHolder(f"merge:{replicator.pk}", replicator.pk) as tenure:
        assert tenure.keep()
        renewed = tenure._renewed
        tenure._renewed = renewed - 9.5
        assert not tenure.keep()
        tenure._renewed = renewed
        assert not tenure.keep()


def test_two_workers_do_not_delete_the_same_replicator(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replicator = make()
    services.delete_replicator(replicator=replicator)
    second: list[bool] = []

    class Staging:
        def delete_tree(self, path: str) -> None:
            second.append(replicator_deletion.delete(replicator.pk))

    monkeypatch.setattr(replicator_deletion, "storage", Staging)
    assert replicator_deletion.delete(replicator.pk)
    assert second == [False]


@pytest.mark.django_db(transaction=True)
def test_an_owner_that_stands_still_in_its_transaction_is_cut_off(
    captured: Captured, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that its standby would wait for the lease's row for as long as the connection lives."""
    settings.TIDEMARK_LEASE_SECONDS = 0.3
    monkeypatch.setattr(worker_database, "MIN_IDLE_SECONDS", 0.0)
    leases = OrmLeaseStore()
    lease = captured.lease
    assert leases.renew(lease)
    waited: list[float] = []

    def standby() -> None:
        started = time.monotonic()
        try:
            while leases.acquire(lease.name, "standby") is None:
                time.sleep(0.05)
            waited.append(time.monotonic() - started)
        finally:
            database.close()

    def stand_still() -> None:
        with fenced(lease):
            thread.start()
            thread.join(5)
            Replicator.objects.update(next_sequence=99)

    thread = threading.Thread(target=standby)
    with pytest.raises(OperationalError):
        stand_still()
    database.close()
    assert waited
    assert waited[0] < 3
    assert Replicator.objects.get().next_sequence != 99


# The metadata database goes away for a while


def test_a_headless_stage_outlives_a_metadata_database_that_is_away(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = headless.HeadlessRun(make())
    calls: list[Stage] = []

    def away_once(stage: Stage, *_: Any, **__: Any) -> bool:
        calls.append(stage)
        if len(calls) == 1:
            raise OperationalError("connection refused")
        run._stop.set()
        return True

    monkeypatch.setattr(headless, "run_slice", away_once)
    monkeypatch.setattr(headless, "connection", ClosedNever())
    monkeypatch.setattr(headless, "connections", ClosedNever())
    run._stage(Stage.CAPTURE)
    assert len(calls) == 2


class ClosedNever:
    """The test's transaction lives on its connection."""

    def close(self) -> None: ...

    def close_all(self) -> None: ...


def test_a_journal_entry_of_a_stale_owner_makes_no_chunk_done(make: Any) -> None:
    capture, closed = reloading(make)
    stale = capture.lease
    OrmLeaseStore().release(stale)
    with transaction.atomic(), pytest.raises(FenceLost):
        capture.journal.commit(stale, JournalEntry(checkpoint=capture.journal.plan().checkpoint, closed=(closed,)))  # type: ignore[arg-type]
    assert SnapshotRun.objects.get(pk=closed.run).chunks.get().state == "read"
