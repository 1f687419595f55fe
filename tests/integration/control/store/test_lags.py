"""How late events were: read from the staged files, counted once, in the transaction of the mark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from replicator import faults
from replicator.model.schema import COMMIT_TS
from replicator.staging.storage import Storage
from replicator.state.journal import Applied, SchemaVersion, SegmentKind
from replicator.state.lease import Lease
from replicator.state.tables import TableState
from tests.integration.control.conftest import ORDERS, Captured, schema_of, segment
from webapp.monitoring.models import LagRow, TableObjective
from webapp.monitoring.slo.lag_histograms import parsed
from webapp.replicators.models import SegmentRow
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.store.apply_store import OrmApplyStore

pytestmark = pytest.mark.django_db
V1 = SchemaVersion(1, schema_of(ORDERS))
NOW = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), (COMMIT_TS, pa.timestamp("us", "UTC"))])


@pytest.fixture
def staging(tmp_path: Path, settings: Any) -> Storage:
    settings.TIDEMARK_STAGING_URL = tmp_path.as_uri()
    return Storage(tmp_path.as_uri())


@pytest.fixture
def streaming(make: Any) -> Captured:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    capture.commit(next_sequence=0, schemas=(V1,))
    return capture


@pytest.fixture
def lease(streaming: Captured) -> Lease:
    found = OrmLeaseStore().acquire(f"merge:{streaming.replicator.pk}", "test")
    assert found is not None
    return found


def stage(streaming: Captured, staging: Storage | None, first: int, times: list[datetime]) -> None:
    """A journaled segment whose events were committed at `times`, with its file unless there is no storage."""
    one = replace(segment(ORDERS, first, first + len(times) - 1), first_commit_ts=min(times), last_commit_ts=max(times))
    if staging is not None:
        with staging.writer(one.path, SCHEMA) as file:
            file.write_table(pa.table([list(range(len(times))), times], SCHEMA))
    streaming.commit(next_sequence=first + len(times), segments=(one,))


def late(*seconds: float) -> list[datetime]:
    return [NOW - timedelta(seconds=number) for number in seconds]


def mark(streaming: Captured, lease: Lease, applied: int, at: datetime = NOW, *, handed: bool = True) -> None:
    """handed: the loop has taken the segments from the store, as it does before it applies them."""
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    if handed:
        store.items(ORDERS, -1)
    store.applied(lease, Applied(ORDERS, applied, -1, 0.5, "merge", at))


def counted(streaming: Captured, span: int, *, table: bool) -> list[tuple[datetime, int, int]]:
    rows = LagRow.objects.filter(replicator=streaming.replicator, span=span, table__isnull=not table)
    return [(row.at, row.events, parsed(row).histogram.good(60)) for row in rows]


def test_every_event_counts_by_its_own_commit_time(streaming: Captured, lease: Lease, staging: Storage) -> None:
    """Ninety-nine on time at the end of a segment, one very late at its beginning: no spread is assumed."""
    stage(streaming, staging, 0, late(3600, *[1.5] * 99))
    stage(streaming, staging, 100, late(60, 60.000001))
    mark(streaming, lease, 101)
    for table in (True, False):
        assert counted(streaming, 60, table=table) == [(NOW.replace(second=0, microsecond=0), 102, 100)]
        assert counted(streaming, 3600, table=table) == [(NOW.replace(minute=0, second=0, microsecond=0), 102, 100)]
    row = LagRow.objects.filter(table=None, span=60).get()
    assert row.lag_max_us == 3_600_000_000
    assert row.lag_sum_us == 3_600_000_000 + 99 * 1_500_000 + 120_000_001


def test_what_was_never_handed_out_is_counted_all_the_same(streaming: Captured, lease: Lease, staging: Storage) -> None:
    """More than one page of the journal may be ahead of a mark."""
    stage(streaming, staging, 0, late(5, 70, 1))
    mark(streaming, lease, 2, handed=False)
    assert [(events, good) for _, events, good in counted(streaming, 60, table=True)] == [(3, 2)]


def test_files_of_what_is_marked_are_not_read_again(
    streaming: Captured, lease: Lease, staging: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    """A dropped table, and one that looks for its new name, are handed all that the journal still has."""
    stage(streaming, staging, 0, late(5, 70))
    mark(streaming, lease, 1)
    staging.delete(SegmentRow.objects.get().path)
    stage(streaming, staging, 2, late(5, 70))
    mark(streaming, lease, 3)
    assert sum(events for _, events, _ in counted(streaming, 60, table=True)) == 4
    assert "are unknown" not in caplog.text


def test_a_mark_asks_the_database_few_things(streaming: Captured, lease: Lease, staging: Storage) -> None:
    """Lease, row, mark, row, minute, lags read and written, for any number of segments; a mark without changes writes
    no lags.
    """
    for first in (0, 10, 20):
        stage(streaming, staging, first, late(*range(1, 11)))
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    store.items(ORDERS, -1)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        store.applied(lease, Applied(ORDERS, 29, -1, 0.5, "direct", NOW))
    assert len(work(asked)) == 7
    with CaptureQueriesContext(connection) as asked:
        store.applied(lease, Applied(ORDERS, 29, -1, 0.0, "skip", NOW))
    assert len(work(asked)) == 4
    assert LagRow.objects.filter(span=60, table=None).get().events == 30


def work(asked: CaptureQueriesContext) -> list[str]:
    """Without savepoints and transactions."""
    asides = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")
    return [one["sql"] for one in asked.captured_queries if not one["sql"].startswith(asides)]


def test_rows_of_a_chunk_among_the_logs_have_no_lag(streaming: Captured, lease: Lease, staging: Storage) -> None:
    """What a chunk read of rows that the log overtook in part goes into a segment of the log."""
    one = replace(
        segment(ORDERS, 0, 9), rows=10, inserts=4, reads=6, first_commit_ts=late(2)[0], last_commit_ts=late(2)[0]
    )
    streaming.commit(next_sequence=10, segments=(one,))
    mark(streaming, lease, 9)
    assert [(events, good) for _, events, good in counted(streaming, 60, table=True)] == [(4, 4)]


def test_a_mark_that_is_made_again_counts_nothing_again(streaming: Captured, lease: Lease, staging: Storage) -> None:
    stage(streaming, staging, 0, late(5, 70))
    for _ in range(3):
        mark(streaming, lease, 1)
    stage(streaming, staging, 2, late(2, 3, 4))
    mark(streaming, lease, 4, NOW + timedelta(seconds=50))
    assert [events for _, events, _ in counted(streaming, 60, table=True)] == [2, 3]
    assert [(events, good) for _, events, good in counted(streaming, 3600, table=False)] == [(5, 4)]


def test_what_dies_before_its_mark_is_counted_by_the_one_after(
    streaming: Captured, lease: Lease, staging: Storage
) -> None:
    stage(streaming, staging, 0, late(5, 70))
    faults.arm([faults.Fault("apply.mark.written", "fail")])
    try:
        with pytest.raises(faults.FaultInjected):
            mark(streaming, lease, 1)
    finally:
        faults.disarm()
    assert counted(streaming, 60, table=True) == []
    mark(streaming, lease, 1)
    assert [(events, good) for _, events, good in counted(streaming, 60, table=True)] == [(2, 1)]


def test_of_a_file_that_cannot_be_read_the_oldest_event_speaks_for_all(
    streaming: Captured, lease: Lease, staging: Storage
) -> None:
    stage(streaming, None, 0, late(61, 1, 1, 1))
    mark(streaming, lease, 3)
    assert [(events, good) for _, events, good in counted(streaming, 60, table=True)] == [(4, 0)]


def test_events_of_one_transaction_need_no_file(streaming: Captured, lease: Lease, staging: Storage) -> None:
    stage(streaming, None, 0, late(59, 59))
    mark(streaming, lease, 1)
    assert [(events, good) for _, events, good in counted(streaming, 60, table=True)] == [(2, 2)]


def test_snapshot_rows_have_no_lag(streaming: Captured, lease: Lease, staging: Storage) -> None:
    streaming.commit(next_sequence=5, segments=(segment(ORDERS, 0, 4, kind=SegmentKind.CHUNK),))
    mark(streaming, lease, 4)
    assert not LagRow.objects.exists()


def test_what_waited_for_the_first_load_is_not_measured(captured: Captured, staging: Storage) -> None:
    """The table had no objective before it was there."""
    lease = OrmLeaseStore().acquire(f"merge:{captured.replicator.pk}", "test")
    assert lease is not None
    captured.commit(next_sequence=0, schemas=(V1,))
    captured.row(ORDERS).runs.update(state="done", planned_all=True)
    store = OrmApplyStore(captured.replicator.pk)
    store.tables()
    store.move(lease, ORDERS, TableState.STREAMING)
    since = TableObjective.objects.get().since
    assert since is not None
    times = [since - timedelta(hours=1), since - timedelta(microseconds=1), since, since + timedelta(seconds=1)]
    stage(captured, staging, 0, times)
    mark(captured, lease, 3, since + timedelta(seconds=2))
    row = LagRow.objects.filter(table=None, span=60).get()
    assert (row.events, row.unmeasured, parsed(row).histogram.good(2)) == (2, 2, 2)
