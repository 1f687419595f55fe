"""Row filters on Arrow, the same for the log's changes and the snapshot's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import ChangeBatch, Operation
from replicator.model.row_filter import Condition, Operator, RowFilter
from replicator.model.schema import BEFORE, OPERATION, TableSchema

_COMPARE: Mapping[Operator, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    Operator.EQUAL: pc.equal,
    Operator.UNEQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.AT_MOST: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.AT_LEAST: pc.greater_equal,
}
_NO, _YES = pa.scalar(False), pa.scalar(True)  # noqa: FBT003 - pyarrow's signature


def matching(data: pa.RecordBatch, rule: RowFilter, schema: TableSchema, prefix: str = "") -> pa.Array:
    """Of each row, whether all conditions hold for the columns with this prefix; `data` has `schema`'s own values.

    No nulls.
    """
    found = pa.repeat(_YES, data.num_rows)
    for one in rule.conditions:
        held = _holds(data.column(prefix + one.column), one, schema)
        found = pc.and_(found, pc.fill_null(held, _NO))
    return found


def _holds(values: pa.Array, one: Condition, schema: TableSchema) -> pa.Array:
    if one.operator is Operator.NULL:
        return pc.is_null(values)
    if one.operator is Operator.NOT_NULL:
        return pc.is_valid(values)
    literals = one.values(schema.column(one.column).type)
    if one.operator is Operator.IN:
        return pc.and_(pc.is_valid(values), pc.is_in(values, value_set=pa.array(literals, values.type)))
    return _COMPARE[one.operator](values, pa.scalar(literals[0], values.type))


def chosen_changes(batch: ChangeBatch, rule: RowFilter) -> ChangeBatch:
    """Return the changes as they appear through the filter.

    An UPDATE that brings a row in is an INSERT, one that takes it out a DELETE.  `hidden` names operations that were
    left out or became others.  The before images are complete (`RowFilter.refusal`).
    """
    data, schema = batch.data, batch.schema
    operations = data.column(OPERATION)
    after = matching(data, rule, schema)
    before = matching(data, rule, schema, BEFORE)
    updated, deleted = (pc.equal(operations, one.value) for one in (Operation.UPDATE, Operation.DELETE))
    came = pc.and_(updated, pc.and_not(after, before))
    went = pc.and_(updated, pc.and_not(before, after))
    kept = pc.if_else(deleted, before, pc.or_(after, went))
    whole = pc.and_not(pc.and_not(kept, came), went)
    if pc.all(whole, min_count=0).as_py():
        return batch
    hidden = frozenset(pc.unique(operations.filter(pc.invert(whole))).to_pylist())
    data, came, went = (part.filter(kept) for part in (data, came, went))
    return replace(batch, data=_turned(data, schema, came, went), hidden=hidden)


def _turned(data: pa.RecordBatch, schema: TableSchema, came: pa.Array, went: pa.Array) -> pa.RecordBatch:
    """As `ChangeBatch` has it: a DELETE has the before image and, of the row columns, the key (all where there is
    none).
    """
    arrays = dict(zip(data.schema.names, data.columns, strict=True))
    operations = pc.if_else(came, Operation.INSERT.value, arrays[OPERATION])
    arrays[OPERATION] = pc.if_else(went, Operation.DELETE.value, operations)
    for name in schema.names:
        row, before = arrays[name], arrays[BEFORE + name]
        nothing = pa.scalar(None, row.type)
        stays = before if not schema.key or name in schema.key else nothing
        arrays[name] = pc.if_else(went, stays, row)
        arrays[BEFORE + name] = pc.if_else(came, nothing, before)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=data.schema)
