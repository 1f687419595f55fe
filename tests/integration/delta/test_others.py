"""Another program maintains the tables: the copy stays exact, and the maintenance is not an error."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from replicator.errors import TargetConflict, TargetError
from replicator.model.mode import Mode
from replicator.model.retention import Retention
from replicator.targets.base import NO_TABLE, Create, Drop, Merge, Position
from replicator.targets.delta import maintenance
from replicator.targets.delta.live_files import LiveFiles
from testing.servers.delta_spark import SparkSql, spark_sql
from tests.integration.delta.lake import DeltaLake
from tests.integration.spark.mode_models import Model
from tests.staged import Change, delete, insert, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string", "at": "timestamp_ntz"}, ["id"])
SHORT = ", ".join(
    f"'delta.{name}' = '{value}'"
    for name, value in (
        ("checkpointInterval", "1"), ("enableExpiredLogCleanup", "true"), ("logRetentionDuration", "interval 0 hours"),
        ("deletedFileRetentionDuration", "interval 0 hours"),
    )
)  # fmt: skip
DAY = dt.datetime.fromisoformat("2026-01-01")


def set_properties(table: DeltaTable, **properties: str) -> None:
    table.alter.set_table_properties(
        {name.replace("__", "."): value for name, value in properties.items()}, raise_if_not_exists=False
    )


def forget_the_log(table: DeltaTable) -> None:
    """A checkpoint, and all entries before it go: also those that say where Tidemark is."""
    set_properties(table, noted="the newest entry")
    table = DeltaTable(table.table_uri)
    table.create_checkpoint()
    for entry in (Path(table.table_uri.removeprefix("file://")) / "_delta_log").glob("*.json"):
        if int(entry.stem) < table.version():
            entry.unlink()


def vacuum(table: DeltaTable) -> None:
    """Readers of older versions lose their files: that is this program's doing."""
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


OTHERS: dict[str, Callable[[DeltaTable], Any]] = {
    "optimize": lambda table: table.optimize.compact(),
    "z-order": lambda table: table.optimize.z_order(["v"]),
    "vacuum": vacuum,
    "note": lambda table: set_properties(table, noted="x"),
    "retention": lambda table: set_properties(
        table, delta__logRetentionDuration="interval 0 days", delta__deletedFileRetentionDuration="interval 0 days",
        delta__setTransactionRetentionDuration="interval 0 days", delta__enableExpiredLogCleanup="true",
    ),
    "no statistics": lambda table: set_properties(table, delta__dataSkippingNumIndexedCols="0"),
    "statistics of one": lambda table: set_properties(table, delta__dataSkippingStatsColumns="v"),
    "checkpoint": lambda table: table.create_checkpoint(),
    "clean up": lambda table: table.cleanup_metadata(),
    "each entry a checkpoint": lambda table: set_properties(table, delta__checkpointInterval="1"),
    "forget": forget_the_log,
}  # fmt: skip


@pytest.mark.parametrize("mode", list(Mode))
def test_merges_between_what_another_program_does_are_exact(lake: DeltaLake, mode: Mode) -> None:
    table, model, rows, number = lake.table(KEYED, mode=mode), Model((0,)), dict[int, Any](), 0

    def merge(*changes: Change) -> None:
        for change in changes:
            model.apply(change)
        staged = lake.segment(KEYED, changes)
        upto = Merge([staged], KEYED, staged.last_sequence)
        assert lake.target.apply(table, upto).how in {"merge", "append"}
        assert lake.target.position(table) == Position(staged.last_sequence, -1, 1, "L1", mode)
        assert lake.target.apply(table, upto).how == "skip"

    def held() -> Counter[Any]:
        if mode is Mode.MIRROR:
            return Counter(row for row, _, gone in model.soft.values() if gone is None)
        return Counter(model.rows(mode))

    for round_ in range(2):
        for name, act in OTHERS.items():
            changes = []
            for key in range(6):
                before, row = rows.get(key), (key, f"{round_} {name}", None)
                changes.append(insert(number, *row) if before is None else update(number, before, row))
                rows[key], number = row, number + 1
            gone = number % 6
            changes.append(delete(number, *rows.pop(gone)))
            number += 1
            merge(*changes)
            act(lake.open(table))
            assert Counter(lake.rows(table, sequence=mode is not Mode.MIRROR)) == held(), name
            lake.target.maintain(table)
    assert Counter(lake.rows(table, sequence=mode is not Mode.MIRROR)) == held()


