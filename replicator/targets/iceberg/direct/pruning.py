"""What the table's metadata tells without reading rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from replicator.folding.footers import KeyColumnRange
from replicator.model.schema import SEQUENCE
from replicator.targets.iceberg.table.catalog import IcebergTable


def nothing_in(table: IcebergTable, ranges: Sequence[KeyColumnRange]) -> bool:
    """True where no file can have a row in these key ranges: then every key of the batch is new to the table.

    It holds at the snapshot that `commit` compares with, so that an append is as safe as a MERGE.
    """
    return bool(ranges) and not _any(table.handle.newScan().filter(within(table, ranges)).planFiles())


def within(table: IcebergTable, ranges: Sequence[KeyColumnRange]) -> Any:
    """Iceberg's expression for rows in all of these ranges; true for all where there are none."""
    expressions = table.engine.java("org.apache.iceberg.expressions.Expressions")
    condition = expressions.alwaysTrue()
    for one in ranges:
        condition = getattr(expressions, "and")(condition, expressions.greaterThanOrEqual(one.column, _java(one.low)))
        if one.high is not None:
            condition = getattr(expressions, "and")(condition, expressions.lessThanOrEqual(one.column, _java(one.high)))
    return condition


def whole_files_below(table: IcebergTable, below: int) -> bool:
    """True where every file has either only rows below the number, or none; of a shared table, rows of the part."""
    expressions = table.engine.java("org.apache.iceberg.expressions.Expressions")
    condition = expressions.lessThan(SEQUENCE, below)
    if table.name.part:
        condition = getattr(expressions, "and")(condition, expressions.equal(*table.name.tenant))
    evaluator = table.engine.java("org.apache.iceberg.expressions.StrictMetricsEvaluator")
    strict = evaluator(table.handle.schema(), condition, True)  # noqa: FBT003 - py4j has no keywords
    tasks = table.handle.newScan().filter(condition).includeColumnStats().planFiles()
    try:
        found = tasks.iterator()
        while found.hasNext():
            if not strict.eval(found.next().file()):
                return False
    finally:
        tasks.close()
    return True


def _any(tasks: Any) -> bool:
    try:
        return bool(tasks.iterator().hasNext())
    finally:
        tasks.close()


def _java(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
