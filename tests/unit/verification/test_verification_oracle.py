"""How the verification reads Oracle's values."""

from __future__ import annotations

from replicator.verification.oracle.rules import unscaled


def test_numbers_of_more_digits_than_decimal_keeps_by_itself_are_compared_exactly() -> None:
    nines = "9" * 38
    assert unscaled(0)([f"-{nines}", None]) == [f"-{nines}".encode(), None]
    assert unscaled(2)([f"{nines[2:]}.67"]) == [f"{nines[2:]}67".encode()]
