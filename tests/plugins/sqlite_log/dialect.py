"""SQLite's SQL."""

from __future__ import annotations

from replicator.sources.shared.dialect import SourceDialect

SQLITE = SourceDialect("sqlite", ignores_case=True)


def literal(text: str) -> str:
    """A text in SQL; one with a NUL by its bytes, for the parser ends at it."""
    return f"CAST(X'{text.encode().hex()}' AS TEXT)" if "\0" in text else "'" + text.replace("'", "''") + "'"


def name_of(table: str) -> str:
    """A table of the file."""
    return SQLITE.quoted("main", table)
