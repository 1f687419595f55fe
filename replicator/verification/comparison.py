"""Comparing tables: digests first, then keys, then, on a source under write load, what differs again.

All tables are looked at before any is looked at again: there is one wait for all that differ.
"""

from __future__ import annotations

import marshal
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pyiceberg.catalog import Catalog

from replicator.errors import TidemarkError
from replicator.verification.cells import show
from replicator.verification.changelog import counted, folded
from replicator.verification.computed_columns import UNCHECKED
from replicator.verification.digests import MARSHAL_VERSION, Row, difference, duplicates
from replicator.verification.model import (
    CatalogConfig,
    DifferenceKind,
    Options,
    RowDifference,
    TablePair,
    TableReport,
    TargetConfig,
)
from replicator.verification.modes import CHANGELOG, HISTORY, in_mode, version_problems
from replicator.verification.parts import foreign_values, narrowed
from replicator.verification.selected_rows import TakenReader
from replicator.verification.sides import target_rows, write_rows, write_source, write_target
from replicator.verification.source import OpenReader, SourceTable
from replicator.verification.target import PinnedTable, key_filter, open_catalog, open_table
from replicator.verification.warehouses import opening


def compare(
    source: OpenReader,
    target: TargetConfig,
    tables: Sequence[TablePair],
    options: Options | None = None,
) -> list[TableReport]:
    """One report per table, in order; `source` opens a reader of the source.

    One that cannot be compared has `error`; the others go on.

    Raises SourceUnreachable and TargetError where nothing can be compared at all.
    """
    with _Comparison(source, target, options or Options()) as comparison:
        return comparison.reports(tables)


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

    def lasting(self, before: Self) -> Self:
        """What differed before already: of a source under write load, the rest is younger and on its way."""
        return type(self)(self.missing & before.missing, self.extra & before.extra, self.different & before.different)

    def __len__(self) -> int:
        return self.missing.total() + self.extra.total() + len(self.different)


@dataclass
class _Check:
    """A table between two looks; what differed lies in a file, so that many tables that differ take no memory
    (invariant 9).

    common: columns of both sides.  keyed, named: there is a key, and the source finds rows again by it.
    by_key: what differs is few enough for that.
    """

    report: TableReport
    path: Path
    common: SourceTable = field(default_factory=lambda: SourceTable((), 0))
    keyed: bool = False
    named: bool = False
    by_key: bool = False

    @property
    def pair(self) -> TablePair:
        return self.report.pair

    def keep(self, found: _Found) -> None:
        with self.path.open("wb") as file:
            marshal.dump((dict(found.missing), dict(found.extra), found.different), file, MARSHAL_VERSION)

    def kept(self) -> _Found:
        with self.path.open("rb") as file:
            missing, extra, different = marshal.load(file)  # noqa: S302 - a file of our own
        return _Found(Counter(missing), Counter(extra), different)


