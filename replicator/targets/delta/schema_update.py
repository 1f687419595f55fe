"""Create, evolve and rename tables: each is visible by one commit."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from deltalake import Field, TableFeatures
from deltalake.schema import PrimitiveType

from replicator.errors import TargetConflict, TargetError, UnsupportedDdl
from replicator.model.evolution import EvolutionPlan, overwritten_columns, plan_evolution
from replicator.model.mode import Mode
from replicator.model.retention import Retention
from replicator.model.schema import SEQUENCE, Column, TableSchema
from replicator.model.types import DataType, Kind
from replicator.targets.base import Create, Evolve, Position, Rename, TargetTable
from replicator.targets.delta import dropped_tables
from replicator.targets.delta.destination import DeltaStore
from replicator.targets.delta.failures import explained
from replicator.targets.delta.live_files import LiveFiles
from replicator.targets.delta.names import delta_type
from replicator.targets.delta.table import OWNER, OpenTable, file_system
from replicator.targets.delta.table import create as create_log

KEPT = "tidemark.kept."  # a column's name follows: 1 where the source no longer has it


def configuration(replicator: str, retention: Retention) -> dict[str, str]:
    """Of a new table."""
    return {OWNER: replicator, "delta.checkpointInterval": "10", **retention_properties(retention)}


def retention_properties(retention: Retention) -> dict[str, str]:
    """What other programs go by, too: versions can be read for so long, and then their files may go."""
    kept = f"interval {retention_hours(retention)} hours"
    return {"delta.logRetentionDuration": kept, "delta.deletedFileRetentionDuration": kept}


def retention_hours(retention: Retention) -> int:
    """Delta Lake has one clock and cannot thin: all versions of the first step's time and of the grace stay."""
    return math.ceil((retention.steps[0].age + retention.grace) / 3600)


def create(
    store: DeltaStore,
    name: TargetTable,
    older: OpenTable | None,
    change: Create,
    replicator: str,
    retention: Retention,
) -> None:
    """In place of `older` (one of this replicator, or one that was dropped), in the same log: a reader meets the old
    rows or the new table, and the older versions stay readable.
    """
    change.mode.check(change.schema)
    _check_names(change.schema)
    arrow = _arrow([(one.name, one.type) for one in change.schema.columns], change.mode)
    at = Position(change.applied, -1, change.version, change.load, change.mode)
    if older is None:
        create_log(store, name, arrow, at, configuration(replicator, retention))
        return
    if older.number(dropped_tables.PURGED):
        raise TargetError(f"{name} was dropped and is being deleted.", remedy="Retried automatically.", table=str(name))
    _take_over(older, {OWNER: replicator})
    _require_feature(older, arrow)
    older.overwrite(at, arrow, numbers=dict.fromkeys((KEPT + one for one in _kept(older)), 0))


def evolve(table: OpenTable, change: Evolve, stop: threading.Event) -> bool:
    """Make the columns those of `change.schema` in one commit with the version; False where they are already.

    Versions only grow: a stale worker that comes with an older one changes nothing.  Delta Lake without column mapping
    finds columns by their names: new ones are added by the log alone, everything else writes the files again.
    """
    if table.position.schema_version >= change.version:
        return False
    table.mode.check(change.schema)
    _check_names(change.schema)
    kept = _kept(table)
    old = TableSchema(change.schema.table, tuple(Column(name, kind, True, "") for name, kind in table.columns))  # noqa: FBT003
    overwritten = overwritten_columns(old, kept, change.schema, change.renamed)
    old = replace(old, columns=tuple(one for one in old.columns if one.name not in kept | overwritten))
    plan = plan_evolution(old, change.schema, change.renamed)
    after = (kept - set(change.schema.names)) | (set(plan.dropped) if change.keep_dropped else set())
    numbers = {KEPT + name: int(name in after) for name in kept ^ after}
    at = replace(table.position, schema_version=change.version)
    if overwritten or plan.renamed or plan.widened or plan.replaced or set(plan.dropped) - after:
        _rewrite(table, change.schema, plan, sorted(after), at, numbers, stop)
    elif plan.added:
        fields = [Field(one.name, PrimitiveType(delta_type(one.type))) for one in plan.added]
        table.alter(
            lambda properties: table.delta.alter.add_columns(fields, commit_properties=properties), at, numbers
        )  # fmt: skip
    else:
        table.commit(at, numbers=numbers)
    return True


def rename(store: DeltaStore, table: OpenTable | None, change: Rename, replicator: str, retention: Retention) -> bool:
    """No store renames folders at once: the files are copied, the new table is there by one commit, and the old one is
    dropped.  False where it is done already (or there is nothing to rename).
    """
    if table is None or table.name == change.new:
        return False
    new = OpenTable.load(store, change.new)
    if new is not None and not new.dropped:
        begun = new.configuration.get(OWNER) == replicator and new.position.load == table.position.load
        if not begun or new.position.applied < table.position.applied:
            message = f"{table.name} cannot be renamed: {change.new} still exists in the target."
            remedy = f"Retried automatically. If it persists, drop {change.new} in the target."
            raise TargetConflict(message, table=str(table.name), remedy=remedy)
    else:
        _copy(store, table, new, change.new, retention)
    dropped_tables.drop(store, table, retention)
    return True


