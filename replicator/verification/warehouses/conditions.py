"""Conditions as SQL: only what verification asks for."""

from __future__ import annotations

from collections.abc import Callable
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
