"""SQL_REDO written from values gives those values back; damaged, a clear error or the values that it says."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np

from replicator.errors import TableError
from replicator.sources.oracle.rows.columns import canonical_number
from replicator.sources.oracle.rows.redo_rows import TableRows
from tests.property.budget import examples, seed
from tests.property.oracle.redo_writer import LAYOUT, NAMES, run_of, statement, values

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
    return {**row, "ANY": None if any_ is None else canonical_number(format(any_, "f"))}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def test_what_was_written_is_read() -> None:
    pen, rows = random.Random(seed()), TableRows(LAYOUT, "fail")
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
    """Or they are statements still: then their values are those that stand there.  Nothing outside of them is read."""
    pen, good, said = random.Random(seed()), 0, set[str]()
    for _ in range(examples(1_000)):
        verb, text, _, _ = written(pen)
        rows = TableRows(LAYOUT, "null")
        rows.add(run_of([damaged(text.encode(), pen)], [verb]), np.arange(1))
        try:
            good += rows.take().num_rows
        except TableError as error:
            said.add(error.code)
    assert good
    assert said == {"event_undecodable", "row_image_incomplete", "value_does_not_fit"}


def test_rows_that_cannot_be_read_are_kept_apart() -> None:
    pen = random.Random(seed())
    made = [written(pen) for _ in range(40)]
    texts = [text.encode() for _, text, _, _ in made]
    texts[7] = b"delete from nothing"
    rows = TableRows(LAYOUT, "null", keep_undecodable=True)
    rows.add(run_of(texts, [verb for verb, *_ in made]), np.arange(40))
    batch = rows.take()
    assert batch.column(0).to_pylist() == [place for place in range(40) if place != 7]
    (bad,) = rows.undecodable
    assert (bad.ordinal, bad.data) == (7, b"delete from nothing")
