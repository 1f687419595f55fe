"""SQL_REDO of one table, gathered as it comes and turned into a change batch all at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import EventUndecodable, RowImageIncomplete, TableError
from replicator.model.change import Operation, UndecodableRow
from replicator.model.schema import COMMIT_TS, TableSchema
from replicator.sources.oracle.dialect import quoted
from replicator.sources.oracle.rows.columns import Bytes, Cells, ColumnArrays, Mask, Places
from replicator.sources.oracle.rows.redo_kernel import ABSENT, NULL, UNKNOWN_COLUMN, WHOLE, split_redo
from replicator.sources.oracle.rows.value_kernel import texts
from replicator.sources.oracle.types import Form, ValueType
from replicator.sources.shared.unchanged_places import unchanged_places
from replicator.sources.shared.undecodable_rows import bisect_undecodable, undecodable_row

INSERT, DELETE, UPDATE, LOCATED = 1, 2, 3, 9  # V$LOGMNR_CONTENTS.OPERATION_CODE; the last: of a large object
_OPERATIONS = pa.array(["", Operation.INSERT.value, Operation.DELETE.value, *[Operation.UPDATE.value] * 7])
_SHOWN = 60  # characters of a statement that is none: names only


@dataclass(frozen=True)
class RedoLayout:
    """A table as its statements show it.

    value_types: of `schema.columns`; names: of all columns that the log has of it, those that are left out too.
    """

    schema: TableSchema
    value_types: tuple[ValueType, ...]
    names: tuple[str, ...]

    def missing(self) -> tuple[str, ...]:
        """Columns of the schema that the table does not have any more."""
        return tuple(name for name in self.schema.names if name not in self.names)


class RedoRun(NamedTuple):
    """Statements of one table in log order: data[begins[i]:ends[i]].

    operations, xids (8 bytes as one number), scns (of the commits), commit_us (microseconds since 1970): of each.
    touched: the transaction writes large objects of the table.
    """

    data: Bytes
    begins: Places
    ends: Places
    operations: Places
    xids: Places
    scns: Places
    commit_us: Places
    touched: Mask

    def at(self, rows: Any) -> RedoRun:
        """Some of them: a slice or places."""
        return RedoRun(self.data, *(one[rows] for one in self[1:]))

    def compact(self) -> RedoRun:
        """With no more bytes than those of its statements."""
        sizes = self.ends - self.begins
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        out = np.empty(int(bounds[-1]), np.uint8)
        kinds = np.full(len(sizes), NULL + 1, np.uint8)
        texts(self.data, self.begins, sizes, kinds, bounds[:-1].astype(np.int32), out)
        return self._replace(data=out, begins=bounds[:-1].copy(), ends=bounds[1:].copy())


class TableRows:
    """Memory is that of the statements until `take`."""

    def __init__(self, layout: RedoLayout, zero_dates: str, *, keep_undecodable: bool = False) -> None:
        """`zero_dates`: the policy for dates that the target has none for; a key column has no policy.

        keep_undecodable: see `ReadOptions`.
        """
        self.layout, schema = layout, layout.schema
        self._converters = [
            ColumnArrays(column, value_type, "fail" if column.name in schema.key else zero_dates)
            for column, value_type in zip(schema.columns, layout.value_types, strict=True)
        ]
        self._places = [layout.names.index(name) if name in layout.names else -1 for name in schema.names]
        written = [name.replace('"', '""').encode() for name in layout.names]
        self._names = np.frombuffer(b"".join(written) or b"\0", np.uint8)
        self._name_bounds = np.cumsum([0, *map(len, written)])
        lobs = [value_type.form is Form.LOB for value_type in layout.value_types]
        self._lobs = [place for place, lob in enumerate(lobs) if lob]
        self._others = [
            place for place, (name, lob) in enumerate(zip(schema.names, lobs, strict=True))
            if not lob and name not in schema.key
        ]  # fmt: skip
        self._keep_undecodable = keep_undecodable
        self.zero_dates = 0  # of the last `take`, as are `undecodable`, and ordinals of rows that say no more than
        self.located: frozenset[int] = frozenset()  # whose large object was written
        self.undecodable: list[UndecodableRow] = []
        self.forget()

    def forget(self) -> None:
        """Rows of a table that failed."""
        self.first_scn = self.last_scn = 0  # of the commits of the first one and the last one
        self._runs: list[RedoRun] = []
        self._ordinals: list[Places] = []
        self.rows = self.bytes = 0

    def add(self, run: RedoRun, ordinals: Places) -> None:
        """Statements that follow those before."""
        run = run.compact()
        self.first_scn = self.first_scn if self._runs else int(run.scns[0])
        self._runs.append(run)
        self._ordinals.append(ordinals)
        self.rows += len(ordinals)
        self.last_scn = int(run.scns[-1])
        self.bytes += len(run.data)

    def take(self) -> pa.RecordBatch:
        """All rows with the schema's `change_arrow`; the gathering starts again.

        A row that cannot be decoded is in `undecodable` instead, or raises TableError.  Large objects are null; where
        `_unchanged` does not name them, `stream.large_objects` has to read them.
        """
        sizes = np.concatenate([run.ends - run.begins for run in self._runs])
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        data = self._runs[0].data if len(self._runs) == 1 else np.concatenate([run.data for run in self._runs])
        stamps = [np.concatenate(columns) for columns in zip(*(run[3:] for run in self._runs), strict=True)]
        whole = RedoRun(data, bounds[:-1], bounds[1:], *stamps)
        ordinals = np.concatenate(self._ordinals)
        self.zero_dates, self.undecodable = 0, []
        self.located = frozenset(ordinals[whole.operations == LOCATED].tolist())
        last_scn = self.last_scn
        self.forget()
        self.last_scn = last_scn
        try:
            return self._batch(whole, ordinals)
        except TableError:
            if not self._keep_undecodable:
                raise
            return self._without_bad(whole, ordinals)

    def _without_bad(self, run: RedoRun, ordinals: Places) -> pa.RecordBatch:
        zero_dates = 0

        def convert(places: Places) -> pa.RecordBatch:
            nonlocal zero_dates
            self.zero_dates = 0
            batch = self._batch(run.at(places).compact(), ordinals[places])
            zero_dates += self.zero_dates
            return batch

        schema = self.layout.schema
        found = bisect_undecodable(len(ordinals), convert, schema.change_arrow)
        for place, error in found.bad:
            one = run.at(slice(place, place + 1)).compact()
            stamps = _stamps(one, ordinals[place : place + 1], schema)
            self.undecodable.append(undecodable_row(stamps, error, one.data, partial(self._keys_of, one)))
        self.zero_dates = zero_dates
        return found.batch

    def _keys_of(self, run: RedoRun) -> list[dict[str, Any]]:
        """Of a single row, before and after its change.  TableError."""
        cells = self._split(run)
        found: list[dict[str, Any]] = [{}, {}]
        for place, column in enumerate(self.layout.schema.columns):
            if column.name in self.layout.schema.key:
                for side, one in enumerate(found):
                    written = cells.of(side, self._places[place])
                    if written.kinds[0] != ABSENT:
                        one[column.name] = self._converters[place].convert(written)[0].as_py()
        return [one for one in found if one]

    def _split(self, run: RedoRun) -> _Split:
        """Its statements' values.  EventUndecodable."""
        columns, count = len(self.layout.names), len(run.begins)
        places, sizes = (np.empty((2 * columns, count), np.int64) for _ in range(2))
        kinds, found = np.zeros((2 * columns, count), np.uint8), np.empty(count, np.uint8)
        bounds = np.append(run.begins, run.ends[-1:])
        if split_redo(run.data, bounds, self._names, self._name_bounds, places, sizes, kinds, found):
            row = int(np.flatnonzero(found != WHOLE)[0])
            why = "names a column that the table does not have" if found[row] == UNKNOWN_COLUMN else "cannot be parsed"
            said = bytes(run.data[run.begins[row] : run.ends[row]][:_SHOWN]).decode("utf-8", "replace")
            message = f"{self.layout.schema.table}: the log's SQL_REDO {why}: {said.split('(')[0].split(' = ')[0]}…"
            raise EventUndecodable(message, table=str(self.layout.schema.table))
        return _Split(run.data, places, sizes, kinds, columns)

    def _batch(self, run: RedoRun, ordinals: Places) -> pa.RecordBatch:
        schema, cells = self.layout.schema, self._split(run)
        inserts, deletes, located = (run.operations == one for one in (INSERT, DELETE, LOCATED))
        gone = deletes | located
        any_old, any_gone = not inserts.all(), gone.any()
        row: list[pa.Array] = []
        before: list[pa.Array] = []
        touched = run.touched | inserts
        for number, (column, place, converter) in enumerate(
            zip(schema.columns, self._places, self._converters, strict=True)
        ):
            old, new = cells.of(1, place), cells.of(0, place)
            in_key = column.name in schema.key
            if number in self._lobs:
                touched = touched | (new.kinds != ABSENT)
            else:
                old = old if in_key else old.without(located)
                self._check(column.name, old, new, inserts if in_key else inserts | located, gone)
            if any_gone and (in_key or not schema.key):
                new = new.where(gone, old)
            row.append(self._converted(converter, new))
            if not any_old:
                before.append(pa.nulls(len(ordinals), column.type.arrow))
            else:
                before.append(self._converted(converter, old, counted=False))
        arrays = [*_stamps(run, ordinals, schema), *row, *before]
        if schema.partial:
            arrays.append(self._unchanged(run, row, before, touched))
        return pa.RecordBatch.from_arrays(arrays, schema=schema.change_arrow)

    def _unchanged(self, run: RedoRun, row: list[pa.Array], before: list[pa.Array], touched: Mask) -> pa.Array:
        """Large objects of an UPDATE whose transaction does not write them, and which leaves the key; where one was
        written, all other columns.
        """
        schema, updates, located = self.layout.schema, run.operations == UPDATE, run.operations == LOCATED
        for name in schema.key:
            place = schema.names.index(name)
            kept = pc.equal(row[place], before[place]).fill_null(False)  # noqa: FBT003
            touched = touched | ~np.asarray(kept)
        missing: list[Mask | None] = [None] * len(schema.columns)
        for places, rows in ((self._lobs, updates & ~touched), (self._others, located)):
            for place in places:
                missing[place] = rows
        return unchanged_places(missing, len(run.begins))

    def _converted(self, converter: ColumnArrays, cells: Cells, *, counted: bool = True) -> pa.Array:
        found = converter.convert(cells)
        if converter.bad is not None and counted:
            self.zero_dates += int(converter.bad.sum())
        return found

    def _check(self, column: str, old: Cells, new: Cells, inserts: Mask, deletes: Mask) -> None:
        """All columns have values: an INSERT after it, a DELETE before it, an UPDATE both."""
        lacks = ((new.kinds == ABSENT) & ~deletes) | ((old.kinds == ABSENT) & ~inserts)
        if not lacks.any():
            return
        table = self.layout.schema.table
        message = f"{table}: the log's rows do not have all columns: {column} is missing."
        remedy = (
            f"ALTER TABLE {quoted(table.database, table.name)} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS; then resnapshot"
            " the table."
        )
        raise RowImageIncomplete(message, table=str(table), column=column, remedy=remedy)


