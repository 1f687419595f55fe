"""Fold of a keyed table's changes to versions of its rows, one for each state that a row was in (SCD2)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.mode import CURRENT, VALID_FROM, VALID_TO
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.spark.arrivals_and_departures import ARRIVES, READ, key_events
from replicator.targets.iceberg.spark.changes import AT, SEQ, exact, key_places, row

HIT = "_hit"
_HELD, _TIME, _STATE, _LAST, _NEXT = "_held", "_time", "_state", "_last", "_next"


def fold(changes: DataFrame, held: DataFrame | None, schema: TableSchema) -> DataFrame:
    """Return versions to insert, and those of the target that get another end or number.

    held: the target's newest version of each key that the changes touch, where it has one (c0…, _seq, _valid_from,
    _valid_to, _is_current).  Result: these columns, and _hit: the number that the target's own version has now; null: a
    new one.

    The order is that of the sequence numbers, which is the source's order of commits.  A version's time is its
    commit's, but never before that of the version before it, so versions of a key do not overlap even if the source's
    clock was set back.  A READ that finds its row unchanged makes no version: it gives its number to the present one,
    so that a sweep knows it was seen.
    """
    keys = [row(i) for i in key_places(schema)]
    columns = [row(i) for i in range(len(schema.columns))]
    at_key = Window.partitionBy(*keys).orderBy(SEQ, ARRIVES)
    so_far = at_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    newest = F.max(F.when(F.col(_HELD), F.col(SEQ))).over(Window.partitionBy(*keys))
    events = _events(changes, held, schema).withColumn(_NEXT, newest)
    events = events.where(F.col(_HELD) | F.col(_NEXT).isNull() | (F.col(SEQ) > F.col(_NEXT)))  # invariants 4 and 5
    events = events.withColumn(_TIME, F.max(AT).over(so_far))
    again = F.col(READ) & F.coalesce(F.lag(ARRIVES).over(at_key), F.expr("false")) & _as_before(schema, at_key)
    events = events.withColumn(_STATE, F.when(again, 0).otherwise(1)).select(
        *columns,
        SEQ,
        ARRIVES,
        _HELD,
        VALID_FROM,
        _TIME,
        F.col(_STATE).alias("_new"),
        F.sum(_STATE).over(so_far).alias(_STATE),
    )
    seen = F.max(SEQ).over(Window.partitionBy(*keys, _STATE))
    states = events.withColumn(_LAST, seen).where(F.col("_new") == 1)
    states = states.withColumn(_NEXT, F.lead(SEQ).over(at_key)).withColumn(VALID_TO, F.lead(_TIME).over(at_key))
    touched = F.col(_NEXT).isNotNull() | (F.col(_LAST) != F.col(SEQ))
    return states.where(F.col(ARRIVES) & (~F.col(_HELD) | touched)).select(
        *columns,
        F.col(_LAST).alias(SEQ),
        F.when(F.col(_HELD), F.col(VALID_FROM)).otherwise(F.col(_TIME)).alias(VALID_FROM),
        VALID_TO,
        F.col(_NEXT).isNull().alias(CURRENT),
        F.when(F.col(_HELD), F.col(SEQ)).alias(HIT),
    )


def concerned(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """Keys (c0…, key columns only) that the changes touch; some repeat."""
    return key_events(changes, schema).select(*[row(i) for i in key_places(schema)])


def newest(versions: DataFrame, schema: TableSchema) -> DataFrame:
    """Of versions (c0…, _seq, …) the newest of each key."""
    rank = F.row_number().over(Window.partitionBy(*[row(i) for i in key_places(schema)]).orderBy(F.desc(SEQ)))
    return versions.withColumn("_rank", rank).where(F.col("_rank") == 1).drop("_rank")


def _events(changes: DataFrame, held: DataFrame | None, schema: TableSchema) -> DataFrame:
    """The changes' halves, and what the target holds as what it is: a row that arrived, or left, at its own place."""
    no, never = F.expr("false"), F.expr("CAST(NULL AS TIMESTAMP)")
    events = key_events(changes, schema).withColumn(_HELD, no).withColumn(VALID_FROM, never)
    if held is None:
        return events
    known = [F.col(row(i)) for i in range(len(schema.columns))]
    ended = F.coalesce(F.col(VALID_TO), F.col(VALID_FROM)).alias(AT)
    there = held.select(
        *known, SEQ, ended, F.col(CURRENT).alias(ARRIVES), no.alias(READ), F.expr("true").alias(_HELD), VALID_FROM
    )
    return events.unionByName(there)


def _as_before(schema: TableSchema, at_key: Window) -> Column:
    """Are all values those of the event before at this key?"""
    same = []
    for i, column in enumerate(schema.columns):
        value = exact(F.col(row(i)), column.type.kind)
        same.append(value.eqNullSafe(F.lag(value).over(at_key)))
    return reduce(Column.__and__, same)
