"""What the wizard's assessment says of tables on a live Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from replicator.model.identifiers import TableId
from webapp.connections.models import Connection
from webapp.connections.services import create_connection
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import TableAssessment, assess
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.services import create_replicator

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
SCHEMA = "assess_tests"
STATEMENTS = (
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.dates (id int PRIMARY KEY, d date, t timestamp(3), z timestamptz, l date[])",
    f"CREATE TABLE {SCHEMA}.made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)",
    f"CREATE TABLE {SCHEMA}.loose (n numeric)",
    f"ALTER TABLE {SCHEMA}.loose REPLICA IDENTITY FULL",
    f"CREATE TABLE {SCHEMA}.bare (a int)",
    f"CREATE TABLE {SCHEMA}.parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    f"CREATE TABLE {SCHEMA}.reserved (id int PRIMARY KEY, _batch_id int, name text)",
    f"CREATE TABLE {SCHEMA}.parts_1 PARTITION OF {SCHEMA}.parts FOR VALUES FROM (0) TO (10)",
)


@pytest.fixture
def source(postgres_source: EmbeddedPostgresSource) -> Iterator[Connection]:
    root: psycopg2.extensions.connection = postgres_source.connect()
    with root.cursor() as cursor:
        for statement in (f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", *STATEMENTS):
            cursor.execute(statement)
    config = {**postgres_source.address, "database": postgres_source.database}
    del config["dbname"]
    yield create_connection(name="pg", kind="postgres", config=config)
    with root.cursor() as cursor:
        cursor.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    root.close()


def assessed(source: Connection, *entries: SelectionEntry, **options: str) -> dict[str, TableAssessment]:
    chosen = ReplicatorOptions.from_dict(options)
    return {one.table.name: one for one in assess(connection=source, selection=entries, options=chosen)}


def test_every_table_says_how_it_would_be_copied(source: Connection) -> None:
    found = assessed(source, SelectionEntry(SCHEMA))
    assert {name: one.support for name, one in found.items()} == {
        "bare": "none",
        "dates": "full",
        "loose": "partial",
        "made": "partial",
        "parts": "full",
        "reserved": "none",
    }
    assert "REPLICA IDENTITY FULL;" in found["bare"].reasons[0]
    assert any("Replica identity is the primary key" in reason for reason in found["dates"].reasons)
    assert any("therefore excluded: twice" in reason for reason in found["made"].reasons)
    assert found["made"].columns[0].support == "full"
    assert any("no fixed precision" in reason for reason in found["loose"].reasons)
    assert found["loose"].key == ""


def test_a_generated_column_that_is_left_out_anyway_needs_no_acceptance(source: Connection) -> None:
    found = assessed(source, SelectionEntry(SCHEMA, "made", excluded_columns=("twice",)))
    assert found["made"].support == "full"
    assert not any("do not exist" in reason for reason in found["made"].reasons)


def test_dates_become_text_where_the_policy_says_so(source: Connection) -> None:
    found = assessed(source, SelectionEntry(SCHEMA, "dates"), zero_dates="text")
    texts = {column.name for column in found["dates"].columns if column.note}
    assert texts == {"d", "t", "z"}
    assert {c.target_type for c in found["dates"].columns if c.name in texts} == {"string"}


def test_a_partition_beside_its_table_is_refused(source: Connection) -> None:
    found = assessed(source, SelectionEntry(SCHEMA, "parts"), SelectionEntry(SCHEMA, "parts_1"))
    assert (found["parts"].support, found["parts_1"].support) == ("full", "none")
    alone = assessed(source, SelectionEntry(SCHEMA, "parts_1"))
    assert alone["parts_1"].support == "full"
    assert alone["parts_1"].table == TableId(SCHEMA, "parts_1")


def test_a_table_that_can_be_copied_without_one_column_says_so(source: Connection) -> None:
    with_it = assessed(source, SelectionEntry(SCHEMA, "reserved"))["reserved"]
    assert (with_it.support, with_it.excludable) == ("none", "_batch_id")
    without = assessed(source, SelectionEntry(SCHEMA, "reserved", excluded_columns=("_batch_id",)))["reserved"]
    assert (without.support, without.excludable) == ("full", "")
    assert not any("_batch_id" in reason for reason in without.reasons)
    assert [column.name for column in without.columns] == ["id", "name"]


@pytest.mark.filterwarnings("ignore:No directory at")
def test_the_page_excludes_the_column_without_which_a_table_can_be_copied(source: Connection, client: Client) -> None:
    client.force_login(User.objects.create_superuser("admin"))
    replicator = create_replicator(name="pg", connection=source, selection=[SelectionEntry(SCHEMA, "reserved")])
    table = ReplicatorTable.objects.get(replicator=replicator)
    ReplicatorTable.objects.update(state="failed")
    page = reverse("replicators:table_columns", args=[replicator.pk, table.pk])
    assert 'value="_batch_id"' in client.get(page).content.decode()
    client.post(page, {"exclude": "name"})
    assert replicator.selection.get().excluded_columns == []
    assert client.post(page, {"exclude": "_batch_id"}).status_code == 302
    assert replicator.selection.get().excluded_columns == ["_batch_id"]
    table.refresh_from_db()
    assert table.state == "loading"
    lines = client.get(page).context["columns"]
    assert [(line.name, line.kept) for line in lines] == [("id", True), ("name", True), ("_batch_id", False)]
    client.post(page, {"column": ["name"], "apply": "1"})
    assert replicator.selection.get().excluded_columns == ["_batch_id"]
