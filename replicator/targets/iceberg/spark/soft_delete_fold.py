"""Fold of a keyed table's changes to the newest per key, where a deleted row stays with its last values (`fold.py` has
the rest).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.mode import DELETED, DELETED_AT
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.spark.arrivals_and_departures import ARRIVES, key_events
from replicator.targets.iceberg.spark.changes import AT, GONE, SEQ, key_places, row

KNOWN = "_known"
_NEWEST, _LAST = "_newest", "_last"


def fold(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """One row per key that the changes touch: c0…, _seq, _gone, _known, _is_deleted, _deleted_at.

    A key that is gone has the values of the last row under it where the batch knows them; else only its key columns
    count.
    """
    keys = key_places(schema)
    columns = [row(i) for i in range(len(schema.columns))]
    event = F.struct(SEQ, ARRIVES, AT)
    values = F.struct(SEQ, *columns)  # compared by the number alone, which no two arrivals at a key share
    grouped = key_events(changes, schema).groupBy(*[row(i) for i in keys])
    newest = grouped.agg(F.max(event).alias(_NEWEST), F.max(F.when(F.col(ARRIVES), values)).alias(_LAST))
    known = F.col(_LAST).isNotNull()
    newest_values = [
        (F.coalesce(F.col(f"{_LAST}.{row(i)}"), F.col(row(i))) if i in keys else F.col(f"{_LAST}.{row(i)}")).alias(
            row(i)
        )
        for i in range(len(columns))
    ]
    gone = ~F.col(f"{_NEWEST}.{ARRIVES}")
    return newest.select(
        *newest_values,
        F.col(f"{_NEWEST}.{SEQ}").alias(SEQ),
        gone.alias(GONE),
        known.alias(KNOWN),
        gone.alias(DELETED),
        F.when(gone, F.col(f"{_NEWEST}.{AT}")).alias(DELETED_AT),
    )
