"""Routing rules of a replicator: which names its tables get, in rows, assessment, pages and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.types import BIGINT
from replicator.targets.iceberg.kind import ICEBERG
from replicator.targets.registry import target_kind
from tests.integration.control.conftest import ITEMS, ORDERS, TABLES, MemoryCatalog, MemorySource, schema_of
from webapp.connections.models import Connection
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.replicators import services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import TableAssessment, assess
from webapp.replicators.selection.entries import SelectionEntry, ensure_table, target_of
from webapp.replicators.target_tables import sharing
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
    assert target_of(replicator, TableId("shop", "later")) == ("shop", "later", "")
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


SHARED = {"routing": "shop.*: lake.all shared by source = {table}"}


def parts(replicator: Replicator) -> dict[str, str]:
    return {str(row): str(row.target) for row in ReplicatorTable.objects.filter(replicator=replicator)}


def test_tables_share_a_target_table(connection: Connection) -> None:
    replicator = services.create_replicator(
        name="copy", connection=connection, selection=[SelectionEntry("shop")], target=SHARED
    )
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    ensure_table(replicator, TableId("shop", "later"))
    expected = {f"shop.{name}": f"lake.all (source={name})" for name in ("items", "orders", "later")}
    assert parts(replicator) == expected
    row = replicator.tables.get(name="orders")
    assert {str(one) for one in sharing(row)} == {"shop.items", "shop.later"}
    with pytest.raises(ConfigurationError, match=r"shares the target table lake\.all by the routing rules"):
        services.rename_target(table=row, namespace="a", name="b")
    for rules in ("", "shop.*: lake.all shared by source = {schema}.{table}", "shop.*: lake.{table}"):
        with pytest.raises(ConfigurationError, match="would share another target table than now"):
            services.update_target(replicator=replicator, target={"routing": rules})
    services.update_target(replicator=replicator, target={"routing": f"{SHARED['routing']}\nx.*: y.z"})
    assert parts(replicator) == expected
    with pytest.raises(ConfigurationError, match=r"lake\.all is the target table of shop"):
        services.rename_target(table=ensure_table(replicator, TableId("b", "c")), namespace="lake", name="all")
    more = {"routing": f"{SHARED['routing']}\nz.*: lake.all shared by source = orders"}
    services.update_target(replicator=replicator, target=more)
    with pytest.raises(ConfigurationError, match=r"to lake\.all \(source=orders\), the target table of shop\.orders"):
        ensure_table(replicator, TableId("z", "t"))
    theirs = {"routing": "shop.*: lake.all shared by source = x{table}"}
    other = services.create_replicator(
        name="other", connection=connection, selection=[SelectionEntry("shop")], target=theirs
    )
    with pytest.raises(ConfigurationError, match="which the replicator copy writes"):
        ensure_table(other, TableId("shop", "orders"))


def test_two_tables_of_one_part_are_refused(connection: Connection) -> None:
    settings = {"routing": "shop.*: lake.all shared by source = {schema}"}
    lines = [SelectionEntry(t.database, t.name) for t in TABLES]
    found = assess(connection=connection, selection=lines, options=ReplicatorOptions(), settings=settings)
    assert [one.support for one in found] == ["none", "none"]
    said = "shop.items and shop.orders would both be written to lake.all (source=shop). Change the routing rules."
    assert said in found[0].reasons
    replicator = services.create_replicator(
        name="copy", connection=connection, selection=[SelectionEntry("shop")], target=settings
    )
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    assert sorted(row.state for row in replicator.tables.all()) == ["failed", "waiting"]


def test_shared_tables_are_assessed(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [SelectionEntry(t.database, t.name) for t in TABLES]

    def found(settings: dict[str, str] = SHARED, **options: str) -> dict[str, TableAssessment]:
        assessed = assess(
            connection=connection, selection=lines, options=ReplicatorOptions(**options), settings=settings
        )
        return {one.table.name: one for one in assessed}

    for one in found().values():
        assert one.support == "full"
        assert (
            f"Its rows go to lake.all with source = '{one.table.name}', together with those of 1 other table."
            in one.reasons
        )
        assert one.columns[-1].name == "source"
    assert {one.support for one in found(mode="changelog").values()} == {"none"}
    assert "cannot be in the mode changelog" in found(mode="changelog")["items"].reasons[-1]
    assert (
        "has the name of a column"
        in found({"routing": "shop.*: lake.all shared by NAME = {table}"})["items"].reasons[-1]
    )

    def otherwise(_: object, tables: Sequence[TableId]) -> dict[TableId, TableSchema]:
        made = {table: schema_of(table) for table in tables if table in TABLES}
        name = replace(made[ITEMS].columns[1], type=BIGINT)
        return made | {ITEMS: replace(made[ITEMS], columns=(made[ITEMS].columns[0], name))}

    monkeypatch.setattr(MemoryCatalog, "describe", otherwise)
    assert (
        "name is string here and bigint in shop.items, which shares the target table." in found()["orders"].reasons[-1]
    )
    monkeypatch.setattr(
        MemoryCatalog, "describe", lambda _, tables: {t: schema_of(t, key=()) for t in tables if t in TABLES}
    )
    assert "Tables that share the target table lake.all need a key." in found()["orders"].reasons[-1]


def test_a_kind_without_shared_tables_refuses_the_rule() -> None:
    for kind in ("kafka", "delta"):
        with pytest.raises(ConfigurationError, match="does not have tables that several source tables share"):
            target_kind(kind).check_settings({"bootstrap_servers": "127.0.0.1:1", "topic_prefix": "x", **SHARED})


def test_a_file_says_what_is_shared() -> None:
    text = FILE.replace("shop.o*s: lake.o_{1}", "shop.z*s: x.y\n        shop.*s: lake.all shared by source = {table}")
    with pytest.raises(ConfigurationError, match="shares the target table"):
        apply(text.replace("shop.people", "shop.items"))
    apply(text)
    replicator = Replicator.objects.get()
    assert discover(replicator, MemorySource({"password": ""}))  # type: ignore[arg-type]
    assert parts(replicator)["shop.orders"] == "lake.all (source=orders)"
    assert "shared by source" in export()
    assert apply(export(), {"SHOP_PASSWORD": "pw"}) == []


def test_tables_that_share_keep_their_mode(connection: Connection) -> None:
    replicator = services.create_replicator(
        name="copy", connection=connection, selection=[SelectionEntry("shop")], target=SHARED
    )
    row = ensure_table(replicator, ORDERS)
    services.change_mode(table=row, mode="soft_delete")
    ensure_table(replicator, ITEMS)
    with pytest.raises(ConfigurationError, match=r"shop.orders shares its target table with shop.items"):
        services.change_mode(table=row, mode="history", confirmed=True)
