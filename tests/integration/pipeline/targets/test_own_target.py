"""A table's copy is renamed in the target while replication goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from django.core.management import CommandError

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.verification.target import open_catalog
from tests.integration.pipeline.lab import Lab
from webapp.console.definitions.apply import apply
from webapp.destinations.lakes import catalog_config
from webapp.monitoring.models import TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[4]


def called(lab: Lab) -> dict[str, str]:
    rows = ReplicatorTable.objects.filter(replicator=lab.replicator).exclude(state="dropped")
    return {row.name: f"{row.target_namespace}.{row.target_name}" for row in rows}


@pytest.mark.timeout(600)
def test_copies_are_renamed_whatever_happens_beside_it(lab: Lab, process_environment: dict[str, str]) -> None:
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    lab.execute("INSERT INTO keyed VALUES (1, 1), (2, 2)", "INSERT INTO keyless VALUES (1), (1), (2)")
    lab.replicate()
    lab.run_and_compare(2)
    lab.execute("UPDATE keyed SET v = 20 WHERE id = 2", "DELETE FROM keyless WHERE v = 2")
    services.rename_target(table=lab.table("keyed"), namespace=f"{lab.name}_lake", name="customers")
    services.rename_target(table=lab.table("keyless"), namespace=lab.name, name="numbers")
    # The target is renamed, and the worker dies before the journal knows.
    done = subprocess.run(
        [sys.executable, "manage.py", "run", lab.name, "--until-current", "--timeout", "120"], cwd=ROOT, check=False,
        env=process_environment | {"TIDEMARK_FAULTS": "apply.move.before=kill"}, capture_output=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stdout.decode() + done.stderr.decode()
    lab.run_and_compare(2)
    assert called(lab) == {"keyed": f"{lab.name}_lake.customers", "keyless": f"{lab.name}.numbers"}
    # A source's own rename moves it no more; what takes its old name has its old target.
    lab.execute("RENAME TABLE keyed TO renamed", "CREATE TABLE keyed (id INT PRIMARY KEY, w INT)")
    lab.execute("INSERT INTO keyed VALUES (7, 7)", "ALTER TABLE renamed ADD COLUMN more INT DEFAULT 5")
    lab.execute("INSERT INTO renamed VALUES (3, 3, 3)")
    lab.run_and_compare(3)
    assert called(lab) == {
        "renamed": f"{lab.name}_lake.customers", "keyless": f"{lab.name}.numbers", "keyed": f"{lab.name}.keyed",
    }  # fmt: skip
    for name in ("renamed", "keyless"):
        services.resnapshot_table(table=lab.table(name))
    lab.execute("DELETE FROM renamed WHERE id = 1", "INSERT INTO keyless VALUES (3)")
    lab.run_and_compare(3)
    assert called(lab)["renamed"] == f"{lab.name}_lake.customers"
    assert TimelineEvent.objects.filter(replicator=lab.replicator, kind="target_renamed").count() == 2
    lab.execute("DROP TABLE renamed")
    lab.run()
    config = catalog_config()
    catalog = open_catalog(config)
    assert not catalog.table_exists((f"{lab.name}_lake", "customers"))
    assert catalog.table_exists((lab.name, "numbers"))


def test_a_name_that_cannot_be_had_answers_with_a_sentence(lab: Lab) -> None:
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    lab.replicate("a", "b", start=False)
    for namespace, name, said in (
        (lab.name, "b", "is the target table of"),
        ("", "x", "namespace"),
        (lab.name, "\n", "name in"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            services.rename_target(table=lab.table("a"), namespace=namespace, name=name)
    services.rename_target(table=lab.table("a"), namespace=lab.name, name="c")
    with pytest.raises(ConfigurationError, match="is the target table of"):
        services.rename_target(table=lab.table("b"), namespace=lab.name, name="c")
    lab.execute("INSERT INTO a VALUES (1)")
    services.start_replicator(replicator=lab.replicator)
    lab.run_and_compare(2)
    assert called(lab)["a"] == f"{lab.name}.c"


def test_a_file_names_copies_before_and_after_they_are_made(lab: Lab) -> None:
    lab.execute(
        "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)"
    )
    connection = lab.connection().name

    def file(a: str, b: str) -> str:
        names = [f"{{table: {lab.database}.{one}, target: {lab.name}.{two}}}" for one, two in (("a", a), ("b", b))]
        lines = f"tables: [{', '.join(names)}], state: running"
        return f"replicators: [{{name: {lab.name}, connection: {connection}, {lines}}}]"

    assert f"replicator {lab.name}: the target table of {lab.database}.a is {lab.name}.first" in apply(
        file("first", "a"), {}
    )
    lab.run_and_compare(2)
    assert called(lab) == {"a": f"{lab.name}.first", "b": f"{lab.name}.a"}
    lab.execute("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (3)")
    assert apply(file("first", "b"), {}) == [
        f"replicator {lab.name}: the target table of {lab.database}.b is renamed from {lab.name}.a to {lab.name}.b"
    ]
    lab.run_and_compare(2)
    assert called(lab) == {"a": f"{lab.name}.first", "b": f"{lab.name}.b"}


def test_a_partition_column_of_another_type_stops_its_table_until_a_resnapshot_makes_the_copy_again(lab: Lab) -> None:
    """Iceberg cannot partition by a column that becomes another one; the remedy that the page shows has to work."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, region VARCHAR(9))", "INSERT INTO t VALUES (1, '10'), (2, '20')")
    lab.replicate(partition_by=f"{lab.database}.t: region")
    lab.run_and_compare(1)
    lab.execute("ALTER TABLE t MODIFY region INT", "INSERT INTO t VALUES (3, 30)")
    with pytest.raises(CommandError, match="is partitioned by region"):
        lab.run()
    stopped = lab.table("t")
    assert (stopped.state, stopped.error_code) == ("failed", "copy_must_be_recreated")
    assert stopped.error_remedy.startswith("Resnapshot the table")
    services.resnapshot_table(table=stopped)
    lab.execute("UPDATE t SET region = 40 WHERE id = 1")
    assert lab.run_and_compare(1) == 3
    assert lab.states() == {"t": "streaming"}


