"""Tables as catalogs describe them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from replicator.errors import SelectionDoesNotFit, TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema


class Description(Protocol):
    """A table as its catalog has it."""

    @property
    def schema(self) -> TableSchema:
        """As it is replicated."""


def check_left_out(table: TableId, left_out: Collection[str], names: Collection[str]) -> None:
    """SelectionDoesNotFit where a column that is left out is none of the table's: another may have its values now
    (invariant 12).  names: of all columns, in the case of `left_out`.
    """
    if missing := sorted(set(left_out).difference(names)):
        message = f"{table} has no column {missing[0]}, which is excluded: it was renamed or dropped."
        raise SelectionDoesNotFit(message, table=str(table))


def schemas(found: Mapping[TableId, Description | TableError]) -> dict[TableId, TableSchema | TableError]:
    """Their schemas, and the errors of those that cannot be replicated."""
    return {table: one if isinstance(one, TableError) else one.schema for table, one in found.items()}
