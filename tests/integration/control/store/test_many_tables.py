"""What is asked of the metadata database for each table does not grow with the number of tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.db import connection as database
from django.db import connections
from django.db.models.signals import post_init

from replicator.engine.snapshot import SnapshotOptions, run_snapshot
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.base import Chunk, KeyRange
from replicator.staging.storage import Storage
from replicator.state.chunks import PlannedChunk, parse_mark
from replicator.state.tables import TableState
from tests.integration.control.conftest import Captured, schema_of
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    Replicator,
    ReplicatorTable,
    RunState,
    SegmentRow,
    SnapshotRun,
)
from webapp.worker.store.apply_store import OrmApplyStore
from webapp.worker.store.chunk_store import OrmChunkStore
from webapp.worker.upkeep import garbage_collection
from webapp.worker.upkeep.garbage_collection import collect


class Cost:
    """Statements and rows since the block began."""

    def __init__(self) -> None:
        self.statements = self.rows = 0

    def statement(self, execute: Any, *arguments: Any) -> Any:
        self.statements += 1
        return execute(*arguments)

    def row(self, **_: Any) -> None:
        self.rows += 1


@contextmanager
def counted() -> Iterator[Cost]:
    """All threads' rows, this thread's statements."""
    cost = Cost()
    post_init.connect(cost.row)
    try:
        with database.execute_wrapper(cost.statement):
            yield cost
    finally:
        post_init.disconnect(cost.row)


def loading(replicator: Replicator, count: int) -> list[ReplicatorTable]:
    """Create `count` tables, each with a run to plan."""
    names = [f"t{number:05d}" for number in range(count)]
    common = {"replicator": replicator, "database": "shop", "target_namespace": "shop", "tracked": True}
    state = TableState.LOADING.value
    tables = ReplicatorTable.objects.bulk_create(
        ReplicatorTable(name=name, target_name=name, state=state, load=uuid.uuid4().hex, **common) for name in names
    )
    SnapshotRun.objects.bulk_create(SnapshotRun(table=table, reason="initial load", fresh=True) for table in tables)
    return tables


class ThreeRows:
    """A source whose tables have three rows each; their chunks are admitted at their high marks."""

    def __init__(self) -> None:
        self.described: list[int] = []
        self.read: set[str] = set()

    def catalog(self) -> ThreeRows:
        return self

    def snapshot_reader(self, *_: object) -> ThreeRows:
        return self

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema]:
        self.described.append(len(tables))
        return {table: schema_of(table) for table in tables}

    def end_key(self, *_: object) -> tuple[str, ...]:
        return ("3",)

    def next_bound(self, *_: object) -> tuple[str, ...]:
        return ("3",)

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        assert bounds == KeyRange(None, ("3",))
        self.read.add(table.name)
        schema = schema_of(table)
        rows = [{"id": key, "name": "x"} for key in (1, 2, 3)]
        return Chunk(schema, iter([pa.RecordBatch.from_pylist(rows, schema=schema.row_arrow)]))

    def mark(self, token: str) -> None:
        mark = parse_mark(token)
        if mark is not None and mark.kind == "H":
            ChunkRow.objects.filter(pk=mark.chunk, attempt=mark.attempt).update(state=ChunkState.DONE)

    def log(self, *_: object, **__: object) -> None:
        """Of no interest."""

    def cancel(self) -> None:
        """Nothing is asked for long."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_of_many_tables_loads_each_run_a_few_times(captured: Captured, tmp_path: Path) -> None:
    """Seen: every table's planning loaded the runs of all tables, 1.1 million of them for 1,500 tables."""
    SnapshotRun.objects.all().delete()
    count, source = 150, ThreeRows()
    loading(captured.replicator, count)
    with counted() as cost:
        run_snapshot(
            replicator="r",
            source=source,  # type: ignore[arg-type]
            chunks=OrmChunkStore(captured.replicator.pk),
            storage=Storage(tmp_path.as_uri()),
            owner="lease",
            keep=lambda: True,
            options=SnapshotOptions(parallel=1),
            report=source,  # type: ignore[arg-type]
            released=connections.close_all,
        )
    assert len(source.read) == count
    assert not SnapshotRun.objects.exclude(state=RunState.READING).exists()
    assert len(source.described) <= 4  # the source is asked for many tables at once
    assert cost.rows <= 40 * count


@pytest.mark.django_db
def test_planning_takes_statements_by_the_batch_and_not_by_the_table(captured: Captured) -> None:
    SnapshotRun.objects.all().delete()
    loading(captured.replicator, 200)
    store, planned = OrmChunkStore(captured.replicator.pk), 0
    with counted() as cost:
        while runs := store.to_plan(4, 50):
            store.planned([PlannedChunk(run.run, ("3",), KeyRange(None, ("3",)), done=True) for run in runs])
            planned += len(runs)
    assert planned == ChunkRow.objects.count() == 200
    assert cost.statements <= 5 * 20
    assert cost.rows <= 10 * 200


@pytest.mark.django_db
def test_a_turn_of_one_table_does_not_fetch_the_others(captured: Captured) -> None:
    """Seen: the names and generations of all tables were fetched for each turn of each table."""
    tables = loading(captured.replicator, 200)
    ReplicatorTable.objects.filter(pk__in=[table.pk for table in tables]).update(
        state=TableState.STREAMING.value, schema_version=1
    )
    fetched = 0

    def rows(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal fetched
        result = execute(sql, params, many, context)
        if sql.lstrip().startswith("SELECT"):
            fetched += context["cursor"].rowcount
        return result

    store = OrmApplyStore(captured.replicator.pk)
    (first,) = store.tables(most=1)
    with database.execute_wrapper(rows):
        (second,) = store.tables({first.table}, most=1)
    assert fetched <= 10
    by_name = {table.name: table.load for table in tables}
    assert by_name[first.table.name] not in first.others
    assert by_name[second.table.name] in first.others
    assert "0" * 32 not in first.others


@pytest.mark.django_db
def test_what_the_journal_no_longer_has_is_noted_for_all_tables_at_once(
    captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk counts where the table is not yet known to be loaded beyond it."""
    storage, ago = Storage(tmp_path.as_uri()), datetime.now(UTC) - timedelta(days=30)
    monkeypatch.setattr(garbage_collection, "storage", lambda: storage)
    tables = loading(captured.replicator, 60)
    for place, table in enumerate(tables):
        table.collected, table.loaded = (-1, 3)[place % 2], (-1, 7)[place // 2 % 2]
    ReplicatorTable.objects.bulk_update(tables, ["collected", "loaded"])
    staged = {"schema_version": 1, "first_sequence": 0, "rows": 1, "size": 1, "applied_at": ago}
    last = {"log": 2, "chunk": 5}
    SegmentRow.objects.bulk_create(
        SegmentRow(table=table, kind=kind, last_sequence=last[kind], path=f"{table.pk}-{kind}", **staged)
        for place, table in enumerate(tables)
        for kind in (("log", "chunk"), ("log",), ("chunk",))[place % 3]
    )
    with counted() as cost:
        assert collect()["segments"] == 80
    assert cost.statements <= 60
    found = {one.pk: one.collected for one in ReplicatorTable.objects.filter(pk__in=[one.pk for one in tables])}
    for place, table in enumerate(tables):
        logged, chunked = place % 3 != 2, place % 3 != 1 and table.loaded < 5
        wanted = max(table.collected, 2 if logged else -1, 5 if chunked else -1)
        assert found[table.pk] == wanted, (place, table.collected, table.loaded)
