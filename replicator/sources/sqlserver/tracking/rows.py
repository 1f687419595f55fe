"""Rows of CHANGETABLE(CHANGES …) as changes: queries, and change batches.

Source: learn.microsoft.com/sql/relational-databases/system-functions/changetable-transact-sql: one row for each key
that changed, `I` where the row is new since the version that was asked for, `U` where it is not, `D` where it is gone;
a key that changes is a delete and an insert.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableNotRead
from replicator.model.change import Operation
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.dialect import quoted, table_name
from replicator.sources.sqlserver.rows.values import converted, select_list
from replicator.sources.sqlserver.tracking.change_tracking import changes

_OPERATIONS = pa.array(["I", "U"])
_NAMES = pa.array([str(Operation.INSERT), str(Operation.UPDATE)])
_KEYS_AT, _ROWS_AT = 1, 3  # where columns begin


@dataclass(frozen=True)
class Part:
    """Changes of a table with versions after `low` and up to `high`; `position`: up to which it was read before."""

    description: TableDescription
    position: int
    low: int
    high: int

    @property
    def _source(self) -> str:
        since = max(self.position, self.description.since or 0)
        return changes(self.description.schema.table, since)

    @property
    def _where(self) -> str:
        return f"ct.SYS_CHANGE_VERSION > {self.low} AND ct.SYS_CHANGE_VERSION <= {self.high}"

    @property
    def deleted_sql(self) -> str:
        """Versions and keys of the rows that are gone."""
        description = self.description
        key = [description.definition(name) for name in description.schema.key]
        listed = select_list(key, [f"ct.{quoted(one.name)}" for one in key])
        return (
            f"SELECT ct.SYS_CHANGE_VERSION AS [v], {listed} FROM {self._source} "
            f"WHERE ct.SYS_CHANGE_OPERATION = N'D' AND {self._where}"
        )

    @property
    def present_sql(self) -> str:
        """Versions, operations and rows of those that are there; 1 for one that is not found, which cannot be."""
        schema, definitions = self.description.schema, self.description.definitions
        listed = select_list(definitions, [f"t.{quoted(one.name)}" for one in definitions])
        meets = " AND ".join(f"t.{quoted(name)} = ct.{quoted(name)}" for name in schema.key)
        return (
            "SELECT ct.SYS_CHANGE_VERSION AS [v], ct.SYS_CHANGE_OPERATION AS [op], "
            f"CASE WHEN t.{quoted(schema.key[0])} IS NULL THEN 1 ELSE 0 END AS [gone], {listed} FROM {self._source} "
            f"LEFT JOIN {table_name(schema.table)} AS t ON {meets} "
            f"WHERE ct.SYS_CHANGE_OPERATION <> N'D' AND {self._where}"
        )

    def batch(self, rows: pa.RecordBatch, first: int, at: datetime, *, deleted: bool) -> pa.RecordBatch:
        """With `schema.change_arrow`.  first: ordinal of the first change.  at: the moment that the rows are of, UTC.

        TableNotRead where a row is not there: the table was altered while it was read.  ValueDoesNotFit.
        """
        schema, count = self.description.schema, rows.num_rows
        versions = rows.column(0).cast(pa.string())
        known = {}
        if deleted:
            operations = pa.repeat(pa.scalar(str(Operation.DELETE)), count)
            for place, name in enumerate(schema.key, _KEYS_AT):
                known[name] = converted(rows.column(place), schema.column(name), str(schema.table))
            before = known
        else:
            if pc.any(pc.equal(rows.column(2), 1)).as_py():
                raise TableNotRead(f"{schema.table} was altered while it was read.", table=str(schema.table))
            operations = _NAMES.take(pc.index_in(rows.column(1).cast(pa.string()), value_set=_OPERATIONS))
            for place, column in enumerate(schema.columns, _ROWS_AT):
                known[column.name] = converted(rows.column(place), column, str(schema.table))
            updated = pc.equal(operations, str(Operation.UPDATE))
            before = {name: pc.if_else(updated, known[name], pa.scalar(None, known[name].type)) for name in schema.key}
        nothing = {column.name: pa.nulls(count, column.type.arrow) for column in schema.columns}
        arrays = [
            pa.array(range(first, first + count), pa.int64()),
            operations,
            pa.repeat(pa.scalar(at, pa.timestamp("us", "UTC")), count),
            versions,
            versions,
            *(known.get(name, nothing[name]) for name in schema.names),
            *(before.get(name, nothing[name]) for name in schema.names),
            pa.nulls(count, pa.list_(pa.int32())),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema.change_arrow)
