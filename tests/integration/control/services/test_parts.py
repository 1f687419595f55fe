"""Parts of a table in the journal: what is planned, what ends a run, what a rename and a reload do to it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F

from replicator.errors import ConditionRefused, ConfigurationError, SourceUnreachable, TableBusy, TableDisappeared
from replicator.model.identifiers import TableId
from replicator.sources.base import KeyRange
from replicator.state.chunks import PlannedChunk, RawChunk
from replicator.state.journal import EventKind, SchemaVersion, SegmentKind, TableEvent
from tests.integration.control.conftest import ORDERS, Captured, schema_of, segment
from webapp.monitoring.models import TimelineEvent
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, ReplicatorTable, RunState, SnapshotRun
from webapp.worker.run import headless
from webapp.worker.run.outcome import ExitCode
from webapp.worker.store.chunk_store import OrmChunkStore, has_work
from webapp.worker.store.journal import OrmRawChunkStore

pytestmark = pytest.mark.django_db


@pytest.fixture
def table(captured: Captured) -> ReplicatorTable:
    """Streams; its schema is known."""
    captured.commit(next_sequence=10, schemas=(SchemaVersion(1, schema_of(ORDERS)),))
    row = captured.row(ORDERS)
    row.runs.update(state="done", planned_all=True)
    row.state, row.load_complete = "streaming", True
    row.save()
    return row


@pytest.fixture
def store(captured: Captured) -> OrmChunkStore:
    return OrmChunkStore(captured.replicator.pk)


def test_keys_are_read_in_chunks_of_keys(store: OrmChunkStore, captured: Captured, table: ReplicatorTable) -> None:
    run = services.read_keys(table=table, keys=list(range(1200)))
    assert (run.state, run.rows_estimate, run.chunks.count()) == (RunState.READING, 1200, 3)
    assert store.to_plan() == []
    assert has_work(captured.replicator.pk)
    chunk = store.claim("lease/a")
    assert chunk is not None
    assert chunk.bounds == KeyRange(keys=tuple((str(n),) for n in range(500)))
    assert store.read(RawChunk(chunk, "p", 1, 1, 0.1, schema_of(ORDERS)))
    raw = OrmRawChunkStore(captured.replicator.pk).raw(chunk.chunk, chunk.attempt)
    assert raw is not None
    assert (raw.reload_from, raw.chunk.bounds) == (None, chunk.bounds)


def test_rows_are_planned_with_their_condition(store: OrmChunkStore, table: ReplicatorTable) -> None:
    run = services.read_rows(table=table, condition=" id > 5 ")
    (plan,) = store.to_plan()
    assert (plan.run, plan.condition, plan.started) == (run.pk, "id > 5", False)
    store.planned([PlannedChunk(run.pk, ("9",), KeyRange(None, ("9",)), done=True)])
    chunk = store.claim("lease/a")
    assert chunk is not None
    assert chunk.bounds == KeyRange(None, ("9",), condition="id > 5")


def test_a_tables_other_states_are_answered_in_a_sentence(captured: Captured, table: ReplicatorTable) -> None:
    for state in ("waiting", "loading", "reloading", "failed", "skipped", "dropped"):
        captured.replicator.tables.update(state=state)
        table.refresh_from_db()
        with pytest.raises(ConfigurationError, match=r"shop\.orders"):
            services.read_keys(table=table, keys="1")
    captured.replicator.tables.update(state="streaming", keyless=True)
    table.refresh_from_db()
    with pytest.raises(ConfigurationError, match="no key"):
        services.read_rows(table=table, condition="id = 1")
    assert not SnapshotRun.objects.exclude(scope="whole").exists()


def test_a_wrong_condition_leaves_nothing_behind(store: OrmChunkStore, table: ReplicatorTable) -> None:
    with pytest.raises(ConditionRefused):
        services.read_rows(table=table, condition="nothing = 1")
    assert store.to_plan() == []


@pytest.mark.parametrize("error", [ConditionRefused("wrong"), TableDisappeared("gone")])
def test_trouble_with_a_part_ends_it_and_leaves_the_table_alone(
    store: OrmChunkStore, table: ReplicatorTable, error: Any
) -> None:
    planned = services.read_rows(table=table, condition="id > 5")
    read = services.read_keys(table=table, keys="1")
    (plan,) = store.to_plan()
    store.run_failed(plan, error)
    chunk = store.claim("lease/a")
    assert chunk is not None
    store.failed(chunk, error)
    for run in (planned, read):
        run.refresh_from_db()
        assert (run.state, run.error) == (RunState.CANCELLED, f"{error.message} {error.remedy}")
    table.refresh_from_db()
    assert (table.state, table.error_code, table.attempt) == ("streaming", "", 0)
    assert store.blamed == [error, error]
    assert TimelineEvent.objects.filter(kind="snapshot_failed").count() == 2
    assert not has_work(table.replicator_id)


def test_a_part_waits_for_a_lock_and_leaves_the_table_alone(store: OrmChunkStore, table: ReplicatorTable) -> None:
    planned = services.read_rows(table=table, condition="id > 5")
    read = services.read_keys(table=table, keys="1")
    (plan,) = store.to_plan()
    chunk = store.claim("lease/a")
    assert chunk is not None
    store.run_failed(plan, TableBusy("locked"))
    store.failed(chunk, TableBusy("locked"))
    planned.refresh_from_db()
    assert (planned.state, planned.attempt) == (RunState.PLANNING, 1)
    assert planned.retry_at is not None
    again = read.chunks.get()
    assert (again.state, again.failures) == ("planned", 1)
    assert again.retry_at is not None
    table.refresh_from_db()
    assert (table.state, table.error_code, table.attempt) == ("streaming", "", 0)


def test_what_passes_is_tried_again(store: OrmChunkStore, table: ReplicatorTable) -> None:
    run = services.read_keys(table=table, keys="1")
    chunk = store.claim("lease/a")
    assert chunk is not None
    store.failed(chunk, SourceUnreachable("away"))
    run.refresh_from_db()
    assert (run.state, run.chunks.get().state) == (RunState.READING, "planned")


def test_a_paused_part_is_not_read_and_its_reader_is_told(store: OrmChunkStore, table: ReplicatorTable) -> None:
    services.read_keys(table=table, keys="1")
    chunk = store.claim("lease/a")
    assert chunk is not None
    assert store.wanted(chunk)
    assert services.set_paused(table=table, paused=True) == 1
    assert not store.wanted(chunk)
    assert store.claim("lease/a") is None
    assert not has_work(table.replicator_id)
    services.set_paused(table=table, paused=False)
    assert store.claim("lease/a") is not None


def test_stop_always_stops(store: OrmChunkStore, captured: Captured, table: ReplicatorTable) -> None:
    assert services.stop_snapshots(table=table) == 0
    services.read_keys(table=table, keys="1")
    services.read_rows(table=table, condition="id = 1")
    chunk = store.claim("lease/a")
    assert chunk is not None
    assert services.stop_snapshots(table=table) == 2
    assert services.stop_snapshots(table=table) == 0
    assert not store.wanted(chunk)
    assert not store.read(RawChunk(chunk, "p", 1, 1, 0.1, schema_of(ORDERS)))
    services.resnapshot_table(table=table)
    services.set_paused(table=table, paused=True)
    assert services.stop_snapshots(table=table) == 1
    assert captured.row(ORDERS).state == "streaming"


def test_a_reload_takes_the_place_of_parts(table: ReplicatorTable) -> None:
    part = services.read_keys(table=table, keys="1")
    whole = services.resnapshot_table(table=table)
    part.refresh_from_db()
    assert (part.state, whole.scope) == (RunState.CANCELLED, "whole")


def test_parts_follow_a_rename(store: OrmChunkStore, captured: Captured, table: ReplicatorTable) -> None:
    keys = services.read_keys(table=table, keys="1")
    rows = services.read_rows(table=table, condition="id > 5")
    store.planned([PlannedChunk(rows.pk, ("9",), KeyRange(None, ("7",)), done=False)])
    chunk = store.claim("lease/a")
    assert chunk is not None
    new = TableId("shop", "orders_2")
    event = TableEvent(ORDERS, 11, EventKind.RENAME_TABLE, detail={"new": ["shop", "orders_2"]})
    captured.commit(next_sequence=12, events=(event,), renamed=((ORDERS, new),))
    assert not store.wanted(chunk)
    again = store.claim("lease/a")
    assert again is not None
    assert (again.chunk, again.table) == (chunk.chunk, new)
    (plan,) = store.to_plan()
    assert (plan.table, plan.condition, plan.position) == (new, "id > 5", None)
    keys.refresh_from_db()
    rows.refresh_from_db()
    assert (keys.state, rows.state) == (RunState.READING, RunState.CANCELLED)
    assert captured.row(new).state == "streaming"


def test_the_command_reads_parts_and_says_what_it_did(
    captured: Captured, table: ReplicatorTable, tmp_path: Path
) -> None:
    name = captured.replicator.name

    def run(*arguments: str) -> str:
        out = io.StringIO()
        call_command("snapshot", name, *arguments, stdout=out)
        return out.getvalue().strip()

    of = ("--table", str(table))
    assert run(*of, "--keys", "1", "2") == "2 keys of shop.orders are read."
    (tmp_path / "keys").write_text("3\n[4]\n")
    assert run(*of, "--keys-file", str(tmp_path / "keys")) == "2 keys of shop.orders are read."
    assert run(*of, "--where", "id > 5") == "rows of shop.orders are read."
    assert run("--pause") == "shop.orders: 3 snapshots paused."
    assert run(*of, "--resume") == "shop.orders: 3 snapshots resumed."
    assert run("--stop") == "shop.orders: 3 snapshots stopped."
    assert run("--stop") == "shop.orders: no snapshots stopped."
    for wrong, code in (
        ((*of, "--keys", "x"), 1),
        ((*of, "--where", "nothing = 1"), 1),
        (("--where", "id = 1"), 2),
        (("--table", "shop.gone"), 2),
        ((*of, "--keys-file", str(tmp_path / "none")), 2),
    ):
        with pytest.raises(CommandError) as raised:
            run(*wrong)
        assert raised.value.returncode == code
    assert run() == "shop.orders is resnapshotted."


def test_a_run_is_not_current_before_a_part_that_ends_while_it_looks(
    captured: Captured, table: ReplicatorTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capture may commit the part's last rows between the look at the checkpoint and the look at the parts."""
    ReplicatorTable.objects.update(applied=9, last_sequence=9, made_load=F("load"))
    run, other = headless.HeadlessRun(captured.replicator), headless.HeadlessRun(captured.replicator)
    captured.commit(next_sequence=10)
    assert run._look({"at": captured.at}) is ExitCode.CURRENT

    def ended(_: Replicator) -> bool:
        captured.commit(next_sequence=20, segments=(segment(ORDERS, 12, 15, kind=SegmentKind.CHUNK),))
        return False

    monkeypatch.setattr(selectors, "parts_open", ended)
    assert other._look({"at": captured.at}) is None
