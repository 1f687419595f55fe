"""Counting what must not be forgotten when the rows behind it are."""

from __future__ import annotations

from django.db import connection

COUNT = """
INSERT INTO telemetry_failurecount (replicator_id, stage, code, attempts, retries) VALUES (%s, %s, %s, 1, %s)
ON CONFLICT ON CONSTRAINT one_failure_count DO UPDATE SET
  attempts = telemetry_failurecount.attempts + 1,
  retries = telemetry_failurecount.retries + EXCLUDED.retries
"""


def count_failure(*, replicator_id: int, stage: str, code: str, retried: bool) -> None:
    """One failed attempt, in the transaction that records it."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [replicator_id, stage, code, int(retried)])
