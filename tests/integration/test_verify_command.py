"""`manage.py verify`: exit codes, the differing keys, and the repair."""

from __future__ import annotations

import json
import ssl
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.core.management import CommandError, call_command
from pyiceberg.catalog.sql import SqlCatalog

from replicator.state.tables import TableState
from replicator.verification import CatalogConfig
from replicator.verification.postgres.settings import source_config
from tests.integration.kafka.security import Authority
from webapp.connections.models import Connection
from webapp.connections.secrets import seal
from webapp.destinations.services import built_in
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.management.commands import verify
from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion, Status, TableSelection

PEM = Authority("test").pem.strip()


class Target:
    """A table of two columns in a separate catalog."""

    def __init__(self, folder: Path) -> None:
        self.config = CatalogConfig("lake", f"sqlite:///{folder}/catalog.db", folder.as_uri())
        self._catalog = SqlCatalog("lake", uri=self.config.uri, warehouse=self.config.warehouse)
        self._catalog.create_namespace("lake")

    def write(self, rows: dict[int, str]) -> None:
        columns = {
            "id": pa.array(rows, pa.int32()),
            "v": list(rows.values()),
            "_sequence_num": pa.array(range(len(rows)), pa.int64()),
        }
        table = pa.table(columns)
        if self._catalog.table_exists(("lake", "t")):
            self._catalog.drop_table(("lake", "t"))
        self._catalog.create_table(("lake", "t"), table.schema).append(table)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    target = Target(tmp_path)
    monkeypatch.setattr(verify, "copy_config", lambda _: target.config)
    return target


@pytest.fixture
def replicator(db: None, mariadb: Any) -> Replicator:
    with mariadb.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE OR REPLACE DATABASE verify_command")
        cursor.execute("CREATE TABLE verify_command.t (id INT PRIMARY KEY, v VARCHAR(10), hidden INT)")
        cursor.execute("INSERT INTO verify_command.t VALUES (1, 'one', 1), (2, 'two', 2)")
    config = {"host": mariadb.host, "port": mariadb.port, "user": mariadb.user}
    source = Connection.objects.create(
        name="c", kind="mysql", config=config, secrets=seal({"password": mariadb.password})
    )
    made = Replicator.objects.create(name="r", connection=source, destination=built_in(), status=Status.RUNNING)
    TableSelection.objects.create(replicator=made, database="verify_command", table="t", excluded_columns=["hidden"])
    table = ReplicatorTable.objects.create(
        replicator=made, database="verify_command", name="t", target_namespace="lake", target_name="t",
        state=TableState.STREAMING.value,
    )  # fmt: skip
    columns = [{"name": "id", "type": "int", "nullable": False, "source_type": "int"}]
    schema = {"database": "verify_command", "table": "t", "columns": columns, "key": ["id"]}
    SchemaVersion.objects.create(table=table, version=1, schema=schema)
    return made


