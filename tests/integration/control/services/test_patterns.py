"""Selection by pattern: what it means, what discovery makes of it, files and their export."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, TablePattern
from replicator.model.table_set import TableSet
from tests.integration.control.conftest import ITEMS, ORDERS, Captured
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.console.views.draft_selection import Selected
from webapp.replicators import services
from webapp.replicators.models import Replicator
from webapp.replicators.selection.change_preview import effects
from webapp.replicators.selection.entries import SelectionEntry, named_entry, selected
from webapp.replicators.selectors import table_set

pytestmark = pytest.mark.django_db
FILE = """
connections: [{name: shop, kind: memory, config: {host: localhost, password: pw}}]
replicators:
  - name: copy
    connection: shop
    tables: ["shop.o*", {table: "shop.item?", new_tables: false}, "!shop.old_*", "shop.old_keep"]
    exclude: ["shop.*_tmp"]
"""


@given(st.text("ab*?.[", max_size=6), st.text("ab*?.[\n", max_size=6))
def test_only_stars_and_question_marks_are_wild(pattern: str, name: str) -> None:
    def matches(rest: str, text: str) -> bool:
        if not rest:
            return not text
        if rest[0] == "*":
            return matches(rest[1:], text) or (bool(text) and matches(rest, text[1:]))
        return bool(text) and rest[0] in {"?", text[0]} and matches(rest[1:], text[1:])

    assert TablePattern("d", pattern).matches(TableId("d", name)) == matches(pattern, name)
    assert not TablePattern("d", pattern).matches(TableId("e", name))


def test_names_win_over_excluded_patterns_and_these_over_all_else() -> None:
    taken = selected(map(named_entry, ["shop.*", "crm.a*", "!shop.tmp_*", "!crm.ab*", "shop.tmp_keep", "crm.abc"]))
    tables = ["shop.x", "shop.tmp_1", "shop.tmp_keep", "crm.a1", "crm.ab1", "crm.abc", "crm.b"]
    found = [name for name in tables if TableId(*name.split(".")) in taken]
    assert found == ["shop.x", "shop.tmp_keep", "crm.a1", "crm.abc"]
    assert taken.searched == {"shop", "crm"}


def test_a_file_with_patterns_is_applied_exported_and_changed() -> None:
    apply(FILE)
    replicator = Replicator.objects.get()
    lines = {(str(line), line.excluded, line.pattern, line.new_tables) for line in replicator.selection.all()}
    assert lines == {
        ("shop.o*", False, True, True),
        ("shop.item?", False, True, False),
        ("shop.old_*", True, True, True),
        ("shop.old_keep", False, False, True),
        ("shop.*_tmp", True, True, True),
    }
    taken = table_set(replicator)
    assert {ORDERS, ITEMS, TableId("shop", "old_keep")} == {
        table
        for table in (ORDERS, ITEMS, *(TableId("shop", n) for n in ("old_keep", "old_x", "o_tmp", "x")))
        if table in taken
    }
    text = export()
    assert apply(text, {"SHOP_PASSWORD": "pw"}) == []
    assert apply(FILE.replace('"shop.o*", ', "")) == ["replicator copy: removed shop.o*"]
    assert ORDERS not in table_set(replicator)
    replicator.delete()
    apply(text, {"SHOP_PASSWORD": "pw"})
    again = Replicator.objects.get()
    assert {(str(s), s.excluded, s.pattern, s.new_tables) for s in again.selection.all()} == lines


def test_discovery_takes_what_matches_and_keeps_a_fixed_pattern_as_it_was(captured: Captured) -> None:
    replicator = captured.replicator
    fixed = SelectionEntry("shop", "ite*", pattern=True, new_tables=False)
    told = effects(replicator, [fixed])
    assert told == ["All tables that match shop.ite* are copied, without future tables; the other tables continue."]
    services.add_tables(replicator=replicator, selection=[fixed])
    plan = captured.journal.plan()
    assert ITEMS in plan.tables
    assert TableId("shop", "items_2") not in plan.tables
    assert set(replicator.tables.values_list("name", flat=True)) == {"orders", "items"}
    assert replicator.selection.get(table="ite*").found == ["items"]
    services.add_tables(replicator=replicator, selection=[SelectionEntry("shop", "ite*", pattern=True)])
    assert TableId("shop", "items_2") in captured.journal.plan().tables
    services.remove_table(replicator=replicator, table=ITEMS)
    plan = captured.journal.plan()
    assert ITEMS not in plan.tables
    assert TableId("shop", "items_2") in plan.tables


def test_an_excluded_pattern_takes_tables_away_and_gives_them_back(captured: Captured) -> None:
    replicator = captured.replicator
    services.add_tables(replicator=replicator, selection=[SelectionEntry("shop")])
    captured.journal.plan()
    assert replicator.tables.count() == 2
    out = SelectionEntry("shop", "item*", excluded=True, pattern=True)
    services.add_tables(replicator=replicator, selection=[out])
    assert ITEMS not in captured.journal.plan().tables
    assert set(replicator.tables.values_list("name", flat=True)) == {"orders"}
    services.remove_pattern(replicator=replicator, database="shop", pattern="item*")
    assert ITEMS in captured.journal.plan().tables
    assert replicator.tables.count() == 2
    with pytest.raises(ConfigurationError, match="not a single table"):
        services.add_tables(
            replicator=replicator, selection=[SelectionEntry("shop", "x*", excluded_columns=("a",), pattern=True)]
        )


def test_the_wizards_choice_of_patterns_goes_through_its_draft() -> None:
    chosen = Selected()
    for text in ("shop.o*", "!shop.old*"):
        chosen.set_pattern(named_entry(text), on=True)
    assert Selected.from_dict(chosen.to_dict()).entries() == chosen.entries()
    assert ORDERS in chosen
    assert TableId("shop", "old_1") not in chosen
    chosen.set_tables([ORDERS], on=False)
    chosen.set_tables([TableId("shop", "old_1")], on=True)
    taken = selected(chosen.entries())
    assert ORDERS not in taken
    assert TableId("shop", "old_1") in taken
    assert isinstance(taken, TableSet)
    chosen.set_pattern(named_entry("shop.o*"), on=False)
    assert [str(one) for one in chosen.patterns] == ["shop.old*"]
