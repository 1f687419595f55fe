"""Names of tables as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.model.identifiers import (
    TableId,
    TablePattern,
    parse_name,
    split_above,
    written_database,
    written_name,
)
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import NameRule, TableSet
from replicator.model.types import INT
from webapp.replicators.selection.entries import SelectionEntry, named_entry

PART = st.text(st.sampled_from("aB.\"`*?! '%\\ü\n"), min_size=1, max_size=8)


@given(PART, PART)
def test_every_name_can_be_written_and_read(database: str, table: str) -> None:
    one = TableId(database, table)
    found = parse_name(written_name(one))
    assert found is not None
    assert found[0] == one
    assert named_entry(written_name(one)) == SelectionEntry(database, table)
    assert named_entry(f"!{written_name(one)}") == SelectionEntry(database, table, excluded=True)
    assert named_entry(f"{written_database(database)}.*") == SelectionEntry(database)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("shop.orders", SelectionEntry("shop", "orders")),
        ("shop.orders.2026", SelectionEntry("shop", "orders.2026")),
        ('"my.shop".orders', SelectionEntry("my.shop", "orders")),
        ("`my.shop`.`or``ders`", SelectionEntry("my.shop", "or`ders")),
        ('"my.shop".*', SelectionEntry("my.shop")),
        ('"my.shop".ord*', SelectionEntry("my.shop", "ord*", pattern=True)),
        ('!"my.shop"."ord*"', SelectionEntry("my.shop", "ord*", excluded=True)),
        ('shop.say "so"', SelectionEntry("shop", 'say "so"')),
    ],
)
def test_quotes_are_those_of_the_source(text: str, entry: SelectionEntry) -> None:
    assert named_entry(text) == entry


@given(PART, PART, PART)
def test_a_table_in_a_catalog_has_three_names_that_can_be_written_and_read(
    catalog: str, database: str, name: str
) -> None:
    table = TableId(database, name, catalog)
    found = parse_name(written_name(table), catalogs=True)
    assert found is not None
    assert found[0] == table
    assert split_above(table.above) == (catalog, database)
    assert table != TableId(database, name)
    schema = TableSchema(table, (Column("id", INT, nullable=False, source_type="int"),), ("id",))
    assert TableSchema.from_dict(schema.to_dict()).table == table


def test_tables_are_in_order_by_catalog_database_and_name_and_selected_by_both() -> None:
    erp = TableId("dbo", "orders", "erp")
    assert sorted([erp, TableId("x", "a"), TableId("dbo", "b", "erp"), TableId("a", "z", "crm")]) == [
        TableId("x", "a"),
        TableId("a", "z", "crm"),
        TableId("dbo", "b", "erp"),
        erp,
    ]
    assert (str(erp), erp.above, TableId("dbo", "orders").above) == ("erp.dbo.orders", "erp.dbo", "dbo")
    chosen = TableSet(databases=frozenset({"erp.dbo"}), patterns=frozenset({TablePattern("crm.dbo", "or*")}))
    taken = (erp, TableId("dbo", "orders", "crm"), TableId("dbo", "orders"), TableId("dbo", "x", "crm"))
    assert [table in chosen for table in taken] == [True, True, False, False]
    assert NameRule(str.lower).table(TableId("Dbo", "Orders", "ERP")) == erp


@pytest.mark.parametrize("text", ["", "erp", "erp.dbo", "erp.dbo.", '"erp.dbo.orders', "shop.orders"])
def test_in_a_catalog_two_names_are_none(text: str) -> None:
    assert parse_name(text, catalogs=True) is None
    assert split_above("dbo") is None


@pytest.mark.parametrize("text", ["", "shop", "shop.", ".orders", '"shop.orders', '"shop"orders', '"".orders'])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must be DATABASE\.TABLE"):
        named_entry(text)
