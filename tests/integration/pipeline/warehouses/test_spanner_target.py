"""Replicators that write into Spanner: from a file to verification, kills, pages and API."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from testing.servers.spanner import EmbeddedSpanner
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.targets.kills import kill_twice, make_tables
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.replicators import services

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:No directory at"),
]
MODES = {"m": "mirror", "s": "soft_delete", "h": "history", "c": "changelog"}


def file(lab: Lab, server: EmbeddedSpanner, *lines: str) -> str:
    tables = ", ".join(lines or [f'"{lab.database}.*"'])
    config = ", ".join(f'{name}: "{value}"' for name, value in server.settings.items())
    return f"""
        destinations: [{{name: copies, kind: spanner, config: {{{config}}}}}]
        replicators:
          - {{name: {lab.name}, connection: {lab.connection().name}, destination: copies, tables: [{tables}],
             state: running}}
    """


def test_a_file_makes_a_replicator_whose_rows_follow_the_source(lab: Lab, spanner_server: EmbeddedSpanner) -> None:
    for name in MODES:
        lab.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(10,2), at DATETIME(6),"
            " ts TIMESTAMP(6), b BIGINT UNSIGNED, j JSON, x VARBINARY(9), f DOUBLE, r FLOAT, t TIME(3), d DATE)",
            f"INSERT INTO {name} SELECT seq, CONCAT('v', seq), seq / 4, '2026-01-02 03:04:05.678901', '2026-01-02',"
            " 18446744073709551615, '{\"a\": 1}', x'00ff', -0.0, 0.1, '-838:59:59.999', '2026-01-02'"
            " FROM seq_1_to_300",
        )
    lab.execute("CREATE TABLE k (a VARCHAR(20), n INT)", "INSERT INTO k VALUES ('x', 1), ('x', 1), (NULL, 2)")
    lines = [f"{{table: {lab.database}.{name}, mode: {mode}}}" for name, mode in MODES.items()]
    text = file(lab, spanner_server, *lines, f"{lab.database}.k")
    assert f"replicator {lab.name}: created" in apply(text, {})
    assert apply(text, {}) == []
    assert "kind: spanner" in export([lab.name])
    lab.run(timeout=200)
    assert lab.assert_equal(5) == 1203
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
    lab.execute("TRUNCATE TABLE m", "INSERT INTO m (id, w) VALUES (1, 'again')")
    services.resnapshot_table(table=lab.table("s"))
    services.resnapshot_table(table=lab.table("k"))
    lab.execute("DROP TABLE c")
    lab.run(timeout=200)
    lab.assert_equal(4)
    out = io.StringIO()
    call_command("verify", lab.name, stdout=out)
    assert "4 of 4 tables equal" in out.getvalue()


@pytest.mark.parametrize("point", ["apply.step.between"])
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    lab: Lab, process_environment: dict[str, str], spanner_server: EmbeddedSpanner, point: str
) -> None:
    make_tables(lab)
    apply(file(lab, spanner_server), {})
    kill_twice(lab, process_environment, point)


def test_pages_say_before_a_start_what_was_not_tested(
    lab: Lab, spanner_server: EmbeddedSpanner, transactional_db: Any
) -> None:
    del transactional_db
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada", password="x"))
    body = {"name": "d", "kind": "spanner", "config": spanner_server.settings}
    made = browser.post("/api/v1/destinations/", body, "application/json")
    assert made.status_code == 201, made.content
    assert browser.post(f"/api/v1/destinations/{made.json()['id']}/test/").json()["ok"] is True
    kinds = {one["name"]: one for one in browser.get("/api/v1/destination-kinds/").json()}
    assert kinds["spanner"]["proof"].startswith("Proven on the vendor")
    assert "Not tested: sign-in" in kinds["spanner"]["proof"]
    assert browser.get("/destinations/new/?kind=spanner").status_code == 200
