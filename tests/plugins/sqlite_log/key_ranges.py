"""Key ranges in SQLite's own SQL: key values are literals as `quote` prints them, under the column's affinity."""

from __future__ import annotations

from replicator.model.types import Kind
from replicator.sources.shared.key_ranges import KeyRanges
from tests.plugins.sqlite_log.dialect import SQLITE, literal

_NUMBERS = frozenset({Kind.INT, Kind.BIGINT, Kind.DECIMAL})


class SqliteKeyRanges(KeyRanges):
    dialect = SQLITE

    def column(self, place: int) -> str:
        """Under its name."""
        return SQLITE.quoted(self.schema.key[place])

    def ordered(self, name: str) -> str:
        """The same."""
        return SQLITE.quoted(name)

    def given(self, place: int, text: str) -> str:
        """Return the literal; a boolean that is neither `true` nor `false` becomes NULL, which is equal to nothing."""
        kind = self.schema.column(self.schema.key[place]).type.kind
        if kind is Kind.BINARY:
            return f"X'{text}'"
        if kind is Kind.BOOLEAN:
            return {"true": "1", "false": "0"}.get(text, "NULL")
        return text if kind in _NUMBERS else literal(text)


def select_key(ranges: SqliteKeyRanges) -> str:
    """The SELECT list of a key, as literals."""
    return ", ".join(f"quote({SQLITE.quoted(name)})" for name in ranges.schema.key)
