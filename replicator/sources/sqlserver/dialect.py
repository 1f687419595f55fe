"""The server's SQL, as conditions know it, and how names and texts are written in it."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.model.identifiers import TableId
from replicator.sources.shared.dialect import SourceDialect


@dataclass(frozen=True, slots=True)
class _Bracketed(SourceDialect):
    """Names in brackets, with the closing bracket doubled inside: valid regardless of QUOTED_IDENTIFIER."""

    def quoted(self, *names: str) -> str:
        """An identifier, or several with dots between them."""
        return ".".join("[" + name.replace("]", "]]") + "]" for name in names)


# Column names are compared by the database's collation, mostly without case; two that differ in case only are refused.
TSQL = _Bracketed("tsql", ignores_case=True)


def quoted(*names: str) -> str:
    """An identifier, or several with dots between them."""
    return TSQL.quoted(*names)


def table_name(table: TableId) -> str:
    """Schema and table."""
    return quoted(table.database, table.name)


def literal(text: str) -> str:
    """A Unicode text: two quotes stand for one, and nothing else is special
    (learn.microsoft.com/sql/t-sql/data-types/constants-transact-sql).
    """
    return "N'" + text.replace("'", "''") + "'"


def binary(data: bytes) -> str:
    """A binary constant."""
    return "0x" + data.hex()
