"""Canonical cells: the one form in which a value of any source and of the target is compared.

A cell is bytes, or None for NULL; equal values have equal cells and different values different ones:

    boolean, int, long   decimal digits         decimal      the unscaled integer's digits
    float, double        the IEEE bits          string       UTF-8
    date, timestamps     ISO text, 6 digits     binary       the bytes

Every NaN is the same NaN.  Written from the Iceberg specification, not the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Cell = bytes | None
Cells = Sequence[Cell]
Convert = Callable[[Cells], Cells]

MAX_DECIMAL_DIGITS = 38


@dataclass(frozen=True)
class CellRule:
    """`iceberg`: type in the target.  `select`: SQL around the name (`{}`).  `convert`: raw → cells.

    `compare`: SQL around a literal that finds the column's value; in Postgres around the name, too, so that `=` tells
    values apart.
    """

    iceberg: str
    select: str = "{}"
    convert: str = ""
    compare: str = "{}"


def show(cell: Cell, iceberg: str) -> str | None:
    """A cell for people to read."""
    if cell is None:
        return None
    if iceberg == "binary":
        return "0x" + cell.hex()
    if iceberg in {"float", "double"}:
        return str(np.frombuffer(cell, np.float32 if iceberg == "float" else np.float64)[0])
    text = cell.decode("utf-8", "replace")
    match = re.fullmatch(r"decimal\(\d+, (\d+)\)", iceberg)
    if match and text.lstrip("-").isdigit():
        scale = int(match[1])
        sign, digits_ = ("-", text[1:]) if text.startswith("-") else ("", text)
        digits_ = digits_.rjust(scale + 1, "0")
        return sign + (digits_[:-scale] + "." + digits_[-scale:] if scale else digits_)
    return text
