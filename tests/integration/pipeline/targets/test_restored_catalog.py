"""A metadata database that was restored from so long ago that the files which it names are gone."""

from __future__ import annotations

import uuid
from contextlib import closing

import psycopg2
import pytest
from django.conf import settings

from tests.integration.pipeline.lab import Lab

pytestmark = pytest.mark.integration


def test_a_table_that_the_catalog_cannot_open_is_read_anew_by_itself(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)")
    lab.replicate()
    assert lab.run_and_compare(2) == 3
    with closing(psycopg2.connect(settings.DATABASE_URL)) as catalog, catalog, catalog.cursor() as cursor:
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
