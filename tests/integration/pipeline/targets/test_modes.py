"""Every mode on a live source: snapshot, log, moved keys, definitions that change, a worker that dies, a reload;
verified after each.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from replicator.errors import ConfigurationError
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.integration.pipeline.test_cdap_example import target_rows
from webapp.console.definitions import apply as definitions
from webapp.console.definitions.export import export
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[4]
MODES = {"m": "mirror", "s": "soft_delete", "h": "history", "c": "changelog"}


@pytest.fixture
def postgres_lab(postgres_source: EmbeddedPostgresSource, transactional_db: Any) -> Iterator[PostgresLab]:
    one = PostgresLab(postgres_source.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def begin(lab: Lab, **more: str) -> None:
    """A table for each mode; `more`: name of another table → its mode."""
    modes = MODES | more
    selection = [SelectionEntry(lab.database, name, mode=mode) for name, mode in modes.items()]
    connection = lab.connection()
    services.create_replicator(name=lab.name, connection=connection, selection=selection, user=None, start=True)


def run_and_compare(lab: Lab, tables: int) -> None:
    """With time for Spark to start on a busy machine."""
    lab.run(timeout=400)
    lab.assert_equal(tables)


def everywhere(lab: Lab, *statements: str) -> None:
    """`{}` is each table of `MODES`."""
    lab.execute(*[statement.format(name) for statement in statements for name in MODES])


def versions(lab: Lab, key: int) -> list[tuple[Any, bool]]:
    rows = sorted((r for r in target_rows(lab, "h") if r["id"] == key), key=lambda r: r["_sequence_num"])
    for one, following in itertools.pairwise(rows):
        assert one["_valid_from"] <= one["_valid_to"] <= following["_valid_from"]
    return [(r["v"], r["_is_current"]) for r in rows]


def operations(lab: Lab, table: str = "c") -> Counter[str]:
    return Counter(row["_operation"] for row in target_rows(lab, table))


@pytest.mark.timeout(1500)
def test_mariadb_in_every_mode(lab: Lab, process_environment: dict[str, str]) -> None:
    everywhere(lab, "CREATE TABLE {} (id INT PRIMARY KEY, v VARCHAR(20), n INT)")
    lab.execute("CREATE TABLE k (v INT)", "INSERT INTO k VALUES (1), (1), (2)")
    everywhere(lab, "INSERT INTO {} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)")
    begin(lab, k="changelog")
    run_and_compare(lab, 5)
    with lab.transaction() as cursor:
        for name in MODES:
            cursor.execute(f"UPDATE {name} SET v = 'a2' WHERE id = 1")
            cursor.execute(f"UPDATE {name} SET v = 'a3' WHERE id = 1")
            cursor.execute(f"DELETE FROM {name} WHERE id = 2")
            cursor.execute(f"UPDATE {name} SET id = 30 WHERE id = 3")
            cursor.execute(f"INSERT INTO {name} VALUES (5, 'e', 5)")
            cursor.execute(f"DELETE FROM {name} WHERE id = 5")
    lab.execute("DELETE FROM k WHERE v = 1 LIMIT 1", "UPDATE k SET v = 3 WHERE v = 2")
    run_and_compare(lab, 5)
    gone = {r["id"]: (r["v"], r["_deleted_at"]) for r in target_rows(lab, "s") if r["_is_deleted"]}
    assert {key: v for key, (v, _) in gone.items()} == {2: "b", 3: "c", 5: "e"}
    assert all(at is not None for _, at in gone.values())
    assert versions(lab, 1) == [("a", False), ("a2", False), ("a3", True)]
    assert (versions(lab, 3), versions(lab, 30), versions(lab, 5)) == ([("c", False)], [("c", True)], [("e", False)])
    assert operations(lab) == Counter(READ=4, UPDATE=3, DELETE=3, INSERT=1)
    # Definitions change; the worker dies when a commit was published and the journal does not know.
    everywhere(lab, "ALTER TABLE {} ADD COLUMN more INT DEFAULT 7", "ALTER TABLE {} RENAME COLUMN n TO number")
    everywhere(lab, "INSERT INTO {} VALUES (2, 'again', 9, 9)", "DELETE FROM {} WHERE id = 4")
    died = subprocess.run(
        [sys.executable, "manage.py", "run", lab.name, "--until-current", "--timeout", "200"], cwd=ROOT, check=False,
        env=process_environment | {"TIDEMARK_FAULTS": "apply.publish.after=kill@3"}, capture_output=True, timeout=400,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL, died.stdout.decode() + died.stderr.decode()
    run_and_compare(lab, 5)
    assert {r["id"] for r in target_rows(lab, "s") if r["_is_deleted"]} == {3, 4, 5}
    assert versions(lab, 2)[-1] == ("again", True)
    told = operations(lab)
    assert (told["INSERT"], told["DELETE"]) == (2, 4)
    # A reload: nothing is new but what is.
    before = len(target_rows(lab, "h"))
    for name in (*MODES, "k"):
        services.resnapshot_table(table=lab.table(name))
    run_and_compare(lab, 5)
    assert len(target_rows(lab, "h")) == before
    assert (operations(lab)["SWEEP"], operations(lab, "k")["SWEEP"]) == (told["SWEEP"] + 1, 1)
    everywhere(lab, "TRUNCATE TABLE {}", "INSERT INTO {} VALUES (1, 'new', 1, 1)")
    lab.execute("TRUNCATE TABLE k", "INSERT INTO k VALUES (8), (8)")
    run_and_compare(lab, 5)
    assert versions(lab, 1)[-1] == ("new", True)
    assert sum(not r["_is_deleted"] for r in target_rows(lab, "s")) == 1
    assert operations(lab)["TRUNCATE_TABLE"] == 1


@pytest.mark.timeout(1500)
def test_postgres_with_values_left_out_in_every_mode(postgres_lab: PostgresLab) -> None:
    lab = postgres_lab
    everywhere(lab, "CREATE TABLE {} (id int PRIMARY KEY, v varchar(20), doc text)")
    everywhere(lab, "ALTER TABLE {} ALTER COLUMN doc SET STORAGE EXTERNAL")
    everywhere(lab, "INSERT INTO {} SELECT n, 'v', repeat(n::text, 9000) FROM generate_series(1, 6) n")
    begin(lab)
    run_and_compare(lab, 4)
    everywhere(
        lab,
        "UPDATE {} SET v = 'w' WHERE id < 4",
        "UPDATE {} SET v = 'x' WHERE id = 1",
        "UPDATE {} SET id = 20 WHERE id = 2",
        "UPDATE {} SET v = 'moved' WHERE id = 20",
        "DELETE FROM {} WHERE id IN (3, 5)",
    )
    run_and_compare(lab, 4)
    assert versions(lab, 1) == [("v", False), ("w", False), ("x", True)]
    assert all(row["doc"] is not None for row in target_rows(lab, "h"))
    assert {r["id"]: r["doc"][:1] for r in target_rows(lab, "s") if r["_is_deleted"]} == {2: "2", 3: "3", 5: "5"}
    assert any(row["_unchanged"] == '["doc"]' for row in target_rows(lab, "c"))
    for name in MODES:
        services.resnapshot_table(table=lab.table(name))
    everywhere(lab, "UPDATE {} SET v = 'y' WHERE id = 6")
    run_and_compare(lab, 4)


@pytest.mark.timeout(1200)
def test_parts_that_are_read_again_in_every_mode(lab: Lab) -> None:
    everywhere(lab, "CREATE TABLE {} (id INT PRIMARY KEY, v VARCHAR(20))")
    everywhere(lab, "INSERT INTO {} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    begin(lab)
    run_and_compare(lab, 4)
    with lab.connect(database=lab.database).cursor() as cursor:  # what no log shows
        cursor.execute("SET SESSION sql_log_bin = 0")
        for name in MODES:
            cursor.execute(f"DELETE FROM {name} WHERE id = 1")
            cursor.execute(f"UPDATE {name} SET v = 'hidden' WHERE id IN (2, 4)")
            cursor.execute(f"INSERT INTO {name} VALUES (9, 'hidden')")
    before = operations(lab)
    for name in MODES:
        services.read_keys(table=lab.table(name), keys=[1, 2, 3, 9])
        services.read_rows(table=lab.table(name), condition="id = 4")
    run_and_compare(lab, 4)
    assert {r["id"]: r["v"] for r in target_rows(lab, "s") if r["_is_deleted"]} == {1: "a"}
    assert (versions(lab, 1), versions(lab, 2)) == ([("a", False)], [("b", False), ("hidden", True)])
    assert (versions(lab, 3), versions(lab, 4)) == ([("c", True)], [("d", False), ("hidden", True)])
    assert operations(lab) - before == Counter(READ=4, DELETE=1)


@pytest.mark.timeout(1200)
def test_a_mode_changes_only_by_name_and_reads_the_table_anew(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.execute("CREATE TABLE k (v INT)", "INSERT INTO k VALUES (1), (1)")
    lab.replicate("t", "k", options={"mode": "changelog"})
    run_and_compare(lab, 2)
    t, k = lab.table("t"), lab.table("k")
    assert (t.mode, k.mode) == ("changelog", "changelog")
    with pytest.raises(ConfigurationError, match="its changes are lost"):
        services.change_mode(table=t, mode="history")
    with pytest.raises(ConfigurationError, match="has no key"):
        services.change_mode(table=k, mode="history", confirmed=True)
    with pytest.raises(ConfigurationError, match="changing its mode requires a resnapshot"):
        services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "t", mode="mirror")])
    services.change_mode(table=t, mode="history", confirmed=True)
    services.change_mode(table=k, mode="mirror", confirmed=True)
    lab.execute("UPDATE t SET v = 10 WHERE id = 1", "INSERT INTO k VALUES (3)")
    run_and_compare(lab, 2)
    assert [r["_is_current"] for r in target_rows(lab, "t")] == [True, True]
    assert set(target_rows(lab, "k")[0]) == {"v", "_sequence_num"}
    # As code: what was chosen is written, read again it changes nothing, and the file's word changes it.
    written = export([lab.name])
    assert f"table: {lab.database}.t\n    mode: history" in written
    environ = {line.strip("# ").partition(": ")[2]: "" for line in written.splitlines() if line.startswith("# Set")}
    password = next(iter(environ), "")
    values = {name: lab.address["password"] for name in password.split(", ") if name}
    assert definitions.apply(written, values) == []
    said = definitions.apply(written.replace("mode: history", "mode: soft_delete"), values)
    assert len(said) >= 1
    assert "resnapshotted into a new target table in the mode soft delete" in said[0]
    lab.execute("DELETE FROM t WHERE id = 2")
    run_and_compare(lab, 2)
    assert lab.table("t").mode == "soft_delete"


def test_a_table_without_key_stops_with_a_sentence(lab: Lab) -> None:
    lab.execute("CREATE TABLE k (v INT)", "INSERT INTO k VALUES (1)", "CREATE TABLE fine (id INT PRIMARY KEY)")
    lab.replicate("k", "fine", options={"mode": "history", "retry_minutes": 0})
    with pytest.raises(CommandError):
        lab.run(timeout=60)
    table = lab.table("k")
    assert table.state == "failed"
    assert table.error_message.endswith("has no key, which the mode history requires.")
    assert lab.table("fine").state == "streaming"
