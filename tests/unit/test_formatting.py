from __future__ import annotations

import pytest

from webapp.templatetags.humanised import budget, share
from webapp.web.formatting import short, size, span


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (None, "–"),
        (100.0, "100 % left"),
        (62.504, "62.5 % left"),
        (0.0, "0 % left"),
        (-215.26, "overspent by 215.26 %"),
    ],
)
def test_an_error_budget_is_left_or_overspent(left: float | None, words: str) -> None:
    assert budget(left) == words


def test_a_share_is_all_only_where_it_is() -> None:
    assert [share(99.998), share(100.0), share(None)] == ["99.99 %", "100 %", "–"]


def test_numbers_are_told_in_their_size() -> None:
    assert [short(1_234_567), size(1536), span(75), span(0.4)] == ["1.2 M", "1.5 KiB", "1 min 15 s", "400 ms"]
