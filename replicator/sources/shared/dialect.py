"""What conditions and statements have to know of a source's SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceDialect:
    """A source's SQL.

    parser: sqlglot's name of it.  quote: around names, doubled inside of them.
    unquoted: what a column's name becomes that is written without quotes.
    ignores_case: columns are told apart without regard to the case of letters, quoted or not.
    text: the type of a column for texts of some thousand characters.
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
