"""What a part of a batch makes of the rows: by the folds that all targets share, in files that are written again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableError, ValuesLost
from replicator.folding import history_and_soft_delete, keyless, unchanged_values
from replicator.folding.fold import Numbers, fold
from replicator.folding.kept_columns import carried
from replicator.folding.key_set import KeySet
from replicator.model.mode import CURRENT, DELETED, DELETED_AT, VALID_FROM, VALID_TO, Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.base import Counts, DeleteBelow
from replicator.targets.delta.live_files import LiveFiles, gathered
from replicator.targets.delta.table import OpenTable
from replicator.targets.parquet_files import shaped

TIME = pa.timestamp("us", tz="UTC")


def merge(files: LiveFiles, table: OpenTable, schema: TableSchema, changes: pa.Table, *, emptied: bool) -> Counts:
    """Of any mode but the changelog.  Raises ValuesUnknown, TableError."""
    if not schema.key:
        return _keyless(files, table, schema, changes)
    if schema.partial:
        changes = _filled(files, table, schema, changes, emptied=emptied)
    if table.mode is Mode.MIRROR:
        return _mirror(files, table, schema, changes)
    return _keep(files, table, schema, changes)


def _mirror(files: LiveFiles, table: OpenTable, schema: TableSchema, changes: pa.Table) -> Counts:
    folded = fold(changes, schema)
    kept = [name for name, _ in table.columns if name not in schema.names]
    present, older = np.zeros(len(folded.seq), np.bool_), np.zeros(len(folded.seq), np.bool_)
    gone: dict[str, list[Numbers]] = defaultdict(list)
    replaced = []
    for file, places, entries, rows in files.find(KeySet(folded.keys), [SEQUENCE, *schema.key, *kept]):
        going = rows.column(SEQUENCE).to_numpy() < folded.seq[entries]
        present[entries] = True
        older[entries[going]] = True
        if going.any():
            gone[file.path].append(places[going])
            replaced.append(rows.filter(pa.array(going)))
    staying = folded.stays.num_rows
    put = folded.stays.filter(pa.array(~present[:staying] | older[:staying]))
    if kept and replaced:
        put = carried(put, pa.concat_tables(replaced), schema, kept)
    files.rewrite(gathered(gone), [put])
    return Counts(
        int(np.count_nonzero(~present[:staying])),
        int(np.count_nonzero(older[:staying])),
        int(np.count_nonzero(older[staying:])),
    )


def _keep(files: LiveFiles, table: OpenTable, schema: TableSchema, changes: pa.Table) -> Counts:
    """Where rows that go are kept: those under the keys are read whole, and take part in the fold."""
    parts, where = [table.arrow.empty_table()], []
    keys = KeySet(history_and_soft_delete.touched(changes, schema))
    for file, places, _, rows in files.find(keys, table.arrow.names):
        parts.append(rows)
        where.append((file.path, places))
    held = pa.concat_tables(parts).combine_chunks()
    by_mode = history_and_soft_delete.versions if table.mode is Mode.HISTORY else history_and_soft_delete.soft_deleted
    kept = by_mode(changes, held, schema)
    put = pa.concat_tables([shaped(changes, table.arrow), held]).take(pa.array(kept.rows))
    for name, values in kept.own.items():
        place = put.schema.get_field_index(name)
        put = put.set_column(place, put.schema.field(place), values)
    more = [name for name, _ in table.columns if name not in schema.names]
    if more and table.mode is Mode.SOFT_DELETE and len(kept.gone):
        put = carried(put, held.take(pa.array(kept.gone)), schema, more)
    gone: dict[str, list[Numbers]] = defaultdict(list)
    going, first = np.sort(kept.gone), 0
    for path, places in where:
        mine = going[(going >= first) & (going < first + len(places))] - first
        if len(mine):
            gone[path].append(places[mine])
        first += len(places)
    files.rewrite(gathered(gone), [put])
    return Counts(kept.new, put.num_rows - kept.new, 0)


def _keyless(files: LiveFiles, table: OpenTable, schema: TableSchema, changes: pa.Table) -> Counts:
    multiset = keyless.fold(changes, schema)
    take, needed = keyless.RowsToTake(multiset), int(multiset.need.sum())
    gone: dict[str, list[Numbers]] = defaultdict(list)
    for file in files.files if needed else ():
        if not take.lacking:
            break
        for first, group in files.read(file, list(schema.names)):
            places = take.take(group)
            if len(places):
                gone[file.path].append(first + places)
    if lacking := take.lacking:
        message = f"{table.name} has diverged from its source: {lacking} of {needed} rows to delete were not found."
        raise table.unless_overtaken(TableError(message, table=str(schema.table)))
    files.rewrite(gathered(gone), [multiset.added])
    return Counts(multiset.added.num_rows, 0, needed)


def _filled(files: LiveFiles, table: OpenTable, schema: TableSchema, changes: pa.Table, *, emptied: bool) -> pa.Table:
    """With the values that UPDATEs left out."""

    def held(keys: pa.Table, names: list[str]) -> pa.Table:
        none = pa.schema([table.arrow.field(name) for name in names]).empty_table()
        found = [rows for _, _, _, rows in files.find(KeySet(keys), names)]
        return pa.concat_tables([none, *found]).combine_chunks()

    newest = table.mode is Mode.MIRROR
    return unchanged_values.completed(changes, schema, held, newest=newest, guess=emptied)


def values_lost(table: OpenTable, schema: TableSchema) -> Exception:
    """Return the error for values that even all parts together do not have."""
    message = (
        f"{table.name} has diverged from its source: changed rows have values that the source's log omitted as"
        " unchanged and that are missing in the target."
    )
    return table.unless_overtaken(ValuesLost(message, table=str(schema.table)))


def delete_below(files: LiveFiles, below: int) -> Counts:
    """Rows of a mirror with a smaller number go."""
    gone: dict[str, list[Numbers]] = defaultdict(list)
    for file in files.files:
        if file.rows > 0 and file.high.get(SEQUENCE, below) < below:
            gone[file.path].append(np.arange(file.rows))
        elif file.low.get(SEQUENCE, -1) < below:
            for first, group in files.read(file, [SEQUENCE]):
                places = np.flatnonzero(group.column(SEQUENCE).to_numpy() < below)
                if len(places):
                    gone[file.path].append(first + places)
    files.rewrite(gathered(gone), [])
    return Counts(deleted=sum(len(rows) for parts in gone.values() for rows in parts))


def end_below(files: LiveFiles, table: OpenTable, change: DeleteBelow) -> Counts:
    """Rows below the number end, and stay."""
    at = pa.scalar((change.at or datetime.now(UTC)).astimezone(UTC), TIME)
    flag = DELETED if table.mode is Mode.SOFT_DELETE else CURRENT
    count = 0
    for file in files.files:
        if file.low.get(SEQUENCE, -1) >= change.below:
            continue
        ending = sum(
            int(pc.sum(_ending(group, change.below, table.mode)).as_py() or 0)
            for _, group in files.read(file, [SEQUENCE, flag])
        )
        if ending:
            count += ending
            files.replace(
                file, (_ended(group, change.below, at, table.mode) for _, group in files.read(file, table.arrow.names))
            )
    return Counts(updated=count)


def _ending(rows: pa.Table, below: int, mode: Mode) -> pa.ChunkedArray:
    there = pc.invert(rows.column(DELETED)) if mode is Mode.SOFT_DELETE else rows.column(CURRENT)
    return pc.and_(pc.less(rows.column(SEQUENCE), below), there)


def _ended(rows: pa.Table, below: int, at: pa.Scalar, mode: Mode) -> pa.Table:
    ending = _ending(rows, below, mode)
    if mode is Mode.SOFT_DELETE:
        own: Mapping[str, object] = {DELETED: pa.scalar(True), DELETED_AT: at}  # noqa: FBT003
    else:
        own = {
            VALID_TO: pc.if_else(pc.greater(rows.column(VALID_FROM), at), rows.column(VALID_FROM), at),
            CURRENT: pa.scalar(False),  # noqa: FBT003
        }
    for name, value in own.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pc.if_else(ending, value, rows.column(name)))
    return rows
