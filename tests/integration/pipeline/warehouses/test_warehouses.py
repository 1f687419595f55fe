"""Replicators that write into warehouses: from a file to verification; every mode, kills, pages and API."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from replicator.targets.base import TargetTable
from replicator.targets.kind import Opening
from replicator.targets.redshift.aws import LOAD_SECONDS
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.targets.kills import POINTS, ROOT, kill_twice, make_tables, source_rows
from tests.integration.warehouse.copies import Copies
from tests.integration.warehouse.places import PLACES
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.replicators import services
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
COLUMNS = (
    "id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(10,2), at DATETIME(6), ts TIMESTAMP(6), b BIGINT UNSIGNED, j JSON,"
    " x VARBINARY(9), f DOUBLE, r FLOAT, t TIME(3), d DATE, wide DECIMAL(60,3)"
)
VALUES = (
    "seq, CONCAT('v', seq), seq / 4, '2026-01-02 03:04:05.678901', '2026-01-02', 18446744073709551615, '{\"a\": 1}',"
    " x'00ff', -0.0, 0.1, '-838:59:59.999', '2026-01-02', 1e50"
)
PROOFS = {
    "enforced": "Proven", "redshift": "Preview", "snowflake": "Preview", "bigquery": "Preview",
    "spanner": "Proven on the vendor",
}  # fmt: skip
# A name that no column of the copy can have, and what the assessment says of it.
REFUSED = {
    "enforced": [("ä" * 32, "Its name has more than 63 bytes in UTF-8, which Postgres truncates."),
        ("ctid", "Its name is that of a system column of Postgres.")],
    "redshift": [('a"b', "quotation mark")],
}  # fmt: skip


@pytest.fixture
def copies(request: pytest.FixtureRequest, lab: Lab, tmp_path: Path) -> Iterator[Copies]:
    """What has the copies of the lab's database."""
    made = PLACES[request.param](request, tmp_path, lab.database)
    made.namespace = lab.database
    yield made
    made.close()


everywhere = pytest.mark.parametrize("copies", PROOFS, indirect=True)


def secrets(copies: Copies) -> dict[str, str]:
    """By the names that the file has for them."""
    hidden = {one.name for one in copies.kind.destination_form if one.secret} & copies.settings.keys()
    return {name.upper(): str(copies.settings[name]) for name in hidden}


def file(lab: Lab, copies: Copies, *lines: str) -> str:
    tables = ", ".join(lines or [f'"{lab.database}.*"'])
    hidden = secrets(copies)
    config = ", ".join(
        f'{name}: "{f"${{{name.upper()}}}" if name.upper() in hidden else value}"'
        for name, value in copies.settings.items()
    )
    return f"""
        destinations: [{{name: copies, kind: {copies.kind.name}, config: {{{config}}}}}]
        replicators:
          - {{name: {lab.name}, connection: {lab.connection().name}, destination: copies, tables: [{tables}],
             state: running}}
    """


def rows(copies: Copies, name: str) -> Counter[Any]:
    return Counter(copies.rows(TargetTable(copies.namespace, name)))


@everywhere
def test_a_file_makes_a_replicator_whose_rows_follow_the_source(lab: Lab, copies: Copies) -> None:
    for name in MODES:
        lab.execute(f"CREATE TABLE {name} ({COLUMNS})", f"INSERT INTO {name} SELECT {VALUES} FROM seq_1_to_300")
    lab.execute("CREATE TABLE k (a VARCHAR(20), n INT)", "INSERT INTO k VALUES ('x', 1), ('x', 1), (NULL, 2)")
    lines = [f"{{table: {lab.database}.{name}, mode: {mode}}}" for name, mode in MODES.items()]
    text, given = file(lab, copies, *lines, f"{lab.database}.k"), secrets(copies)
    assert f"replicator {lab.name}: created" in apply(text, given)
    assert apply(text, given) == []
    exported = export([lab.name])
    assert f"kind: {copies.kind.name}" in exported
    assert not [value for value in given.values() if value != "tidemark" and value in exported]
    lab.run(timeout=200)
    assert lab.assert_equal(5) == 1203
    assert_pages(lab)
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
    assert rows(copies, "k") == source_rows(lab, "k")
    lab.execute("TRUNCATE TABLE m", "INSERT INTO m (id, w) VALUES (1, 'again')")
    services.resnapshot_table(table=lab.table("s"))
    services.resnapshot_table(table=lab.table("k"))
    lab.execute("DROP TABLE c")
    lab.run(timeout=200)
    lab.assert_equal(4)
    out = io.StringIO()
    call_command("verify", lab.name, stdout=out)
    assert "4 of 4 tables equal" in out.getvalue()
    places = {name: copies.place(TargetTable(copies.namespace, name)) for name in MODES}
    number, word = copies.quoted("id"), copies.quoted("w")
    copies.spoil(f"UPDATE {places['s']} SET {word} = 'other' WHERE {number} = 2")
    copies.spoil(f"DELETE FROM {places['m']} WHERE {number} = 1")
    with pytest.raises(SystemExit):
        call_command("verify", lab.name, stdout=(told := io.StringIO()))
    assert "1 missing" in told.getvalue()
    assert "1 different" in told.getvalue()


