"""One change, one commit: staged by Spark, made current by compare-and-set."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from replicator.errors import TableError, TargetConflict, TargetError
from replicator.faults import reach
from replicator.targets.base import Position
from replicator.targets.iceberg.table.catalog import (
    STAGED,
    IcebergCatalog,
    IcebergTable,
    PreparedSnapshot,
    prepared,
    publish,
    refused,
    stage_nothing,
    with_staged,
)
from replicator.targets.iceberg.table.position import as_kept, as_properties

Write = Callable[[SparkSession], None]
Build = Callable[[Any], Any]


def unless_overtaken(catalog: IcebergCatalog, table: IcebergTable, error: TableError) -> TableError | TargetConflict:
    """What is wrong with the rows that were read; a conflict where they may be another worker's, who committed since
    `table` was read.
    """
    if catalog.again(table).snapshot == table.snapshot:
        return error
    return TargetConflict(f"Another worker committed to {table.name} in the meantime.", table=str(table.name))


def commit(catalog: IcebergCatalog, table: IcebergTable, at: Position, write: Write | None) -> Mapping[str, str]:
    """Let `write` change the table's rows through Spark; the commit carries `at`.  Return its snapshot summary.

    Spark's write is staged (Iceberg's write-audit-publish) and then published only if the table's present snapshot is
    still the one in `table`, from which the position was read.  So a stale worker changes nothing, however late it is
    (invariants 3, 4, 5); what it staged is an unreferenced snapshot, which expiry removes.  Where `write` is None or
    leaves no snapshot, an empty one carries the position.
    """
    token = uuid.uuid4().hex
    said = as_properties(at)
    staging()
    if write is not None:
        settings = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in said.items()}
        with catalog.session({**settings, "spark.wap.id": token}) as spark:
            write(spark)
    fresh = catalog.again(table)
    staged = fresh.staged(token)
    if staged is None:
        # After another worker's write, this does not mean "nothing written": our snapshot may have expired since.
        if fresh.last_sequence != table.last_sequence:
            message = f"Another worker wrote to {table.name} in the meantime."
            raise TargetConflict(message, table=str(table.name))
        stage_nothing(fresh, {**said, STAGED: token})
        fresh = catalog.again(table)
        staged = fresh.staged(token)
    if staged is None:
        message = f"The change of {table.name} was not written."
        raise TargetError(message, table=str(table.name))
    published = with_staged(table, fresh, staged, as_kept(table, at, int(staged["sequence-number"])))
    _swap(lambda: publish(fresh, published), lambda _: None, lambda: _is_current(fresh, staged["snapshot-id"]))
    summary: Mapping[str, str] = staged["summary"]
    return summary


def commit_directly(
    table: IcebergTable, at: Position | None, build: Build, discard: Callable[[], None], removes: int = 0
) -> int:
    """One commit through Iceberg's Java API, without Spark; it carries `at`, or no position (maintenance).

    Returns the snapshot's id.

    `build` makes the update, given a transaction on the table as `table` has it.  The snapshot is written before it is
    published: a stale worker changes nothing, as in `commit`.  Where it certainly was not published nothing of it
    stays; `discard` removes the files that are `build`'s.

    removes: files that `build` takes out of the table.  TargetError where fewer would go: Iceberg says nothing of one
    that it does not find, and rows would be there twice.
    """
    try:
        said = {} if at is None else as_properties(at)
        made = prepared(table, build, said, lambda sequence: {} if at is None else as_kept(table, at, sequence))
        _require_removed(table, made, removes)
    except Exception:
        discard()
        raise

    def undo(error: Exception) -> None:
        if not isinstance(error, Py4JError) or (refused(error) and _is_there(table, made.snapshot) is False):
            made.remove()
            discard()

    _swap(lambda: publish(table, made.updated), undo, lambda: _is_there(table, made.snapshot))
    return made.snapshot


def _require_removed(table: IcebergTable, made: PreparedSnapshot, removes: int) -> None:
    if made.removed < removes:
        made.remove()
        now = table.handle.operations().refresh()
        if now is None or now.metadataFileLocation() != table.base.metadataFileLocation():
            message = f"Another worker committed to {table.name} in the meantime."
            raise TargetConflict(message, table=str(table.name))
        found = f"Iceberg found only {made.removed} of them"
        message = f"A change of {table.name} should have removed {removes} files, but {found}."
        raise TargetError(message, table=str(table.name))


def _is_there(table: IcebergTable, snapshot: int) -> bool | None:
    """Does the catalog have the snapshot?  None where it does not say.

    Iceberg repeats a statement whose connection broke: one that was done before its answer was lost is refused then.
    """
    try:
        now = table.handle.operations().refresh()
        return now is not None and now.snapshot(snapshot) is not None
    except Py4JError:
        return None


def _is_current(table: IcebergTable, snapshot: int) -> bool | None:
    """Is it the one that readers see?"""
    try:
        now = table.handle.operations().refresh()
        current = None if now is None else now.currentSnapshot()
        return current is not None and int(current.snapshotId()) == snapshot
    except Py4JError:
        return None


def staging() -> None:
    """What changes rows is about to be written, by Spark or without it."""
    reach("apply.stage.before")


def _swap(
    publishing: Callable[[], None], undo: Callable[[Exception], None], present: Callable[[], bool | None]
) -> None:
    """`undo` what was staged where it fails, and never once it is visible.

    present: is it, by the catalog's own word?  A commit whose answer was lost may have been done.
    """
    try:
        reach("apply.publish.before")
        publishing()
    except Py4JError as error:
        if not present():
            undo(error)
            raise
    except Exception as error:
        undo(error)
        raise
    reach("apply.publish.after")
