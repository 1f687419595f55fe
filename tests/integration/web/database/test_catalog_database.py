"""The lakehouse's catalog in a separate database: made by `migrate`, its rows moved there once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from django.conf import settings

from tests.database import TEMPLATE
from webapp import environment
from webapp.installation.catalog_database import MAKE

pytestmark = pytest.mark.integration
ROW = "('lake', 'shop', 't', 'file:///t/2', 'file:///t/1', 'TABLE')"


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Rows of the last one."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def url(postgres_url: str, django_db_modify_db_settings: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """A metadata database that lacks no migration."""
    name = f"own_{abs(hash(request.node.name)) % 10**8}"
    run(postgres_url, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    one = environment.with_database(postgres_url, name)
    yield one
    run(postgres_url, f"DROP DATABASE {name}", f"DROP DATABASE IF EXISTS {name}_catalog")


def migrate(home: Path, url: str, more: Mapping[str, str] | None = None) -> tuple[int, str]:
    given = {**os.environ, "DATABASE_URL": url, "TIDEMARK_HOME": str(home), **(more or {})}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "migrate", "--verbosity", "0"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_rows_of_before_are_moved_once(url: str, tmp_path: Path) -> None:
    catalog = environment.catalog_beside(url)
    run(url, MAKE, f"INSERT INTO iceberg_tables VALUES {ROW}")
    assert migrate(tmp_path, url) == (0, "")
    assert run(catalog, "SELECT metadata_location FROM iceberg_tables") == [("file:///t/2",)]
    assert run(url, "SELECT to_regclass('iceberg_tables')") == [(None,)]
    # A copy of the metadata database from before the move, restored beside a catalog that has gone on.
    run(catalog, "UPDATE iceberg_tables SET metadata_location = 'file:///t/3'")
    run(url, MAKE, f"INSERT INTO iceberg_tables VALUES {ROW}")
    assert migrate(tmp_path, url) == (0, "")
    assert run(catalog, "SELECT metadata_location FROM iceberg_tables") == [("file:///t/3",)]


def test_it_may_stay_where_it_was(url: str, tmp_path: Path) -> None:
    run(url, MAKE, f"INSERT INTO iceberg_tables VALUES {ROW}")
    assert migrate(tmp_path, url, {"TIDEMARK_CATALOG_URL": url}) == (0, "")
    assert run(url, "SELECT metadata_location FROM iceberg_tables") == [("file:///t/2",)]


def test_a_catalog_of_another_installation_is_left_alone(url: str, tmp_path: Path) -> None:
    catalog = environment.catalog_beside(url)
    run(url, sql_database(catalog), MAKE, f"INSERT INTO iceberg_tables VALUES {ROW}")
    run(catalog, MAKE, f"INSERT INTO iceberg_tables VALUES {ROW.replace('/t/2', '/t/other')}")
    code, said = migrate(tmp_path, url)
    assert (code, "another installation" in said, "Traceback" in said) == (1, True, False), said
    assert run(url, "SELECT metadata_location FROM iceberg_tables") == [("file:///t/2",)]
    assert run(catalog, "SELECT metadata_location FROM iceberg_tables") == [("file:///t/other",)]


def test_a_user_who_may_make_no_database_is_told_what_to_do(url: str, tmp_path: Path) -> None:
    run(
        url,
        "CREATE ROLE plain LOGIN PASSWORD 'plain'",
        *(
            f"GRANT ALL ON {all_} public TO plain"
            for all_ in ("SCHEMA", "ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA")
        ),
    )
    own = environment.database(url)
    plain = f"postgresql://plain:plain@{own['HOST']}:{own['PORT']}/{own['NAME']}"
    try:
        code, said = migrate(tmp_path, plain)
        assert (code, "set TIDEMARK_CATALOG_URL" in said, "Traceback" in said) == (1, True, False), said
        assert migrate(tmp_path, plain, {"TIDEMARK_CATALOG_URL": plain})[0] == 0
    finally:
        run(url, "DROP OWNED BY plain CASCADE", "DROP ROLE plain")


def sql_database(url: str) -> str:
    """The statement that makes it."""
    return f"CREATE DATABASE {environment.database(url)['NAME']}"
