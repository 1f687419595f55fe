"""Names of tables as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, parse_name, written_database, written_name
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


@pytest.mark.parametrize("text", ["", "shop", "shop.", ".orders", '"shop.orders', '"shop"orders', '"".orders'])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must be DATABASE\.TABLE"):
        named_entry(text)
