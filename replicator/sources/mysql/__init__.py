"""MySQL 8.0 and later, MariaDB 10.6 and later, read through their binary log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator.sources.mysql.config import FORM, MySqlConfig
from replicator.sources.mysql.offset import parse_offset

if TYPE_CHECKING:
    from replicator.sources.base import Source

GUIDE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

__all__ = ["FORM", "GUIDE", "MySqlConfig", "open_source", "parse_offset"]


def open_source(config: Mapping[str, Any]) -> Source:
    """ConfigurationError for a `config` that no form can have sent.

    What reads logs is loaded here: pages and commands do without it.
    """
    from replicator.sources.mysql.source import open_source as opened  # noqa: PLC0415

    return opened(config)
