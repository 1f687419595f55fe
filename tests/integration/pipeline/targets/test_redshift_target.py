"""Replicators that write into a stand-in for Redshift: every mode, definitions that change, kills, pages and API."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from replicator.targets.redshift.kind import REDSHIFT
from testing.servers.redshift import EmbeddedRedshift
from testing.servers.s3 import EmbeddedS3
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.targets.kills import POINTS, kill_twice, make_tables, source_rows
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
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


@pytest.fixture
def config(lab: Lab, redshift: EmbeddedRedshift, s3_server: EmbeddedS3) -> dict[str, str]:
    return redshift.settings(f"{s3_server.url}/{lab.database}")


def file(lab: Lab, config: dict[str, str], *lines: str) -> str:
    tables = ", ".join(lines or [f'"{lab.database}.*"'])
    said = ", ".join(f'{name}: "{value}"' for name, value in config.items() if name not in SECRETS)
    secrets = ", ".join(f'{name}: "${{{name.upper()}}}"' for name in SECRETS)
    return f"""
        destinations: [{{name: copies, kind: redshift, config: {{{said}, {secrets}}}}}]
        replicators:
          - {{name: {lab.name}, connection: {lab.connection().name}, destination: copies, tables: [{tables}],
             state: running}}
    """


SECRETS = ("password", "secret_access_key")


def given(config: dict[str, str]) -> dict[str, str]:
    return {name.upper(): config[name] for name in SECRETS}


def rows(lab: Lab, server: EmbeddedRedshift, name: str) -> Counter[Any]:
    """Without Tidemark's own column."""
    with closing(server.connect()) as db, db.cursor() as cursor:
        cursor.execute(f'SELECT * FROM "{lab.database}"."{name}"')
        names = [one.name for one in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return Counter(tuple(value for name, value in row.items() if name != "_sequence_num") for row in found)


def test_a_file_makes_a_replicator_whose_rows_follow_the_source(
    lab: Lab, redshift: EmbeddedRedshift, config: dict[str, str]
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
    text = file(lab, config, *lines, f"{lab.database}.k")
    assert f"replicator {lab.name}: created" in apply(text, given(config))
    assert apply(text, given(config)) == []
    assert "kind: redshift" in export([lab.name])
    lab.run(timeout=200)
    assert lab.assert_equal(5) == 2003
    for name in MODES:
        lab.execute(
            f"UPDATE {name} SET v = 'new' WHERE id % 7 = 0",
            f"DELETE FROM {name} WHERE id % 11 = 1",
            f"UPDATE {name} SET id = id + 1000 WHERE id = 5",
            f"ALTER TABLE {name} ADD COLUMN more BIGINT, DROP COLUMN n, CHANGE v w VARCHAR(30), MODIFY id BIGINT",
            f"INSERT INTO {name} (id, w) VALUES (3000, 'last')",
        )
    lab.execute("UPDATE k SET a = 'new' WHERE n = 2", "DELETE FROM k WHERE n = 1 LIMIT 1")
    lab.run(timeout=200)
    lab.assert_equal(5)
    assert rows(lab, redshift, "k") == source_rows(lab, "k")
    lab.execute("TRUNCATE TABLE m", "INSERT INTO m (id, w) VALUES (1, 'again')")
    services.resnapshot_table(table=lab.table("s"))
    services.resnapshot_table(table=lab.table("k"))
    lab.run(timeout=200)
    lab.assert_equal(5)
    with closing(redshift.connect()) as db, db.cursor() as cursor:
        cursor.execute(f"UPDATE \"{lab.database}\".s SET w = 'other' WHERE id = 2")
    with pytest.raises(AssertionError):
        lab.assert_equal(5)


@pytest.mark.parametrize(
    "point", [pytest.param(one, marks=() if one == "apply.publish.after" else pytest.mark.long) for one in POINTS]
)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    lab: Lab, process_environment: dict[str, str], redshift: EmbeddedRedshift, config: dict[str, str], point: str
) -> None:
    make_tables(lab)
    apply(file(lab, config), given(config))
    kill_twice(lab, process_environment, point)
    for name in ("renamed", "k"):
        assert rows(lab, redshift, name) == source_rows(lab, name)


def test_pages_and_api_show_the_label_and_the_table(lab: Lab, config: dict[str, str], transactional_db: Any) -> None:
    del transactional_db
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(5,2))", "INSERT INTO t VALUES (1, 1.5), (2, NULL)")
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada", password="x"))
    made = browser.post("/api/v1/destinations/", {"name": "d", "kind": "redshift", "config": config},
        "application/json")  # fmt: skip
    assert made.status_code == 201, made.content
    assert not set(made.json()["config"]) & set(SECRETS)
    tested = browser.post(f"/api/v1/destinations/{made.json()['id']}/test/").json()
    assert tested["ok"] is True, tested
    kinds = {one["name"]: one for one in browser.get("/api/v1/destination-kinds/").json()}
    assert kinds["redshift"]["capabilities"]["verified"] is True
    assert kinds["redshift"]["proof"].startswith("Preview")
    assert "Not tested" in kinds["redshift"]["proof"]
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
    assert "redshift_connector" in shown
    shown = browser.get(reverse("replicators:table_preview", args=[table.replicator_id, table.pk])).content.decode()
    assert "1.50" in shown
    assert browser.get(reverse("destinations:guide", args=["redshift"])).status_code == 200
    odd = 'a"b'
    lab.execute(f"CREATE TABLE refused (id INT PRIMARY KEY, `{odd}` INT)")
    assessed = assess(
        connection=lab.connection(), selection=[SelectionEntry(lab.database, "refused")], options=ReplicatorOptions(),
        target=REDSHIFT, settings=config,
    )  # fmt: skip
    notes = {column.name: (column.support, column.note) for column in assessed[0].columns}
    assert notes[odd][0] == "none"
    assert "quotation mark" in notes[odd][1]