def _copy(store: DeltaStore, table: OpenTable, new: OpenTable | None, name: TargetTable, retention: Retention) -> None:
    """With its properties.  A table that is not there begins as a dropped one."""
    if new is None:
        due = dropped_tables.announce(store, name, retention)
        create_log(store, name, table.arrow, table.position, table.configuration, due)
        new = OpenTable.load(store, name)
    if new is None or new.number(dropped_tables.PURGED):
        raise TargetConflict(f"{name} was dropped and is being deleted.", table=str(name))
    files, source, target = table.files(), file_system(store, table.uri), file_system(store, new.uri)
    with explained(store):
        for one in files:
            with source.open_input_stream(one.path) as reading, target.open_output_stream(one.path) as writing:
                shutil.copyfileobj(reading, writing, 1 << 20)
    _take_over(new, table.configuration)
    _require_feature(new, table.arrow)
    numbers = dict.fromkeys((KEPT + one for one in _kept(table)), 1)
    new.overwrite(table.position, table.arrow, [one.added() for one in files], numbers=numbers)


def _rewrite(
    table: OpenTable,
    schema: TableSchema,
    plan: EvolutionPlan,
    kept: list[str],
    at: Position,
    numbers: dict[str, int],
    stop: threading.Event,
) -> None:
    back = {new: old for old, new in plan.renamed}
    empty = {one.name for one in (*plan.added, *plan.replaced)}
    there = dict(table.columns)
    columns = [*((one.name, one.type) for one in schema.columns), *((name, there[name]) for name in kept)]
    arrow = _arrow(columns, table.mode)
    sources = {name: back.get(name, name) for name in arrow.names if name not in empty}
    _require_feature(table, arrow)
    files = LiveFiles(table, stop, arrow)
    with files.discarded_on_failure():
        for file in files.files:
            read = files.read(file, list(dict.fromkeys(sources.values())))
            files.replace(file, (_converted(group, arrow, sources) for _, group in read))
    files.overwrite(at, numbers)


def _converted(rows: pa.Table, arrow: pa.Schema, sources: Mapping[str, str]) -> pa.Table:
    def columns() -> Iterator[pa.ChunkedArray | pa.Array]:
        for field in arrow:
            if field.name in sources:
                yield rows.column(sources[field.name]).cast(field.type)
            else:
                yield pa.nulls(rows.num_rows, field.type)

    return pa.table(list(columns()), schema=arrow)


def _arrow(columns: list[tuple[str, DataType]], mode: Mode) -> pa.Schema:
    """All columns optional: the source's constraints hold there, and later columns have no value in older rows."""
    own = [pa.field(name, kind.arrow) for name, kind in mode.columns.items()]
    return pa.schema([*(pa.field(name, kind.arrow) for name, kind in columns), pa.field(SEQUENCE, pa.int64()), *own])


def _take_over(table: OpenTable, properties: dict[str, str]) -> None:
    """Set the properties of this replicator on a dropped table, which any replicator may take over."""
    if not properties.items() <= table.configuration.items():
        set_properties(table, properties)


def set_properties(table: OpenTable, properties: dict[str, str]) -> None:
    """Of the table, in a commit that changes no row."""
    table.alter(
        lambda said: table.delta.alter.set_table_properties(
            properties, raise_if_not_exists=False, commit_properties=said
        )
    )


def _require_feature(table: OpenTable, arrow: pa.Schema) -> None:
    """A log that has columns without a time zone and not the feature cannot be read any more."""
    plain = DataType(Kind.TIMESTAMP_NTZ).arrow
    if not any(one.type == plain for one in arrow):
        return
    if "timestampNtz" not in (table.delta.protocol().writer_features or ()):
        table.alter(
            lambda properties: table.delta.alter.add_feature(
                TableFeatures.TimestampWithoutTimezone,
                allow_protocol_versions_increase=True,
                commit_properties=properties,
            )
        )


def _kept(table: OpenTable) -> set[str]:
    """Columns that the source no longer has."""
    return {name for name, _ in table.columns if table.number(KEPT + name)}


def _check_names(schema: TableSchema) -> None:
    """UnsupportedDdl for columns that Delta Lake takes for one."""
    seen: dict[str, str] = {}
    for name in schema.names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            message = f"{schema.table} has the columns {other} and {name}, which Delta Lake treats as the same column."
            raise UnsupportedDdl(message, table=str(schema.table), remedy="Exclude one of the columns.")
