"""Routing rules of a replicator: which names its tables get, in rows, assessment, pages and files."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.targets.iceberg.kind import ICEBERG
from tests.integration.control.conftest import TABLES, MemorySource
from webapp.connections.models import Connection
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.replicators import services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import assess
from webapp.replicators.selection.entries import SelectionEntry, ensure_table, target_of
from webapp.worker.store.table_discovery import discover

pytestmark = pytest.mark.django_db
ONE_NAME = {"routing": "shop.*: lake.all"}
FILE = """
connections: [{name: shop, kind: memory, config: {host: localhost, password: pw}}]
replicators:
  - name: copy
    connection: shop
    tables: [shop.*, {table: shop.people, target: crm.people}]
    target:
      routing: |
        shop.o*s: lake.o_{1}
        shop.*: lake.rest_{table}
"""


def places(replicator: Replicator) -> dict[str, str]:
    rows = ReplicatorTable.objects.filter(replicator=replicator)
    return {row.name: f"{row.target_namespace}.{row.target_name}" for row in rows}


def test_a_file_says_the_rules_and_discovery_follows_them() -> None:
    apply(FILE)
    replicator = Replicator.objects.get()
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    assert places(replicator) == {"orders": "lake.o_rder", "items": "lake.rest_items", "people": "crm.people"}
    text = export()
    assert apply(text, {"SHOP_PASSWORD": "pw"}) == []
    with pytest.raises(ConfigurationError, match="is not of the form"):
        apply(FILE.replace("lake.o_{1}", "orders"))


def test_tables_that_exist_keep_their_names_when_the_rules_change(connection: Connection) -> None:
    replicator = services.create_replicator(
        name="copy", connection=connection, selection=[SelectionEntry(t.database, t.name) for t in TABLES], target={}
    )
    changed = services.update_target(replicator=replicator, target={"routing": "shop.*: lake.{table}"})
    assert changed == ["routing"]
    ensure_table(replicator, TableId("shop", "later"))
    assert places(replicator) == {"orders": "shop.orders", "items": "shop.items", "later": "lake.later"}
    services.update_target(replicator=replicator, target={"routing": ""})
    assert target_of(replicator, TableId("shop", "later")) == ("shop", "later")
    own = ReplicatorTable.objects.get(name="later")
    assert (own.own_namespace, own.own_name) == ("lake", "later")


def test_two_tables_of_one_name_are_refused_and_both_are_named(connection: Connection) -> None:
    lines = [SelectionEntry(t.database, t.name) for t in TABLES]
    found = assess(
        connection=connection, selection=lines, options=ReplicatorOptions(), target=ICEBERG, settings=ONE_NAME
    )
    assert [one.support for one in found] == ["none", "none"]
    said = "shop.items and shop.orders would both be written to lake.all. Change the routing rules."
    assert said in found[0].reasons
    with pytest.raises(ConfigurationError, match=r"would be written to lake.all, the target table of shop\."):
        services.create_replicator(name="copy", connection=connection, selection=lines, target=ONE_NAME)
    found = assess(
        connection=connection, selection=lines, options=ReplicatorOptions(), settings={"routing": "shop.i*: lake.{1}"}
    )
    assert [(str(one.table), one.support, one.reasons) for one in found] == [
        ("shop.items", "full", ("The table is called lake.tems in Apache Iceberg.",)),
        ("shop.orders", "full", ()),
    ]


def test_a_database_with_two_tables_of_one_name_stops_one_of_them(connection: Connection) -> None:
    replicator = services.create_replicator(
        name="copy", connection=connection, selection=[SelectionEntry("shop")], target=ONE_NAME
    )
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    rows = {row.name: row for row in replicator.tables.all()}
    assert (rows["items"].state, rows["orders"].state) == ("waiting", "failed")
    assert "shop.orders would be written to lake.all, the target table of shop.items." in rows["orders"].error_message
