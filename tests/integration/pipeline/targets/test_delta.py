"""Replicators that write Delta tables: every mode, definitions that change, other programs, and nothing left behind."""

from __future__ import annotations

import io
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from replicator.targets.base import TargetTable
from replicator.targets.delta.destination import DeltaStore
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.targets.kills import POINTS, kill_twice, make_tables, source_rows
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.database import clock
from webapp.destinations.models import Destination
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable
from webapp.worker.upkeep import garbage_collection, quiet_tables

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:No directory at"),
]
MODES = {"m": "mirror", "s": "soft_delete", "h": "history", "c": "changelog"}


def file(lab: Lab, folder: Path, *lines: str, **options: str) -> str:
    connection = lab.connection().name
    tables = ", ".join(lines or [f'"{lab.database}.*"'])
    said = ", ".join(f"{name}: {value}" for name, value in options.items())
    return f"""
        destinations: [{{name: folder, kind: delta, config: {{store: file, location: "file://{folder}/delta"}}}}]
        replicators:
          - {{name: {lab.name}, connection: {connection}, destination: folder, tables: [{tables}],
             options: {{{said}}}, state: running}}
    """


def opened(lab: Lab, folder: Path, name: str) -> DeltaTable:
    return DeltaTable(DeltaStore(f"file://{folder}/delta").uri(TargetTable(lab.database, name)))


def rows(lab: Lab, folder: Path, name: str) -> Counter[Any]:
    """Without Tidemark's own column; read by delta-rs."""
    data = opened(lab, folder, name).to_pyarrow_table().drop_columns(["_sequence_num"])
    return Counter(tuple(row.values()) for row in data.to_pylist())


def test_names_by_rules_and_computed_columns(lab: Lab, tmp_path: Path) -> None:
    lab.execute("CREATE TABLE t_1 (id INT PRIMARY KEY, n INT)", "INSERT INTO t_1 VALUES (1, 5), (2, 6)")
    rules = f"{lab.database}.t_*: {lab.database}.all_{{1}}"
    computed = "*.*: tenant = 'eu', text = cast(n as string), made_by = operation"
    target = f'target: {{routing: "{rules}", computed_columns: "{computed}"}},\n             options'
    apply(file(lab, tmp_path, f"{lab.database}.t_1").replace("options", target), {})
    lab.run(timeout=200)
    lab.execute("UPDATE t_1 SET n = 7 WHERE id = 2", "INSERT INTO t_1 VALUES (3, 8)")
    lab.run(timeout=200)
    found = [(1, 5, "eu", "5", "READ"), (2, 7, "eu", "7", "UPDATE"), (3, 8, "eu", "8", "INSERT")]
    assert sorted(rows(lab, tmp_path, "all_1")) == found
    assert lab.assert_equal(1) == 3


def test_a_file_makes_a_replicator_whose_rows_follow_the_source(lab: Lab, tmp_path: Path) -> None:
    for name in MODES:
        lab.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(10,2), at DATETIME(6),"
            " ts TIMESTAMP(6))",
            f"INSERT INTO {name} SELECT seq, CONCAT('v', seq), seq / 4, '2026-01-02 03:04:05.678901', '2026-01-02'"
            " FROM seq_1_to_500",
        )
    lab.execute("CREATE TABLE k (a VARCHAR(20), n INT)", "INSERT INTO k VALUES ('x', 1), ('x', 1), (NULL, 2)")
    lines = [f"{{table: {lab.database}.{name}, mode: {mode}}}" for name, mode in MODES.items()]
    text = file(lab, tmp_path, *lines, f"{lab.database}.k")
    assert f"replicator {lab.name}: created" in apply(text, {})
    assert apply(text, {}) == []
    assert "kind: delta" in export([lab.name])
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
            f"INSERT INTO {name} VALUES (2000, 'later', 1, NULL, NULL, 2)",
            f"ALTER TABLE {name} DROP COLUMN n, CHANGE v w VARCHAR(30), MODIFY id BIGINT",
            f"INSERT INTO {name} VALUES (3000, 'last', NULL, NULL, 3)",
        )
    lab.run(timeout=200)
    lab.assert_equal(5)
    assert rows(lab, tmp_path, "k") == source_rows(lab, "k")
    assert {row[:2] for row in rows(lab, tmp_path, "m")} == {row[:2] for row in source_rows(lab, "m")}
    assert rows(lab, tmp_path, "m").total() == source_rows(lab, "m").total()
    lab.execute("TRUNCATE TABLE m", "INSERT INTO m VALUES (1, 'again', NULL, NULL, NULL)")
    services.resnapshot_table(table=lab.table("s"))
    services.resnapshot_table(table=lab.table("k"))
    lab.run(timeout=200)
    lab.assert_equal(5)
    lab.execute("DROP TABLE c")
    lab.run(timeout=200)
    lab.assert_equal(4)
    assert {name for name, state in lab.states().items() if state == "dropped"} == {"c"}
    assert rows(lab, tmp_path, "c") == Counter()
    assert garbage_collection.dropped_tables(clock()) == 0
    out = io.StringIO()
    call_command("verify", lab.name, stdout=out)
    assert "4 of 4 tables equal" in out.getvalue()


