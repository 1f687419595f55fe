"""Fold of a keyed table's changes where UPDATEs left out values that they did not change (Postgres TOAST).

The value of such a column is the last one known of that same row: further up in the batch under the same key, under the
key that the row had before it moved, or in the target.  The target's rows take part as what they are: full rows at
their own place of the sequence (`held`).  So a row that the initial load read at a later place than some of the batch's
changes gives its values to the changes after it, and none to those before it, which the guard of the MERGE skips anyway
(invariant 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.change import Operation
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.spark.changes import GONE, LEFT_OUT, SEQ, before, is_, key_places, moved, row
from replicator.targets.iceberg.table.naming import spark_type

# What an event does to the row at its key; both halves of a key-changing UPDATE are events.
LEAVES, MOVES_ON, CHANGES, MOVES_IN, ARRIVES, HELD = range(6)
LACKS = "_lacks"
_KIND = "_kind"
_BEGUN = "_begun"  # (number, kind) of the event with which the row came to its key, or the last one left it
_FROM = (
    "_from"  # number of the move whose leaving half knows more of this row; null where there is none, or all is known
)
_NEWEST = "_newest"
_WANTED = "_wanted"
_VALUE = "v"


@dataclass(frozen=True)
class FoldedFrame:
    """As `fold.fold` gives it: c0…, _seq, _gone, and _lacks: a value of it is not known anywhere; `unknown`: how many
    rows are so.
    """

    rows: DataFrame
    unknown: int


def concerned(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """Keys (c0…, key columns only) of the UPDATEs that left something out, before and after images both; some
    repeat.
    """
    keys = key_places(schema)
    partial = changes.where(_leaves_out())
    after = partial.select(*[row(i) for i in keys])
    return after.unionByName(partial.select(*[F.col(before(i)).alias(row(i)) for i in keys]))


@contextmanager
def folded(
    changes: DataFrame, held: DataFrame | None, schema: TableSchema, places: Sequence[int]
) -> Iterator[FoldedFrame]:
    """Fold; what is kept for it in Spark is freed at the end.

    places: columns that may be left out.  held: the target's rows under `concerned` keys (key columns, `places`, _seq),
    None where there are none.  Two passes over the batch where no row moved; one join more for all moves, and as many
    as the logarithm of the longest chain of moves that leave the same column out.
    """
    with _known_of(_events(changes, held, schema, places), schema, places) as (whole, unknown):
        yield FoldedFrame(_rows(whole, schema, places), unknown)


@contextmanager
def filled(
    changes: DataFrame, held: DataFrame | None, schema: TableSchema, places: Sequence[int]
) -> Iterator[FoldedFrame]:
    """All changes, unfolded, with the values in their places; as `folded` otherwise, but without _gone and _lacks.

    A change whose values are nowhere to be found is not among them; of these, `unknown` counts those that are the
    newest of their key.
    """
    partial = F.col(_KIND).isin(CHANGES, MOVES_IN) & _lacks(places)
    with _known_of(_events(changes, held, schema, places), schema, places, partial) as (whole, unknown):
        number = F.col(SEQ).alias("f_seq")
        found = whole.select(number, *[F.col(_known(i)).alias(f"f{i}") for i in places])
        rows = changes.join(found, F.col(SEQ) == F.col("f_seq"), "left")
        lost = F.col("f_seq").isNotNull() & reduce(Column.__or__, [F.col(f"f{i}").isNull() for i in places])
        values = {row(i): F.when(_named(i), F.col(f"f{i}.{_VALUE}")).otherwise(F.col(row(i))) for i in places}
        yield FoldedFrame(rows.where(~lost).withColumns(values).select(*changes.columns), unknown)


@contextmanager
def _known_of(
    events: DataFrame, schema: TableSchema, places: Sequence[int], wanted: Column | None = None
) -> Iterator[tuple[DataFrame, int]]:
    """The events wanted (None: the newest of each key), with all that is known of their rows; and how many of the
    newest of a key lack a value for good.
    """
    kept = _states(events, schema, places, wanted).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        chosen = kept.where(F.col(_WANTED))
        unknown, moving = _open(chosen, places)
        if not moving:
            yield chosen, unknown
            return
        traced = _traced(chosen.where(F.col(_FROM).isNotNull()), _moves(kept, places), places)
        yield chosen.where(F.col(_FROM).isNull()).unionByName(traced), unknown + _open(traced, places)[0]
    finally:
        kept.unpersist()


def _events(changes: DataFrame, held: DataFrame | None, schema: TableSchema, places: Sequence[int]) -> DataFrame:
    """c0…, _seq, _kind, and for each place k…: a struct of its value, null where the event does not tell it."""
    keys, columns = key_places(schema), range(len(schema.columns))
    nothing = {i: F.lit(None).cast(spark_type(c.type)) for i, c in enumerate(schema.columns)}
    went = is_(Operation.UPDATE) & moved(keys)
    came = F.when(went, MOVES_IN).when(is_(Operation.UPDATE), CHANGES).otherwise(ARRIVES)
    values = [F.when(~_named(i), F.struct(F.col(row(i)).alias(_VALUE))).alias(_known(i)) for i in places]
    arriving = changes.where(~is_(Operation.DELETE)).select(*map(row, columns), SEQ, came.alias(_KIND), *values)
    left = [(F.col(before(i)) if i in keys else nothing[i]).alias(row(i)) for i in columns]
    parted = F.when(went & _leaves_out(), MOVES_ON).otherwise(LEAVES)
    silent = [F.when(F.lit(False), F.struct(nothing[i].alias(_VALUE))).alias(_known(i)) for i in places]  # noqa: FBT003
    leaving = changes.where(is_(Operation.DELETE) | went).select(*left, SEQ, parted.alias(_KIND), *silent)
    events = arriving.unionByName(leaving)
    if held is None:
        return events
    there = [F.col(row(i)) if i in keys else nothing[i].alias(row(i)) for i in columns]
    values = [F.struct(F.col(row(i)).alias(_VALUE)).alias(_known(i)) for i in places]
    return events.unionByName(held.select(*there, SEQ, F.lit(HELD).alias(_KIND), *values))


def _states(events: DataFrame, schema: TableSchema, places: Sequence[int], wanted: Column | None) -> DataFrame:
    """The events `wanted`, and the leaving half of each move, with all that the row's stay at this key tells of it.

    Columns: c0… without `places`, _seq, _kind, _from, _newest (event of its key), _wanted, k….  A target's row that is
    newer than all changes of its key stays.
    """
    at_key = Window.partitionBy(*[F.col(row(i)) for i in key_places(schema)]).orderBy(SEQ, _KIND)
    so_far = at_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = at_key.rowsBetween(Window.unboundedPreceding, -1)
    event = F.struct(F.col(SEQ).alias("seq"), F.col(_KIND).alias("kind"))
    boundary = F.last(F.when(F.col(_KIND) != CHANGES, event), ignorenulls=True)
    begun = F.when(F.col(_KIND) >= MOVES_IN, event).otherwise(boundary.over(earlier))
    values = [
        F.last(F.when(F.col(_known(i)).isNotNull(), F.struct(SEQ, _known(i))), ignorenulls=True)
        .over(so_far)
        .alias(_known(i))
        for i in places
    ]
    plain = [row(i) for i in range(len(schema.columns)) if i not in places]
    last = F.lead(SEQ).over(at_key).isNull() & (F.col(_KIND) != HELD)
    chosen = last if wanted is None else wanted
    seen = events.select(*plain, SEQ, _KIND, begun.alias(_BEGUN), last.alias(_NEWEST), chosen.alias(_WANTED), *values)
    seen = seen.where(F.col(_WANTED) | (F.col(_KIND) == MOVES_ON))
    since = F.coalesce(F.col(f"{_BEGUN}.seq"), F.lit(-1))  # values known before belong to another row of this key
    own = [
        F.when(F.col(f"{_known(i)}.{SEQ}") >= since, F.col(f"{_known(i)}.{_known(i)}")).alias(_known(i)) for i in places
    ]
    origin = F.when(F.col(f"{_BEGUN}.kind") == MOVES_IN, F.col(f"{_BEGUN}.seq"))
    return _settled(seen.select(*plain, SEQ, _KIND, origin.alias(_FROM), _NEWEST, _WANTED, *own), places)


def _moves(kept: DataFrame, places: Sequence[int]) -> DataFrame:
    """Leaving halves (_seq, k…), each with what the moves before it tell.

    All follow their pointers at once, and then those of what they found: a chain of n moves takes log2(n) joins.
    """
    moves = kept.where(F.col(_KIND) == MOVES_ON).select(SEQ, _FROM, *map(_known, places))
    while True:
        moves = moves.localCheckpoint(eager=False)  # else the plan would double each time
        if moves.where(F.col(_FROM).isNotNull()).count() == 0:
            return moves
        moves = _followed(moves, moves, places)


def _traced(rows: DataFrame, moves: DataFrame, places: Sequence[int]) -> DataFrame:
    return _followed(rows, moves, places).localCheckpoint(eager=False)


def _followed(rows: DataFrame, moves: DataFrame, places: Sequence[int]) -> DataFrame:
    """What a row does not know, its move's leaving half may; its _from becomes that one's."""
    origin = moves.select(
        F.col(SEQ).alias("o_seq"), F.col(_FROM).alias("o_from"), *[F.col(_known(i)).alias(f"o{i}") for i in places]
    )
    values = {_known(i): F.coalesce(F.col(_known(i)), F.col(f"o{i}")) for i in places}
    names = rows.columns
    found = rows.join(origin, F.col(_FROM) == F.col("o_seq"), "left").withColumns({**values, _FROM: F.col("o_from")})
    return _settled(found.select(*names), places)


def _settled(rows: DataFrame, places: Sequence[int]) -> DataFrame:
    return rows.withColumn(_FROM, F.when(_lacks(places), F.col(_FROM)))


def _open(rows: DataFrame, places: Sequence[int]) -> tuple[int, int]:
    """How many rows lack a value: for good (of the newest only), and with a move to look behind."""
    lacking = _lacks(places) & (F.col(_KIND) > MOVES_ON)
    lost = lacking & F.col(_FROM).isNull() & F.col(_NEWEST)
    gone, moving = F.count_if(lost), F.count_if(lacking & F.col(_FROM).isNotNull())
    found = rows.agg(gone, moving).collect()[0]
    return int(found[0]), int(found[1])


def _rows(newest: DataFrame, schema: TableSchema, places: Sequence[int]) -> DataFrame:
    columns = [
        F.col(f"{_known(i)}.{_VALUE}").alias(row(i)) if i in places else F.col(row(i))
        for i in range(len(schema.columns))
    ]
    gone = F.col(_KIND) <= MOVES_ON
    return newest.select(*columns, SEQ, gone.alias(GONE), (_lacks(places) & ~gone).alias(LACKS))


def _lacks(places: Sequence[int]) -> Column:
    return reduce(Column.__or__, [F.col(_known(i)).isNull() for i in places])


def _known(place: int) -> str:
    return f"k{place}"


def _named(place: int) -> Column:
    """Is this column among those that the event left out?"""
    return F.coalesce(F.array_contains(F.col(LEFT_OUT), place), F.expr("false"))


def _leaves_out() -> Column:
    return is_(Operation.UPDATE) & (F.coalesce(F.size(LEFT_OUT), F.lit(0)) > 0)
