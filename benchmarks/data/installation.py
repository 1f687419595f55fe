"""A metadata database as an installation of 200 tables has it after 30 days, filled by SQL: every table changed in
every minute.

What each kind of row holds is as its writers leave it; how long it is kept is as the settings say.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

TABLES, DAYS = 200, 30
MINUTE_DAYS = 3
SHAPES = 64  # histograms of which each row has one
EVENTS = 40_000  # failures, timeline
LOG_LINES = 200_000
MINUTES = """
INSERT INTO monitoring_metricminute (replicator_id, table_id, minute, inserts, updates, deletes, reads, bytes, merges,
  merge_seconds, merge_longest, events)
SELECT %(replicator)s, t.id, %(begin)s + m * interval '1 minute', n, n / 2, n / 10, 0, n * 180, 6, n / 100.0,
  n / 400.0, n + n / 2 + n / 10
FROM generate_series(0, %(minutes)s - 1) AS m, unnest(%(tables)s::bigint[]) AS t (id),
  LATERAL (SELECT 100 + t.id %% 37 + (m * 7919 + t.id * 104729) %% 400 AS n) AS x
"""
ROLLED_UP = """
INSERT INTO monitoring_metricrow
  (replicator_id, table_id, span, at, inserts, updates, deletes, reads, bytes, merges, merge_seconds, merge_longest)
SELECT replicator_id, table_id, 3600, date_trunc('hour', minute, 'UTC'), sum(inserts), sum(updates), sum(deletes),
  sum(reads),
  sum(bytes), sum(merges), sum(merge_seconds), max(merge_longest)
FROM monitoring_metricminute GROUP BY GROUPING SETS ((1, 2, 4), (1, 4))
UNION ALL
SELECT replicator_id, NULL, 60, minute, sum(inserts), sum(updates), sum(deletes), sum(reads),
  sum(bytes), sum(merges), sum(merge_seconds), max(merge_longest)
FROM monitoring_metricminute WHERE minute >= %(recent)s GROUP BY 1, 4
"""
LAGS = """
INSERT INTO monitoring_lagrow (replicator_id, table_id, span, at, histogram, events, lag_sum_us, lag_max_us, unmeasured)
SELECT %(replicator)s, t.id, %(span)s, %(begin)s + m * make_interval(secs => %(span)s),
  (%(shapes)s::bytea[])[1 + (m * 31 + coalesce(t.id, 0) * 7) %% %(number)s], %(events)s, %(events)s * 2000000::bigint,
    300000000, 0
FROM generate_series(0, %(rows)s - 1) AS m, unnest(%(tables)s::bigint[] || NULL::bigint) AS t (id)
"""
GAUGES = """
INSERT INTO monitoring_gaugerow (replicator_id, table_id, span, at, waiting_rows, waiting_bytes, waiting_seconds,
  log_kept)
SELECT %(replicator)s, t.id, %(span)s, %(begin)s + m * make_interval(secs => %(span)s), m %% 5000, m %% 5000 * 180,
  m %% 90,
  CASE WHEN t.id IS NULL THEN (100 + m %% 50) * 1048576 END
FROM generate_series(0, %(rows)s - 1) AS m, unnest(%(tables)s::bigint[] || NULL::bigint) AS t (id)
"""
FAILURES = """
INSERT INTO monitoring_failure (replicator_id, table_id, stage, code, message, remedy, attempt, at, next_retry_at,
  resolved_at,
  offset_after, offset_until)
SELECT %(replicator)s, (%(tables)s::bigint[])[1 + n %% 200], 'apply', (ARRAY['target_conflict', 'spark',
  'staging'])[1 + n %% 3],
  'Another writer was first; the merge is tried again.', 'Nothing: it is tried again.', 1 + n %% 5,
  %(begin)s + n * %(step)s, %(begin)s + n * %(step)s + interval '5 s',
    CASE WHEN n %% 400 > 0 THEN %(begin)s + n * %(step)s + interval '9 s' END,
  '', ''
FROM generate_series(0, %(events)s - 1) AS n
"""
TIMELINE = """
INSERT INTO monitoring_timelineevent (replicator_id, "table", kind, summary, detail, at)
SELECT %(replicator)s, 'shop.t' || n %% 200, 'schema_changed',
  'ALTER TABLE shop.t' || n %% 200 || ' ADD COLUMN c: applied', '{}',
  %(begin)s + n * %(step)s
FROM generate_series(0, %(events)s - 1) AS n
"""
LINES = """
INSERT INTO monitoring_logline (replicator_id, at, level, stage, "table", message, detail)
SELECT %(replicator)s, %(now)s - (%(lines)s - n) * interval '3 s', (ARRAY['info', 'info', 'info', 'warning',
  'error'])[1 + n %% 5],
  'apply', 'shop.t' || n %% 200, 'Merged ' || n %% 5000 || ' rows in 1.4 s', '{}'
