"""A place in Oracle's redo log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replicator.errors import ConfigurationError

KIND = "oracle"
_FIELDS = frozenset({"kind", "scn", "restart", "incarnation"})


@dataclass(frozen=True, order=True, slots=True)
class ScnOffset:
    """All transactions with a commit SCN up to `scn` were read, and none beyond it.

    Transactions share a commit SCN now and then: a place between such is none to resume at, so no more than the SCN is
    needed.  restart: the SCN at which the oldest transaction began that was open at this place; reading resumes there.
    incarnation: RESETLOGS_CHANGE# of the database, which tells this log from another with the same SCNs.
    """

    scn: int
    restart: int = field(default=0, compare=False)
    incarnation: int = field(default=0, compare=False)

    @property
    def low(self) -> int:
        """The first SCN to be read."""
        return min(self.restart or self.scn + 1, self.scn + 1)

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `parse_offset` is its inverse."""
        return {"kind": KIND, "scn": self.scn, "restart": self.restart, "incarnation": self.incarnation}

    def __str__(self) -> str:
        return str(self.scn)

    def covers(self, other: ScnOffset) -> bool:
        """The log has all that a query shows: both go by the SCN."""
        return not self < other


def parse_offset(data: Mapping[str, Any]) -> ScnOffset:
    """Inverse of `ScnOffset.to_dict`; ConfigurationError if `data` is not a valid offset.

    An unknown field is a later version's; it is refused, because its meaning must not be lost.
    """
    try:
        if data["kind"] != KIND:
            message = f"The stored offset is of kind {data['kind']!r}, not {KIND!r}."
            raise ConfigurationError(message)
        if unknown := sorted(set(data) - _FIELDS):
            raise ValueError(f"{unknown[0]} is not supported")  # noqa: TRY301 - worded with the others below
        offset = ScnOffset(int(data["scn"]), int(data.get("restart", 0)), int(data.get("incarnation", 0)))
        if min(offset.scn, offset.restart, offset.incarnation) < 0:
            raise ValueError(str(offset))  # noqa: TRY301
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        message = f"The stored offset cannot be read: {error!r}"
        raise ConfigurationError(message) from error
    return offset
