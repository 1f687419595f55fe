"""A third target: known to nothing but its own folder and one line of the registry, and yet on every page, in the API
and in the file.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from replicator.errors import ConfigurationError
from replicator.state.journal import DdlAction
from replicator.targets import registry
from tests.integration.pipeline.conftest import any_lab, process_environment
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.plugins.duckdb_tables.kind import DUCKDB
from webapp.connections.forms import PREFIX
from webapp.connections.models import Connection
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.destinations.models import Destination
from webapp.management.commands import verify
from webapp.replicators import services
from webapp.replicators.models import Draft, Replicator
from webapp.replicators.targets import followed_ddl, kind_of

__all__ = ["any_lab", "process_environment"]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:No directory at"),
]


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setitem(registry.KINDS, "duckdb", DUCKDB)


@pytest.fixture
def browser(transactional_db: Any) -> Client:
    one = Client()
    one.force_login(User.objects.create_superuser("ada", password="x"))
    return one


def rows(path: Path, table: str, columns: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect(str(path)) as db:
        return Counter(db.execute(f"SELECT {columns} FROM {table}").fetchall())


def test_a_file_makes_a_replicator_whose_rows_follow_the_source(any_lab: Lab, tmp_path: Path) -> None:
    lab, path = any_lab, tmp_path / "copy.duckdb"
    lab.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(10,2))",
        "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', NULL), (3, 'c', 3)",
        "CREATE TABLE k (a VARCHAR(20), n INT)",
        "INSERT INTO k VALUES ('x', 1), ('x', 1)",
    )
    if isinstance(lab, PostgresLab):
        lab.execute("ALTER TABLE k REPLICA IDENTITY FULL")
    lab.connection()
    file = f"""
        destinations: [{{name: file, kind: duckdb, config: {{path: "{path}"}}}}]
        replicators:
          - {{name: {lab.name}, connection: {lab.name}, destination: file, tables: ["{lab.database}.*"],
             target: {{schema_prefix: p_}}, state: running}}
    """
    assert f"replicator {lab.name}: created" in apply(file, {})
    assert apply(file, {}) == []
    assert "kind: duckdb" in export([lab.name])
    lab.run()
    space = f"p_{lab.database}"
    assert rows(path, f"{space}.t", "id, v, n") == Counter(
        [(1, "a", Decimal("1.50")), (2, "b", None), (3, "c", Decimal("3.00"))]
    )
    lab.execute(
        "UPDATE t SET v = 'B' WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (4, 'd', 4.25)",
        "ALTER TABLE t ADD COLUMN more INT",
        "INSERT INTO t VALUES (5, 'e', 5, 50)",
        "UPDATE t SET id = 9 WHERE id = 3",
        "INSERT INTO k VALUES ('y', 2)",
    )
    lab.run()
    found = rows(path, f"{space}.t", "id, v, more")
    assert found == Counter([(2, "B", None), (4, "d", None), (5, "e", 50), (9, "c", None)])
    assert rows(path, f"{space}.k", "a, n") == Counter([("x", 1), ("x", 1), ("y", 2)])
    with pytest.raises(ConfigurationError, match="cannot be compared row by row"):
        verify.verify(lab.replicator, list(lab.replicator.tables.all()), wait=0, shown=1)


def test_the_wizard_asks_what_the_kind_asks_and_the_assessment_says_what_it_cannot(
    any_lab: Lab, browser: Client, tmp_path: Path
) -> None:
    lab, path = any_lab, tmp_path / "copy.duckdb"
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL)", "INSERT INTO t VALUES (1, NULL)")
    connection = lab.connection()
    Connection.objects.update(last_check=[{"status": "ok"}])
    user = User.objects.get()
    data = {"connection": connection.pk, "selection": {"databases": [lab.database]}}
    draft = Draft.objects.create(user=user, step="target", data=data, name="copy")

    def step(name: str) -> str:
        return reverse("replicators:step", args=[draft.pk, name])

    page = browser.get(step("target")).content.decode()
    assert "New: DuckDB" in page
    new = step("target") + "?destination=new&kind=duckdb"
    page = browser.get(new).content.decode()
    assert "Schema prefix" in page
    typed = {"name": "file", PREFIX + "path": "relative", "schema_prefix": ""}
    assert "path must be absolute" in browser.post(new, typed).content.decode()
    assert not Destination.objects.filter(kind="duckdb").exists()
    nowhere = typed | {PREFIX + "path": "/nowhere/at/all.duckdb"}
    assert "cannot be written" in browser.post(new, nowhere).content.decode()
    assert browser.post(new, typed | {PREFIX + "path": str(path)}).status_code == 302
    place = Destination.objects.get(kind="duckdb")
    draft.refresh_from_db()
    assert draft.data["destination"] == place.pk
    options = browser.get(step("options")).content.decode()
    assert "Write mode" in options
    for mode, code in (("history", "does not have the mode history"), ("mirror", "cannot follow rename table")):
        services.save_draft(
            user=user, step="assessment", name="copy", draft=draft, data=draft.data | {"options": {"mode": mode}}
        )
        found = browser.get(reverse("replicators:assess", args=[draft.pk]) + "?again=1").content.decode()
        assert code in found
    assert "Shown in the time zone of the session" in found or "TIMESTAMP" in found
    assert "file" in browser.get(reverse("destinations:list")).content.decode()
    assert browser.get(reverse("destinations:guide", args=["duckdb"])).status_code == 200
    kinds = {one["name"]: one for one in browser.get("/api/v1/destination-kinds/").json()}
    assert kinds["duckdb"]["capabilities"]["modes"] == ["mirror"]
    assert [field["name"] for field in kinds["duckdb"]["form"]] == ["path"]


def test_the_api_makes_one_and_refuses_what_the_kind_cannot(any_lab: Lab, browser: Client, tmp_path: Path) -> None:
    lab = any_lab
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    connection = lab.connection()

    def post(path: str, **body: Any) -> Any:
        return browser.post(f"/api/v1/{path}", body, "application/json")

    config = {"path": str(tmp_path / "a.duckdb")}
    made = post("destinations/", name="file", kind="duckdb", config=config)
    assert made.status_code == 201, made.content
    pk = made.json()["id"]
    tested = browser.post(f"/api/v1/destinations/{pk}/test/")
    assert tested.json()["ok"] is True
    body = {
        "name": "copy", "connection": connection.pk, "destination": pk, "target": {"schema_prefix": "x_"},
        "selection": [{"database": lab.database, "table": "t"}],
    }  # fmt: skip
    refused = post("replicators/", **body, options={"mode": "history"})
    assert "does not have the mode history" in refused.json()["message"]
    misplaced = post("replicators/", **body | {"target": {"path": "/elsewhere"}})
    assert "is a setting of the destination file" in misplaced.json()["message"]
    answer = post("replicators/", **body)
    assert answer.status_code == 201, answer.content
    shown = answer.json()
    assert (shown["destination"], shown["destination_name"]) == (pk, "file")
    assert shown["target"] == {"kind": "duckdb", **config, "schema_prefix": "x_"}
    replicator = Replicator.objects.get()
    followed = followed_ddl(kind_of(replicator), replicator.parsed_options.ddl_actions)
    assert followed["rename_table"] is DdlAction.STOP
    assert followed["rename_column"] is DdlAction.APPLY
    assert browser.delete(f"/api/v1/destinations/{pk}/").status_code == 400
    table = replicator.tables.get()
    assert (table.target_namespace, table.target_name) == (f"x_{lab.database}", "t")
    with pytest.raises(ConfigurationError, match="cannot be renamed"):
        services.rename_target(table=table, namespace="other", name="t")
