"""A catalog that was restored from before: its files, or the changes since, are gone."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import timedelta

import psycopg2
import pytest

from tests.integration.pipeline.lab import Lab
from webapp.database import clock
from webapp.destinations.lakes import catalog_url
from webapp.replicators.staging import storage
from webapp.worker.upkeep import garbage_collection

pytestmark = pytest.mark.integration


def test_a_table_that_the_catalog_cannot_open_is_read_anew_by_itself(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)")
    lab.replicate()
    assert lab.run_and_compare(2) == 3
    with closing(psycopg2.connect(catalog_url())) as catalog, catalog, catalog.cursor() as cursor:
        gone = f"metadata/00001-{uuid.uuid4()}.gz.metadata.json"
        cursor.execute(
            "UPDATE iceberg_tables SET metadata_location = regexp_replace(metadata_location, 'metadata/[^/]*$', %s) "
            "WHERE table_name LIKE '%%t' AND table_namespace LIKE %s",
            (gone, f"%{lab.database}%"),
        )
        assert cursor.rowcount == 1
    lab.execute("INSERT INTO t VALUES (3)", "DELETE FROM t WHERE id = 1", "INSERT INTO u VALUES (2)")
    assert lab.run_and_compare(2) == 4
    assert [lab.table(name).runs.count() for name in "tu"] == [2, 1]
    assert lab.table("t").failures.filter(code="values_lost", message__contains="restored metadata database").exists()


@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_changes_that_only_the_lost_catalog_had_are_noticed(lab: Lab, mode: str) -> None:
    """The journal has collected them, and a change of the columns among them."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, old INT)", "INSERT INTO t SELECT seq, seq FROM seq_1_to_9")
    lab.replicate(options={"mode": mode})
    lab.run()
    lab.execute("UPDATE t SET old = 0 WHERE id = 1")
    lab.run()
    with closing(psycopg2.connect(catalog_url())) as catalog, catalog, catalog.cursor() as cursor:
        name = f"%{lab.database}%"
        cursor.execute("SELECT * FROM iceberg_tables WHERE table_namespace LIKE %s", [name])
        [before] = cursor.fetchall()
    lab.execute(
        "DELETE FROM t WHERE id = 2", "ALTER TABLE t CHANGE old young INT, ADD more INT", "UPDATE t SET more = 1"
    )
    lab.run()
    lab.execute("TRUNCATE TABLE t", "INSERT INTO t VALUES (3, 3, 3), (4, 4, 4)")
    lab.run()
    garbage_collection._applied_segments(storage(), clock() + timedelta(days=1))
    lab.execute("ALTER TABLE t ADD last INT", "INSERT INTO t VALUES (5, 5, 5, 5)")
    with closing(psycopg2.connect(catalog_url())) as catalog, catalog, catalog.cursor() as cursor:
        cursor.execute(
            "UPDATE iceberg_tables SET metadata_location = %s WHERE table_namespace = %s AND table_name = %s",
            (before[3], before[1], before[2]),
        )
        assert cursor.rowcount == 1
    assert lab.run_and_compare(1) == 3
    assert lab.table("t").runs.count() == 2
    assert lab.table("t").failures.filter(code="values_lost", message__contains="no longer has").count() == 1
