"""Row messages of one relation, gathered as they come and turned into a change batch all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import LogCorrupt, TableError
from replicator.model.change import Operation, UndecodableRow
from replicator.model.schema import COMMIT_TS, TableSchema
from replicator.sources.postgres.catalog.attributes import Attribute
from replicator.sources.postgres.charset import Charset
from replicator.sources.postgres.rows.binary_columns import picked
from replicator.sources.postgres.rows.change_kernel import locate
from replicator.sources.postgres.rows.columns import ColumnConverter
from replicator.sources.postgres.rows.tuple_kernel import gather
from replicator.sources.postgres.rows.tuples import UNCHANGED, Bytes, Cells, Places, find_values
from replicator.sources.postgres.wire.frame_kernel import RECORD, TIME, XID
from replicator.sources.postgres.wire.lsn_kernel import MAX_LSN_LENGTH, write_lsns
from replicator.sources.shared.unchanged_places import unchanged_places
from replicator.sources.shared.undecodable_rows import bisect_undecodable, undecodable_row

Mask = npt.NDArray[np.bool_]
_OPERATIONS = pa.array([Operation.INSERT.value, Operation.UPDATE.value, Operation.DELETE.value])
_CODES = np.zeros(256, np.int64)
_CODES[[ord("I"), ord("U"), ord("D")]] = range(3)
_UPDATE = 1
_NO_BYTES = np.empty(0, np.uint8)
_KEPT_BYTES = 1 << 24  # of the memory that stays for the next rows


@dataclass(frozen=True)
class TupleLayout:
    """A relation's tuples: how many columns they have, and at which place the columns of `schema` stand.

    `attributes` are those of `schema.columns`.
    """

    schema: TableSchema
    attributes: tuple[Attribute, ...]
    places: tuple[int, ...]
    width: int


class CommittedTransaction(NamedTuple):
    """Whose rows these are: its number, commit time in microseconds since 1970, and the place of its commit record."""

    xid: int
    commit_us: int
    record: int


class _Group(NamedTuple):
    """Messages in their order: how long they are, their ordinals; where those of each transaction start, and the
    transactions.
    """

    lengths: Places
    ordinals: Places
    starts: Places
    xids: Places
    times: Places
    records: Places

    def at(self, places: Places) -> _Group:
        """Some messages of `_each`."""
        starts = np.arange(len(places))
        return _Group(
            self.lengths[places],
            self.ordinals[places],
            starts,
            self.xids[places],
            self.times[places],
            self.records[places],
        )


class TableRows:
    """Memory is that of the messages themselves until `take`."""

    def __init__(
        self, layout: TupleLayout, zero_dates: str, *, keep_undecodable: bool = False, charset: Charset | None = None
    ) -> None:
        """`zero_dates`: the policy for dates that the target does not have; a key column has no policy.
        keep_undecodable: see `ReadOptions`.

        `charset`: of texts that do not come in UTF-8.
        """
        self.layout = layout
        schema = layout.schema
        self._converters = [
            ColumnConverter(column, attribute, schema.table, zero_dates, charset)
            for column, attribute in zip(schema.columns, layout.attributes, strict=True)
        ]
        self._keys = [name in schema.key for name in schema.names]
        self.zero_dates = 0  # of the last `take`, as is `undecodable`
        self.undecodable: list[UndecodableRow] = []
        self._keep_undecodable = keep_undecodable
        self._room = _NO_BYTES
        self._clear()

    def _clear(self) -> None:
        self._groups: list[_Group] = []
        self._parts: list[bytes] = []
        self._ordinals: list[int] = []
        self._owners: list[tuple[int, CommittedTransaction]] = []
        self._used = self.rows = 0

    def add(self, message: bytes, ordinal: int, transaction: CommittedTransaction) -> None:
        """An `I`, `U` or `D` message."""
        if not self._owners or self._owners[-1][1] is not transaction:
            self._owners.append((len(self._parts), transaction))
        self._parts.append(message)
        self._ordinals.append(ordinal)
        self.rows += 1

    def add_run(
        self, data: Bytes, begins: Places, ends: Places, ordinals: Places, owners: Places, transactions: Places
    ) -> None:
        """Such messages in data[begins:ends], each with the number of its transaction, which has a row in
        `transactions`.
        """
        self._gather_parts()
        lengths = ends - begins
        offsets = np.full(len(lengths) + 1, self._used)
        np.cumsum(lengths, out=offsets[1:])
        offsets[1:] += self._used
        self._make_room(int(offsets[-1]))
        gather(data, begins, lengths, offsets, self._room)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        whose = transactions[owners[starts]]
        self._groups.append(_Group(lengths, ordinals, starts, whose[:, XID], whose[:, TIME], whose[:, RECORD]))
        self._used = int(offsets[-1])
        self.rows += len(lengths)

    def _gather_parts(self) -> None:
        """What was added one by one."""
        if not self._parts:
            return
        data = np.frombuffer(bytearray().join(self._parts), np.uint8)
        whose = [one for _, one in self._owners]
        columns = (
            [len(part) for part in self._parts],
            self._ordinals,
            [start for start, _ in self._owners],
            *zip(*whose, strict=True),
        )
        self._groups.append(_Group(*(np.array(column, np.int64) for column in columns)))
        self._parts, self._ordinals, self._owners = [], [], []
        if self._used:
            self._make_room(self._used + len(data))
            self._room[self._used : self._used + len(data)] = data
        else:
            self._room = data
        self._used += len(data)

    def _make_room(self, needed: int) -> None:
        if needed > len(self._room):
            room = np.empty(max(needed, 2 * len(self._room)), np.uint8)
            room[: self._used] = self._room[: self._used]
            self._room = room

    def forget(self) -> None:
        """Rows of a table that failed."""
        self._clear()

    def take(self) -> pa.RecordBatch:
        """All rows with the schema's `change_arrow`; the gathering starts again.

        A row that cannot be decoded is in `undecodable` instead, or raises TableError.  LogCorrupt.
        """
        self._gather_parts()
        groups, room, used = self._groups, self._room, self._used
        self._room = _NO_BYTES
        self.zero_dates, self.undecodable = 0, []
        self._clear()
        image = _Image(room[:used], np.concatenate([group.lengths for group in groups]), self.layout)
        try:
            batch = self._batch(groups, image)
        except TableError:
            if not self._keep_undecodable:
                raise
            return self._without_bad(room[:used], _each(groups))
        if image.is_copied and len(room) <= _KEPT_BYTES:
            self._room = room
        return batch

    def _without_bad(self, data: Bytes, all_rows: _Group) -> pa.RecordBatch:
        bounds, zero_dates = np.cumsum([0, *all_rows.lengths]), 0

        def convert(places: Places) -> pa.RecordBatch:
            nonlocal zero_dates
            self.zero_dates = 0
            messages = np.concatenate([data[bounds[place] : bounds[place + 1]] for place in places.tolist()])
            rows = all_rows.at(places)
            batch = self._batch([rows], _Image(messages, rows.lengths, self.layout))
            zero_dates += self.zero_dates
            return batch

        schema = self.layout.schema.change_arrow
        found = bisect_undecodable(len(all_rows.lengths), convert, schema)
        for place, error in found.bad:
            message = data[bounds[place] : bounds[place + 1]]
            stamps = [
                pa.array(all_rows.ordinals[[place]]),
                _OPERATIONS.take(pa.array(_CODES[message[:1]])),
                *_stamps([all_rows.at(np.array([place]))], self.layout.schema),
            ]
            one = all_rows.at(np.array([place]))
            self.undecodable.append(undecodable_row(stamps, error, message, partial(self._keys_of, message, one)))
        self.zero_dates = zero_dates
        return found.batch

    def _keys_of(self, message: Bytes, row: _Group) -> list[dict[str, Any]]:
        """Of a single row, before and after its change.  TableError."""
        image = _Image(message, row.lengths, self.layout)
        found: list[dict[str, Any]] = [{}, {}]
        columns = zip(self.layout.schema.names, self._keys, self.layout.places, self._converters, strict=True)
        for name, key, place, converter in columns:
            if key:
                values = self._values(image, place, converter, key=True)
                for one, tuples in zip(found, (image.before(key=True), image.row(place, key=True)[0]), strict=True):
                    if tuples is not None:
                        one[name] = image.taken(values, tuples)[0].as_py()
        return [one for one in found if one]

    def _batch(self, groups: Sequence[_Group], image: _Image) -> pa.RecordBatch:
        schema = self.layout.schema
        row: list[pa.Array] = []
        before: list[pa.Array] = []
        missing: list[Mask | None] = []
        for key, place, converter in zip(self._keys, self.layout.places, self._converters, strict=True):
            after, lacks = image.row(place, key=key)
            old = image.before(key=key)
            wanted = [after] if old is None else [after, old]
            found = converter.rows(image.columns[place], wanted) if image.is_copied else None
            if found is None:
                values = self._values(image, place, converter, key=key)
                found = [image.taken(values, tuples) for tuples in wanted]
            row.append(found[0])
            before.append(found[1] if len(found) > 1 else pa.nulls(image.count, found[0].type))
            missing.append(lacks)
        arrays = [
            pa.array(np.concatenate([group.ordinals for group in groups])),
            picked(_OPERATIONS, image.operations),
            *_stamps(groups, schema),
            *row,
            *before,
        ]
        if schema.partial:
            arrays.append(unchanged_places(missing, image.count))
        elif any(one is not None and one.any() for one in missing):
            raise LogCorrupt(f"A change of {schema.table} in the source's log lacks values of its old row.")
        return pa.RecordBatch.from_arrays(arrays, schema=schema.change_arrow)

    def _values(self, image: _Image, place: int, converter: ColumnConverter, *, key: bool) -> pa.Array:
        """Those of the new tuples, then those of the old ones, as far as they are values."""
        new = converter.convert(image.new(place))
        if converter.bad is not None:
            self.zero_dates += int(pc.sum(converter.bad).as_py() or 0)
        if not image.has_old(key=key):
            return new
        return pa.concat_arrays([new, converter.convert(image.old(place))])


class _Image:
    """Where each message's values are: 0… in the new tuples, then in the old ones, -1 nowhere."""

    def __init__(self, data: Bytes, lengths: Places, layout: TupleLayout) -> None:
        count = self.count = len(lengths)
        bounds = np.zeros(count + 1, np.int64)
        np.cumsum(lengths, out=bounds[1:])
        old_at, new_at, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8)
        if locate(data, bounds, old_at, new_at, kinds) >= 0:
            raise LogCorrupt(f"A change of {layout.schema.table} in the source's log is malformed.")
        has_new, has_old = new_at >= 0, old_at >= 0
        self.columns = find_values(data, np.concatenate([new_at[has_new], old_at[has_old]]), layout.width)
        self.operations = _CODES[data[bounds[:-1]]]
        olds = int(has_old.sum())
        news = self._news = int(has_new.sum())
        self.is_copied = 1 not in (olds, news)  # a single value stays where it is
        self._only_new = news == count
        self._inserts = self._only_new and not self.operations.any()
        self._new = np.where(has_new, np.cumsum(has_new) - 1, -1)
        self._old = np.where(has_old, np.cumsum(has_old) - 1 + news, -1)
        whole = kinds == ord("O")
        self._old_whole = np.where(whole, self._old, -1)
        self._has_old, self._has_whole = olds > 0, bool(whole.any())
        self._keyless = not layout.schema.key
        self._rows: dict[bool, Places] = {}  # the same for all columns but those of which values were left out
        self._befores: dict[bool, Places] = {}

    def new(self, place: int) -> Cells:
        """A column of the new tuples."""
        return self.columns[place].part(slice(self._news)).cells()

    def old(self, place: int) -> Cells:
        """A column of the old ones."""
        return self.columns[place].part(slice(self._news, None)).cells()

    def has_old(self, *, key: bool) -> bool:
        """Are there old tuples with values of such columns?  Of a K tuple only the key's columns are."""
        return self._has_old if key else self._has_whole

    def row(self, place: int, *, key: bool) -> tuple[Places, Mask | None]:
        """Return the tuples with the column's value after each change, and where it is missing; None: nowhere.

        A value that was left out is taken from the old tuple.  Of a DELETE the key's columns are there; all of them if
        the table has no key.
        """
        kinds = self.columns[place].kinds[: self._news]
        if (kinds == UNCHANGED).any():
            left_out = np.append(kinds, 0)[self._new] == UNCHANGED  # -1: no new tuple
            old = self._old_places(key=key)
            chosen = np.where(self._new < 0, self._gone(key=key), np.where(left_out, old, self._new))
            return chosen, left_out & (chosen < 0)
        if self._only_new:
            return self._new, None
        if key not in self._rows:
            self._rows[key] = np.where(self._new < 0, self._gone(key=key), self._new)
        return self._rows[key], None

    def before(self, *, key: bool) -> Places | None:
        """Those whose values it has before each change; None: it has none.

        An UPDATE without an old tuple has kept its key.
        """
        if self._inserts or not (key or self._has_whole):
            return None
        if key not in self._befores:
            old = self._old_places(key=key)
            self._befores[key] = np.where((self.operations == _UPDATE) & (old < 0), self._new, old) if key else old
        return self._befores[key]

    def taken(self, values: pa.Array, tuples: Places) -> pa.Array:
        """Those of these tuples, which `row` or `before` has given."""
        if self._only_new and tuples is self._new:
            return values if len(values) == self.count else values[: self.count]
        return values.take(pa.array(tuples, mask=tuples < 0))

    def _old_places(self, *, key: bool) -> Places:
        return self._old if key else self._old_whole

    def _gone(self, *, key: bool) -> Places:
        """Of a DELETE."""
        return self._old_places(key=key) if key or self._keyless else np.full_like(self._old, -1)


