"""Row messages of one relation, gathered as they come and turned into a change batch all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import LogCorrupt
from replicator.model.change import Operation
from replicator.model.schema import COMMIT_TS, TableSchema
from replicator.sources.postgres.attributes import Attribute
from replicator.sources.postgres.change_kernel import locate
from replicator.sources.postgres.tuples import Cells, split_tuples
from replicator.sources.postgres.values import ColumnConverter

Places = npt.NDArray[np.int64]
_OPERATIONS = pa.array([Operation.INSERT.value, Operation.UPDATE.value, Operation.DELETE.value])
_CODES = np.zeros(256, np.int64)
_CODES[[ord("I"), ord("U"), ord("D")]] = range(3)
_UNCHANGED = ord("u")


@dataclass(frozen=True)
class Layout:
    """A relation's tuples: how many columns they have, and at which place the columns of `schema` stand.

    `attributes` are those of `schema.columns`.
    """

    schema: TableSchema
    attributes: tuple[Attribute, ...]
    places: tuple[int, ...]
    width: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """Whose rows these are: `_txn_id`, commit time in microseconds since 1970, `_offset`."""

    xid: str
    commit_us: int
    offset: str


class TableRows:
    """Memory is that of the messages themselves until `take`."""

    def __init__(self, layout: Layout, zero_dates: str) -> None:
        """`zero_dates`: the policy for dates that the target does not have; a key column has no policy."""
        self.layout = layout
        schema = layout.schema
        self._converters = [
            ColumnConverter(column, attribute, schema.table, zero_dates)
            for column, attribute in zip(schema.columns, layout.attributes, strict=True)
        ]
        self._keys = [name in schema.key for name in schema.names]
        self.zero_dates = 0
        self._clear()

    def _clear(self) -> None:
        self._parts: list[bytes] = []
        self._ordinals: list[int] = []
        self._owners: list[tuple[int, Transaction]] = []
        self.bytes = 0

    @property
    def rows(self) -> int:
        return len(self._parts)

    def add(self, message: bytes, ordinal: int, transaction: Transaction) -> None:
        """An `I`, `U` or `D` message."""
        if not self._owners or self._owners[-1][1] is not transaction:
            self._owners.append((len(self._parts), transaction))
        self._parts.append(message)
        self._ordinals.append(ordinal)
        self.bytes += len(message)

    def forget(self) -> None:
        """Rows of a table that failed."""
        self._clear()

    def take(self) -> pa.RecordBatch:
        """All rows with the schema's `change_arrow`; the gathering starts anew.  LogCorrupt, TableError."""
        parts, ordinals, owners = self._parts, self._ordinals, self._owners
        self.zero_dates = 0
        self._clear()
        data = np.frombuffer(bytearray().join(parts), np.uint8)
        bounds = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=bounds[1:])
        image = _Image(data, bounds, self.layout)
        schema = self.layout.schema
        arrays = [
            pa.array(np.array(ordinals, np.int64)),
            _OPERATIONS.take(pa.array(_CODES[data[bounds[:-1]]])),
            *_stamps(owners, len(parts), schema),
        ]
        row: list[pa.Array] = []
        before: list[pa.Array] = []
        missing: list[npt.NDArray[np.bool_]] = []
        for key, place, converter in zip(self._keys, self.layout.places, self._converters, strict=True):
            values = self._values(image, place, converter)
            chosen = image.row_places(place, key=key, keyless=not schema.key)
            row.append(values.take(_indices(chosen)))
            before.append(values.take(_indices(image.before_places(key=key))))
            missing.append(image.left_out(place) & (chosen < 0))
        arrays += row + before
        if schema.partial:
            arrays.append(_unchanged(missing))
        elif np.any(missing):
            raise LogCorrupt(f"A change of {schema.table} in the source's log lacks values of its old row.")
        return pa.RecordBatch.from_arrays(arrays, schema=schema.change_arrow)

    def _values(self, image: _Image, place: int, converter: ColumnConverter) -> pa.Array:
        """Those of the new tuples, then those of the old ones."""
        new = converter.convert(image.new[place])
        if converter.bad is not None:
            self.zero_dates += int(pc.sum(converter.bad).as_py() or 0)
        return pa.concat_arrays([new, converter.convert(image.old[place])])


class _Image:
    """Where each message's values are: 0… in the new tuples, then in the old ones, -1 nowhere."""

    def __init__(self, data: npt.NDArray[np.uint8], bounds: Places, layout: Layout) -> None:
        count = len(bounds) - 1
        old_at, new_at, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8)
        if locate(data, bounds, old_at, new_at, kinds) >= 0:
            raise LogCorrupt(f"A change of {layout.schema.table} in the source's log is malformed.")
        has_new, has_old = new_at >= 0, old_at >= 0
        self.new: list[Cells] = split_tuples(data, new_at[has_new], layout.width)
        self.old: list[Cells] = split_tuples(data, old_at[has_old], layout.width)
        self._updated = data[bounds[:-1]] == ord("U")
        self._new = np.where(has_new, np.cumsum(has_new) - 1, -1)
        self._old = np.where(has_old, np.cumsum(has_old) - 1 + int(has_new.sum()), -1)
        self._old_whole = np.where(kinds == ord("O"), self._old, -1)

    def old_places(self, *, key: bool) -> Places:
        """Of a K tuple only the key's columns are values."""
        return self._old if key else self._old_whole

    def left_out(self, place: int) -> npt.NDArray[np.bool_]:
        """Messages whose new tuple says that the column kept its value."""
        kinds = np.append(self.new[place].kind, 0)  # -1: no new tuple
        return np.asarray(kinds[self._new] == _UNCHANGED)

    def row_places(self, place: int, *, key: bool, keyless: bool) -> Places:
        """A value that was left out is the old tuple's; of a DELETE the key's columns, all where there is no key."""
        old = self.old_places(key=key)
        gone = old if key or keyless else np.full_like(old, -1)
        return np.where(self._new < 0, gone, np.where(self.left_out(place), old, self._new))

    def before_places(self, *, key: bool) -> Places:
        """An UPDATE without an old tuple has kept its key."""
        old = self.old_places(key=key)
        return np.where(self._updated & (old < 0), self._new, old) if key else old


def _unchanged(missing: list[npt.NDArray[np.bool_]]) -> pa.Array:
    """`_unchanged`: of each row the numbers of the columns that are missing; null where none is."""
    table = np.array(missing).T
    counts = table.sum(axis=1)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    places = pa.array(np.nonzero(table)[1].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), places, mask=pa.array(counts == 0))


def _indices(places: Places) -> pa.Array:
    return pa.array(places, mask=places < 0)


def _stamps(owners: Sequence[tuple[int, Transaction]], rows: int, schema: TableSchema) -> list[pa.Array]:
    """`_commit_ts`, `_txn_id`, `_offset`."""
    starts = np.array([start for start, _ in owners] + [rows])
    expand = pa.array(np.repeat(np.arange(len(owners)), np.diff(starts)))
    kind = schema.change_arrow.field(COMMIT_TS).type
    times = pa.array([one.commit_us for _, one in owners], pa.int64()).view(kind)
    columns = [times, pa.array([one.xid for _, one in owners]), pa.array([one.offset for _, one in owners])]
    return [column.take(expand) for column in columns]
