"""The page and the API of a table's copy: figures, examples, rows; and the database user for readers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.integration.pipeline.lab import Lab
from webapp import environment
from webapp.destinations.lakes import catalog_url
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:No directory at"),
]


@pytest.fixture
def lab(mariadb: EmbeddedMariaDB, transactional_db: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    url, _, _ = settings.DATABASE_URL.rpartition("/")
    monkeypatch.setattr(settings, "DATABASE_URL", f"{url}/{connection.settings_dict['NAME']}")
    one = Lab(mariadb.address, "lab_target_page")
    yield one
    one.close()


def client(*, operator: bool) -> Client:
    made = User.objects.create_user("op" if operator else "viewer", is_staff=operator)
    found = Client()
    found.force_login(made)
    return found


def test_what_a_copy_is_made_of_how_to_query_it_and_its_rows(lab: Lab) -> None:
    lab.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(500), raw VARBINARY(4))",
        "INSERT INTO t SELECT seq, REPEAT('x', seq + 190), NULL FROM seq_1_to_250",
    )
    lab.replicate("t")
    lab.run(timeout=300)
    lab.execute("DELETE FROM t WHERE id <= 10", "UPDATE t SET raw = x'00ff' WHERE id = 11")
    lab.run(timeout=300)
    table = lab.table("t")
    place = [table.replicator_id, table.pk]
    viewer, operator = client(operator=False), client(operator=True)
    page = viewer.get(reverse("replicators:table_target", args=place)).content.decode()
    for said in ("240", "Spark", "Trino", "DuckDB", "pyiceberg", "Snowflake", "&lt;password&gt;", "/t-"):
        assert said in page, said
    password = settings.DATABASES["default"]["PASSWORD"]
    assert password
    assert password not in page
    assert viewer.get(reverse("replicators:table_preview", args=place)).status_code == 403
    rows = operator.get(reverse("replicators:table_preview", args=place)).content.decode()
    assert rows.count("<tr>") == 51
    assert "NULL" in rows
    found = viewer.get(reverse("api-table-target", args=place)).json()
    assert (found["rows"], found["columns"], found["snapshots"] > 1) == (240, 3, True)
    assert password not in json.dumps(found)
    assert viewer.get(reverse("api-table-preview", args=place)).status_code == 403
    preview = operator.get(reverse("api-table-preview", args=place)).json()
    assert preview["columns"] == ["id", "name", "raw", "_sequence_num"]
    assert (len(preview["rows"]), max(len(row[1] or "") for row in preview["rows"])) == (50, 201)


def test_a_reader_of_the_lake_reads_nothing_else() -> None:
    out = io.StringIO()
    call_command("lake_reader", "a reader", stdout=out)
    said = dict(line.split(maxsplit=1) for line in out.getvalue().splitlines())
    database = environment.database(catalog_url())
    login = {"host": database["HOST"], "port": database["PORT"], "dbname": database["NAME"], "user": "a reader"}
    with psycopg2.connect(**login, password=said["password"]) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM iceberg_tables")
        for refused in ("DELETE FROM iceberg_tables", "CREATE TABLE mine (id int)"):
            with pytest.raises(psycopg2.Error):
                cursor.execute(refused)
            reader.rollback()
    reader.close()
    call_command("lake_reader", "a reader", stdout=io.StringIO())
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(**login, password=said["password"])
    with pytest.raises(CommandError, match="other privileges"):
        call_command("lake_reader", str(database["USER"]))
    with psycopg2.connect(catalog_url()) as owner, owner.cursor() as cursor:
        cursor.execute("CREATE TABLE secrets (id int); GRANT SELECT ON secrets TO PUBLIC")
        owner.commit()
        with pytest.raises(CommandError, match="other tables"):
            call_command("lake_reader", "another")
        cursor.execute('DROP TABLE secrets; DROP OWNED BY "a reader"; DROP ROLE "a reader"')
        owner.commit()
    owner.close()
