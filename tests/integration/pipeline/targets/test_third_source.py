"""A source that the product does not know, from its definition or the wizard to a copy that is equal."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from replicator.sources.registry import KINDS
from tests.plugins.sqlite_log import KIND, change_log
from webapp.connections.models import Connection
from webapp.management.commands.verify import verify
from webapp.replicators import selectors
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.telemetry.gathering import copies_of

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:No directory at"),  # of static files, which only `collectstatic` makes
]
HTMX: Any = {"headers": {"HX-Request": "true"}}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[sqlite3.Connection]:
    """A file with tables and rows, and a log from here on."""
    monkeypatch.setitem(KINDS, KIND.name, KIND)
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    change_log.install(connection)
    statements = (
        "CREATE TABLE orders (id int PRIMARY KEY, name varchar(40), paid boolean, at date, total decimal(10, 2))",
        "CREATE TABLE lines (n int, word text)",
        'CREATE TABLE "hidden" (id int PRIMARY KEY, v text)',
        "INSERT INTO orders SELECT value, 'order ' || value, value % 2, '2026-11-26', value / 4.0 FROM generated",
        "INSERT INTO lines VALUES (1, 'a'), (1, 'a'), (NULL, NULL)",
    )
    numbers = (
        "WITH RECURSIVE generated (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generated WHERE value < 500) "
    )
    for statement in statements:
        change_log.execute(connection, (numbers if "generated" in statement else "") + statement)
    yield connection
    connection.close()


def change(shop: sqlite3.Connection) -> None:
    """Every kind of change, a statement among them, one transaction undone."""
    for statements, end in (
        (("UPDATE orders SET name = 'it''s', total = NULL WHERE id < 10", "DELETE FROM orders WHERE id > 490"),
            "COMMIT"),
        (("DELETE FROM orders",), "ROLLBACK"),
        (("ALTER TABLE orders ADD COLUMN note text", "INSERT INTO orders VALUES (900, 'new', 1, NULL, 0.5, 'x')"),
            "COMMIT"),
        (("UPDATE orders SET id = 901 WHERE id = 20", "DELETE FROM lines WHERE n = 1",
                "INSERT INTO lines VALUES (7, 'b')"), "COMMIT"),
    ):  # fmt: skip
        shop.execute("BEGIN IMMEDIATE")
        for statement in statements:
            change_log.execute(shop, statement)
        shop.execute(end)


def run_and_compare(name: str, tables: int) -> int:
    """Until current; then all equal.  The number of rows."""
    call_command("run", name, until_current=True, timeout=120, stdout=io.StringIO())
    replicator = selectors.by_name(name)
    rows = list(ReplicatorTable.objects.filter(replicator=replicator))
    assert {(row.state, row.error_code) for row in rows} == {("streaming", "")}
    reports = verify(replicator, rows, wait=0, shown=5)
    assert not [line for report in reports if not report.equal for line in report.lines()]
    assert len(reports) == tables
    return sum(report.source_rows for report in reports)


def test_from_a_definitions_file_to_a_copy_that_is_equal(shop: sqlite3.Connection, tmp_path: Path) -> None:
    file = tmp_path / "shop.yml"
    file.write_text(f"""
connections:
  - name: file
    kind: sqlite_log
    config: {{file: "{tmp_path / "shop.db"}"}}
replicators:
  - name: copy
    connection: file
    tables: ["main.*", {{table: main.hidden, mask: {{v: hash}}}}]
    target: {{namespace_prefix: "file_"}}
    state: running
