"""PostgreSQL 13 and later, read through logical decoding (pgoutput)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator.sources.postgres.config import FORM, PostgresConfig
from replicator.sources.postgres.offset import parse_offset

if TYPE_CHECKING:
    from replicator.sources.base import Source

GUIDE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

__all__ = ["FORM", "GUIDE", "PostgresConfig", "open_source", "parse_offset"]


def open_source(config: Mapping[str, Any]) -> Source:
    """ConfigurationError for a `config` that no form can have sent.

    What reads logs is loaded here: pages and commands do without it.
    """
    from replicator.sources.postgres.source import open_source as opened  # noqa: PLC0415

    return opened(config)
