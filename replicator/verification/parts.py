"""Of a target table that several source tables share: what must hold of the rows of one, written from
docs/destinations.md and not the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from replicator.errors import TargetError
from replicator.verification.source import SourceTable
from replicator.verification.target import PinnedTable, TableVersion, batches

DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def holds(actual: str, expected: str) -> bool:
    """May a column be of the type `actual`, because another table that shares the target has wider values?"""
    wide, narrow = DECIMAL.fullmatch(actual), DECIMAL.fullmatch(expected)
    if wide and narrow:
        return wide[2] == narrow[2] and int(wide[1]) >= int(narrow[1])
    return (expected, actual) in {("int", "long"), ("float", "double")}


def narrowed(target: PinnedTable, table: SourceTable) -> PinnedTable:
    """The target with the types that `table` asks for, as far as they hold the same values."""
    expected = {column.name: how.iceberg for column, how in table.columns}
    floats = {name for name, kind in target.columns if kind == "double" and expected.get(name) == "float"}
    columns = tuple(
        (name, expected[name] if name in expected and holds(kind, expected[name]) else kind)
        for name, kind in target.columns
    )
    return replace(target, handle=_Narrowed(target.handle, frozenset(floats)), columns=columns)


def foreign_values(target: PinnedTable, names: Sequence[str]) -> list[str]:
    """Sentences about rows that have values in these columns, which are other tables'."""
    found = dict.fromkeys(names, 0)
    for batch in batches(replace(target, present=AlwaysTrue()), names) if names else ():
        for name in names:
            found[name] += batch.num_rows - batch.column(batch.schema.get_field_index(name)).null_count
    return [f"column {name}, which the source has not, has {count} values" for name, count in found.items() if count]


@dataclass(frozen=True)
class _Narrowed:
    handle: TableVersion
    floats: frozenset[str]

    def name(self) -> tuple[str, ...]:
        return self.handle.name()

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        for batch in self.handle.read(names, wanted):
            for name in self.floats & set(names):
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, pa.field(name, pa.float32()), _as_float(name, batch.column(place)))  # noqa: PLW2901
            yield batch


def _as_float(name: str, values: pa.Array) -> pa.Array:
    found = values.cast(pa.float32())
    same = pc.or_(pc.equal(found.cast(values.type), values), pc.is_nan(values))
    if not pc.all(same).as_py():
        message = f"column {name} holds values that no column of the source's type has"
        raise TargetError(message)
    return found
