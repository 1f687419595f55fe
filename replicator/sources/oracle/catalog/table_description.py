"""A table as its catalog has it."""

from __future__ import annotations

from dataclasses import dataclass

from replicator.model.schema import TableSchema
from replicator.sources.oracle.rows.redo_rows import RedoLayout
from replicator.sources.oracle.types import ColumnDefinition, Form, ValueType

# Of which ORDER BY goes by the index, and a literal is the value: intervals and floats are read in one piece.
_BOUNDED = frozenset({Form.NUMBER, Form.DIGITS, Form.TEXT, Form.MOMENT, Form.FINE_MOMENT, Form.ZONED, Form.BYTES})


@dataclass(frozen=True)
class TableDescription:
    """A table's schema with what reading it needs; definitions and value types are those of `schema.columns`.

    names: of all columns that the log has of it.  logged: supplemental logging of all columns is on.
    """

    schema: TableSchema
    definitions: tuple[ColumnDefinition, ...]
    value_types: tuple[ValueType, ...]
    names: tuple[str, ...]
    logged: bool

    @property
    def layout(self) -> RedoLayout:
        """How its statements are read."""
        return RedoLayout(self.schema, self.value_types, self.names)

    def place(self, name: str) -> tuple[ColumnDefinition, ValueType]:
        """ValueError for an unknown name."""
        at = self.schema.names.index(name)
        return self.definitions[at], self.value_types[at]

    @property
    def lobs(self) -> tuple[str, ...]:
        """Columns that are large objects."""
        pairs = zip(self.schema.names, self.value_types, strict=True)
        return tuple(name for name, kind in pairs if kind.form is Form.LOB)

    @property
    def bounded(self) -> bool:
        """Can ranges of the key be expressed exactly, and read by its index?"""
        return bool(self.schema.key) and all(self.place(name)[1].form in _BOUNDED for name in self.schema.key)
