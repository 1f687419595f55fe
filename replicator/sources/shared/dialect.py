"""What conditions and statements have to know of a source's SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceDialect:
    """A source's SQL.

    parser: its name in sqlglot. quote: the quote character around names, doubled inside them.
    unquoted: gives the column name that a name written without quotes stands for.
    ignores_case: column names are compared without regard to case, quoted or not.
    text: the column type for texts of some thousand characters.
    """

    parser: str
    quote: str = '"'
    unquoted: Callable[[str], str] = str
    ignores_case: bool = False
    text: str = "TEXT"

    def quoted(self, *names: str) -> str:
        """An identifier, or several with dots between them."""
        return ".".join(self.quote + name.replace(self.quote, self.quote * 2) + self.quote for name in names)

    def means(self, written: str, column: str, *, quoted: bool) -> bool:
        """Does a name in a statement mean the column?"""
        if self.ignores_case:
            return written.casefold() == column.casefold()
        return (written if quoted else self.unquoted(written)) == column