@pytest.mark.parametrize(
    "point",
    # The others: the contract of targets has a worker end at each of them.
    [pytest.param(one, marks=() if one == "apply.publish.after" else pytest.mark.long) for one in POINTS],
)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    lab: Lab, process_environment: dict[str, str], tmp_path: Path, point: str
) -> None:
    make_tables(lab)
    apply(file(lab, tmp_path), {})
    kill_twice(lab, process_environment, point)
    assert rows(lab, tmp_path, "t") == Counter()
    for name in ("renamed", "k"):
        assert rows(lab, tmp_path, name) == source_rows(lab, name)


def test_pages_and_api_show_the_table_and_what_to_paste(lab: Lab, tmp_path: Path, transactional_db: Any) -> None:
    del transactional_db
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(5,2))", "INSERT INTO t VALUES (1, 1.5), (2, NULL)")
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada", password="x"))
    config = {"store": "file", "location": f"file://{tmp_path}/delta"}
    made = browser.post("/api/v1/destinations/", {"name": "d", "kind": "delta", "config": config}, "application/json")
    assert made.status_code == 201, made.content
    tested = browser.post(f"/api/v1/destinations/{made.json()['id']}/test/").json()
    assert tested["ok"] is True
    assert "Conditional writes" in str(tested)
    kinds = {one["name"]: one for one in browser.get("/api/v1/destination-kinds/").json()}
    assert kinds["delta"]["capabilities"]["verified"] is True
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
    for text in ("delta_scan(", "DeltaTable(", "polars.scan_delta("):
        assert text in shown.replace("&#x27;", "'").replace("&quot;", '"'), text
    shown = browser.get(reverse("replicators:table_preview", args=[table.replicator_id, table.pk])).content.decode()
    assert "1.50" in shown
    assert rows(lab, tmp_path, "t") == Counter([(1, Decimal("1.50")), (2, None)])
    assert browser.get(reverse("destinations:guide", args=["delta"])).status_code == 200
    assert Destination.objects.get(kind="delta").config["location"] == config["location"]
    quiet_tables.keep_quiet_tables(lab.replicator)


def test_without_settings_the_tables_are_beside_the_lakehouse(lab: Lab, tmp_path: Path) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v FLOAT)", "INSERT INTO t VALUES (1, -0.0), (2, NULL)")
    text = file(lab, tmp_path)
    apply(text.replace(text[text.index("config:") : text.index("}}]") + 1], "config: {}"), {})
    assert Destination.objects.get(kind="delta").config.get("location", "") == ""
    lab.run(timeout=120)
    assert lab.assert_equal(1) == 2
    place = f"{settings.TIDEMARK_WAREHOUSE_URL}/delta/{lab.database}/t"
    assert sorted(DeltaTable(place).to_pyarrow_table().column("id").to_pylist()) == [1, 2]
