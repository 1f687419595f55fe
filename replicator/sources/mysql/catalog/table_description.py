"""A table as its catalog has it."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.model.schema import TableSchema
from replicator.sources.mysql.types import BYTES, TEXTS, ColumnDefinition

_SET_BITS_EXACT = 52  # a SET is compared as a double


@dataclass(frozen=True)
class UniqueIndex:
    """An index over NOT NULL columns in which no two rows are equal.  `usable`: FORCE INDEX may name it."""

    name: str
    columns: tuple[str, ...]
    prefix: bool = False
    usable: bool = True

    @property
    def rank(self) -> tuple[bool, bool, int, str]:
        """The least is the key: the primary key, then whole columns, then few, then by name (the same on each call)."""
        return (self.name != "PRIMARY", self.prefix, len(self.columns), self.name)


@dataclass(frozen=True)
class TableDescription:
    """A table's schema with what a snapshot needs to read it; `definitions` are in the order of `schema.columns`."""

    schema: TableSchema
    definitions: tuple[ColumnDefinition, ...]
    key: UniqueIndex | None
    engine: str

    def definition(self, name: str) -> ColumnDefinition:
        """KeyError for an unknown name."""
        return self.definitions[self.schema.names.index(name)]

    @property
    def bounded(self) -> bool:
        """True where ranges of the key can be expressed exactly.

        ORDER BY compares only the first max_sort_length bytes of a TEXT or BLOB, and a prefix index does not give the
        exact order of longer values.  So tables with keys of these types or with a prefix index are read as one chunk.
        """
        if self.key is None or self.key.prefix:
            return False
        return all(_bounded(self.definition(name)) for name in self.key.columns)


def _bounded(definition: ColumnDefinition) -> bool:
    name = definition.data_type
    if name in TEXTS:
        return name in ("char", "varchar")
    if name in BYTES:
        return name in ("binary", "varbinary")
    if name == "set":
        return len(definition.labels) <= _SET_BITS_EXACT
    return name not in ("json", "vector")