FROM generate_series(1, %(lines)s) AS n
"""


@dataclass(frozen=True)
class Installation:
    """Ids of what was made."""

    replicator: int
    table: int
    user: Any
    rows: int


def fill(now: datetime) -> Installation:
    """Into an empty, migrated database; some minutes."""
    replicator, tables, user = _people_and_tables(now)
    minute = now.replace(second=0, microsecond=0)
    hour = now.replace(minute=0, second=0, microsecond=0)
    begin, recent = hour - timedelta(days=DAYS), hour - timedelta(days=MINUTE_DAYS)
    minutes = int((minute - begin).total_seconds() // 60) + 1
    whole = {
        "replicator": replicator,
        "tables": tables,
        "begin": begin,
        "now": now,
        "recent": recent,
        "minutes": minutes,
    }
    _run(MINUTES, whole)
    _run(ROLLED_UP, whole)
    made = [bytes(shape) for shape in _shapes()]
    late = {**whole, "shapes": made, "number": len(made)}
    spans = ((60, recent, minutes - (DAYS - MINUTE_DAYS) * 1440, 250), (3600, begin, DAYS * 24 + 1, 15_000))
    for span, since, rows, events in spans:
        _run(LAGS, {**late, "span": span, "begin": since, "rows": rows, "events": events})
        _run(GAUGES, {**whole, "span": span, "begin": since, "rows": rows})
    whole |= {"events": EVENTS, "lines": LOG_LINES, "step": timedelta(days=DAYS) / EVENTS}
    for statement in (FAILURES, TIMELINE, LINES):
        _run(statement, whole)
    return Installation(replicator, tables[0], user, _settle())


def _run(statement: str, values: Mapping[str, Any]) -> None:
    """Without looking up what foreign keys name: it was made just before."""
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, values)


def _settle() -> int:
    """As autovacuum leaves it.  The number of rows there are."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SELECT sum(n_live_tup) FROM pg_stat_user_tables")
        return int(cursor.fetchone()[0])


def _shapes() -> list[bytes]:
    """Histograms as a minute with some hundred events has them: most within seconds, some late."""
    from replicator.telemetry.lags import LagHistogram

    dice, found = random.Random(7), []
    for _ in range(SHAPES):
        one = LagHistogram()
        for _ in range(250):
            one.add_one(timedelta(seconds=dice.lognormvariate(0.5, 0.9)))
        found.append(one.to_bytes())
    return found


def _people_and_tables(now: datetime) -> tuple[int, list[int], Any]:
    from django.contrib.auth.models import User

    from replicator.model.identifiers import TableId
    from replicator.model.schema import Column, TableSchema
    from replicator.model.types import BIGINT, STRING
    from webapp.connections.models import Connection
    from webapp.destinations.services import built_in
    from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion, SegmentRow, TableSelection

    connection = Connection.objects.create(name="shop", kind="postgres", config={"host": "db", "database": "shop"})
    replicator = Replicator.objects.create(
        name="shop to lakehouse", connection=connection, desired="running", status="running", source_ts=now,
        captured_at=now,
        destination=built_in(), checkpoint_offset={"lsn": "0/16B3748"}, log_held_bytes=1 << 27, log_held_at=now,
    )  # fmt: skip
    Replicator.objects.update(created_at=now - timedelta(days=DAYS + 1))
    TableSelection.objects.create(replicator=replicator, database="shop", discovered=True)
    tables = ReplicatorTable.objects.bulk_create(
        ReplicatorTable(
            replicator=replicator, database="shop", name=f"t{n:03}", target_namespace="shop", target_name=f"t{n:03}",
            state="streaming", tracked=True, schema_version=3, applied=1000, last_sequence=1100, rows_inserted=10**6,
            applied_commit_ts=now, queryable_at=now, load_complete=True,
        )
        for n in range(TABLES)
    )  # fmt: skip
    versions, segments = [], []
    for table in tables:
        columns = [Column("id", BIGINT, nullable=False, source_type="bigint")]
        columns += [Column(f"c{n}", STRING, nullable=True, source_type="text") for n in range(20)]
        for version in (1, 2, 3):
            schema = TableSchema(TableId("shop", table.name), tuple(columns[: 18 + version]), ("id",))
            versions.append(SchemaVersion(table=table, version=version, schema=schema.to_dict()))
        segments += [
            SegmentRow(
                table=table, kind="log", schema_version=3, first_sequence=1001 + n * 20, last_sequence=1020 + n * 20,
                path=f"{table.pk}/{n}", rows=20, size=4000, inserts=20, first_commit_ts=now, last_commit_ts=now,
            )
            for n in range(5)
        ]  # fmt: skip
    SchemaVersion.objects.bulk_create(versions)
    SegmentRow.objects.bulk_create(segments)
    return replicator.pk, [table.pk for table in tables], User.objects.create_superuser("ada")


def at_a_minute() -> datetime:
    """Now, at the end of a minute: what is filled is then whole."""
    return datetime.now(UTC).replace(second=59, microsecond=0)
