"""The example of the CDAP design document, event by event: sequence numbers, staged rows, target."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.staging.storage import Storage
from tests.integration.pipeline.lab import Lab
from webapp.replicators.models import SegmentRow, TableEventRow

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


def staged(lab: Lab, *columns: str) -> list[tuple[Any, ...]]:
    """All staged changes of the replicator in sequence order: (sequence, operation, before…, row…)."""
    from django.conf import settings

    storage = Storage(settings.TIDEMARK_STAGING_URL)
    names = ["_sequence_num", "_operation", *(f"_before_{name}" for name in columns), *columns]
    rows: list[tuple[Any, ...]] = []
    for segment in SegmentRow.objects.filter(table__replicator=lab.replicator):
        with storage.open(segment.path) as file:
            table = file.read(columns=names)
            rows += zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return sorted(rows)


def events(lab: Lab) -> list[tuple[int, str]]:
    return list(
        TableEventRow.objects.filter(replicator=lab.replicator).order_by("sequence").values_list("sequence", "kind")
    )


def target_rows(lab: Lab, table: str) -> list[dict[str, Any]]:
    """Through pyiceberg."""
    from replicator.verification.target import open_catalog
    from webapp.destinations.lakes import catalog_config

    config = catalog_config()
    catalog = open_catalog(config)
    name = lab.table(table)
    return list(catalog.load_table((name.target_namespace, name.target_name)).scan().to_arrow().to_pylist())


@pytest.fixture
def from_the_start(lab: Lab) -> Lab:
    """A replicator of a database that does not exist yet."""
    lab.execute(f"DROP DATABASE `{lab.database}`")
    lab.replicate()
    lab.run()
    lab.execute(f"CREATE DATABASE `{lab.database}`")
    return lab


def test_with_a_primary_key(from_the_start: Lab) -> None:
    lab = from_the_start
    lab.execute(
        "CREATE TABLE customers (id int, name varchar(50), PRIMARY KEY (id))",
        "INSERT INTO customers (id, name) VALUES (0, 'alice')",
        "UPDATE customers set id=1 where id=0",
        "UPDATE customers set id=2 where id=1",
        "DELETE FROM customers where id=2",
        "INSERT into customers (id, name) VALUES (0, 'Alice'), (1, 'blob')",
        "UPDATE customers set name='Bob' where id='1'",
    )
    lab.run_and_compare(1)
    assert events(lab) == [(0, "CREATE_DATABASE"), (1, "CREATE_TABLE")]
    assert staged(lab, "id", "name") == [
        (2, "INSERT", None, None, 0, "alice"),
        (3, "UPDATE", 0, "alice", 1, "alice"),
        (4, "UPDATE", 1, "alice", 2, "alice"),
        (5, "DELETE", 2, "alice", 2, None),
        (6, "INSERT", None, None, 0, "Alice"),
        (7, "INSERT", None, None, 1, "blob"),
        (8, "UPDATE", 1, "blob", 1, "Bob"),
    ]
    rows = sorted(target_rows(lab, "customers"), key=lambda row: row["id"])
    assert rows == [{"id": 0, "name": "Alice", "_sequence_num": 6}, {"id": 1, "name": "Bob", "_sequence_num": 8}]


def test_without_a_primary_key(from_the_start: Lab) -> None:
    lab = from_the_start
    lab.execute(
        "CREATE TABLE customers (name varchar(50))",
        "INSERT INTO customers (name) VALUES ('alice'), ('alice'), ('Bob')",
        "UPDATE customers SET name = 'Alyce' WHERE name = 'alice'",
        "UPDATE customers SET name = 'Alice' WHERE name = 'Alyce'",
        "DELETE FROM customers WHERE name = 'alice'",
    )
    lab.run_and_compare(1)
    assert events(lab) == [(0, "CREATE_DATABASE"), (1, "CREATE_TABLE")]
    assert staged(lab, "name") == [
        (2, "INSERT", None, "alice"),
        (3, "INSERT", None, "alice"),
        (4, "INSERT", None, "Bob"),
        (5, "UPDATE", "alice", "Alyce"),
        (6, "UPDATE", "alice", "Alyce"),
        (7, "UPDATE", "Alyce", "Alice"),
        (8, "UPDATE", "Alyce", "Alice"),
        (9, "DELETE", "Alice", "Alice"),
        (10, "DELETE", "Alice", "Alice"),
    ]
    assert target_rows(lab, "customers") == [{"name": "Bob", "_sequence_num": 4}]
