"""Which tables a selection means, as docs/selection.md says it."""

from __future__ import annotations

import pytest

from replicator.verification.selection import SelectionLine, _taken

SHOP = SelectionLine("shop")
AUDIT = SelectionLine("shop", "audit", excluded=True)
TEMPORARY = SelectionLine("shop", "*_tmp", excluded=True, pattern=True)
PARTS = SelectionLine("shop", "part_??", pattern=True)


@pytest.mark.parametrize(
    ("name", "lines", "taken"),
    [
        ("orders", [SHOP], True),
        ("orders", [], False),
        ("orders", [SelectionLine("shop", "Orders")], False),
        ("audit", [SHOP, AUDIT], False),
        ("audit", [SelectionLine("shop", "audit"), AUDIT], False),
        ("x_tmp", [SHOP, TEMPORARY], False),
        ("x_tmp", [SelectionLine("shop", "x_tmp"), TEMPORARY], True),
        ("part_07", [PARTS], True),
        ("part_7", [PARTS], False),
        ("part_(x", [PARTS], True),
        ("a.b", [SelectionLine("shop", "a?b")], False),
        ("a.b", [SelectionLine("shop", "a.b", pattern=True)], True),
        ("axb", [SelectionLine("shop", "a.b", pattern=True)], False),
        ("new", [SelectionLine("shop", names=("old",))], False),
        ("old", [SelectionLine("shop", names=("old",))], True),
        ("old_tmp", [SelectionLine("shop", names=("old_tmp",)), TEMPORARY], False),
    ],
)
def test_a_line_takes_what_it_means(name: str, lines: list[SelectionLine], taken: bool) -> None:
    assert _taken(("shop", name), lines) is taken
    assert not _taken(("Shop", name), lines)
    assert _taken(("shop", name), [line.folded() for line in lines]) is (taken or (name == "orders" and bool(lines)))
