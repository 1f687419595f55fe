"""Comparing tables: digests first, then keys, then, on a source under write load, what differs again."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pyiceberg.catalog.sql import SqlCatalog

from replicator.errors import TidemarkError
from replicator.verification.cells import show
from replicator.verification.changelog import counted, folded
from replicator.verification.digests import Row, difference, duplicates
from replicator.verification.model import (
    CatalogConfig,
    Difference,
    DifferenceKind,
    Options,
    SourceConfig,
    TablePair,
    TableReport,
)
from replicator.verification.modes import CHANGELOG, HISTORY, in_mode, version_problems
from replicator.verification.mysql_source import MySqlReader
from replicator.verification.postgres_source import PostgresReader
from replicator.verification.sides import target_rows, write_rows, write_source, write_target
from replicator.verification.source import SourceReader, SourceTable
from replicator.verification.taken import TakenReader
from replicator.verification.target import TargetTable, key_filter, open_catalog, open_table

READERS: Mapping[str, Callable[[SourceConfig], SourceReader]] = {"mysql": MySqlReader, "postgres": PostgresReader}


def compare(
    source: SourceConfig, catalog: CatalogConfig, tables: Sequence[TablePair], options: Options | None = None
) -> list[TableReport]:
    """One report per table, in order.  One that cannot be compared has `error`; the others go on.

    Raises SourceUnreachable and TargetError where nothing can be compared at all.
    """
    with _Comparison(source, catalog, options or Options()) as comparison:
        return [comparison.table(pair) for pair in tables]


@dataclass
class _Found:
    """Keys (keyless: rows) on one side only, with their number, and on both sides with different rows."""

    missing: Counter[Row] = field(default_factory=Counter)
    extra: Counter[Row] = field(default_factory=Counter)
    different: set[Row] = field(default_factory=set)

    @classmethod
    def of(cls, only_source: Counter[Row], only_target: Counter[Row], *, keyed: bool) -> Self:
        different = set(only_source & only_target) if keyed else set()
        for key in different:
            del only_source[key], only_target[key]
        return cls(only_source, only_target, different)

    @property
    def nameless(self) -> bool:
        """Is there a key with a null, which no SELECT finds again?"""
        return any(None in key for keys in (self.missing, self.extra, self.different) for key in keys)

    def lasting(self, before: Self | None) -> Self:
        """What differed before already: of a source under write load, the rest is younger and on its way."""
        if before is None:
            return self
        return type(self)(self.missing & before.missing, self.extra & before.extra, self.different & before.different)

    def __len__(self) -> int:
        return self.missing.total() + self.extra.total() + len(self.different)


class _Comparison:
    def __init__(self, source: SourceConfig, catalog: CatalogConfig, options: Options) -> None:
        self._options = options
        self._catalog: SqlCatalog = open_catalog(catalog)
        self._source = TakenReader(READERS[source.kind](source))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._catalog.engine.dispose()

    def table(self, pair: TablePair) -> TableReport:
        report, started = TableReport(pair), time.monotonic()
        try:
            with self._source.reading(pair):
                self._table(pair, report)
        except TidemarkError as error:
            report.error = error.message
        report.seconds = time.monotonic() - started
        return report

    def _table(self, pair: TablePair, report: TableReport) -> None:
        """Compare whole until equal, or until what differs has been looked at often enough: by key, or else as a whole."""
        before: _Found | None = None
        for attempt in range(self._options.retries + 1):
            if attempt:
                self._wait()
                report.rechecks += 1
            table, target = self._describe(pair, report)
            common = table.restrict([name for name in table.names if name in dict(target.columns)])
            keyed = bool(pair.key) and set(pair.key) <= set(common.names)
            named = keyed and not set(pair.key) & set(table.masks)  # no SELECT finds a masked key
            found = self._whole(pair, common, target, report, keyed=keyed).lasting(before)
            before = None if report.truncated else found
            by_key = (
                named and pair.mode != CHANGELOG and len(found) <= self._options.recheck_keys and not found.nameless
            )
            if not found or by_key:
                break
        if found and by_key:
            found = self._recheck(pair, common, found, report)
        counted = pair.mode == CHANGELOG and not keyed
        self._fill(report, common, pair.key if keyed else () if counted else common.names, found)
        if found and named and pair.mode != CHANGELOG:
            self._name_columns(pair, common, report)
        if pair.mode == HISTORY:
            with self._spill() as folder:
                report.columns += version_problems(target, pair, folder, self._options.partition_rows)

    def _describe(self, pair: TablePair, report: TableReport) -> tuple[SourceTable, TargetTable]:
        table = self._source.describe(pair, self._options.zero_dates)
        target, wrong = in_mode(open_table(self._catalog, pair), pair)
        report.columns = [*column_problems(table, target, self._options), *wrong]
        return table, target

    def _whole(
        self, pair: TablePair, table: SourceTable, target: TargetTable, report: TableReport, *, keyed: bool
    ) -> _Found:
        key = tuple(table.names.index(name) for name in pair.key) if keyed else ()
        sequence = self._options.sequence_column
        sequence = sequence if sequence in dict(target.columns) else ""
        with self._spill() as folder:
            mine = write_source(folder / "source", self._source, pair, table, key)
            if pair.mode == CHANGELOG and not keyed:
                report.source_rows, report.target_rows = mine.rows, counted(target)
                lacking = mine.rows - report.target_rows
                return _Found(Counter({(): max(0, lacking)}), Counter({(): max(0, -lacking)}))
            if pair.mode == CHANGELOG:
                theirs = write_rows(folder / "target", folded(target, table.names, key, folder), key)
            else:
                theirs = write_target(folder / "target", target, table.names, key, sequence)
            report.source_rows, report.target_rows = mine.rows, theirs.rows
            report.null_sequences = theirs.nulls
            report.duplicate_sequences = duplicates(theirs.sequences, self._options.partition_rows)
            first, second = difference(mine, theirs, self._options.partition_rows)
            limit = self._options.listed_rows
            report.truncated = max(len(first), len(second)) > limit
            return _Found.of(Counter(mine.keys(first[:limit])), Counter(theirs.keys(second[:limit])), keyed=keyed)

    @contextmanager
    def _spill(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="tidemark-verify-", dir=self._options.spill) as folder:
            yield Path(folder)

    def _wait(self) -> None:
        if self._options.before_recheck:
            self._options.before_recheck()
        else:
            time.sleep(self._options.wait)

    def _recheck(self, pair: TablePair, table: SourceTable, found: _Found, report: TableReport) -> _Found:
        """Read the keys that differ again and again; what is equal once is equal (invariant 4)."""
        while found and report.rechecks < self._options.retries:
            self._wait()
            report.rechecks += 1
            keys = [*found.missing, *found.extra, *found.different]
            source, target = self._rows_of(pair, table, keys)
            left = [key for key in keys if source.get(key) != target.get(key)]
            found = _Found(
                Counter({key: len(source[key]) for key in left if key not in target}),
                Counter({key: len(target[key]) for key in left if key not in source}),
                {key for key in left if key in source and key in target},
            )
        return found

    def _rows_of(
        self, pair: TablePair, table: SourceTable, keys: Sequence[Row]
    ) -> tuple[dict[Row, list[Row]], dict[Row, list[Row]]]:
        positions, wanted = [table.names.index(name) for name in pair.key], set(keys)
        target, _ = in_mode(open_table(self._catalog, pair), pair)
        name = pair.key[0]
        filters = key_filter(name, table.iceberg(name), [key[0] for key in keys])

        def by_key(batches: Iterator[list[Row]]) -> dict[Row, list[Row]]:
            kept: dict[Row, list[Row]] = {}
            for row in (row for batch in batches for row in batch):
                key = tuple(row[i] for i in positions)
                if key in wanted:
                    kept.setdefault(key, []).append(row)
            return {key: sorted(rows, key=repr) for key, rows in kept.items()}

        theirs = by_key(target_rows(target, table.names, filters))
        return by_key(self._source.read_keys(pair, table, keys)), theirs

    def _fill(self, report: TableReport, table: SourceTable, names: Sequence[str], found: _Found) -> None:
        kinds = [table.iceberg(name) for name in names]
        report.missing, report.extra, report.different = (
            found.missing.total(), found.extra.total(), len(found.different)
        )  # fmt: skip
        listed = [
            *((DifferenceKind.DIFFERENT, key) for key in found.different),
            *((DifferenceKind.MISSING, key) for key in found.missing.elements()),
            *((DifferenceKind.EXTRA, key) for key in found.extra.elements()),
        ]
        report.differences = [
            Difference(kind, {n: show(cell, k) for n, cell, k in zip(names, key, kinds, strict=True)})
            for kind, key in _spread(listed, self._options.shown)
        ]
        self._shown_keys = [key for kind, key in _spread(listed, self._options.shown)]

    def _name_columns(self, pair: TablePair, table: SourceTable, report: TableReport) -> None:
        """Say which columns differ, for the rows that are shown."""
        if DifferenceKind.DIFFERENT not in {difference.kind for difference in report.differences}:
            return
        source, target = self._rows_of(pair, table, self._shown_keys)
        for i, (key, shown) in enumerate(zip(self._shown_keys, report.differences, strict=True)):
            if shown.kind is DifferenceKind.DIFFERENT and key in source and key in target:
                pairs = zip(table.names, source[key][0], target[key][0], strict=True)
                columns = tuple(name for name, mine, theirs in pairs if mine != theirs)
                report.differences[i] = Difference(shown.kind, shown.row, columns)


def _spread(listed: list[tuple[DifferenceKind, Row]], shown: int) -> list[tuple[DifferenceKind, Row]]:
    """Up to `shown`, some of each kind."""
    if len(listed) <= shown:
        return listed
    kinds = [[entry for entry in listed if entry[0] is kind] for kind in DifferenceKind]
    present = [entries for entries in kinds if entries]
    return [entry for entries in present for entry in entries[: max(1, shown // len(present))]]


def column_problems(table: SourceTable, target: TargetTable, options: Options) -> list[str]:
    """How the target's columns differ from what the rules say, as sentences."""
    expected = {column.name: (column.column_type, how.iceberg) for column, how in table.columns}
    actual = {name: kind for name, kind in target.columns if name != options.sequence_column}
    problems = [f"column {name} is missing in the target" for name in expected if name not in actual]
    if not options.ignore_extra_columns:
        problems += [f"column {name} of the target {_surplus(table, name)}" for name in actual if name not in expected]
    for name, (source_type, kind) in expected.items():
        if name in actual and actual[name].replace(" ", "") != kind.replace(" ", ""):
            problems.append(f"column {name} ({source_type}) is {actual[name]} in the target, not {kind}")
    order = [name for name in actual if name in expected]
    if order != [name for name in expected if name in actual]:
        problems.append(f"the target's columns stand in another order: {', '.join(order)}")
    if options.sequence_column and options.sequence_column not in dict(target.columns):
        problems.append(f"column {options.sequence_column} is missing in the target")
    return problems


def _surplus(table: SourceTable, name: str) -> str:
    return f"should not be there: {table.left_out[name]}" if name in table.left_out else "is not in the source"
