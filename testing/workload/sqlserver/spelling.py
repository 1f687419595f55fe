"""T-SQL's spelling of names and texts."""

from __future__ import annotations

from collections.abc import Sequence


def quoted(name: str) -> str:
    """An identifier."""
    return "[" + name.replace("]", "]]") + "]"


def names(items: Sequence[str]) -> str:
    """Identifiers in a list."""
    return ", ".join(map(quoted, items))


def text(value: str) -> str:
    """A literal."""
    return "N'" + value.replace("'", "''") + "'"
