"""Create and evolve tables, through Iceberg's Java API: one commit each.

A table tells its readers of its columns by identifier fields, which are never null, and comments.  Of all columns only
those of the key are required.  Other NOT NULL columns are not: Postgres' log does not say when one becomes nullable, so
a row may come with a null before that is known; and columns that were added later, or dropped and kept, have no value
in some rows.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replicator.errors import CopyMustBeRecreated, TargetConflict, UnsupportedDdl
from replicator.faults import reach
from replicator.model.evolution import EvolutionPlan, plan_evolution
from replicator.model.mode import Mode
from replicator.model.retention import Retention
from replicator.model.schema import SEQUENCE, Column, TableSchema
from replicator.model.types import BIGINT, DataType, Kind
from replicator.targets.base import Create, Evolve, Position, Rename, TargetTable
from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.layout import Layout, TableLayout
from replicator.targets.iceberg.table.catalog import MODE, Columns, IcebergCatalog, IcebergTable, publish
from replicator.targets.iceberg.table.layout import (
    SORTED,
    SOURCE,
    bloom_filters,
    partition_columns,
    partition_spec,
    partitions_named_as,
    release,
    sort_order,
)
from replicator.targets.iceberg.table.parts import SHARED, as_property
from replicator.targets.iceberg.table.position import SCHEMA_VERSION, as_properties, position, touch
from replicator.targets.iceberg.table.type_names import iceberg_type, promotes
from replicator.targets.iceberg.table.types import from_iceberg, to_iceberg
from replicator.targets.iceberg.upkeep import dropped_tables
from replicator.targets.iceberg.upkeep.expiry import CHECKED, MERGED_MANIFESTS, METADATA_PROPERTIES

COMMENT = "comment"  # the property that engines show as the table's
KEPT = "tidemark.kept-columns"
PROPERTIES = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.compression-codec": "gzip",
    **SORTED,
    **METADATA_PROPERTIES,
    **MERGED_MANIFESTS,
    "write.wap.enabled": "true",  # see commit.py
    "write.delete.granularity": "file",
    f"write.metadata.metrics.column.{SEQUENCE}": "full",
}

_ONE_ROW_PER_KEY = frozenset({Mode.MIRROR, Mode.SOFT_DELETE})


def between() -> None:
    """Two commits of one change: the first is done."""
    reach("apply.create.between")


def create(
    catalog: IcebergCatalog,
    table: TargetTable,
    older: IcebergTable | None,
    change: Create,
    retention: Retention,
    layout: Layout,
) -> None:
    """In place of `older`, a table of this replicator, whose files stay for the grace.

    TargetConflict where another worker was quicker.
    """
    change.mode.check(change.schema)
    source = str(change.schema.table)
    if table.part:  # the part's column belongs to the key of its rows
        change = replace(change, schema=replace(change.schema, key=(table.tenant[0], *change.schema.key)))
    shape = _shape(catalog.pool.spark(), change, layout.of(source), table)
    if older is not None:
        dropped_tables.drop(catalog, older, retention)
        between()
    metrics = {f"write.metadata.metrics.column.{name}": "truncate(16)" for name in change.schema.key}
    if table.part:  # so that Spark never deletes by metadata alone, outside of the commit (`apply.rows_below`)
        metrics[f"write.metadata.metrics.column.{table.tenant[0]}"] = "full"
    properties = {**metrics, **PROPERTIES, **_first(table, change)}
    properties |= {MODE: change.mode.value, SOURCE: source}
    properties |= {COMMENT: change.schema.comment} if change.schema.comment else {}
    wanted = layout.of(source)
    filtered = [name for name in change.schema.key if change.schema.column(name).type.kind is not Kind.BOOLEAN]
    properties |= bloom_filters(filtered) if wanted.bloom else {}
    properties |= {"format-version": str(wanted.version), **wanted.properties}
    properties[CHECKED] = str(int(time.time()))
    catalog.create(table, *shape, properties)


def _first(table: TargetTable, change: Create) -> dict[str, str]:
    """Properties with the position of a table without rows."""
    first = Position(change.applied, -1, change.version, change.load)
    if not table.part:
        return {**as_properties(first), SCHEMA_VERSION: str(change.version)}
    own = as_property(table, first, Columns(frozenset(range(1, len(change.schema.columns) + 1))))
    return {SHARED: table.tenant[0], **{name: value for name, value in own.items() if value is not None}}


def evolve(catalog: IcebergCatalog, table: IcebergTable, change: Evolve, layout: Layout) -> bool:
    """Make the columns those of `change.schema` in one Iceberg transaction with the version; False where they are
    already.

    Versions only grow: a stale worker that comes with an older one changes nothing.
    """
    if int(table.properties.get(SCHEMA_VERSION, "0")) >= change.version:
        return False
    table.mode.check(change.schema)
    kept = set(json.loads(table.properties.get(KEPT, "[]")))
    old = _present(table, change.schema)
    overwritten = _overwritten(old, kept, change)
    old = TableSchema(old.table, tuple(c for c in old.columns if c.name not in kept | overwritten))
    plan = plan_evolution(old, change.schema, change.renamed, promotes)
    kept = (kept - set(change.schema.names)) | (set(plan.dropped) if change.keep_dropped else set())
    partitioned, replaced = partition_columns(table), {column.name for column in plan.replaced}
    if lost := sorted(partitioned & (overwritten | replaced)):
        message = f"{table.name} is partitioned by {lost[0]}, which becomes another column or gets another type."
        raise CopyMustBeRecreated(message, table=str(table.name))
    refuse_names_of_partitions(table, plan, CopyMustBeRecreated)
    kept |= partitioned & set(plan.dropped)  # the partitions of older files cannot be read without it
    transaction = table.handle.newTransaction()
    back = {new: old for old, new in plan.renamed}
    gone = overwritten | {back.get(name, name) for name in replaced} | (set(plan.dropped) - kept)
    release(transaction, table, gone)
    let_go(transaction, table, change.schema, back, gone)
    rename_and_drop(transaction, plan, gone)
    add_and_widen(catalog.pool.spark(), transaction, plan)
    reorder(transaction, [*change.schema.names, *sorted(kept), SEQUENCE, *table.mode.columns])
    own = layout.of(table.properties.get(SOURCE, str(change.schema.table))).properties
    describe(catalog.pool.spark(), transaction, change.schema, table.mode, whole=COMMENT not in own)
    update = transaction.updateProperties().set(SCHEMA_VERSION, str(change.version))
    update.set(KEPT, json.dumps(sorted(kept), ensure_ascii=False)).commit()
    if catalog.pool.config.compares_branches:  # a stale worker's columns are refused with the branch
        touch(transaction, position(table))
    # Not commitTransaction: on a conflict it would overwrite the columns of the worker that was faster.
    publish(table, transaction.table().operations().current())
    return True


def refuse_names_of_partitions(
    table: IcebergTable, plan: EvolutionPlan, error: type[UnsupportedDdl], remedy: str | None = None
) -> None:
    """Raise `error` where a column gets a name that Iceberg does not allow it."""
    columns = {column.name: "" for column in plan.added} | {new: old for old, new in plan.renamed}
    if taken := partitions_named_as(table, columns):
        message = f"{table.name} has partitions named {taken[0]}, as a column is from now on."
        raise error(message, table=str(table.name), remedy=remedy)


def rename(catalog: IcebergCatalog, table: IcebergTable | None, change: Rename) -> bool:
    """False where it is done already (or there is nothing to rename)."""
    if table is None or table.name == change.new:
        return False
    if catalog.load(change.new) is not None:
        message = f"{table.name} cannot be renamed: {change.new} still exists in the target."
        remedy = f"Retried automatically. If it persists, drop {change.new} in the target."
        raise TargetConflict(message, table=str(table.name), remedy=remedy)
    catalog.rename(table, change.new)
    return True


def _overwritten(old: TableSchema, kept: set[str], change: Evolve) -> set[str]:
    """Columns whose name is another column's from now on; their old values are not the new column's, so they go.

    They are kept ones that the source has again, and a dropped one whose name another was given.
    """
    renamed_to = {new for name, new in change.renamed.items() if name in old.names and new in old.names}
    taken = {name for name in renamed_to if name not in change.renamed}
    return ((kept & set(old.names)) | taken) & set(change.schema.names)


def rename_and_drop(transaction: Any, plan: EvolutionPlan, gone: set[str]) -> None:
    if not gone and not plan.renamed:
        return
    update = transaction.updateSchema()
    for name in gone:
        update.deleteColumn(name)
    for old, new in plan.renamed:
        if old not in gone:
            update.renameColumn(old, new)
    update.commit()


def add_and_widen(engine: Engine, transaction: Any, plan: EvolutionPlan) -> None:
    if not (plan.added or plan.replaced or plan.widened):
        return
    update = transaction.updateSchema()
    for column in (*plan.added, *plan.replaced):
        # With a parent (here none) a dot in the name is a dot, and no path.
        update.addColumn(None, column.name, to_iceberg(engine, column.type))
    for column in plan.widened:
        update.updateColumn(column.name, to_iceberg(engine, column.type))
    update.commit()


def reorder(transaction: Any, order: Sequence[str]) -> None:
    present = [str(field.name()) for field in transaction.table().schema().columns()]
    if present == list(order):
        return
    update = transaction.updateSchema().moveFirst(order[0])
    for before, name in itertools.pairwise(order):
        update.moveAfter(name, before)
    update.commit()


def _present(table: IcebergTable, new: TableSchema) -> TableSchema:
    """A column of another program, whose type may be any, goes as one does that the source has dropped."""
    columns = (
        Column(name, _type(table, name, text) if name in new.names else _dropped(text), nullable=True, source_type="")
        for name, text in table.columns
    )
    return TableSchema(new.table, tuple(columns))


def _dropped(text: str) -> DataType:
    return from_iceberg(text) or DataType(Kind.STRING)


def _type(table: IcebergTable, column: str, text: str) -> DataType:
    kind = from_iceberg(text)
    if kind is None:
        message = f"The target column {column} of {table.name} has the type {text}, which Tidemark did not create."
        raise CopyMustBeRecreated(message, table=str(table.name))
    return kind


def _shape(engine: Engine, change: Create, layout: TableLayout, name: TargetTable) -> tuple[Any, Any, Any]:
    """Schema, partition spec and sort order."""
    table, source = str(name), [(c.name, c.type) for c in change.schema.columns]
    # Parts of a shared table may have different keys, or lack another's key columns.
    key = () if name.part else identifiers(change.schema, change.mode)
    docs = {c.name: c.comment for c in change.schema.columns if c.comment}
    fields = [
        {"id": number, "name": name, "required": name in key, "type": iceberg_type(kind)}
        | ({"doc": docs[name]} if name in docs else {})
        for number, (name, kind) in enumerate([*source, (SEQUENCE, BIGINT), *change.mode.columns.items()], 1)
    ]
    ids = {str(one["name"]): int(str(one["id"])) for one in fields}
    described = {"type": "struct", "fields": fields, "identifier-field-ids": [ids[name] for name in key]}
    schema = engine.java("org.apache.iceberg.SchemaParser.fromJson")(json.dumps(described))
    return schema, partition_spec(engine, schema, ids, layout, table), sort_order(engine, schema, ids, layout, table)


def identifiers(schema: TableSchema, mode: Mode) -> tuple[str, ...]:
    """The columns of the key, where a table has one row for each key; none where Iceberg allows them not."""
    columns = [schema.column(name) for name in schema.key]
    fit = mode in _ONE_ROW_PER_KEY and not any(c.nullable or c.type.kind in {Kind.FLOAT, Kind.DOUBLE} for c in columns)
    return schema.key if fit else ()


def let_go(
    transaction: Any, table: IcebergTable, new: TableSchema, back: Mapping[str, str], gone: Collection[str]
) -> None:
    """Before columns are dropped or renamed: remove them from the identifiers, and make columns optional that left the
    key.

    back: present names, by those that columns get.  gone: columns that are dropped, also to make room for others.
    """
    required = {str(field["name"]) for field in table.fields if field["required"]}
    lost = required - ({back.get(name, name) for name in identifiers(new, table.mode)} - set(gone))
    if not lost and required.isdisjoint(back.values()):
        return
    update = transaction.updateSchema().setIdentifierFields(_collection(table.engine, ()))
    for name in lost:
        update.makeColumnOptional(name)
    update.commit()


def describe(engine: Engine, transaction: Any, schema: TableSchema, mode: Mode, *, whole: bool) -> None:
    """Identifiers and comments, once the columns are those of `schema`; `whole`: the table's comment, too.

    A key with a column that may be null here makes no identifiers: in a table of before, or one whose key is another
    now, rows may have none.  What the source says nothing of stays as others have described it here.
    """
    present = transaction.table().schema()
    fields = {str(one.name()): one for one in present.columns()}
    key = identifiers(schema, mode)
    fit = key if all(fields[name].isRequired() for name in key) else ()
    said = {one.name: one.comment for one in schema.columns if one.comment not in {"", fields[one.name].doc()}}
    if said or set(map(str, present.identifierFieldNames())) != set(fit):
        update = transaction.updateSchema().setIdentifierFields(_collection(engine, fit))
        for name, comment in said.items():
            update.updateColumnDoc(name, comment)
        update.commit()
    if whole and schema.comment not in {"", transaction.table().properties().get(COMMENT)}:
        transaction.updateProperties().set(COMMENT, schema.comment).commit()


def _collection(engine: Engine, names: tuple[str, ...]) -> Any:
    found = engine.java("java.util.ArrayList")()
    for name in names:
        found.add(name)
    return found
