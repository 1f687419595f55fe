"""Computed columns: columns of the target that the source's table does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from replicator.model.literals import WRITABLE
from replicator.model.types import MAX_DECIMAL_PRECISION, STRING, TIMESTAMP, DataType, Kind

if TYPE_CHECKING:
    from replicator.model.schema import TableSchema


class ComputedKind(StrEnum):
    """constant: one value for all rows.  commit_time, offset, operation: of the row's last change, at the source.
    cast: another column's value as another type.
    """

    CONSTANT = "constant"
    COMMIT_TIME = "commit_time"
    OFFSET = "offset"
    OPERATION = "operation"
    CAST = "cast"


MAX_SHARED_VALUE = 200  # characters: it is part of the name of a property of the target table
METADATA = {ComputedKind.COMMIT_TIME: TIMESTAMP, ComputedKind.OFFSET: STRING, ComputedKind.OPERATION: STRING}


@dataclass(frozen=True, slots=True)
class Computed:
    """`value`: of a constant, as a text; the column of a cast.

    shared: the target table, namespace and name, whose rows the constant tells apart (docs/destinations.md); a table
    that goes to another one has another column.
    """

    kind: ComputedKind
    type: DataType
    value: str = ""
    shared: str = ""

    def __str__(self) -> str:
        """For people, as it is written."""
        if self.kind is ComputedKind.CONSTANT:
            return "'" + self.value.replace("'", "''") + "'" if self.type == STRING else self.value
        return f"cast({self.value} as {self.type})" if self.kind is ComputedKind.CAST else self.kind.value

    @property
    def is_metadata(self) -> bool:
        """Does it tell of the change, and not of the row?"""
        return self.kind in METADATA

    def to_dict(self) -> dict[str, Any]:
        """JSON form, part of a stored column's."""
        shared = {"shared": self.shared} if self.shared else {}
        return {"kind": self.kind.value, "type": str(self.type), "value": self.value, **shared}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Computed:
        """Inverse of `to_dict`; LookupError, ValueError for all else."""
        kind, shared = ComputedKind(data["kind"]), str(data.get("shared", ""))
        return cls(kind, DataType.parse(data["type"]), str(data["value"]), shared)

    def refusal(self, name: str, schema: TableSchema) -> str:  # noqa: PLR0911 - a reason each
        """Why it cannot be the column `name` of a table with this schema, as a sentence; empty where it can."""
        if any(column.name.lower() == name.lower() for column in schema.columns):
            return f"The computed column {name} has the name of a column of the table. Rename the computed column."
        if self.shared and (why := self._cannot_share(name, schema)):
            return why
        if self.is_metadata and not schema.key:
            return (
                f"The computed column {name} ({self}) needs a key: rows of a table without one are told apart by all"
                " their columns."
            )
        if self.kind is not ComputedKind.CAST:
            return ""
        if self.value not in schema.names:
            return f"The computed column {name} is a cast of {self.value}, which is not a replicated column."
        of = schema.column(self.value).type
        if can_cast(of, self.type):
            return ""
        return (
            f"The computed column {name} cannot be a cast of {self.value} ({of}) to {self.type}: values could be lost."
        )

    def _cannot_share(self, name: str, schema: TableSchema) -> str:
        if not schema.key:
            return (
                f"Tables that share the target table {self.shared} need a key. Add a key, or route the table to a"
                " target table of its own."
            )
        if len(self.value) > MAX_SHARED_VALUE:
            return f"The value of {name} is longer than {MAX_SHARED_VALUE} characters. Change the routing rule."
        return ""


_CASTS: Mapping[Kind, frozenset[Kind]] = {
    Kind.STRING: WRITABLE,
    Kind.BIGINT: frozenset({Kind.INT}),
    Kind.DOUBLE: frozenset({Kind.INT, Kind.FLOAT}),
    Kind.DATE: frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}),
}
_DIGITS = {Kind.INT: 10, Kind.BIGINT: 19}


def can_cast(old: DataType, new: DataType) -> bool:
    """Does every value of `old` become one value of `new`, none lost?  Of a time, its day may be taken, too."""
    if new.kind is not Kind.DECIMAL:
        return old.kind in _CASTS.get(new.kind, frozenset())
    whole = old.precision - old.scale if old.kind is Kind.DECIMAL else _DIGITS.get(old.kind, MAX_DECIMAL_PRECISION + 1)
    return new.scale >= old.scale and new.precision - new.scale >= whole
