"""Replicators that write into Postgres: every mode, definitions that change, kills, pages and API."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from replicator.targets.postgres.kind import POSTGRES
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.targets.kills import POINTS, kill_twice, make_tables, source_rows
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import assess
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:No directory at"),
]
MODES = {"m": "mirror", "s": "soft_delete", "h": "history", "c": "changelog"}


def settings(server: EmbeddedPostgresSource) -> dict[str, Any]:
    return {"host": server.host, "port": str(server.port), "database": server.database, "user": server.user}


def file(lab: Lab, server: EmbeddedPostgresSource, *lines: str) -> str:
    tables = ", ".join(lines or [f'"{lab.database}.*"'])
    config = ", ".join(f'{name}: "{value}"' for name, value in settings(server).items())
    return f"""
        destinations: [{{name: copies, kind: postgres, config: {{{config}, password: "${{COPY}}"}}}}]
        replicators:
          - {{name: {lab.name}, connection: {lab.connection().name}, destination: copies, tables: [{tables}],
             state: running}}
    """


def rows(lab: Lab, server: EmbeddedPostgresSource, name: str) -> Counter[Any]:
    """Without Tidemark's own column, which stands last or before those that were added later."""
    with closing(server.connect()) as db, db.cursor() as cursor:
        cursor.execute(f'SELECT * FROM "{lab.database}"."{name}"')
        assert cursor.description is not None
        names = [one.name for one in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return Counter(tuple(value for name, value in row.items() if name != "_sequence_num") for row in found)


def test_a_file_makes_a_replicator_whose_rows_follow_the_source(
    lab: Lab, postgres_source: EmbeddedPostgresSource
) -> None:
    for name in MODES:
        lab.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(10,2), at DATETIME(6),"
            " ts TIMESTAMP(6), b BIGINT UNSIGNED, d DECIMAL(60,3), j JSON, x VARBINARY(9), f DOUBLE, t TIME(3))",
            f"INSERT INTO {name} SELECT seq, CONCAT('v', seq), seq / 4, '2026-01-02 03:04:05.678901', '2026-01-02',"
            " 18446744073709551615, 1e50, '{\"a\": 1}', x'00ff', -0.0, '-838:59:59.999' FROM seq_1_to_500",
        )
    lab.execute("CREATE TABLE k (a VARCHAR(20), n INT)", "INSERT INTO k VALUES ('x', 1), ('x', 1), (NULL, 2)")
    lines = [f"{{table: {lab.database}.{name}, mode: {mode}}}" for name, mode in MODES.items()]
    text, secrets = file(lab, postgres_source, *lines, f"{lab.database}.k"), {"COPY": postgres_source.password}
    assert f"replicator {lab.name}: created" in apply(text, secrets)
    assert apply(text, secrets) == []
    assert "kind: postgres" in export([lab.name])
    lab.run(timeout=200)
    assert lab.assert_equal(5) == 2003
    for name in (*MODES, "k"):
        key = "id" if name != "k" else "n"
        lab.execute(
            f"UPDATE {name} SET {'v' if name != 'k' else 'a'} = 'new' WHERE {key} % 7 = 0",
            f"DELETE FROM {name} WHERE {key} % 11 = 1",
            f"ALTER TABLE {name} ADD COLUMN more BIGINT",
        )
    for name in MODES:
        lab.execute(
            f"UPDATE {name} SET id = id + 1000 WHERE id = 5",
            f"ALTER TABLE {name} DROP COLUMN n, CHANGE v w VARCHAR(30), MODIFY id BIGINT",
            f"INSERT INTO {name} (id, w) VALUES (3000, 'last')",
        )
    lab.run(timeout=200)
    lab.assert_equal(5)
    assert rows(lab, postgres_source, "k") == source_rows(lab, "k")
    lab.execute("TRUNCATE TABLE m", "INSERT INTO m (id, w) VALUES (1, 'again')")
    services.resnapshot_table(table=lab.table("s"))
    services.resnapshot_table(table=lab.table("k"))
    lab.run(timeout=200)
    lab.assert_equal(5)
    lab.execute("DROP TABLE c")
    lab.run(timeout=200)
    lab.assert_equal(4)
    out = io.StringIO()
    call_command("verify", lab.name, stdout=out)
    assert "4 of 4 tables equal" in out.getvalue()
    with closing(postgres_source.connect()) as db, db.cursor() as cursor:
        cursor.execute(f'UPDATE "{lab.database}".s SET w = \'other\' WHERE id = 2; DELETE FROM "{lab.database}".m')
    with pytest.raises(SystemExit):
        call_command("verify", lab.name, stdout=(told := io.StringIO()))
    assert "1 missing" in told.getvalue()
    assert "1 different" in told.getvalue()


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    lab: Lab, process_environment: dict[str, str], postgres_source: EmbeddedPostgresSource, point: str
) -> None:
    make_tables(lab)
    apply(file(lab, postgres_source), {"COPY": postgres_source.password})
    kill_twice(lab, process_environment, point)
    for name in ("renamed", "k"):
        assert rows(lab, postgres_source, name) == source_rows(lab, name)


def test_pages_and_api_show_the_table_and_what_to_paste(
    lab: Lab, postgres_source: EmbeddedPostgresSource, transactional_db: Any
) -> None:
    del transactional_db
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(5,2))", "INSERT INTO t VALUES (1, 1.5), (2, NULL)")
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada", password="x"))
    config = {**settings(postgres_source), "password": postgres_source.password}
    made = browser.post("/api/v1/destinations/", {"name": "d", "kind": "postgres", "config": config},
        "application/json")  # fmt: skip
    assert made.status_code == 201, made.content
    assert "password" not in made.json()["config"]
    tested = browser.post(f"/api/v1/destinations/{made.json()['id']}/test/").json()
    assert tested["ok"] is True
    assert "Privilege to create schemas" in str(tested)
    kinds = {one["name"]: one for one in browser.get("/api/v1/destination-kinds/").json()}
    assert kinds["postgres"]["capabilities"]["verified"] is True
    assert kinds["postgres"]["proof"].startswith("Proven")
    long = "ä" * 32
    lab.execute(f"CREATE TABLE refused (id INT PRIMARY KEY, {long} INT, ctid INT)")
    body = {
        "name": lab.name, "connection": lab.connection().pk, "destination": made.json()["id"],
        "selection": [{"database": lab.database, "table": "t"}],
    }  # fmt: skip
    answer = browser.post("/api/v1/replicators/", body, "application/json")
    assert answer.status_code == 201, answer.content
    services.start_replicator(replicator=lab.replicator)
    lab.run(timeout=120)
    table = ReplicatorTable.objects.get(name="t")
    shown = browser.get(reverse("replicators:table_target", args=[table.replicator_id, table.pk])).content.decode()
    assert "psql " in shown
    assert "Snapshots</dt>" not in shown
    shown = browser.get(reverse("replicators:table_preview", args=[table.replicator_id, table.pk])).content.decode()
    assert "1.50" in shown
    assert browser.get(reverse("destinations:guide", args=["postgres"])).status_code == 200
    connection = lab.connection()
    assessed = assess(
        connection=connection, selection=[SelectionEntry(lab.database, "refused")], options=ReplicatorOptions(),
        target=POSTGRES, settings=settings(postgres_source),
    )  # fmt: skip
    notes = {column.name: (column.support, column.note) for column in assessed[0].columns}
    assert notes[long] == ("none", "Its name has more than 63 bytes in UTF-8, which Postgres cuts off.")
    assert notes["ctid"] == ("none", "Its name is that of a system column of Postgres.")
