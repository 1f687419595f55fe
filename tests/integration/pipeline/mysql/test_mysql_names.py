"""The whole way from a server that compares names without case, and with tables of other engines; equal row by row."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management.base import CommandError

from replicator.model.identifiers import TableId
from replicator.model.masks import Mask, MaskKind
from testing.servers.mysql import EmbeddedMySQL
from tests.integration.pipeline.lab import Lab
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.services import add_tables, create_replicator, remove_table

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMySQL]:
    server = EmbeddedMySQL(tmp_path_factory.mktemp("mysql"), options={"lower-case-table-names": "1"})
    server.start()
    yield server
    server.stop()


@pytest.fixture
def lab(mysql: EmbeddedMySQL, transactional_db: Any) -> Iterator[Lab]:
    one = Lab(mysql.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def test_what_is_typed_and_written_in_any_case_is_the_same_table(lab: Lab) -> None:
    lab.execute("CREATE TABLE Orders (Id INT PRIMARY KEY, Email VARCHAR(40), Note VARCHAR(20), Total FLOAT)")
    lab.execute("CREATE TABLE Secret (Id INT PRIMARY KEY)", "CREATE TABLE Items (Id INT PRIMARY KEY, V INT)")
    lab.execute("CREATE TABLE Heap (Id INT PRIMARY KEY) ENGINE=MEMORY", "CREATE TABLE Hole (Id INT) ENGINE=BLACKHOLE")
    lab.execute("INSERT INTO ORDERS VALUES (1, 'a@b.c', 'x', 0.1), (2, 'd', 'y', 2)", "INSERT INTO ITEMS VALUES (1, 2)")
    database = lab.database.upper()
    selection = [
        SelectionEntry(database),
        SelectionEntry(database, "SECRET", excluded=True),
        SelectionEntry(
            database, "ORDERS", excluded_columns=("NOTE",), masks={"Email": Mask(MaskKind.NULL)}
        ),
    ]  # fmt: skip
    create_replicator(name=lab.name, connection=lab.connection(), selection=selection, start=True)
    with pytest.raises(CommandError, match="hole is a table of the storage engine BLACKHOLE: it stores no rows"):
        lab.run()
    remove_table(replicator=lab.replicator, table=TableId(lab.database, "hole"))
    lab.run()
    assert lab.states() == {"heap": "streaming", "items": "streaming", "orders": "streaming"}

    add_tables(replicator=lab.replicator, selection=[SelectionEntry(database, "Orders", masks=selection[2].masks)])
    lab.execute("INSERT INTO orders VALUES (3, 'e', 'z', 1.5)", "INSERT INTO secret VALUES (1)")
    lab.execute("TRUNCATE TABLE ITEMS", "INSERT INTO Items VALUES (7, 7)", "RENAME TABLE ITEMS TO Items2")
    lab.execute("ALTER TABLE ITEMS2 MODIFY V BIGINT, RENAME COLUMN ID TO iD", "UPDATE items2 SET v = v + 1")
    lab.execute("ALTER TABLE ITEMS2 MODIFY v BIGINT", "UPDATE items2 SET V = V + 1", "INSERT INTO HEAP VALUES (5)")
    lab.run()
    assert lab.states() == {"heap": "streaming", "items2": "streaming", "orders": "streaming"}
    lab.assert_equal(3)