def assert_pages(lab: Lab) -> None:
    """Of the table `m`: what to paste into a client, and some of its rows."""
    browser, table = signed_in(), lab.table("m")
    shown = browser.get(reverse("replicators:table_target", args=[table.replicator_id, table.pk])).content.decode()
    assert "LIMIT 10" in shown
    assert "Snapshots</dt>" not in shown
    shown = browser.get(reverse("replicators:table_preview", args=[table.replicator_id, table.pk])).content.decode()
    assert "18446744073709551615" in shown


def signed_in() -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("ada", password="x"))
    return browser


@everywhere
def test_pages_and_api_say_before_a_start_what_was_tested(lab: Lab, copies: Copies, request: Any) -> None:
    browser, kind = signed_in(), copies.kind
    body = {"name": "d", "kind": kind.name, "config": copies.settings}
    made = browser.post("/api/v1/destinations/", body, "application/json")
    assert made.status_code == 201, made.content
    assert not {name.upper() for name in made.json()["config"]} & secrets(copies).keys()
    tested = browser.post(f"/api/v1/destinations/{made.json()['id']}/test/").json()
    assert tested["ok"] is True, tested
    said = {one["name"]: one for one in browser.get("/api/v1/destination-kinds/").json()}[kind.name]
    assert said["capabilities"]["verified"] is True
    place = request.node.callspec.params["copies"]
    assert said["proof"].startswith(PROOFS[place])
    assert ("Not tested" in said["proof"]) == (place != "enforced")
    assert browser.get(f"/destinations/new/?kind={kind.name}").status_code == 200
    assert browser.get(reverse("destinations:guide", args=[kind.name])).status_code == 200
    refused = REFUSED.get(place, [])
    columns = "".join(f", `{name}` INT" for name, _ in refused)
    lab.execute(f"CREATE TABLE refused (id INT PRIMARY KEY{columns})")
    assessed = assess(
        connection=lab.connection(), selection=[SelectionEntry(lab.database, "refused")], options=ReplicatorOptions(),
        target=kind, settings=copies.settings,
    )  # fmt: skip
    notes = {column.name: (column.support, column.note) for column in assessed[0].columns}
    assert notes["id"][0] != "none"
    for name, note in refused:
        assert notes[name][0] == "none"
        assert note in notes[name][1]


STEPS = ("apply.step.between",)
KILLS = {"enforced": POINTS, "redshift": POINTS, "snowflake": STEPS, "bigquery": (POINTS[0], *STEPS), "spanner": STEPS}
# What Postgres proves, and Redshift's stand-in by the test below at one of its statements; and where the contract of
# targets has a worker end.
LONG = {
    *(("redshift", point) for point in POINTS),
    *(("enforced", one) for one in POINTS if one != "apply.publish.after"),
    *(("bigquery", one) for one in STEPS),
}


@pytest.mark.parametrize(
    ("copies", "point"),
    [
        pytest.param(place, point, marks=pytest.mark.long if (place, point) in LONG else ())
        for place, points in KILLS.items()
        for point in points
    ],
    indirect=["copies"],
)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    lab: Lab, process_environment: dict[str, str], copies: Copies, point: str
) -> None:
    make_tables(lab)
    apply(file(lab, copies), secrets(copies))
    kill_twice(lab, process_environment, point)
    for name in ("renamed", "k"):
        assert rows(copies, name) == source_rows(lab, name)


@pytest.mark.parametrize("copies", ["redshift"], indirect=True)
@pytest.mark.parametrize(
    "statement", ["COPY", *(pytest.param(one, marks=pytest.mark.long) for one in ("UPDATE", "INSERT", "COMMIT"))]
)
def test_a_worker_that_is_killed_at_a_statement_of_redshift_loses_and_doubles_nothing(
    lab: Lab, process_environment: dict[str, str], copies: Any, statement: str
) -> None:
    """Between upload and load, before the position is moved, before the rows are put in, and while all is committed."""
    make_tables(lab)
    apply(file(lab, copies), secrets(copies))
    command = [sys.executable, "-m", "webapp", "run", lab.name, "--until-current", "--timeout", "120"]
    for number in (1, 4):
        with subprocess.Popen(command, cwd=ROOT, env=process_environment, stdout=subprocess.DEVNULL) as worker:
            lock, left = threading.Lock(), [number]

            def meet(sql: str, worker: Any = worker, lock: Any = lock, left: list[int] = left) -> str:
                with lock:
                    left[0] -= sql.startswith(statement)
                    if left[0] == 0:
                        worker.kill()
                return ""

            copies.redshift.meet = meet
            assert worker.wait(200) == -signal.SIGKILL
        copies.redshift.meet = lambda _: ""
        lab.execute(f"UPDATE t SET v = v + {number} WHERE id % 3 = 0", "INSERT INTO k VALUES (1)")
    lab.run(timeout=200)
    lab.assert_equal(2)
    for name in ("t", "k"):
        assert rows(copies, name) == source_rows(lab, name)
    lake: Any = None
    assert copies.kind.clean is not None
    opening = Opening(lake, lake, copies.storage, "", copies.settings, "")
    swept = copies.kind.clean(opening, time.time() + LOAD_SECONDS + 60)
    assert swept or statement != "COPY"  # at others, another table's file may be on its way