class _Split(NamedTuple):
    data: Bytes
    places: Any
    sizes: Any
    kinds: Any
    columns: int

    def of(self, side: int, column: int) -> _SideCells:
        """side: 0 after the change, 1 before it."""
        if column < 0:
            count = self.kinds.shape[1]
            return _SideCells(
                self.data, np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint8)
            )
        at = side * self.columns + column
        return _SideCells(self.data, self.places[at], self.sizes[at], self.kinds[at])


class _SideCells(Cells):
    def without(self, rows: Mask) -> _SideCells:
        """In these rows absent."""
        return _SideCells(self.data, self.places, self.sizes, np.where(rows, np.uint8(ABSENT), self.kinds))

    def where(self, rows: Mask, other: Cells) -> _SideCells:
        """In these rows the other's."""
        pairs = ((getattr(other, name), getattr(self, name)) for name in ("places", "sizes", "kinds"))
        return _SideCells(self.data, *(np.where(rows, theirs, ours) for theirs, ours in pairs))


def _stamps(run: RedoRun, ordinals: Places, schema: TableSchema) -> list[pa.Array]:
    """The columns that every change has."""
    return [
        pa.array(ordinals),
        _OPERATIONS.take(pa.array(run.operations)),
        pa.array(run.commit_us).view(schema.change_arrow.field(COMMIT_TS).type),
        _by_difference(run.xids, xid_text),
        pa.array(run.scns).cast(pa.string()),
    ]


def _by_difference(numbers: Places, text: Any) -> pa.Array:
    found = pc.dictionary_encode(pa.array(numbers))
    return pa.array([text(number) for number in found.dictionary.to_pylist()], pa.string()).take(found.indices)


def xid_text(number: int) -> str:
    """XIDUSN.XIDSLT.XIDSQN of V$LOGMNR_CONTENTS.XID, whose bytes (little-endian parts) are this number's."""
    data = number.to_bytes(8, "little", signed=True)
    parts = (data[:2], data[2:4], data[4:])
    return ".".join(str(int.from_bytes(part, "little")) for part in parts)
