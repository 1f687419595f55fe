"""Changes as rows of a changelog, none of them folded: in Arrow, and in Spark.

One row for each change.  An UPDATE that moves its row to another key is two, both with its number: the DELETE of the old key comes first.
A DELETE has the values of its before image (all of them, or the key, as the source logs them).
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from replicator.merge.changes import AT, LEFT_OUT, OP, SEQ, before, is_, key_places, row
from replicator.merge.fold import moved
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, UNCHANGED, TableSchema

_TURN = "_deletes"


def wanted(schema: TableSchema) -> list[str]:
    """The columns of a segment that `in_arrow` needs."""
    names = [SEQUENCE, OPERATION, COMMIT_TS, *schema.names, *(BEFORE + name for name in schema.names)]
    return [*names, *[UNCHANGED] * schema.partial]


def in_arrow(changes: pa.RecordBatch, schema: TableSchema) -> pa.Table:
    """The row's columns, _sequence_num, _operation, _commit_ts, and _unchanged: the names (a JSON list) of values left out."""
    table = pa.table(changes)
    deletes = pc.equal(table.column(OPERATION), Operation.DELETE.value).to_numpy()
    moves = _moved(table, schema)
    places = np.repeat(np.arange(len(deletes)), 1 + moves)
    first = np.append(True, places[1:] != places[:-1])[: len(places)]
    deletes = deletes[places] | (moves[places] & first)
    table, mask = table.take(places), pa.array(deletes)
    columns = {name: pc.if_else(mask, table.column(BEFORE + name), table.column(name)) for name in schema.names}
    columns[SEQUENCE] = table.column(SEQUENCE)
    columns[OPERATION] = pc.if_else(mask, Operation.DELETE.value, table.column(OPERATION))
    columns[COMMIT_TS] = table.column(COMMIT_TS)
    if schema.partial:
        columns[UNCHANGED] = pc.if_else(mask, pa.scalar(None, pa.string()), _named(table.column(UNCHANGED), schema))
    return pa.table(columns)


def _moved(changes: pa.Table, schema: TableSchema) -> npt.NDArray[np.bool_]:
    found = np.zeros(changes.num_rows, np.bool_)
    for name in schema.key:
        new, old = changes.column(name), changes.column(BEFORE + name)
        found |= pc.not_equal(new, old).fill_null(False).to_numpy()  # noqa: FBT003 - keys are never null
    return np.asarray(found & pc.equal(changes.column(OPERATION), Operation.UPDATE.value).to_numpy())


def _named(places: pa.ChunkedArray, schema: TableSchema) -> pa.Array:
    told = [
        json.dumps([schema.names[place] for place in listed], ensure_ascii=False, separators=(",", ":"))
        if listed
        else None
        for listed in places.to_pylist()
    ]
    return pa.array(told, pa.string())


def in_spark(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """The same of timed changes, with columns by place: c0…, _seq, and the others under their names."""
    deleted = is_(Operation.DELETE)
    moves = is_(Operation.UPDATE) & (moved(key_places(schema)) if schema.key else F.expr("false"))
    turns = F.when(moves, F.expr("array(true, false)")).otherwise(F.array(deleted))
    rows = changes.withColumn(_TURN, F.explode(turns))
    going = F.col(_TURN)
    columns = [
        F.when(going, F.col(before(i))).otherwise(F.col(row(i))).alias(row(i)) for i in range(len(schema.columns))
    ]
    said = [
        F.when(going, Operation.DELETE.value).otherwise(F.col(OP)).alias(OPERATION),
        F.when(~is_(Operation.READ), F.col(AT)).alias(COMMIT_TS),
    ]
    if schema.partial:
        names = F.array(*[F.lit(name) for name in schema.names])
        listed = F.to_json(F.transform(LEFT_OUT, lambda place: F.element_at(names, place + 1)))
        said.append(F.when(~going & (F.size(LEFT_OUT) > 0), listed).alias(UNCHANGED))
    return rows.select(*columns, SEQ, *said)
