"""Large objects of changed rows: the log has parts of them only, so they are read from the table as of the commit.

A value as of a row's commit is its value as of any later SCN up to the next change under its key.  So few SCNs are
enough for many commits.  States that the same transaction wrote over are not had: they get the value of the commit, or
null where no row has their key then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from replicator.errors import TableNotRead
from replicator.model.change import Operation
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, OFFSET, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.sources.base import KeyRange
from replicator.sources.oracle.catalog.key_range_sql import OracleKeyRanges
from replicator.sources.oracle.catalog.selected_columns import SelectedColumns, lob_bytes, require_fit
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.dialect import quoted
from replicator.sources.oracle.rows.redo_rows import RedoLayout
from replicator.sources.oracle.types import Form

KEYS = 200  # in one query
Key = tuple[Any, ...]
Select = Callable[[str, TableId], pa.Table]


@dataclass
class _Wanted:
    """A row whose large objects are read as of an SCN from `first` to `last`.  over: its key has left the row later in
    its transaction, as far as is known.
    """

    row: int
    key: Key
    first: int
    last: int
    over: bool
    scn: int = 0
    size: int = 0
    found: bool = False


class LargeObjects:
    """Of one reader of the log."""

    def __init__(self, select: Select, most: int) -> None:
        """select: all rows of a query about a table; most: bytes of a batch (invariant 9)."""
        self._select, self._most = select, most

    def filled(
        self, changes: pa.RecordBatch, layout: RedoLayout, described: TableDescription, located: frozenset[int],
        upto: int,
    ) -> list[pa.RecordBatch]:  # fmt: skip
        """The changes with their large objects, in parts where these are many.

        layout: what the changes were read by; described: the table as the catalog has it, which may be further on.
        located: ordinals of rows that say no more than whose large object was written.  upto: the SCN up to which all
        changes of the table are among these or before.  TableNotRead where the table has the rows of these SCNs no
        more, or never had them; ValueDoesNotFit.
        """
        lobs = [
            name for name, kind in zip(layout.schema.names, layout.value_types, strict=True) if kind.form is Form.LOB
        ]
        wanted = _wanted(changes, layout.schema, layout.schema.names.index(lobs[0]), upto)
        if not wanted:
            return [changes]
        if layout.schema.key != described.schema.key:
            message = f"{described.schema.table} has another key by now."
            raise TableNotRead(message, table=str(described.schema.table))
        _choose_scns(wanted)
        for scn, some in _by_scn(wanted):
            self._measure(scn, some, described)
        changes, wanted = _without_repetition(changes, wanted, located)
        _check(wanted, described.schema.table, complete=upto)
        return self._parts(changes, wanted, described, lobs)

    def _measure(self, scn: int, wanted: Sequence[_Wanted], described: TableDescription) -> None:
        """Which have a row then, and the bytes of its large objects."""
        sizes: dict[Key, int] = {}
        for rows, keys in self._rows(scn, wanted, described, described.schema.key, f", {lob_bytes(described)}"):
            sizes |= dict(zip(keys, map(int, rows.column("size").to_pylist()), strict=True))
        for one in wanted:
            if one.key in sizes:
                one.found, one.size = True, sizes[one.key]
                require_fit(described.schema.table, one.size)

    def _rows(
        self, scn: int, wanted: Sequence[_Wanted], described: TableDescription, names: Sequence[str], more: str = ""
    ) -> Iterator[tuple[pa.Table, list[Key]]]:
        """Rows as of the SCN under these keys, and their keys."""
        schema, ranges = described.schema, OracleKeyRanges(described)
        columns = SelectedColumns(described, "fail", names)
        different = list(dict.fromkeys(one.key for one in wanted))
        for at in range(0, len(different), KEYS):
            texts = tuple(tuple(map(_text, key)) for key in different[at : at + KEYS])
            where = ranges.selected(KeyRange(keys=texts))
            name = quoted(schema.table.database, schema.table.name)
            rows = self._select(f"SELECT {columns.sql}{more} FROM {name} AS OF SCN {scn} WHERE {where}", schema.table)
            if rows.num_rows:
                found = pa.Table.from_batches([columns.convert(rows)])
                if more:
                    found = found.append_column("size", rows.columns[-1])
                yield found, _keys(found, schema.key)

    def _parts(
        self, changes: pa.RecordBatch, wanted: Sequence[_Wanted], described: TableDescription, lobs: Sequence[str]
    ) -> list[pa.RecordBatch]:
        parts: list[list[_Wanted]] = [[]]
        size = 0
        for one in wanted:
            if size + one.size > self._most and parts[-1]:
                parts.append([])
                size = 0
            parts[-1].append(one)
            size += one.size
        bounds = [0, *(part[0].row for part in parts[1:]), changes.num_rows]
        made = (
            self._with_values(changes.slice(begin, end - begin), begin, part, described, lobs)
            for (begin, end), part in zip(pairwise(bounds), parts, strict=True)
        )
        return list(made) if len(parts) == 1 else _in_a_file(made, changes.schema)

    def _with_values(
        self, changes: pa.RecordBatch, begin: int, wanted: Sequence[_Wanted], described: TableDescription,
        lobs: Sequence[str],
    ) -> pa.RecordBatch:  # fmt: skip
        pools: list[pa.Table] = []
        places = np.full(changes.num_rows, -1, np.int64)
        count = 0
        for scn, some in _by_scn([one for one in wanted if one.found]):
            where: dict[Key, int] = {}
            for rows, keys in self._rows(scn, some, described, (*described.schema.key, *lobs)):
                pools.append(rows.select(lobs))
                where |= {key: count + place for place, key in enumerate(keys)}
                count += rows.num_rows
            for one in some:
                places[one.row - begin] = where[one.key]
        if not pools:
            return changes
        pool, taken = pa.concat_tables(pools), pa.array(places, mask=places < 0)
        for name in lobs:
            at = changes.schema.get_field_index(name)
            values = pool.column(name).take(taken).combine_chunks()
            changes = changes.set_column(at, changes.schema.field(at), values)
        return changes


def _wanted(changes: pa.RecordBatch, schema: TableSchema, lob: int, upto: int) -> list[_Wanted]:
    """In the order of the rows.  lob: the place of a column that is a large object."""
    scns = [int(scn) for scn in changes.column(changes.schema.get_field_index(OFFSET)).to_pylist()]
    operations = changes.column(OPERATION).to_pylist()
    left_out = changes.column(UNCHANGED).to_pylist()
    befores, keys = _keys(changes, schema.key, BEFORE), _keys(changes, schema.key)
    found: list[_Wanted] = []
    next_changes: dict[Key, tuple[int, int]] = {}  # under a key: the SCN of the next one, and the next SCN after that
    leaves: set[tuple[Key, int]] = set()  # keys that leave their rows, and when
    for row in reversed(range(len(scns))):
        scn, key, before = scns[row], keys[row], befores[row]
        deleted, inserted = (operations[row] == one for one in (Operation.DELETE, Operation.INSERT))
        if not deleted and (left_out[row] is None or lob not in left_out[row]):
            near, far = next_changes.get(key, (0, 0))
            following = far if near == scn else near
            last = max(scn, min(following - 1, upto) if following else upto)
            found.append(_Wanted(row, key, scn, last, (key, scn) in leaves))
        for one in {key} if inserted else {key, before}:
            near, _ = next_changes.get(one, (0, 0))
            if near != scn:
                next_changes[one] = (scn, near)
        if deleted or not (inserted or before == key):
            leaves.add((before, scn))
    return found[::-1]


def _choose_scns(wanted: Sequence[_Wanted]) -> None:
    """As few as there can be: intervals by their ends, each end that is needed serves all that have begun."""
    chosen = -1
    for one in sorted(wanted, key=lambda one: one.last):
        if chosen < one.first:
            chosen = one.last
        one.scn = chosen


def _by_scn(wanted: Sequence[_Wanted]) -> Iterator[tuple[int, list[_Wanted]]]:
    groups: dict[int, list[_Wanted]] = {}
    for one in wanted:
        groups.setdefault(one.scn, []).append(one)
    yield from groups.items()


def _without_repetition(
    changes: pa.RecordBatch, wanted: list[_Wanted], located: frozenset[int]
) -> tuple[pa.RecordBatch, list[_Wanted]]:
    """Rows that only say whose large object was written go where another change of the transaction has the row, or
    where there is none at the commit.
    """
    sequence = changes.column(SEQUENCE).to_pylist()
    said = {(one.key, one.first) for one in wanted if sequence[one.row] not in located}
    drop: set[int] = set()
    for one in wanted:
        if sequence[one.row] in located:
            if not one.found or (one.key, one.first) in said:
                drop.add(one.row)
            said.add((one.key, one.first))
    if not drop:
        return changes, wanted
    keep = np.ones(changes.num_rows, np.bool_)
    keep[list(drop)] = False
    places = np.cumsum(keep) - 1
    kept = [one for one in wanted if one.row not in drop]
    for one in kept:
        one.row = int(places[one.row])
    return changes.filter(pa.array(keep)), kept


def _check(wanted: Sequence[_Wanted], table: TableId, *, complete: int) -> None:
    """A row that is not there was deleted, or got another key, in the same transaction: else it is not found for a
    reason that is not known, and nothing is taken for its value.
    """
    for one in wanted:
        if not one.found and not one.over and one.first <= complete:
            message = f"{table}: a changed row is not there as of its commit at SCN {one.first:,}."
            raise TableNotRead(message, table=str(table))


def _keys(rows: pa.RecordBatch | pa.Table, key: Sequence[str], prefix: str = "") -> list[Key]:
    return list(zip(*(rows.column(prefix + name).to_pylist() for name in key), strict=True))


def _text(value: Any) -> str:
    """As `key_range_sql.given_literal` takes it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _in_a_file(parts: Iterator[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """The system has their pages in memory as long as it likes."""
    with tempfile.NamedTemporaryFile(prefix="tidemark-lobs-") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for part in parts:
                writer.write_batch(part)
        file.flush()
        reader = pa.ipc.open_file(pa.memory_map(file.name))
    return [reader.get_batch(place) for place in range(reader.num_record_batches)]