def run(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("verify", "r", "--wait", "0", *arguments, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_equal_tables_exit_with_0(replicator: Replicator, target: Target) -> None:
    target.write({1: "one", 2: "two"})
    code, text = run()
    assert (code, text.splitlines()) == (
        0, ["verify_command.t: equal, 2 rows", "1 of 1 tables equal; 2 rows compared."]
    )  # fmt: skip


def test_differences_exit_with_1_and_name_their_keys(replicator: Replicator, target: Target) -> None:
    target.write({1: "uno", 3: "three"})
    code, text = run()
    assert code == 1
    assert "different: id='1' (in v)" in text
    assert "missing in target: id='2'" in text
    assert "extra in target: id='3'" in text
    code, text = run("--json")
    assert code == 1
    [table] = json.loads(text)["tables"]
    assert (table["table"], table["missing"], table["extra"], table["different"]) == (
        "verify_command.t",
        1,
        1,
        1,
    )


def test_dead_letter_rows_are_named(replicator: Replicator, target: Target) -> None:
    ReplicatorTable.objects.update(dead_letters=1)
    target.write({1: "one"})
    code, text = run()
    assert code == 1
    assert "verify_command.t has 1 dead-letter row missing in the target." in text
    told = json.loads(run("--json")[1])
    assert told["dead_letters"] == told["parked"] == {"verify_command.t": 1}


def test_a_table_that_the_selection_takes_and_the_replicator_does_not_is_told(
    replicator: Replicator, target: Target, mariadb: Any
) -> None:
    """Capture never came by it, its row is gone, or is said to be dropped: the source has it."""
    target.write({1: "one", 2: "two"})
    TableSelection.objects.create(replicator=replicator, database="verify_command", table="lost_*", pattern=True)
    TableSelection.objects.create(replicator=replicator, database="verify_command", table="lost_3", excluded=True)
    with mariadb.connect(database="verify_command") as connection, connection.cursor() as cursor:
        for number in range(4):
            cursor.execute(f"CREATE TABLE lost_{number} (id INT PRIMARY KEY)")
        cursor.execute("CREATE VIEW lost_view AS SELECT * FROM lost_0")
    for number, state in enumerate((TableState.DROPPED, TableState.SKIPPED)):
        ReplicatorTable.objects.create(
            replicator=replicator, database="verify_command", name=f"lost_{number}", target_namespace="lake",
            target_name=f"lost_{number}", state=state.value,
        )  # fmt: skip
    code, text = run("--json")
    found = json.loads(text)
    assert (code, found["equal"], found["absent"]) == (1, False, ["verify_command.lost_0", "verify_command.lost_2"])
    assert "verify_command.lost_2: NOT equal: the table exists in the source" in run()[1]
    assert run("--table", "verify_command.t")[0] == 0


def test_repair_reads_the_differing_tables_anew_and_verifies_again(
    replicator: Replicator, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write({1: "uno"})
    asked: list[str] = []

    def resnapshot(*, table: ReplicatorTable, reason: str) -> None:
        asked.append(f"{table}: {reason}")
        target.write({1: "one", 2: "two"})

    monkeypatch.setattr(verify.services, "resnapshot_table", resnapshot)
    code, text = run("--repair", "--json")
    assert (code, asked) == (0, ["verify_command.t: verification found differences"])
    assert json.loads(text)["repaired"] == ["verify_command.t"]


def test_repair_without_workers_runs_in_this_process(
    replicator: Replicator, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    Replicator.objects.update(status=Status.STOPPED)
    target.write({1: "uno"})
    ran: list[Any] = []

    def command(*arguments: Any, **options: Any) -> None:
        ran.append((arguments, options["until_current"]))
        target.write({1: "one", 2: "two"})

    monkeypatch.setattr(verify.services, "resnapshot_table", lambda **_: None)
    monkeypatch.setattr(verify, "call_command", command)
    assert run("--repair")[0] == 0
    assert ran == [(("run", "r"), True)]


def test_wrong_use_exits_with_2(replicator: Replicator, target: Target) -> None:
    with pytest.raises(CommandError, match="Unknown replicator") as unknown:
        call_command("verify", "nobody")
    assert unknown.value.returncode == 2
    with pytest.raises(CommandError, match=r"has no table d\.t"):
        call_command("verify", "r", "--table", "d.t")


def test_a_postgres_source_is_read_with_the_settings_of_its_connection(
    replicator: Replicator, target: Target, postgres_source: EmbeddedPostgresSource
) -> None:
    server = postgres_source
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS verify_command; DROP TABLE IF EXISTS verify_command.t")
        cursor.execute("CREATE TABLE verify_command.t (id int PRIMARY KEY, v text, hidden int)")
        cursor.execute("INSERT INTO verify_command.t VALUES (1, 'one', 1), (2, 'two', 2)")
    connection.close()
    config = {"host": server.host, "port": server.port, "user": server.user, "database": server.database}
    source = Connection.objects.create(
        name="p", kind="postgres", config=config, secrets=seal({"password": server.password})
    )
    Replicator.objects.filter(pk=replicator.pk).update(connection=source)
    target.write({1: "one", 2: "two"})
    assert run() == (0, "verify_command.t: equal, 2 rows\n1 of 1 tables equal; 2 rows compared.\n")
    target.write({1: "uno", 2: "two"})
    code, text = run()
    assert (code, "different: id='1' (in v)" in text) == (1, True)
    TableSelection.objects.create(replicator=replicator, database="a.b")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute('DROP SCHEMA IF EXISTS "a.b" CASCADE; CREATE SCHEMA "a.b"')
        cursor.execute('CREATE TABLE "a.b".parts (id int PRIMARY KEY) PARTITION BY RANGE (id)')
        cursor.execute('CREATE TABLE "a.b".low PARTITION OF "a.b".parts FOR VALUES FROM (0) TO (10)')
    connection.close()
    assert json.loads(run("--json")[1])["absent"] == ["a.b.parts"]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute('DROP SCHEMA "a.b" CASCADE')
    connection.close()


@pytest.mark.parametrize(
    ("config", "tls"),
    [
        ({}, {"sslmode": "prefer"}),
        ({"tls": "disable"}, {"sslmode": "disable"}),
        ({"tls": "verify-full", "ca": PEM}, {"sslmode": "verify-full"}),
        ({"tls": "verify-ca"}, {"sslmode": "verify-ca", "sslrootcert": "authorities.pem"}),
    ],
)
def test_tls_of_a_postgres_source_is_that_of_its_connection(
    config: dict[str, str], tls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ssl.get_default_verify_paths()._replace(cafile="authorities.pem")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    found = source_config({"host": "h", "user": "u", **config})
    assert found.connect == {**tls, "gssencmode": "disable"}
    assert (found.port, found.database, found.ca) == (5432, "u", config.get("ca", ""))
    assert found.verified == (config.get("tls") == "verify-full")
