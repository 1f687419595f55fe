"""Windows of the log: the rows of change tables between two commits, within bounded memory (invariant 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from replicator.sources.base import ReadOptions
from replicator.sources.sqlserver.catalog.table_description import CaptureInstance, TableDescription
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import binary, quoted
from replicator.sources.sqlserver.rows.change_rows import BEFORE, META, ORDER, change_select, change_table
from replicator.sources.sqlserver.stream.polled_reader import with_rows

_LSN = quoted(META[0])
_MAX_BATCHES = 4  # rows in a window, in batches
_LEAST_ROWS = 500  # of one table


@dataclass(frozen=True)
class ChangeSource:
    """A table, as its rows come through a capture instance."""

    description: TableDescription
    instance: CaptureInstance


@dataclass
class LogWindow:
    """Rows by source, whole transactions up to `end`.  `large`: `end` is one transaction whose rows are not here: it is
    more than a window holds (`stream`).
    """

    end: bytes
    rows: list[tuple[ChangeSource, pa.Table]]
    large: bool = False


class WindowReader:
    """One connection; one thread."""

    def __init__(self, connection: SqlServerSession, options: ReadOptions) -> None:
        self._connection, self._options = connection, options

    def read(self, start: bytes, commits: Sequence[bytes], sources: Sequence[ChangeSource]) -> LogWindow:
        """Of the transactions in `commits`, which come after `start`, as many as fit."""
        found: list[tuple[ChangeSource, pa.Table]] = []
        end, rows_left = commits[-1], self._options.batch_rows * _MAX_BATCHES
        size_left = self._options.batch_bytes * _MAX_BATCHES
        for source in self._changed(start, end, sources):
            limit = max(_LEAST_ROWS, min(self._options.batch_rows, rows_left))
            rows, cut = self._fetch(source, start, end, limit, max(size_left, self._options.batch_bytes // 4))
            if cut is not None:
                before = [lsn for lsn in commits if lsn < cut]
                if not before:
                    return LogWindow(cut, [], large=True)
                end = before[-1]
            found.append((source, rows))
            rows_left, size_left = rows_left - rows.num_rows, size_left - rows.nbytes
        trimmed = ((source, _up_to(rows, end)) for source, rows in found)
        return LogWindow(end, [(source, rows) for source, rows in trimmed if rows.num_rows])

    def stream(self, source: ChangeSource, lsn: bytes) -> Iterator[pa.Table]:
        """The rows of one transaction, an update's two rows together."""
        where = f"{_LSN} = {binary(lsn)}"
        held: pa.Table | None = None
        for batch in self._batches(source, f"SELECT {{}} FROM {{}} WHERE {where} ORDER BY {ORDER}"):
            rows = pa.Table.from_batches([batch])
            rows = pa.concat_tables([held, rows]) if held is not None else rows
            held = None
            if rows.num_rows and rows.column(3)[-1].as_py() == BEFORE:
                rows, held = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
            if rows.num_rows:
                yield rows
        if held is not None:
            yield held

    def _changed(self, start: bytes, end: bytes, sources: Sequence[ChangeSource]) -> list[ChangeSource]:
        """Those with rows in the window."""
        lsns = f"{_LSN} > {binary(start)} AND {_LSN} <= {binary(end)}"
        return with_rows(self._connection, sources, lambda one: f"{change_table(one.instance)} WHERE {lsns}")

    def _fetch(
        self, source: ChangeSource, start: bytes, end: bytes, rows: int, size: int
    ) -> tuple[pa.Table, bytes | None]:
        """Fetch rows in log order, up to `rows` + 1 of them or about `size` bytes.

        If there are more, also return the LSN of the last transaction, which is not whole.
        """
        sql = (
            f"SELECT TOP ({rows + 1}) {{}} FROM {{}} WHERE {_LSN} > {binary(start)} AND {_LSN} <= {binary(end)} "
            f"ORDER BY {ORDER}"
        )
        batches: list[pa.RecordBatch] = []
        taken = held = 0
        for batch in self._batches(source, sql):
            batches.append(batch)
            taken, held = taken + batch.num_rows, held + batch.nbytes
            if held > size:
                break
        found = pa.Table.from_batches(batches)
        whole = taken <= rows and held <= size
        return found, None if whole else found.column(0)[-1].as_py()

    def _batches(self, source: ChangeSource, sql: str) -> Iterator[pa.RecordBatch]:
        text = sql.format(change_select(source.description, source.instance), change_table(source.instance))
        table = source.description.schema.table
        yield from self._connection.batches(text, table, self._options.batch_rows, self._options.batch_bytes)


def _up_to(rows: pa.Table, end: bytes) -> pa.Table:
    """Rows of transactions up to this one; they are in order."""
    lsns = rows.column(0)
    if not rows.num_rows or lsns[-1].as_py() <= end:
        return rows
    low, high = 0, rows.num_rows
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if lsns[middle].as_py() <= end else (low, middle)
    return rows.slice(0, low)
