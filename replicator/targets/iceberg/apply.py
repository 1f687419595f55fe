"""Append, merge, replace and delete: what changes rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.errors import TableError
from replicator.folding.footers import MAX_LISTED, KeyColumnRange, LeftOut, footers, key_ranges, left_out, with_values
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import EventKind, Segment
from replicator.targets.base import Append, Counts, DeleteBelow, Merge, Position, Replace, item_of
from replicator.targets.iceberg.direct.pruning import nothing_in, whole_files_below
from replicator.targets.iceberg.direct.result import DIRECT, ChangeOutcome
from replicator.targets.iceberg.direct.writer import Direct, DirectLimits, FallBackToSpark, TooLarge, up_to
from replicator.targets.iceberg.spark import keyless, merge_unchanged
from replicator.targets.iceberg.spark.changelog import in_spark, marker
from replicator.targets.iceberg.spark.changes import as_read, fold, insert, read, rows_read, shaped
from replicator.targets.iceberg.spark.merge_modes import end_below, put_changes, put_folded
from replicator.targets.iceberg.spark.merge_sql import of_part
from replicator.targets.iceberg.spark.staged_files import staged
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.commit import Write, commit, unless_overtaken
from replicator.targets.iceberg.table.naming import quoted, sql_name

LIMITS = DirectLimits()


@dataclass(frozen=True)
class _Batch:
    """What is to be merged: segments that are not in yet, and what their footers tell."""

    segments: Sequence[Segment]
    ranges: Sequence[KeyColumnRange]
    arrivals: bool
    lacking: LeftOut | None

    @property
    def paths(self) -> list[str]:
        return [segment.path for segment in self.segments]

    @classmethod
    def of(cls, storage: Storage, segments: Sequence[Segment], schema: TableSchema) -> _Batch:
        files = footers(storage, [s.path for s in segments])
        arrivals = all(s.rows == s.inserts + s.reads for s in segments)
        lacking = left_out(files, schema) if schema.partial and not arrivals else None
        return cls(segments, key_ranges(files, schema), arrivals, lacking)


@dataclass(frozen=True)
class RowChanges:
    """A change of a table's rows, which begins where the table was read (`at`) and leaves it at `after`.

    Both are of `targets.base.remaining`, as are the segments of the changes.  Every change is one commit, whose
    compare-and-set does the rest.
    """

    catalog: IcebergCatalog
    storage: Storage
    table: IcebergTable
    at: Position
    after: Position
    limits: DirectLimits = LIMITS

    def append(self, change: Append) -> ChangeOutcome:
        """READ rows, as they are."""
        schema, segments = change.schema, change.segments
        try:
            return ChangeOutcome("append", self._direct().append(schema, segments, self.at, self.after), DIRECT)
        except FallBackToSpark as error:
            reason = str(error)

        def write(spark: SparkSession) -> None:
            with self._staged(spark, change, self.at.loaded, timed=True) as changes:
                insert(self.table, as_read(rows_read(changes, schema)), schema)

        return ChangeOutcome("append", self._commit(write if segments else None), reason)

    def merge(self, change: Merge) -> ChangeOutcome:
        """Fold, and apply.  What is too large to be done directly is begun with: Spark would take ten times as long."""
        segments = change.segments
        if self.table.mode is Mode.CHANGELOG:
            return self._append_unfolded(change)

        @cache
        def batch(count: int) -> _Batch:
            return _Batch.of(self.storage, segments[:count], change.schema)

        try:
            return self._directly(change, batch)
        except FallBackToSpark as error:
            reason = str(error)
        if not segments:
            return ChangeOutcome("nothing", self._commit(None), reason)
        if not change.schema.key:
            return ChangeOutcome(*self._keyless_in_spark(change), reason)
        return ChangeOutcome(*self._in_spark(change, batch(len(segments))), reason)

    def replace_all(self, change: Replace) -> ChangeOutcome:
        """The rows become exactly those of the segments; a changelog gets them, and a marker if they follow others."""
        schema, table = change.schema, self.table
        unfolded = table.mode is Mode.CHANGELOG
        over = unfolded and bool(table.total("records"))

        def write(spark: SparkSession) -> None:
            with self._staged(spark, change, -1, timed=unfolded) as changes:
                rows = rows_read(changes, schema)
                rows = shaped(table, as_read(rows) if unfolded else rows, schema)
                if over:
                    swept = DeleteBelow(change.applied + 1, change.applied, EventKind.SWEEP.value)
                    rows = rows.unionByName(marker(spark, table, swept))
                written = rows.writeTo(sql_name(table.name))
                written.append() if unfolded else written.overwrite(F.expr("true"))

        something = change.segments or over or not unfolded
        return ChangeOutcome("append" if unfolded else "replace", self._commit(write if something else None))

    def delete_below(self, change: DeleteBelow) -> ChangeOutcome:
        """Rows with an older number go, or end where the mode keeps them."""
        table, below = self.table, change.below
        if table.mode is Mode.CHANGELOG:
            name = sql_name(table.name)
            return ChangeOutcome(
                "append", self._commit(lambda spark: marker(spark, table, change).writeTo(name).append())
            )
        if table.mode is not Mode.MIRROR:
            return ChangeOutcome("mark", self._commit(lambda spark: end_below(spark, table, change)))
        try:
            return ChangeOutcome("delete", self._direct().delete_below(below, self.after), DIRECT)
        except FallBackToSpark as error:
            whole = whole_files_below(table, below)
            return ChangeOutcome(
                "truncate" if whole else "delete", self._commit(_rows_below(table, below, whole=whole)), str(error)
            )

    def _direct(self) -> Direct:
        return Direct.of(self.storage, self.table, self.limits)

    @contextmanager
    def _staged(
        self, spark: SparkSession, change: Append | Merge | Replace, above: int, *, timed: bool = False
    ) -> Iterator[DataFrame]:
        """What the segments of the change hold above this number, while they are open to Spark."""
        with staged(self.storage, change.segments, here=self.catalog.pool.config.here) as files:
            yield read(spark, files, change.schema, above, timed=timed)

    def _commit(self, write: Write | None) -> Mapping[str, str]:
        return commit(self.catalog, self.table, self.after, write)

    def _append_unfolded(self, change: Merge) -> ChangeOutcome:
        """A changelog's: every change is a row, which is only ever appended."""
        schema, segments = change.schema, change.segments
        try:
            direct = self._direct()
            if not segments:
                direct.nothing(self.after)
                return ChangeOutcome("nothing", Counts())
            return ChangeOutcome("append", direct.append_changes(schema, segments, self.at, self.after), DIRECT)
        except FallBackToSpark as error:
            reason = str(error)

        def write(spark: SparkSession) -> None:
            with self._staged(spark, change, self.at.applied, timed=True) as changes:
                insert(self.table, in_spark(changes, schema), schema)

        return ChangeOutcome("append", self._commit(write if segments else None), reason)

    def _directly(self, change: Merge, batch: Callable[[int], _Batch]) -> ChangeOutcome:
        """Merge without Spark: all of it, or as many of the first segments as possible.  Raises FallBackToSpark.

        batch: returns what is known of a number of its first segments.
        """
        part = self.limits.first(change)
        while True:
            direct = self._direct()
            after = self.after if part is change else replace(self.at, applied=part.upto, item=item_of(part))
            if not part.segments:
                direct.nothing(after)
                return ChangeOutcome("nothing", Counts())
            some = batch(len(part.segments))
            if not part.schema.key and not some.arrivals:
                raise FallBackToSpark("no key")
            partial = some.lacking is not None
            try:
                counts = direct.merge(part.schema, part.segments, some.ranges, self.at, after, partial=partial)
            except TooLarge:
                if (fewer := up_to(part, len(part.segments) // 2)) is part:
                    raise
                part = fewer
                continue
            how = "merge" if counts.updated or counts.deleted else "append"
            return ChangeOutcome(how, counts, DIRECT, None if part is change else part.upto)

    def _keyless_in_spark(self, change: Merge) -> tuple[str, Mapping[str, str]]:
        """How, and the commit's summary."""
        how = "append"

        def write(spark: SparkSession) -> None:
            nonlocal how
            with self._staged(spark, change, self.at.applied) as changes:
                try:
                    how = keyless.put(spark, self.table, change.schema, changes)
                except TableError as error:
                    raise unless_overtaken(self.catalog, self.table, error) from None

        summary = self._commit(write)
        return how, summary

    def _in_spark(self, change: Merge, batch: _Batch) -> tuple[str, Mapping[str, str]]:
        """How, and the commit's summary."""
        table, schema, ranges, lacking = self.table, change.schema, batch.ranges, batch.lacking
        new_keys = table.total("records") == 0 or nothing_in(table, ranges)
        if not new_keys and len(schema.key) == 1 and sum(s.rows for s in batch.segments) <= MAX_LISTED:
            ranges = with_values(self.storage, batch.paths, ranges)
        near = None if new_keys else ranges
        mirror = table.mode is Mode.MIRROR

        def write(spark: SparkSession) -> None:
            with self._staged(spark, change, self.at.applied, timed=not mirror) as changes:
                write_rows = put_folded if mirror else put_changes
                if lacking is not None:
                    whole = merge_unchanged.folded if mirror else merge_unchanged.filled
                    with whole(spark, self.catalog, table, change, changes, near, lacking) as known:
                        write_rows(spark, table, schema, known, near)
                elif mirror:
                    write_rows(spark, table, schema, fold(changes, schema, only_arrivals=batch.arrivals), near)
                else:
                    write_rows(spark, table, schema, changes, near)

        return "append" if new_keys else "merge", self._commit(write)


def rows_below(table: IcebergTable, below: int) -> Write:
    """What deletes rows with an older number in Spark, of a shared table those of the part."""
    return _rows_below(table, below, whole=whole_files_below(table, below))


def _rows_below(table: IcebergTable, below: int, *, whole: bool) -> Write:
    """The row filter is written twice: the second form cannot be answered from metadata, because Spark's metadata-only
    delete knows neither staging nor snapshot properties (seen in Iceberg 1.12).  Where whole files go, Iceberg's API
    does it.
    """
    if not whole:
        condition = f"{quoted(SEQUENCE)} < {below} AND {quoted(SEQUENCE)} + 0 < {below} AND {of_part(table.name)}"
        return lambda spark: spark.sql(f"DELETE FROM {sql_name(table.name)} WHERE {condition}")
    column, value = table.name.tenant

    def everything(spark: SparkSession) -> None:
        empty = spark.createDataFrame([], spark.table(sql_name(table.name)).schema)
        older = F.col(SEQUENCE) < below
        which = older & (F.col(quoted(column)) == value) if column else older
        empty.writeTo(sql_name(table.name)).overwrite(which)

    return everything