@pytest.mark.parametrize("other", ["optimize", "note", "vacuum"])
def test_what_comes_in_the_midst_of_a_merge_is_told_and_the_merge_done_again(
    lake: DeltaLake, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table(KEYED)
    for n in range(4):
        lake.merge(table, KEYED, insert(n, n, "x", None))
    staged = lake.segment(KEYED, [update(9, (1, "x", None), (1, "y", None))])
    commit = LiveFiles.commit

    def late(self: LiveFiles, *args: Any, **options: Any) -> None:
        monkeypatch.undo()
        set_properties(lake.open(table), noted="first") if other == "vacuum" else OTHERS[other](lake.open(table))
        commit(self, *args, **options)

    monkeypatch.setattr(LiveFiles, "commit", late)
    change = Merge([staged], KEYED, 9)
    with pytest.raises(TargetConflict, match="Another program committed"):
        lake.target.apply(table, change)
    if other == "vacuum":
        vacuum(lake.open(table))
    assert lake.target.apply(table, change).how == "merge"
    assert sorted(lake.rows(table)) == [(0, "x", None), (1, "y", None), (2, "x", None), (3, "x", None)]
    assert lake.data_files(table) >= lake.live_files(table)


def test_compaction_beside_another_programs_loses_nothing(lake: DeltaLake) -> None:
    """Both at a time, while rows come."""
    table = lake.table(KEYED)
    for n in range(20):
        lake.merge(table, KEYED, insert(n, n, "x", None))
    over, failures = threading.Event(), list[str]()

    def other() -> None:
        while not over.is_set():
            try:
                lake.open(table).optimize.compact()
                set_properties(lake.open(table), noted="again")
            except Exception as error:  # noqa: BLE001 - Tidemark was first
                failures.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for n in range(20, 40):
            change = Merge([lake.segment(KEYED, [insert(n, n, "x", None)])], KEYED, n)
            while lake.target.position(table) != Position(n, -1, 1, "L1"):
                try:
                    lake.target.apply(table, change)
                    lake.target.maintain(table)
                except TargetConflict:
                    continue
    finally:
        over.set()
        thread.join()
    assert sorted(lake.rows(table)) == [(n, "x", None) for n in range(40)]


def test_properties_that_the_copy_cannot_have_are_told(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "x", None))
    set_properties(lake.open(table), delta__appendOnly="true")
    with pytest.raises(TargetError, match=r"delta\.appendOnly forbids") as raised:
        lake.merge(table, KEYED, update(1, (1, "x", None), (1, "y", None)))
    assert "SET TBLPROPERTIES" in raised.value.remedy
    set_properties(lake.open(table), delta__appendOnly="false")
    assert lake.merge(table, KEYED, update(1, (1, "x", None), (1, "y", None))) == "merge"
    set_properties(lake.open(table), delta__enableChangeDataFeed="true")
    with pytest.raises(TargetError, match="table feature changeDataFeed") as raised:
        lake.merge(table, KEYED, update(2, (1, "y", None), (1, "z", None)))
    assert "Drop the feature" in raised.value.remedy


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", list(Mode))
def test_spark_looks_after_the_table_and_reads_what_the_source_has(lake: DeltaLake, mode: Mode, tmp_path: Path) -> None:
    """OPTIMIZE, VACUUM, properties, checkpoints and cleaned logs of Delta Lake's own library."""
    table, kept = lake.table(KEYED, mode=mode), dict[int, Any]()
    name = f"delta.`{lake.store.uri(table)}`"
    own = "" if mode is Mode.MIRROR else ", _sequence_num"
    numbers = iter(range(10_000))

    def merge(text: str) -> None:
        changes = []
        for key in range(8):
            row = (key, text, DAY + dt.timedelta(seconds=key))
            before = kept.get(key)
            changes.append(insert(next(numbers), *row) if before is None else update(next(numbers), before, row))
            kept[key] = row
        staged = lake.segment(KEYED, changes)
        change = Merge([staged], KEYED, staged.last_sequence)
        lake.target.apply(table, change)
        assert lake.target.position(table) == Position(staged.last_sequence, -1, 1, "L1", mode)
        assert lake.target.apply(table, change).how == "skip"

    def same(spark: SparkSql) -> None:
        read = spark(f"SELECT id, v, at{own} FROM {name}")
        data = pa.RecordBatchReader.from_stream(lake.open(table).scan()).read_all()  # of every checkpoint
        ours = zip(*(data.column(one).to_pylist() for one in ("id", "v", "at", "_sequence_num")), strict=True)
        assert Counter(map(tuple, read)) == Counter(
            (key, v, str(at), number)[: 4 if own else 3] for key, v, at, number in ours
        )
        if mode is Mode.MIRROR:
            assert sorted(map(tuple, read)) == [(key, v, str(at)) for key, v, at in sorted(kept.values())]

    with spark_sql(tmp_path) as spark:
        for n in range(3):
            merge(f"first {n}")
        for statement in (
            f"OPTIMIZE {name}",
            f"OPTIMIZE {name} ZORDER BY (id)",
            f"ALTER TABLE {name} SET TBLPROPERTIES ({SHORT})",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('noted' = '2')",
            f"VACUUM {name} RETAIN 0 HOURS",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('noted' = '3')",
        ):
            before = lake.target.position(table)
            spark(statement)
            assert lake.target.position(table) == before, statement
            same(spark)
            merge(statement)
            same(spark)
        spark(f"ALTER TABLE {name} SET TBLPROPERTIES ('noted' = '4')")
        before, newest = lake.target.position(table), lake.open(table).version()
        for entry in (lake.folder(table) / "_delta_log").glob("*.json"):
            if entry.stem.isdigit() and int(entry.stem) < newest:  # as Spark does by day
                entry.unlink()
        assert lake.target.position(table) == before
        merge("last")
        same(spark)


def test_times_without_a_zone_outlive_a_change_of_properties(lake: DeltaLake) -> None:
    """delta-rs 1.6.6 gives the table a feature that it has no column of; readers that know it go on."""
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "x", DAY))
    maintenance._LOOKED.clear()
    lake.another_worker(retention=Retention.parse("1h/1m 2d/1h", 5)).maintain(table)
    assert "variantType" in (lake.open(table).protocol().reader_features or ())
    assert lake.merge(table, KEYED, update(1, (1, "x", DAY), (1, "y", DAY))) == "merge"
    (extension,) = Path(str(duckdb_extension_delta.__file__)).parent.rglob("*.duckdb_extension")
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        scan = f"delta_scan('{lake.store.uri(table)}')"
        found = connection.execute(f"SELECT * EXCLUDE _sequence_num FROM {scan}").fetchall()
    assert found == lake.rows(table) == [(1, "y", DAY)]
    lake.target.apply(table, Drop())
    heir = lake.another_worker("r2")
    heir.apply(table, Create(KEYED, 1, -1, "L2"), NO_TABLE)
    heir.apply(table, Merge([lake.segment(KEYED, [insert(0, 2, "z", DAY)])], KEYED, 0))
    assert lake.rows(table) == [(2, "z", DAY)]
