"""Staging on a real S3 store: whole, through an outage of the store, and without garbage."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from testing.servers.stores.s3 import EmbeddedS3
from tests.integration.pipeline.lab import Lab, insert
from webapp.database import clock
from webapp.monitoring.models import Failure, LogLine
from webapp.replicators import services, staging
from webapp.replicators.models import Replicator, SegmentRow
from webapp.worker.run import wiring
from webapp.worker.run.headless import HeadlessRun, source_position
from webapp.worker.run.outcome import ExitCode
from webapp.worker.upkeep.garbage_collection import collect
from webapp.worker.upkeep.replicator_deletion import delete

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def bucket(lab: Lab, s3: EmbeddedS3, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the store holds of the lab's replicator, on its own disk."""
    settings.TIDEMARK_STAGING_URL = f"{s3.url}/{lab.name}/staging"
    monkeypatch.setattr(staging, "_storage", staging._storage.__wrapped__)  # it is of this test's environment
    yield s3.folder / "buckets" / s3.bucket / lab.name / "staging"
    if Replicator.objects.filter(name=lab.name).exists():
        services.delete_replicator(replicator=lab.replicator)
        delete(lab.replicator.pk)


def objects(bucket: Path) -> set[str]:
    return {str(file.relative_to(bucket)) for file in bucket.rglob("*.parquet") if file.is_file()}


def fill(lab: Lab, rows: int = 3000) -> None:
    lab.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(50), price DECIMAL(10,2))",
        "CREATE TABLE log (at INT, what VARCHAR(20))",
    )
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n, f"name {n}", n / 4) for n in range(rows)])
        insert(cursor, "log", [(n % 40, f"what {n % 7}") for n in range(rows // 3)])


def test_snapshot_log_and_restarts_with_and_without_spark(lab: Lab, bucket: Path, s3: EmbeddedS3) -> None:
    fill(lab)
    replicator = lab.replicate("t", "log")
    assert lab.run_and_compare() == 4000
    lab.execute(
        "UPDATE t SET name = 'new' WHERE id % 7 = 0",
        "DELETE FROM t WHERE id % 11 = 0",
        "DELETE FROM log WHERE at = 3 LIMIT 5",  # Spark: equal rows of a table without a key
        "UPDATE log SET what = 'changed' WHERE at = 9",
        "ALTER TABLE t ADD COLUMN more INT",
        "INSERT INTO t VALUES (10001, NULL, -1, 5), (10002, '', 0, NULL)",
    )
    lab.run_and_compare(2)
    services.resnapshot_table(table=lab.table("log"), reason="test")
    lab.execute("INSERT INTO log VALUES (99, 'late')")
    lab.run_and_compare(2)
    said = list(LogLine.objects.filter(replicator=replicator).values_list("message", flat=True))
    assert any("merge (Spark: no key)" in line for line in said), said
    assert not any(s3.secret in line for line in said)
    named = set(SegmentRow.objects.values_list("path", flat=True))
    assert named
    assert named <= objects(bucket)


def test_a_store_that_is_killed_in_the_middle_is_waited_for(lab: Lab, bucket: Path, s3: EmbeddedS3) -> None:
    fill(lab, 30_000)
    replicator = lab.replicate("t", "log")
    with HeadlessRun(replicator) as run:
        until(lambda: objects(bucket))
        s3.stop(signal.SIGKILL)
        try:
            with lab.transaction() as cursor:
                cursor.execute("UPDATE t SET price = price + 1 WHERE id % 3 = 0")
                cursor.execute("DELETE FROM log WHERE at = 1")
            until(lambda: Failure.objects.filter(replicator=replicator, code="staging").exists())
        finally:
            s3.start()
        lab.execute("UPDATE t SET price = price + 1 WHERE id % 5 = 0")
        assert run.wait(source_position(replicator), 240) is ExitCode.CURRENT
    lab.assert_equal(2)
    failures = list(Failure.objects.filter(replicator=replicator))
    assert {failure.code for failure in failures} == {"staging"}
    assert any("does not respond" in failure.message for failure in failures)


def test_what_nobody_needs_leaves_the_store(lab: Lab, bucket: Path, settings: Any) -> None:
    fill(lab, 300)
    replicator = lab.replicate("t", "log")
    lab.run_and_compare(2)
    label = wiring.label(replicator)
    kept = objects(bucket)
    killed = bucket / label / "t" / "of-a-killed-worker.parquet"
    killed.parent.mkdir(parents=True, exist_ok=True)
    killed.write_bytes(b"half")
    young = killed.with_name("just-written.parquet")
    young.write_bytes(b"half")
    hours_ago = time.time() - 7200
    for path in (killed, *(bucket / name for name in kept)):
        os.utime(path, (hours_ago, hours_ago))
    assert collect()["files"] == 1
    assert objects(bucket) == kept | {str(young.relative_to(bucket))}
    settings.TIDEMARK_SEGMENT_RETENTION_HOURS = 0
    SegmentRow.objects.update(applied_at=clock() - timedelta(minutes=1))
    assert collect()["segments"] == len(kept)
    assert objects(bucket) == {str(young.relative_to(bucket))}
    lab.execute("INSERT INTO t VALUES (10001, 'x', 1)")
    lab.run_and_compare(2)
    services.delete_replicator(replicator=replicator)
    assert delete(replicator.pk)
    assert objects(bucket) == set()


def until(true: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
