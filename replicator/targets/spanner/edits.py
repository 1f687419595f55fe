"""What a stretch of changes comes to: rows to put and keys to delete, by the folds that all targets share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from google.cloud.spanner_v1 import Mutation, Type, TypeCode
from google.cloud.spanner_v1.types import KeySet
from google.protobuf.struct_pb2 import ListValue, Value

from replicator.errors import TableError
from replicator.folding import keyless
from replicator.folding.fold import NO_KEY, fold, numbered
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.model.types import Kind
from replicator.targets.base import Counts, TargetTable
from replicator.targets.parquet_files import shaped
from replicator.targets.spanner.connection import SpannerSession, behind, delete, key_set, prefixes, put
from replicator.targets.spanner.names import ALIAS, api_name, column_name, fits, quoted, type_of
from replicator.targets.spanner.values import CODES, check_values, encoded
from replicator.targets.warehouse.folds import RowsHeld, filled, versions
from replicator.targets.warehouse.position import OpenTable

KEYS_READ = 2000  # at a time
ROWS_SOUGHT = 1000  # different rows without key that one query looks for
PAGE_BYTES = 8 * 1024 * 1024
FIRST_PAGE, MAX_PAGE = 100, 5000  # rows
MAX_SOUGHT_BYTES = 256 * 1024  # of a column's values in such a query


@dataclass(frozen=True)
class Edits:
    """gone: primary keys; they go first.  put: all with the same columns."""

    gone: pa.Table
    put: pa.Table
    counts: Counts

    @property
    def mutations(self) -> int:
        """As Spanner counts them, without indexes."""
        return int(self.gone.num_rows + self.put.num_rows * self.put.num_columns)

    @property
    def nbytes(self) -> int:
        return int(self.gone.nbytes + self.put.nbytes)

    def made(self, table: TargetTable) -> list[Mutation]:
        """Raises ValueDoesNotFit."""
        return [*deleted(table, self.gone), *stored(table, self.put)]


def stored(table: TargetTable, rows: pa.Table) -> list[Mutation]:
    """Rows that are put.  Raises ValueDoesNotFit."""
    if not rows.num_rows:
        return []
    check_values(rows, str(table))
    return [put(api_name(table), [column_name(name) for name in rows.column_names], encoded(rows))]


def deleted(table: TargetTable, keys: pa.Table) -> list[Mutation]:
    """Rows that go, by their primary keys."""
    return [delete(api_name(table), key_set(encoded(keys)))] if keys.num_rows else []


def edits(session: SpannerSession, table: OpenTable, schema: TableSchema, changes: pa.Table, *, emptied: bool) -> Edits:
    """Of any mode but the changelog.  Raises ValuesUnknown, TableError."""
    if not schema.key:
        return _multiset(session, table, schema, changes)
    held = _Held(table, schema, session)
    changes = filled(held, changes, emptied=emptied)
    if table.mode is Mode.MIRROR:
        return _newest(held, changes)
    rows, replaced, new = versions(held, changes)
    key = [*schema.key, *[SEQUENCE] * (table.mode is Mode.HISTORY)]
    return Edits(replaced.select(key), rows, Counts(new, rows.num_rows - new))


@dataclass(frozen=True)
class _Held(RowsHeld):
    session: SpannerSession

    def _found(self, keys: pa.Table, fields: pa.Schema) -> pa.Table:
        place, names = api_name(self.table.name), [column_name(name) for name in fields.names]
        by_prefix = self.table.mode is Mode.HISTORY
        rows = encoded(keys.select(list(self.schema.key)))
        return pa.concat_tables(
            self.session.read(place, names, _keys(rows[start : start + KEYS_READ], by_prefix=by_prefix), fields)
            for start in range(0, len(rows), KEYS_READ)
        )


def _keys(rows: Sequence[ListValue], *, by_prefix: bool) -> KeySet:
    return prefixes(rows) if by_prefix else key_set(rows)


def _newest(held: _Held, changes: pa.Table) -> Edits:
    """A mirror: the newest change of each key, where the target's row is not newer.

    Columns that the source no longer has are not named: the row keeps their values.
    """
    schema, key = held.schema, list(held.schema.key)
    folded = fold(changes, schema)
    there = held.held(folded.keys, [*key, SEQUENCE])
    asked, known = numbered([folded.keys, there.select(key)])
    newest = np.full(int(max(asked.max(initial=0), known.max(initial=0))) + 2, NO_KEY, np.int64)
    newest[known] = there.column(SEQUENCE).to_numpy()
    found = newest[asked]  # of each key: the number of the target's row, or NO_KEY
    staying = folded.stays.num_rows
    fresh = folded.seq > found
    going = fresh[staying:] & (found[staying:] != NO_KEY)
    names = [*schema.names, SEQUENCE]
    rows = shaped(folded.stays, pa.schema([held.table.arrow.field(name) for name in names]))
    updated = int((fresh[:staying] & (found[:staying] != NO_KEY)).sum())
    rows, gone = rows.filter(pa.array(fresh[:staying])), folded.keys.slice(staying).filter(pa.array(going))
    return Edits(gone, rows, Counts(rows.num_rows - updated, updated, gone.num_rows))


def _multiset(session: SpannerSession, table: OpenTable, schema: TableSchema, changes: pa.Table) -> Edits:
    """Without key: as many equal rows go as are to go."""
    multiset = keyless.fold(changes, schema)
    gone = [
        _found_equal(session, table, keyless.Multiset(
            multiset.added, multiset.removed.slice(start, ROWS_SOUGHT), multiset.need[start : start + ROWS_SOUGHT]
        ), schema)
        for start in range(0, multiset.removed.num_rows, ROWS_SOUGHT)
    ]  # fmt: skip
    needed = int(multiset.need.sum())
    keys = pa.table({SEQUENCE: pa.concat_arrays(gone) if gone else pa.array([], pa.int64())})
    if lacking := needed - keys.num_rows:
        message = f"{table.name} has diverged from its source: {lacking} of {needed} rows to delete were not found."
        raise TableError(message, table=str(schema.table))
    return Edits(keys, multiset.added, Counts(multiset.added.num_rows, 0, needed))


def _found_equal(session: SpannerSession, table: OpenTable, wanted: keyless.Multiset, schema: TableSchema) -> pa.Array:
    """Numbers of the target's rows that are to go: those that may be equal are read, and compared here."""
    names = [*schema.names, SEQUENCE]
    conditions, params = ["TRUE"], dict[str, tuple[Value, Type]]()
    for number, name in enumerate(schema.names):
        values = wanted.removed.column(name).combine_chunks().unique()
        if pa.types.is_floating(values.type) or values.nbytes > MAX_SOUGHT_BYTES:
            continue
        known = values.drop_null()
        of_value = type_of(values.type)
        code = CODES[of_value.kind if fits(of_value) else Kind.STRING]
        kind = Type(code=TypeCode.ARRAY, array_element_type=Type(code=code))
        listed = [row.values[0] for row in encoded(pa.table({name: known}))]
        params[f"p{number}"] = (Value(list_value=ListValue(values=listed)), kind)
        condition = f"{quoted(name)} IN UNNEST(@p{number})"
        conditions.append(f"({condition} OR {quoted(name)} IS NULL)" if values.null_count else condition)
    listed_names = ", ".join(map(quoted, names))
    fields = pa.schema([table.arrow.field(name) for name in names])
    place = f"`{table.name.namespace}`.`{table.name.name}`"
    found = session.select(
        f"SELECT {listed_names} FROM {place} AS {ALIAS} WHERE {' AND '.join(conditions)}", params, fields
    )
    places = keyless.RowsToTake(wanted).take(found)
    return found.column(SEQUENCE).take(pa.array(places, pa.int64())).combine_chunks()


def pages(session: SpannerSession, table: TargetTable, key: Sequence[str], fields: pa.Schema) -> Iterator[pa.Table]:
    """Yield all rows of a table that does not change meanwhile, in the order of its key.

    key: Spanner's names, all among those of the fields.
    """
    names = [column_name(name) for name in fields.names]
    places = [names.index(name) for name in key]
    last, most = None, FIRST_PAGE
    while True:
        page = session.read(api_name(table), names, behind(last), fields, most)
        if page.num_rows:
            yield page
        if page.num_rows < most:
            return
        (last,) = encoded(page.slice(page.num_rows - 1).select(places))
        most = max(min(PAGE_BYTES * page.num_rows // max(page.nbytes, 1), MAX_PAGE), 1)
