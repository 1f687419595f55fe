"""Rules of computed columns: what is written, and what it means."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.model.computed import Computed, ComputedKind
from replicator.model.computed_rules import COMPUTED_COLUMNS, ComputedColumns
from replicator.model.identifiers import TableId
from replicator.model.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, decimal


def of(text: str, table: str = "shop.orders") -> dict[str, Computed]:
    return ComputedColumns.parse({COMPUTED_COLUMNS: text}).of(TableId(*table.split(".")))


def test_all_kinds_are_read() -> None:
    found = of(
        """shop.*: tenant = 'it''s, eu' , shard = -7, live = true
        *.orders: at = commit_time, place = offset, op = operation
        shop.o*s: text = cast("my ""col" as STRING), wide = CAST(amount as decimal( 20, 2 )), Tenant = 'later'"""
    )
    assert found == {
        "tenant": Computed(ComputedKind.CONSTANT, STRING, "it's, eu"),
        "shard": Computed(ComputedKind.CONSTANT, BIGINT, "-7"),
        "live": Computed(ComputedKind.CONSTANT, BOOLEAN, "true"),
        "at": Computed(ComputedKind.COMMIT_TIME, TIMESTAMP),
        "place": Computed(ComputedKind.OFFSET, STRING),
        "op": Computed(ComputedKind.OPERATION, STRING),
        "text": Computed(ComputedKind.CAST, STRING, 'my "col'),
        "wide": Computed(ComputedKind.CAST, decimal(20, 2), "amount"),
    }
    assert not of("shop.*: a = 1", "crm.orders")
    assert not of("")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])))
def test_any_text_can_be_a_constant(text: str) -> None:
    found = of(f"shop.*: a = '{text.replace(chr(39), 2 * chr(39))}', b = 1")
    assert found["a"].value == text
    assert Computed.from_dict(found["a"].to_dict()) == found["a"]
    assert of(f"shop.*: a = {found['a']}") == {"a": found["a"]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("shop.*", "is not of the form"),
        ("shop: a = 1", "is not of the form"),
        ("shop.*: a", "is not of the form"),
        ("shop.*: a = 1,", "is not of the form"),
        ("shop.*: = 1", "is not of the form"),
        ("shop.*: a = 'x", "is not of the form"),
        ("shop.*: a = b", "'b' is none of"),
        ("shop.*: a = 1.5", "'1.5' is none of"),
        ("shop.*: a = cast(b as int)", "'int' is none of string, bigint"),
        ("shop.*: a = cast(b as decimal(50, 2))", "is none of string, bigint"),
        ("shop.*: _offset = offset", "the name _offset is reserved"),
        ("shop.*: _IS_DELETED = false", "the name _IS_DELETED is reserved"),
        ("shop.*: a = 1, A = 2", "has A twice"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(line: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        of(f"crm.*: a = 1\n{line}")
