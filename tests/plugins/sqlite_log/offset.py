"""Places in the log: numbers of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replicator.errors import ConfigurationError

KIND = "sqlite_log"


@dataclass(frozen=True, order=True, slots=True)
class RowOffset:
    """The last row that was read."""

    row: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": KIND, "row": self.row}

    def __str__(self) -> str:
        return str(self.row)

    def covers(self, other: RowOffset) -> bool:
        """The log has all that the file shows."""
        return not self < other


def parse_offset(data: Mapping[str, Any]) -> RowOffset:
    """Raise ConfigurationError where `data` is not an offset of this kind."""
    if data.get("kind") != KIND or set(data) != {"kind", "row"} or not isinstance(data["row"], int):
        raise ConfigurationError(f"The stored offset cannot be read: {dict(data)!r}")
    return RowOffset(data["row"])
