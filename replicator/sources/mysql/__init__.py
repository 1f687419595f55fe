"""MySQL 8.0 and later, MariaDB 10.6 and later, read through their binary log."""

from pathlib import Path

from replicator.sources.mysql.config import FORM
from replicator.sources.mysql.offset import parse_offset
from replicator.sources.mysql.source import open_source

GUIDE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

__all__ = ["FORM", "GUIDE", "open_source", "parse_offset"]