def _each(groups: Sequence[_Group]) -> _Group:
    """Merge groups into one, in which each message has its own transaction."""
    lengths = np.concatenate([group.lengths for group in groups])
    sizes = [np.diff([*group.starts, len(group.lengths)]) for group in groups]
    whose = [
        np.concatenate([np.repeat(getattr(group, name), size) for group, size in zip(groups, sizes, strict=True)])
        for name in ("xids", "times", "records")
    ]
    return _Group(lengths, np.concatenate([group.ordinals for group in groups]), np.arange(len(lengths)), *whose)


def _stamps(groups: Sequence[_Group], schema: TableSchema) -> list[pa.Array]:
    """`_commit_ts`, `_txn_id`, `_offset`."""
    before = np.cumsum([0, *(len(group.lengths) for group in groups)])
    starts = [group.starts + base for group, base in zip(groups, before, strict=False)]
    sizes = np.diff(np.concatenate([*starts, before[-1:]]))
    whose = np.repeat(np.arange(len(sizes)), sizes)
    times = np.concatenate([group.times for group in groups])
    return [
        pa.array(times[whose]).view(schema.change_arrow.field(COMMIT_TS).type),
        picked(pa.array(np.concatenate([group.xids for group in groups])).cast(pa.string()), whose),
        picked(_lsn_texts(np.concatenate([group.records for group in groups])), whose),
    ]


def _lsn_texts(lsns: Places) -> pa.Array:
    offsets, out = np.empty(len(lsns) + 1, np.int32), np.empty(MAX_LSN_LENGTH * len(lsns), np.uint8)
    write_lsns(lsns, offsets, out)
    return pa.Array.from_buffers(pa.string(), len(lsns), [None, pa.py_buffer(offsets), pa.py_buffer(out)])
