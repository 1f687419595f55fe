"""The data files of a table while a change is being made of them: rows go and come by files that take others' place.

Nothing is visible before `commit`; what was written and is in the way of nothing is removed where that fails.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

import numpy as np
import pyarrow as pa

from replicator.errors import TargetError
from replicator.faults import reach
from replicator.folding.fold import Numbers
from replicator.folding.key_set import Bound, KeySet, in_bounds
from replicator.model.schema import SEQUENCE
from replicator.targets.base import Position
from replicator.targets.delta.failures import explained
from replicator.targets.delta.table import DataFile, OpenTable
from replicator.targets.parquet_files import shaped, write_stream

FILE_BYTES = 128 * 1024 * 1024  # of a file's rows in memory: a merge writes whole files again
ALONE = 16 * 1024 * 1024  # smaller files that lose rows become one
Rows = Mapping[str, Numbers]  # by file, ascending


class LiveFiles:
    """Of one change of one table.  stop: set where it is to end."""

    def __init__(self, table: OpenTable, stop: threading.Event, arrow: pa.Schema | None = None) -> None:
        """`arrow`: the columns of files that are written; those of the table where they do not change."""
        self._table, self._stop = table, stop
        self._parquet, self._arrow = table.parquet(), arrow or table.arrow
        self._base = {one.path: one for one in table.files()}
        self._live = dict(self._base)
        self._written: list[str] = []
        self._staged = False

    @property
    def files(self) -> list[DataFile]:
        """As they would be now, those with the oldest rows first."""
        return sorted(self._live.values(), key=lambda one: int(one.low.get(SEQUENCE, 0)))

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self._live.values())

    def within(self, bounds: Mapping[str, Bound]) -> list[DataFile]:
        """Files that can have a row within."""
        return [one for one in self._live.values() if in_bounds(one.low, one.high, dict(bounds))]

    def read(self, file: DataFile, names: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Row groups with these columns, and the place of the first row; null where the file is older than a column."""
        wanted = pa.schema([self._table.arrow.field(name) for name in names])
        if file.path not in self._base:
            wanted = pa.schema([self._arrow.field(name) for name in names])
        first = 0
        with explained(self._table.store), self._parquet.open(file.path, file.size) as opened:
            # By name from the group: `columns=` also takes what begins with the name and a dot.
            there = [name for name in names if name in opened.schema_arrow.names]
            for number in range(opened.metadata.num_row_groups):
                self.go_on()
                group = opened.read_row_group(number, columns=there or opened.schema_arrow.names[:1])
                rows = opened.metadata.row_group(number).num_rows
                yield first, _cast(group.select(there), wanted, rows)
                first += rows

    def find(self, keys: KeySet, names: Sequence[str]) -> Iterator[tuple[DataFile, Numbers, Numbers, pa.Table]]:
        """By row group, rows with one of the keys: their places in the file, the keys' places, and these columns."""
        bounds = keys.bounds()
        lacking = [name for name in names if name not in keys.columns]
        for file in self.within(bounds):
            for first, group in self.read(file, [*keys.columns, *lacking]):
                places, entries = keys.find(group)
                if len(places):
                    yield file, first + places, entries, group.take(pa.array(places)).select(list(names))

    def rewrite(self, gone: Rows, put: Iterable[pa.Table]) -> int:
        """Rows go from their files, and rows come; returns the number of those."""
        self.stage()
        pooled: list[Iterator[pa.Table]] = []
        for path, rows in gone.items():
            file = self._live[path]
            if len(rows) == file.rows:
                self._remove(file)
            elif file.size < ALONE:
                pooled.append(self._without(file, rows))
            else:
                self._write(self._without(file, rows))
                self._remove(file)
        came = 0

        def counted() -> Iterator[pa.Table]:
            nonlocal came
            for one in put:
                came += one.num_rows
                yield shaped(one, self._arrow)

        self._write(chain(*pooled, counted()))
        for path in gone:
            if path in self._live:
                self._remove(self._live[path])
        return came

    def replace(self, file: DataFile, rows: Iterator[pa.Table]) -> None:
        """All rows of a file by others."""
        self.stage()
        self._write(rows)
        self._remove(file)

    def combine(self, chosen: Sequence[DataFile]) -> None:
        """The rows of several files in as few as they fit into."""
        self.stage()
        self._write(group for file in chosen for _, group in self.read(file, self._arrow.names))
        for file in chosen:
            self._remove(file)

    def clear(self) -> None:
        """All rows go."""
        for file in self.files:
            self._remove(file)

    def commit(self, at: Position, *, changes: bool = True) -> None:
        """What came of it, in one commit with the position.  changes: False where the rows are the same."""
        self.stage()
        new = [one for path, one in self._live.items() if path not in self._base]
        old = [one for path, one in self._base.items() if path not in self._live]
        self._drop_intermediate()
        self._table.commit(
            at,
            [one.added(changes=changes) for one in new],
            [one.removed(changes=changes) for one in old],
            same_rows=not changes,
            discard=self.discard,
        )

    def overwrite(self, at: Position, numbers: dict[str, int] | None = None) -> None:
        """As `commit`, with the new columns; every file must have been replaced."""
        self.stage()
        self._drop_intermediate()
        new = [one.added() for path, one in self._live.items() if path not in self._base]
        self._table.overwrite(at, self._arrow, new, numbers=numbers, discard=self.discard)

    def restart(self) -> None:
        """As at the beginning; what was written is removed."""
        self.discard()
        self._live = dict(self._base)

    def discard(self) -> None:
        """Remove what was written."""
        self._parquet.delete(self._written)
        self._written.clear()

    @contextmanager
    def discarded_on_failure(self) -> Iterator[None]:
        """Discard the written files where the block fails; it must end before a commit."""
        try:
            yield
        except Exception:
            self.discard()
            raise

    def opened(self) -> None:
        """The segments are open."""
        reach("apply.read.after")

    def stage(self) -> None:
        """Rows are about to be written."""
        if not self._staged:
            self._staged = True
            reach("apply.stage.before")

    def go_on(self) -> None:
        """TargetError where the change is to end."""
        if self._stop.is_set():
            message = f"The change of {self._table.name} was interrupted."
            raise TargetError(message, remedy="Retried automatically.", table=str(self._table.name))

    def _without(self, file: DataFile, gone: Numbers) -> Iterator[pa.Table]:
        for first, group in self.read(file, self._arrow.names):
            kept = np.ones(group.num_rows, np.bool_)
            mine = gone[(gone >= first) & (gone < first + group.num_rows)] - first
            kept[mine] = False
            yield group.filter(pa.array(kept)) if len(mine) else group

    def _write(self, rows: Iterator[pa.Table]) -> None:
        with explained(self._table.store):
            for one in write_stream(self._parquet, self._new_file, self._arrow, self._watched(rows), FILE_BYTES):
                self._live[one.uri] = DataFile.of(one)

    def _watched(self, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for one in rows:
            self.go_on()
            yield one

    def _new_file(self) -> str:
        self._written.append(f"{uuid.uuid4().hex}.parquet")
        return self._written[-1]

    def _remove(self, file: DataFile) -> None:
        del self._live[file.path]

    def _drop_intermediate(self) -> None:
        """Files that a later part of the same change took the place of."""
        gone = [path for path in self._written if path not in self._live]
        self._parquet.delete(gone)
        self._written = [path for path in self._written if path in self._live]


def _cast(rows: pa.Table, wanted: pa.Schema, count: int) -> pa.Table:
    there = set(rows.column_names)
    columns = [
        rows.column(one.name).cast(one.type) if one.name in there else pa.nulls(count, one.type) for one in wanted
    ]
    return pa.table(columns, schema=wanted) if len(wanted) else rows


def gathered(parts: Mapping[str, list[Numbers]]) -> dict[str, Numbers]:
    """One ascending list of rows by file."""
    return {path: np.sort(np.concatenate(rows)) for path, rows in parts.items()}