class _Comparison:
    def __init__(self, source: OpenReader, target: TargetConfig, options: Options) -> None:
        self._options = options
        self._target = target
        self._catalog: Catalog | None = open_catalog(target) if isinstance(target, CatalogConfig) else None
        self._source = TakenReader(source())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        if self._catalog is not None:
            self._catalog.close()

    def _open(self, pair: TablePair) -> PinnedTable:
        """The table as it is now.  Raises TargetError where it does not exist."""
        if self._catalog is not None:
            return open_table(self._catalog, pair)
        assert not isinstance(self._target, CatalogConfig)
        return opening.open_table(self._target, pair)

    def reports(self, pairs: Sequence[TablePair]) -> list[TableReport]:
        """Look at every table; as long as some differ, wait once for all of them and look at those again."""
        reports = [TableReport(pair) for pair in pairs]
        with self._spill() as folder:
            checks = [_Check(report, folder / str(number)) for number, report in enumerate(reports)]
            left = [check for check in checks if self._look(check)]
            while left:
                settled = self._wait()
                left = [check for check in left if self._look_again(check, settled)]
        return reports

    def _look_again(self, check: _Check, settled: Collection[str]) -> bool:
        """Unless its copy is known to have held everything at the last look: then what differed does."""
        if str(check.pair) in settled:
            return self._look(check, final=check.kept())
        check.report.rechecks += 1
        return self._look(check)

    def _look(self, check: _Check, final: _Found | None = None) -> bool:
        """Does it differ in a way that is worth another look?  If not, its report is written."""
        report, started = check.report, time.monotonic()
        try:
            with self._source.reading(check.pair):
                found = self._found(check) if final is None else final
                last = check.pair.still or report.rechecks >= self._options.retries
                if found and final is None and not last:
                    check.keep(found)
                    return True
                self._tell(check, found)
        except TidemarkError as error:
            report.error = error.message
        finally:
            report.seconds += time.monotonic() - started
        check.path.unlink(missing_ok=True)
        return False

    def _found(self, check: _Check) -> _Found:
        """What differs, and did at every look: by key where that can be, else as a whole."""
        if check.by_key:
            return self._keys_again(check, check.kept())
        before = check.kept() if check.report.rechecks and not check.report.truncated else None
        pair, report = check.pair, check.report
        table, target = self._describe(pair, report)
        unchecked = {name for name, one in table.computed.items() if one["kind"] in UNCHECKED}
        there = dict(target.columns).keys() - unchecked
        check.common = table.restrict([name for name in table.names if name in there])
        check.keyed = bool(pair.key) and set(pair.key) <= set(check.common.names)
        check.named = check.keyed and pair.mode != CHANGELOG and not set(pair.key) & set(table.masks)
        found = self._whole(pair, check.common, target, report, keyed=check.keyed)
        if before is not None:
            found = found.lasting(before)
        check.by_key = check.named and len(found) <= self._options.recheck_keys and not found.nameless
        return found

    def _tell(self, check: _Check, found: _Found) -> None:
        pair, report = check.pair, check.report
        counted = pair.mode == CHANGELOG and not check.keyed
        names = pair.key if check.keyed else () if counted else check.common.names
        keys = self._fill(report, check.common, names, found)
        if found and check.named:
            self._name_columns(pair, check.common, report, keys)
        if pair.part[0] and not self._options.ignore_extra_columns:
            target, _ = in_mode(self._open(pair), pair)
            known = {*self._source.describe(pair, self._options.zero_dates).names, self._options.sequence_column}
            report.columns += foreign_values(target, [name for name, _ in target.columns if name not in known])
        if pair.mode == HISTORY:
            with self._spill() as folder:
                target = self._open(pair)
                report.columns += version_problems(target, pair, folder, self._options.partition_rows)

    def _describe(self, pair: TablePair, report: TableReport) -> tuple[SourceTable, PinnedTable]:
        table = self._source.describe(pair, self._options.zero_dates)
        target, wrong = self._compared(pair, table)
        options = replace(self._options, ignore_extra_columns=True) if pair.part[0] else self._options
        report.columns = [*column_problems(table, target, options), *wrong]
        return table, target

    def _compared(self, pair: TablePair, table: SourceTable) -> tuple[PinnedTable, list[str]]:
        target, wrong = in_mode(self._open(pair), pair)
        return narrowed(target, table) if pair.part[0] else target, wrong

    def _whole(
        self, pair: TablePair, table: SourceTable, target: PinnedTable, report: TableReport, *, keyed: bool
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

    def _wait(self) -> Collection[str]:
        if self._options.before_recheck:
            return self._options.before_recheck() or ()
        time.sleep(self._options.wait)
        return ()

    def _keys_again(self, check: _Check, found: _Found) -> _Found:
        """Read the keys that differ again: what is equal once is equal (invariant 4)."""
        keys = [*found.missing, *found.extra, *found.different]
        source, target = self._rows_of(check.pair, check.common, keys)
        left = [key for key in keys if source.get(key) != target.get(key)]
        return _Found(
            Counter({key: len(source[key]) for key in left if key not in target}),
            Counter({key: len(target[key]) for key in left if key not in source}),
            {key for key in left if key in source and key in target},
        )

    def _rows_of(
        self, pair: TablePair, table: SourceTable, keys: Sequence[Row]
    ) -> tuple[dict[Row, list[Row]], dict[Row, list[Row]]]:
        positions, wanted = [table.names.index(name) for name in pair.key], set(keys)
        target, _ = self._compared(pair, table)
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

    def _fill(self, report: TableReport, table: SourceTable, names: Sequence[str], found: _Found) -> list[Row]:
        """The keys that are shown."""
        kinds = [table.iceberg(name) for name in names]
        report.missing, report.extra, report.different = (
            found.missing.total(), found.extra.total(), len(found.different)
        )  # fmt: skip
        listed = [
            *((DifferenceKind.DIFFERENT, key) for key in found.different),
            *((DifferenceKind.MISSING, key) for key in found.missing.elements()),
            *((DifferenceKind.EXTRA, key) for key in found.extra.elements()),
        ]
        shown = _spread(listed, self._options.shown)
        report.differences = [
            RowDifference(kind, {n: show(cell, k) for n, cell, k in zip(names, key, kinds, strict=True)})
            for kind, key in shown
        ]
        return [key for _, key in shown]

    def _name_columns(self, pair: TablePair, table: SourceTable, report: TableReport, keys: Sequence[Row]) -> None:
        """Say which columns differ, for the rows that are shown."""
        if DifferenceKind.DIFFERENT not in {difference.kind for difference in report.differences}:
            return
        source, target = self._rows_of(pair, table, keys)
        for i, (key, shown) in enumerate(zip(keys, report.differences, strict=True)):
            if shown.kind is DifferenceKind.DIFFERENT and key in source and key in target:
                pairs = zip(table.names, source[key][0], target[key][0], strict=True)
                columns = tuple(name for name, mine, theirs in pairs if mine != theirs)
                report.differences[i] = RowDifference(shown.kind, shown.row, columns)


def _spread(listed: list[tuple[DifferenceKind, Row]], shown: int) -> list[tuple[DifferenceKind, Row]]:
    """Up to `shown`, some of each kind."""
    if len(listed) <= shown:
        return listed
    kinds = [[entry for entry in listed if entry[0] is kind] for kind in DifferenceKind]
    present = [entries for entries in kinds if entries]
    return [entry for entries in present for entry in entries[: max(1, shown // len(present))]]


def column_problems(table: SourceTable, target: PinnedTable, options: Options) -> list[str]:
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
    if target.ordered and order != [name for name in expected if name in actual]:
        problems.append(f"the target's columns have another order: {', '.join(order)}")
    if options.sequence_column and options.sequence_column not in dict(target.columns):
        problems.append(f"column {options.sequence_column} is missing in the target")
    return problems


def _surplus(table: SourceTable, name: str) -> str:
    return f"should not exist: {table.left_out[name]}" if name in table.left_out else "is not in the source"
