"""PostgreSQL 13 and later, read through logical decoding (pgoutput)."""

from pathlib import Path

from replicator.sources.postgres.config import FORM
from replicator.sources.postgres.offset import parse_offset
from replicator.sources.postgres.source import open_source

GUIDE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

__all__ = ["FORM", "GUIDE", "open_source", "parse_offset"]
