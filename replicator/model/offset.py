"""Offsets are opaque outside their source."""

from __future__ import annotations

from typing import Any, Protocol


class Offset(Protocol):
    """A place in a source's log from which reading can resume.  Totally ordered within one server's log."""

    def to_dict(self) -> dict[str, Any]:
        """JSON form with a `kind`; every released form can be read for ever."""
        ...

    def __str__(self) -> str:
        """Short text for people and for the `_offset` column: `mysql-bin.000003:1462`."""
        ...

    def __lt__(self, other: Any) -> bool:
        """Log order."""
        ...

    def covers(self, other: Any) -> bool:
        """Was all read that the source held at `other`: its log, and what it shows beside its log?"""
        ...
