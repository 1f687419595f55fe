"""Times as views show them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=10_000)
def day(at: float) -> str:
    """A DATE of seconds since 1970."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
