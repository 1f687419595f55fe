"""Patterns mean what they say, and take no longer than text times pattern."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.model.identifiers import TableId, TablePattern

LETTERS = st.text("ab", max_size=9)


def means(pattern: str, name: str) -> bool:
    """By all places where a star may end."""
    reached = {0}
    for one in pattern:
        if one == "*":
            reached = set(range(min(reached, default=len(name) + 1), len(name) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(name) and one in {"?", name[at]}}
    return len(name) in reached


@given(pattern=st.text("ab*?", max_size=9), name=LETTERS)
def test_a_pattern_means_what_it_says(pattern: str, name: str) -> None:
    assert TablePattern("d", pattern).matches(TableId("d", name)) is means(pattern, name)


def test_many_stars_take_no_time() -> None:
    """One that tries all places for each star would not come back."""
    assert not TablePattern("d", "*a" * 30 + "*b").matches(TableId("d", "a" * 63))
    assert TablePattern("d", "*a" * 30 + "*b").matches(TableId("d", "a" * 62 + "b"))
    assert TablePattern("d", "a\n*.").matches(TableId("d", "a\n."))
