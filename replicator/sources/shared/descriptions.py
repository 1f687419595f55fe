"""Tables as catalogs describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from replicator.errors import TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema


class Description(Protocol):
    """A table as its catalog has it."""

    @property
    def schema(self) -> TableSchema:
        """As it is replicated."""


def schemas(found: Mapping[TableId, Description | TableError]) -> dict[TableId, TableSchema | TableError]:
    """Their schemas, and the errors of those that cannot be replicated."""
    return {table: one if isinstance(one, TableError) else one.schema for table, one in found.items()}
