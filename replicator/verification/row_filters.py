"""Which of the source's rows a filter takes, decided on canonical cells; written from docs/selection.md and not the
pipeline.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from replicator.verification.cells import Cell
from replicator.verification.source import Row, SourceTable

Given = Mapping[str, Any]
Test = Callable[[Cell], bool]
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MICROSECONDS = "%Y-%m-%d %H:%M:%S.%f"
TRUE = frozenset({"true", "1"})


def chooser(conditions: Sequence[Given], table: SourceTable) -> Callable[[Row], bool]:
    """Return a test whether the conditions take a row; `table` has the types of the source's own values.

    Conditions on missing columns are ignored: those columns are reported elsewhere.
    """
    names = list(table.names)
    tests = [
        (names.index(one["column"]), _test(one, table.iceberg(one["column"])))
        for one in conditions
        if one["column"] in names
    ]
    return lambda row: all(test(row[place]) for place, test in tests)


def _test(one: Given, iceberg: str) -> Test:
    word, wanted = one["operator"], [_comparable(_literal(text, iceberg), iceberg) for text in one["values"]]
    if word == "IS NULL":
        return lambda cell: cell is None
    if word == "IS NOT NULL":
        return lambda cell: cell is not None
    if word == "IN":
        return lambda cell: cell is not None and _comparable(cell, iceberg) in wanted
    holds = OPERATORS[word]
    return lambda cell: cell is not None and bool(holds(_comparable(cell, iceberg), wanted[0]))


def _comparable(cell: bytes, iceberg: str) -> Any:
    """Numbers as numbers; texts, dates and moments (years have four digits) as bytes."""
    if iceberg in {"int", "long"}:
        return int(cell)
    if match := re.fullmatch(r"decimal\(\d+, ?(\d+)\)", iceberg):
        return Fraction(int(cell), 10 ** int(match[1])) if cell != b"NaN" else cell
    return cell


def _literal(text: str, iceberg: str) -> bytes:
    """As a canonical cell of the column would be."""
    if match := re.fullmatch(r"decimal\(\d+, ?(\d+)\)", iceberg):
        return b"%d" % int(Fraction(Decimal(text)) * 10 ** int(match[1]))
    if iceberg == "boolean":
        return b"1" if text.lower() in TRUE else b"0"
    if iceberg in {"timestamp", "timestamptz"}:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
        return moment.strftime(MICROSECONDS).rjust(len("2026-01-02 03:04:05.000006"), "0").encode()
    return text.encode()