def test_a_column_that_the_copy_cannot_have_is_excluded_and_the_table_goes_on(lab: Lab) -> None:
    """The statement that added it stays in the journal, and would stop each resnapshot into the same copy."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    entry = SelectionEntry(lab.database, "t", mode="soft_delete")
    services.create_replicator(name=lab.name, connection=lab.connection(), selection=[entry], user=None, start=True)
    lab.run_and_compare(1)
    lab.execute(
        "DELETE FROM t WHERE id = 2", "ALTER TABLE t ADD COLUMN _is_deleted INT", "INSERT INTO t VALUES (3, 3, 3)"
    )
    with pytest.raises(CommandError, match="_is_deleted"):
        lab.run()
    assert lab.table("t").error_remedy.endswith("A resnapshot then makes the copy again: its deleted rows are lost.")
    services.add_tables(replicator=lab.replicator, selection=[replace(entry, excluded_columns=("_is_deleted",))])
    lab.execute("UPDATE t SET v = 4 WHERE id = 1")
    assert lab.run_and_compare(1) == 2
    assert lab.states() == {"t": "streaming"}


def test_a_table_that_is_removed_and_added_again_is_made_with_the_present_format_version(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lab.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    replicator = lab.replicate(format_version="3")
    lab.run_and_compare(2)
    services.update_target(replicator=replicator, target={"format_version": "2"})
    services.remove_table(replicator=replicator, table=TableId(lab.database, "t"))
    lab.run()
    services.add_tables(replicator=replicator, selection=[SelectionEntry(lab.database, "t")])
    assert lab.run_and_compare(2) == 1
    catalog = open_catalog(catalog_config())
    versions = {name: catalog.load_table((lab.name, name)).metadata.format_version for name in ("t", "u")}
    assert versions == {"t": 2, "u": 3}


def test_a_table_of_another_program_in_the_place_of_a_copy_is_got_past_as_the_remedy_says(lab: Lab) -> None:
    lab.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in "abc"), "INSERT INTO a VALUES (1)")
    catalog = open_catalog(catalog_config())
    catalog.create_namespace_if_not_exists((lab.name,))
    for name in "ab":
        catalog.create_table((lab.name, name), pa.schema([("x", pa.int32())]))
    replicator = lab.replicate()
    with pytest.raises(CommandError, match="belongs to another writer"):
        lab.run()
    assert lab.states() == {"a": "failed", "b": "failed", "c": "streaming"}
    catalog.drop_table((lab.name, "a"))
    services.retry_table(table=lab.table("a"))
    services.remove_table(replicator=replicator, table=TableId(lab.database, "b"))
    services.update_target(replicator=replicator, target={"routing": f"{lab.database}.b: {lab.name}.mine"})
    services.add_tables(replicator=replicator, selection=[SelectionEntry(lab.database, "b")])
    assert lab.run_and_compare(3) == 1
    assert called(lab) == {name: f"{lab.name}.{copy}" for name, copy in (("a", "a"), ("b", "mine"), ("c", "c"))}
