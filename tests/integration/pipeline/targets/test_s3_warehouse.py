"""Staging and warehouse on a real S3 store: pyarrow, Iceberg's Java API and Spark write there, pyiceberg reads
there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from replicator.targets.iceberg.jvm import jvm
from testing.servers.stores.s3 import EmbeddedS3
from tests.integration.pipeline.lab import Lab, insert
from tests.integration.pipeline.own_process import run, said
from webapp.database import clock
from webapp.replicators.target_tables import past_of
from webapp.worker.upkeep import garbage_collection

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(2400),
]


def test_tables_on_s3_are_made_loaded_and_compared(
    lab: Lab, s3: EmbeddedS3, process_environment: dict[str, str], settings: Any
) -> None:
    warehouse = f"{s3.url}/{lab.name}/warehouse"
    environment = {
        **process_environment,
        "TIDEMARK_STAGING_URL": f"{s3.url}/{lab.name}/staging",
        "TIDEMARK_WAREHOUSE_URL": warehouse,
    }
    lab.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(50), price DECIMAL(10,2))",
        "CREATE TABLE log (at INT, what VARCHAR(20))",
    )
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n, f"name {n}", n / 4) for n in range(3000)])
        insert(cursor, "log", [(n % 40, f"what {n % 7}") for n in range(1000)])
    replicator = lab.replicate("t", "log")
    run(lab, environment)
    later = clock() + timedelta(hours=25)
    garbage_collection.dropped_tables(later)  # other tests' tables, whose files this store does not have
    settings.TIDEMARK_WAREHOUSE_URL = warehouse
    assert lab.assert_equal(2) == 4000
    lines = said(replicator)
    for way in ("append (direct)", "replace"):  # without Spark, and by Spark
        assert any(way in line for line in lines), "\n".join(lines)
    assert not any(s3.secret in line for line in lines)
    data = [
        file for file in (s3.folder / "buckets" / s3.bucket / lab.name / "warehouse").rglob("*") if "data" in str(file)
    ]
    assert data
    past = past_of(lab.table("t"))
    assert past is not None
    assert (past.oldest is not None, past.snapshots > 0, past.waiting) == (True, True, 0)
    assert garbage_collection.dropped_tables(clock()) == 0
    lab.execute("DROP TABLE log")
    run(lab, environment)
    jvm.stop()  # one that an earlier test has started does not know the store's keys
    later = clock() + timedelta(hours=25)
    assert (garbage_collection.dropped_tables(later), garbage_collection.dropped_tables(later)) == (1, 0)
    assert lab.assert_equal(1) == 3000
