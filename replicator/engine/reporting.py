"""What the engine tells people while it works."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from replicator.model.identifiers import TableId


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Reporter(Protocol):
    """Log lines for the logs page.  Texts hold no secret (invariant 8)."""

    def log(self, level: Level, message: str, *, table: TableId | None = None, **detail: Any) -> None:
        """`detail` is JSON-able."""
        ...
