"""A few bytes of a definitions file cannot cost much."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError
from webapp.console.definitions.document import MAX_DOCUMENT_BYTES, parsed

BOMB = "a: &a [x, x]\n" + "".join(
    f"{n}: &{n} [{', '.join([f'*{p}'] * 9)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "line 2, column 8: aliases"),
        ("x: " + "[" * 5000, "nested too deeply"),
        ("x: " + "y" * MAX_DOCUMENT_BYTES, "more than 2,097,152 characters"),
    ],
)
def test_what_would_grow_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parsed(text, {})


def test_anchors_that_nobody_uses_are_nothing() -> None:
    assert parsed("a: &x [1]", {}) == {"a": [1]}