""")
    out = io.StringIO()
    call_command("apply", str(file), stdout=out)
    assert "replicator copy: created" in out.getvalue()
    assert run_and_compare("copy", 3) == 503
    change(shop)
    change_log.execute(shop, "CREATE TABLE later (id int PRIMARY KEY, v text)")
    shop.execute("INSERT INTO later VALUES (1, 'later')")
    shop.execute("INSERT INTO hidden VALUES (1, 'secret')")
    assert run_and_compare("copy", 4) == 491 + 2 + 1 + 1
    out = io.StringIO()
    call_command("verify", "copy", stdout=out)
    assert "4 of 4 tables equal" in out.getvalue()
    call_command("export", stdout=(out := io.StringIO()))
    assert "kind: sqlite_log" in out.getvalue()
    call_command("apply", str(file), stdout=(out := io.StringIO()))
    assert "created" not in out.getvalue()
    orders = ReplicatorTable.objects.get(name="orders")
    [(_, copied)] = copies_of([orders.pk]).values()
    assert (copied.source.namespace, copied.source.name) == ("file", f"{tmp_path / 'shop.db'}#main.orders")
    change_log.purge(shop, shop.execute(f"SELECT max(row) FROM {change_log.LOG}").fetchone()[0])
    assert run_and_compare("copy", 4) == 495  # what was read may be purged


def test_from_the_wizard_to_a_copy_that_is_equal(shop: sqlite3.Connection, tmp_path: Path) -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("ann"))
    begin = reverse("replicators:new")
    page = browser.get(begin, {"kind": "sqlite_log", "connection": "new"}).content.decode()
    assert 'name="setting-file"' in page
    assert "setting-host" not in page
    answer = browser.post(
        f"{begin}?kind=sqlite_log",
        {"connection": "new", "name": "file", "setting-file": str(tmp_path / "shop.db"), "setting-lock_seconds": "5"},
    )
    draft = int(answer["Location"].split("/")[-3])

    def at(step: str) -> str:
        return reverse("replicators:step", args=[draft, step])

    assert answer["Location"] == at("test")
    connection = Connection.objects.get(name="file")
    page = browser.post(reverse("connections:test", args=[connection.pk]), **HTMX).content.decode()
    assert "The file has a log." in page
    assert browser.post(at("test"))["Location"] == at("tables")
    listing = browser.get(reverse("replicators:listing", args=[draft]), {"database": "main"}).content.decode()
    assert "orders" in listing
    assert "attachment" in browser.get(at("tables")).content.decode() + listing
    assert change_log.LOG not in listing
    for table in ("orders", "lines"):
        browser.post(
            reverse("replicators:pick", args=[draft]), {"op": "table", "of": "main", "table": table, "on": "1"}
        )
    columns = {"of": "main", "table": "orders"}
    assert "total" in browser.get(reverse("replicators:columns", args=[draft]), columns).content.decode()
    assert browser.post(at("tables"))["Location"] == at("target")
    assert browser.post(at("target"), {"namespace_prefix": "wizard_"})["Location"] == at("options")
    page = browser.get(at("options"))
    assert "zero_dates" not in page.content.decode()
    options = {name: value for name, value in page.context["form"].initial.items() if value is not None}
    answer = browser.post(at("options"), {**options, "name": "copy", "initial_snapshot": "on"})
    assert answer.status_code == 302, page.context["form"].errors
    assessed = browser.get(reverse("replicators:assess", args=[draft]), **HTMX).content.decode()
    assert "orders" in assessed
    browser.post(reverse("replicators:assess_change", args=[draft]), {"op": "accept_all"})
    assert browser.post(at("assessment"))["Location"] == at("review"), browser.get(at("assessment")).content.decode()
    assert "0000-00-00" not in browser.get(at("review")).content.decode()
    browser.post(at("review"), {"start": "yes"})
    replicator = Replicator.objects.get(name="copy")
    assert run_and_compare("copy", 2) == 503
    change(shop)
    assert run_and_compare("copy", 2) == 491 + 2
    orders = ReplicatorTable.objects.get(name="orders")
    pages = [
        reverse(f"replicators:{name}", args=[replicator.pk])
        for name in ("overview", "tables", "schema", "lineage", "settings")
    ]
    pages += [reverse("replicators:lineage_table", args=[replicator.pk, orders.pk]), reverse("connections:list")]
    pages += [
        reverse("replicators:table_columns", args=[replicator.pk, orders.pk]),
        reverse("connections:edit", args=[connection.pk]),
    ]
    pages += [reverse("connections:guide", args=["sqlite_log"])]
    shown = {url: browser.get(url) for url in pages}
    assert {url: answer.status_code for url, answer in shown.items() if answer.status_code != 200} == {}
    text = {url: answer.content.decode() for url, answer in shown.items()}
    assert str(tmp_path / "shop.db") in text[reverse("connections:list")]
    assert "infinity" not in "".join(text.values())
    assert "CREATE TABLE &quot;main&quot;" in text[reverse("replicators:settings", args=[replicator.pk])]


def test_a_log_that_was_purged_is_told_and_started_anew(shop: sqlite3.Connection, tmp_path: Path) -> None:
    definition = {
        "connections": [{"name": "file", "kind": "sqlite_log", "config": {"file": str(tmp_path / "shop.db")}}],
        "replicators": [
            {
                "name": "copy",
                "connection": "file",
                "tables": ["main.orders"],
                "state": "running",
                "options": {"on_log_lost": "start_anew"},
            }
        ],
    }
    (tmp_path / "shop.yml").write_text(json.dumps(definition))
    call_command("apply", str(tmp_path / "shop.yml"), stdout=io.StringIO())
    assert run_and_compare("copy", 1) == 500
    change(shop)
    change_log.purge(shop, shop.execute(f"SELECT max(row) FROM {change_log.LOG}").fetchone()[0])
    assert run_and_compare("copy", 1) == 491
