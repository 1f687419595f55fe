"""Computed columns: columns of the target that the source's table does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from replicator.model.literals import WRITABLE
from replicator.model.types import MAX_DECIMAL_PRECISION, STRING, TIMESTAMP, DataType, Kind


class ComputedKind(StrEnum):
    """constant: one value for all rows.  commit_time, offset, operation: of the row's last change, at the source.
    cast: another column's value as another type.
    """

    CONSTANT = "constant"
    COMMIT_TIME = "commit_time"
    OFFSET = "offset"
    OPERATION = "operation"
    CAST = "cast"


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
