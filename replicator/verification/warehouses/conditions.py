"""Conditions as SQL, only what verification asks for, and values in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    NotNull,
    Or,
)


@dataclass(frozen=True)
class Literals:
    """How values are written, by type; a value of a type without a form here is written as its text."""

    text: Callable[[str], str]
    decimal: Callable[[Decimal], str] | None = None
    double: Callable[[float], str] | None = None
    binary: Callable[[bytes], str] | None = None
    day: Callable[[date], str] | None = None
    moment: Callable[[datetime], str] | None = None

    def __call__(self, value: Any) -> str:
        """A value in a statement."""
        form: Callable[[Any], str] | None = None
        match value:
            case bool():
                return str(value).upper()
            case int():
                return str(value)
            case Decimal():
                form = self.decimal
            case float():
                form = self.double
            case bytes():
                form = self.binary
            case datetime():
                form = self.moment
            case date():
                form = self.day
        return form(value) if form else self.text(str(value))


def quoted(name: str) -> str:
    """A name as standard SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def condition(wanted: BooleanExpression, column: Callable[[str], str], literal: Callable[[Any], str]) -> str:
    """column, literal: a column's name and a value, as the warehouse has them."""

    def written(part: Any) -> str:
        match part:
            case AlwaysTrue():
                return "TRUE"
            case And() | Or():
                between = "AND" if isinstance(part, And) else "OR"
                return f"({written(part.left)} {between} {written(part.right)})"
        return f"{column(part.term.name)} {test(part)}"

    def test(part: Any) -> str:
        match part:
            case IsNull():
                return "IS NULL"
            case NotNull():
                return "IS NOT NULL"
            case EqualTo():
                return f"= {literal(part.literal.value)}"
            case GreaterThanOrEqual():
                return f">= {literal(part.literal.value)}"
            case In():
                return f"IN ({', '.join(literal(one.value) for one in part.literals)})"
        raise KeyError(type(part))

    return written(wanted)
