"""Tables that several source tables share: how a part is created, gets other columns, and is removed.

What the table is made of (columns, the set of parts) is changed by compare-and-set on its metadata.  Of two parts that
change it at a time one is refused: it re-reads the table and decides again (`IcebergTarget.apply`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from replicator.errors import UnsupportedDdl
from replicator.model.retention import Retention
from replicator.model.schema import SEQUENCE
from replicator.staging.storage import Storage
from replicator.targets.base import Create, Drop, Evolve, Position, TargetTable
from replicator.targets.iceberg.apply import rows_below
from replicator.targets.iceberg.direct.writer import Direct, DirectLimits, FallBackToSpark
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.part_columns import PartColumns, of_evolved_part, of_new_part
from replicator.targets.iceberg.spark.merge_sql import of_part
from replicator.targets.iceberg.table import schema_update
from replicator.targets.iceberg.table.catalog import Columns, IcebergCatalog, IcebergTable, publish
from replicator.targets.iceberg.table.commit import commit
from replicator.targets.iceberg.table.layout import release
from replicator.targets.iceberg.table.naming import quoted, spark_type, sql_name
from replicator.targets.iceberg.table.parts import NO_PART, as_property, copy_schema, ids_of, values
from replicator.targets.iceberg.table.position import position, touch
from replicator.targets.iceberg.table.types import from_iceberg
from replicator.targets.iceberg.upkeep import dropped_tables

EVERYTHING = 1 << 62  # above every sequence number


@dataclass(frozen=True)
class SharedTables:
    """Of one replicator."""

    catalog: IcebergCatalog
    storage: Storage
    limits: DirectLimits
    retention: Retention
    layout: Layout

    def create(self, name: TargetTable, there: IcebergTable | None, change: Create) -> None:
        """The part, without rows; the table, where it is the first.  TargetConflict where another was quicker."""
        change.mode.check(change.schema)
        if there is None:
            schema_update.create(self.catalog, name, None, change, self.retention, self.layout)
            return
        if there.mode is not change.mode:
            message = f"{name.whole} is in the mode {there.mode.label}, {change.schema.table} in {change.mode.label}."
            remedy = "Give all tables that share a target table the same mode, or route this one elsewhere."
            raise UnsupportedDdl(message, table=str(change.schema.table), remedy=remedy)
        schema = copy_schema(there, change.schema)
        table = self._with_columns(there, of_new_part(there, schema))
        schema_update.between()
        after = replace(table, columns_after=Columns(ids_of(table, schema.names)))
        self._delete_rows(after, Position(change.applied, -1, change.version, change.load, change.mode))

    def drop(self, table: IcebergTable, change: Drop) -> None:
        """The part's rows; the table with its last part."""
        if change.whole or values(table) == [table.name.tenant[1]]:
            dropped_tables.drop(self.catalog, table, self.retention)
        else:
            self._delete_rows(table, NO_PART)

    def evolve(self, table: IcebergTable, change: Evolve) -> bool:
        """The part's columns; False where they are these already.

        Columns that no other part has are changed as those of any table.  Of those that another has too, the part's own
        rows get other values.  UnsupportedDdl where one would be of two types.
        """
        at = position(table)
        if at.schema_version >= change.version:
            return False
        table.mode.check(change.schema)
        schema = copy_schema(table, change.schema)
        todo = of_evolved_part(table, schema, change)
        after = replace(at, schema_version=change.version)
        if not todo.sets:
            self._with_columns(table, todo, after)
            return True
        table = self._with_columns(table, todo)
        schema_update.between()
        columns = Columns(ids_of(table, schema.names), todo.kept)

        def write(spark: SparkSession) -> None:
            kinds = dict(table.columns)
            said = ", ".join(
                f"{quoted(name)} = CAST({quoted(of) if of else 'NULL'} AS {_sql_type(kinds[name])})"
                for name, of in todo.sets.items()
            )
            touched = {*todo.sets, *filter(None, todo.sets.values())}
            which = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in sorted(touched))
            spark.sql(f"UPDATE {sql_name(table.name)} SET {said} WHERE ({which}) AND {of_part(table.name)}")

        commit(self.catalog, replace(table, columns_after=columns), after, write)
        return True

    def _with_columns(self, table: IcebergTable, todo: PartColumns, after: Position | None = None) -> IcebergTable:
        """Change the table's columns, in one commit with the part's position where it is given; the table as it is
        then.
        """
        if not todo.changes_table and after is None:
            return table
        remedy = "Rename the column, or route the table to a separate target table."
        schema_update.refuse_names_of_partitions(table, todo.plan, UnsupportedDdl, remedy)
        engine, transaction = self.catalog.pool.spark(), table.handle.newTransaction()
        release(transaction, table, todo.gone)
        schema_update.rename_and_drop(transaction, todo.plan, todo.gone)
        schema_update.add_and_widen(engine, transaction, todo.plan)
        own = [SEQUENCE, *table.mode.columns]
        names = [str(one.name()) for one in transaction.table().schema().columns()]
        schema_update.reorder(transaction, [*(name for name in names if name not in own), *own])
        if after is not None:
            touch(transaction, after)
            made = transaction.table()
            ids = {str(one.name()): int(one.fieldId()) for one in made.schema().columns()}
            columns = Columns(frozenset(ids[name] for name in todo.names), todo.kept)
            said = as_property(table.name, after, columns, int(made.currentSnapshot().sequenceNumber()))
            update = transaction.updateProperties()
            for name, value in said.items():
                update.set(name, value)
            update.commit()
        elif self.catalog.pool.config.compares_branches:  # a stale worker's columns are refused with the branch
            touch(transaction, position(table))
        publish(table, transaction.table().operations().current())
        return self.catalog.again(table)

    def _delete_rows(self, table: IcebergTable, after: Position) -> None:
        try:
            Direct.of(self.storage, table, self.limits).delete_below(EVERYTHING, after)
        except FallBackToSpark:
            commit(self.catalog, table, after, rows_below(table, EVERYTHING))


def _sql_type(text: str) -> str:
    kind = from_iceberg(text)
    assert kind is not None
    return str(spark_type(kind).simpleString())
