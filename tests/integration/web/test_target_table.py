"""The page and the API of a table's copy: figures, examples, rows; and the database user for readers."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import closing
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


def test_what_keeps_a_reader_from_being_made_is_said_with_a_remedy(settings: Any) -> None:
    server, name = catalog_url().rpartition("/")[0], f"lake_reader_{os.getpid()}"
    for url, said in (
        (f"{server}/{name}", rf"The catalog database {name} does not exist. Run `manage.py migrate`"),
        (f"postgresql://u:s3cr3t@127.0.0.1:1/{name}", "does not respond: .*refused.* Check that its server runs"),
    ):
        settings.TIDEMARK_CATALOG_URL = url
        with pytest.raises(CommandError, match=said) as raised:
            call_command("lake_reader", "a reader")
        assert "s3cr3t" not in str(raised.value)
    with closing(psycopg2.connect(f"{server}/postgres")) as admin, admin.cursor() as cursor:
        admin.autocommit = True
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pw'")
        try:
            settings.TIDEMARK_CATALOG_URL = f"{server}/{name}"
            with pytest.raises(CommandError, match=r"contains no catalog tables. Run `manage.py migrate`"):
                call_command("lake_reader", "a reader")
            address = environment.database(f"{server}/{name}")
            settings.TIDEMARK_CATALOG_URL = f"postgresql://{name}:pw@{address['HOST']}:{address['PORT']}/{name}"
            with pytest.raises(CommandError, match=rf'permission denied to create role. Let a .*ROLE "{name}" CREATER'):
                call_command("lake_reader", "a reader")
            cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname = 'a reader'")
            assert cursor.fetchone() == (0,)
        finally:
            cursor.execute(f"DROP DATABASE {name}")
            cursor.execute(f"DROP ROLE {name}")
