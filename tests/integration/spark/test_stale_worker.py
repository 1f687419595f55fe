"""A worker that slept while its successor made, dropped or renamed tables: what it then asks of the target is
refused.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replicator.errors import TargetConflict
from replicator.targets.base import (
    NO_TABLE,
    Append,
    Create,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    TargetChange,
    TargetTable,
)
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.table import catalog as catalog_module
from replicator.targets.iceberg.table import commit, schema_update
from tests.integration.spark.lake import Lake
from tests.staged import insert, read, schema_of

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "int", "v": "string", "more": "int"}, ["id"])
WIDEST = schema_of({"id": "int", "v": "string", "more": "int", "most": "int"}, ["id"])
BELOW = 50


def made_anew(lake: Lake) -> TargetTable:
    """The successor has made the table for load L2, and loaded a row."""
    table = lake.table(KEYED, load="L1")
    lake.target.apply(table, Create(KEYED, 1, BELOW, "L2"), seen="L1")
    lake.target.apply(table, Append([lake.segment(KEYED, [read(60, 1, "new")])], KEYED, 60), seen="L2")
    return table


def test_a_stale_worker_does_not_make_append_to_or_drop_its_successors_table(lake: Lake) -> None:
    table, worker = made_anew(lake), lake.another_worker()
    old = lake.segment(KEYED, [read(1, 1, "old")])
    changes = (
        Create(KEYED, 1, BELOW, "L2"),
        Append([old], KEYED, 1),
        Merge([old], KEYED, 100),
        Evolve(WIDER, 2),
        Rename(TargetTable("shop", "taken")),
        Drop(),
    )
    for change in changes:
        for seen in ("L1", NO_TABLE):
            with pytest.raises(TargetConflict, match="recreated"):
                worker.apply(table, change, seen)
    assert lake.rows(table) == [(1, "new")]
    assert lake.target.position(table) == Position(BELOW, 60, 1, "L2")


def test_what_is_as_it_was_seen_is_changed(lake: Lake) -> None:
    table = TargetTable("shop", "as_seen")
    lake.target.apply(table, Create(KEYED, 1, -1, "L1"), NO_TABLE)
    lake.target.apply(table, Merge([lake.segment(KEYED, [insert(0, 1, "x")])], KEYED, 0), "L1")
    assert lake.rows(table) == [(1, "x")]
    assert lake.target.apply(table, Drop(), "L1").how == "drop"
    assert lake.target.apply(table, Drop(), NO_TABLE).how == "skip"


@pytest.mark.parametrize("change", [Create(KEYED, 1, BELOW, "L2"), Drop(), Rename(TargetTable("shop", "elsewhere"))])
def test_a_worker_that_stands_still_after_it_looked_takes_nothing_away(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, change: TargetChange
) -> None:
    """Longer than its lease, between the look and the catalog's row: what has the name then is another's."""
    table = lake.table(KEYED, load="L1")
    done = catalog_module.IcebergCatalog._move

    def slow(*args: object) -> None:
        monkeypatch.undo()
        lake.target.apply(table, Create(KEYED, 1, BELOW, "L2"), seen="L1")
        lake.target.apply(table, Append([lake.segment(KEYED, [read(60, 1, "new")])], KEYED, 60), seen="L2")
        done(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog_module.IcebergCatalog, "_move", slow)
    with pytest.raises(TargetConflict, match="recreated"):
        lake.another_worker().apply(table, change, "L1")
    assert lake.rows(table) == [(1, "new")]
    assert lake.target.position(table) == Position(BELOW, 60, 1, "L2")


def test_a_name_that_was_taken_meanwhile_is_not_renamed_to(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table, new = lake.table(KEYED, load="L1"), TargetTable("shop", "taken_meanwhile")
    done = catalog_module.IcebergCatalog._move

    def slow(*args: object) -> None:
        monkeypatch.undo()
        lake.target.apply(new, Create(KEYED, 1, -1, "L9"), seen=NO_TABLE)
        done(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog_module.IcebergCatalog, "_move", slow)
    with pytest.raises(TargetConflict, match="cannot be renamed"):
        lake.another_worker().apply(table, Rename(new), "L1")
    assert lake.target.position(new) == Position(-1, -1, 1, "L9")
    assert lake.target.position(table) == Position(-1, -1, 1, "L1")


def test_a_stale_evolution_does_not_take_columns_away(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg's transactions put what they planned over what was committed meanwhile."""
    table = lake.table(KEYED)
    reorder = schema_update.reorder

    def slow(*args: object) -> None:
        monkeypatch.undo()
        lake.target.apply(table, Evolve(WIDEST, 3))
        reorder(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(schema_update, "reorder", slow)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, Evolve(WIDER, 2))
    found = lake.reader().load_table((table.namespace, table.name)).schema()
    assert [field.name for field in found.fields] == [*WIDEST.names, "_sequence_num"]
    assert lake.target.position(table) == Position(-1, -1, 3, "L1")


def test_rows_whose_staged_snapshot_was_expired_by_another_are_not_taken_for_applied(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "x"))
    segment = lake.segment(KEYED, [insert(1, 2, "y")])
    after_the_write(lake, monkeypatch, lambda: expire(lake, table))
    with pytest.raises(TargetConflict):
        lake.another_worker(limits=SPARK_ONLY).apply(table, Merge([segment], KEYED, 1))
    assert lake.target.position(table) == Position(0, -1, 1, "L1")
    lake.target.apply(table, Merge([segment], KEYED, 1))
    assert sorted(lake.rows(table)) == [(1, "x"), (2, "y")]


def after_the_write(lake: Lake, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """`meanwhile` happens when Spark has staged its write, before the worker looks for it."""
    again = catalog_module.IcebergCatalog.again

    def slow(self: catalog_module.IcebergCatalog, table: catalog_module.IcebergTable) -> catalog_module.IcebergTable:
        monkeypatch.undo()
        meanwhile()
        return again(self, table)

    monkeypatch.setattr(commit.IcebergCatalog, "again", slow)


def expire(lake: Lake, table: TargetTable) -> None:
    handle = lake.target._catalog.require(table).handle
    handle.expireSnapshots().expireOlderThan(2**62).retainLast(5).commit()
