"""SQL_REDO written from values gives those values back; damaged, a clear error or the values that it says."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from replicator.errors import TableError, ValueDoesNotFit
from replicator.sources.oracle.rows.columns import canonical_number
from replicator.sources.oracle.rows.redo_rows import TableRows
from tests.property.budget import examples, seed
from tests.property.oracle.redo_reader import Reader, value
from tests.property.oracle.redo_writer import (
    DEFINITIONS,
    LAYOUT,
    MOMENTS,
    NAMES,
    BeforeChrist,
    run_of,
    statement,
    values,
)

_VERBS = ("insert", "update", "delete")


def written(pen: random.Random) -> tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]:
    """A statement with its values before and after."""
    verb = pen.choice(_VERBS)
    before, after = (None if verb == absent else values(pen) for absent in ("insert", "delete"))
    if verb == "update" and before is not None and after is not None:
        after = {name: after[name] if pen.random() < 0.4 else before[name] for name in NAMES}
    return verb, statement(verb, before, after, pen), before, after


def expected(row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return dict.fromkeys(NAMES)
    any_ = row["ANY"]
    row = {name: None if isinstance(value, BeforeChrist) else value for name, value in row.items()}
    return {**row, "ANY": None if any_ is None else canonical_number(format(any_, "f"))}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def test_what_was_written_is_read() -> None:
    pen, rows = random.Random(seed()), TableRows(LAYOUT, "null")
    made = [written(pen) for _ in range(examples(600, 100_000))]
    rows.add(run_of([text.encode() for _, text, _, _ in made], [verb for verb, *_ in made]), np.arange(len(made)))
    batch = rows.take().to_pylist()
    for (verb, text, before, after), row in zip(made, batch, strict=True):
        assert row["_operation"] == verb.upper()
        found = {name: row[f"_before_{name}"] for name in NAMES}
        assert all(same(found[name], expected(before)[name]) for name in NAMES), text
        if after is not None:
            assert all(same(row[name], expected(after)[name]) for name in NAMES), text
        else:
            assert (row["ID"], row["NAME"]) == (before and before["ID"], None)


@pytest.mark.parametrize("name", MOMENTS)
def test_a_date_before_the_year_1_stops_the_table_where_the_policy_says_so(name: str) -> None:
    pen, rows = random.Random(seed()), TableRows(LAYOUT, "fail")
    row = {**dict.fromkeys(NAMES), "ID": 1, name: BeforeChrist("-0044-03-15 12:00:00")}
    rows.add(run_of([statement("insert", None, row, pen).encode()], ["insert"]), np.arange(1))
    with pytest.raises(ValueDoesNotFit, match="-0044-03-15"):
        rows.take()


def test_numbers_have_one_text_each() -> None:
    pen = random.Random(seed())
    for _ in range(examples(500)):
        number = Decimal(pen.randrange(-(10**20), 10**20)).scaleb(pen.randrange(-60, 60))
        texts = {canonical_number(form) for form in (str(number), format(number, "f"), f"{number:E}")}
        assert len(texts) == 1
        assert Decimal(texts.pop()) == number


def damaged(text: bytes, pen: random.Random) -> bytes:
    at, until = sorted(pen.randrange(len(text) + 1) for _ in range(2))
    match pen.randrange(5):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + text[until:]
        case 2:
            return text[:at] + bytes([pen.choice(b"'\"();,=|NU \0\xff")]) + text[at:]
        case 3:
            return text[:at] + text[at:until] * 2 + text[until:]
    return text[: at - 1] + bytes([pen.randrange(256)]) + text[at:] if at else text


def test_damaged_statements_are_errors_that_name_no_value() -> None:
    """Or they are statements still: then their values are those that stand there, as a slow reader of the same grammar
    finds them.  Nothing outside of them is read.
    """
    pen, other, said = random.Random(seed()), 0, set[str]()
    for _ in range(examples(1_500)):
        verb, text, before, after = written(pen)
        rows, broken = TableRows(LAYOUT, "null"), damaged(text.encode(), pen)
        rows.add(run_of([broken], [verb]), np.arange(1))
        try:
            (row,) = rows.take().to_pylist()
        except TableError as error:
            said.add(error.code)
            continue
        there = read(broken)
        for side, prefix, whole in zip(there, ("_before_", ""), (verb != "insert", verb != "delete"), strict=True):
            found = {name: row[f"{prefix}{name}"] for name in NAMES}
            if whole:
                assert all(same(found[name], side[name]) for name in NAMES), (broken, found, side)
        other += there != (known(before), known(after)) and broken != text.encode()
    assert other > 10
    assert said == {"event_undecodable", "row_image_incomplete", "value_does_not_fit"}


def known(row: dict[str, Any] | None) -> dict[str, Any]:
    return expected(row) if row else {}


def read(text: bytes) -> tuple[dict[str, Any], ...]:
    """Values before and after the change, of the columns that are there."""
    kinds = {one.name: one.data_type for one in DEFINITIONS}
    sides = Reader(text).read()
    found = [{name: value(kinds[name], one) for name, one in side.items() if name in kinds} for side in sides]
    for side in found:
        if isinstance(side.get("ANY"), Decimal):
            side["ANY"] = canonical_number(format(side["ANY"], "f"))
    return tuple(found)


def test_rows_that_cannot_be_read_are_kept_apart() -> None:
    pen = random.Random(seed())
    made = [written(pen) for _ in range(40)]
    texts = [text.encode() for _, text, _, _ in made]
    texts[7] = b"delete from nothing"
    late = {**dict.fromkeys(NAMES), "ID": 9, "DAY": BeforeChrist("2023-02-30 00:00:00")}
    texts[9] = statement("delete", late, None, pen).encode()
    made[9] = ("delete", "", late, None)
    rows = TableRows(LAYOUT, "null", keep_undecodable=True)
    rows.add(run_of(texts, [verb for verb, *_ in made]), np.arange(40))
    batch = rows.take()
    assert batch.column(0).to_pylist() == [place for place in range(40) if place not in (7, 9)]
    bad, unfit = rows.undecodable
    assert (bad.ordinal, bad.data, bad.keys) == (7, b"delete from nothing", ())
    assert (unfit.ordinal, unfit.data, unfit.keys) == (9, texts[9], ({"ID": "9"},))
