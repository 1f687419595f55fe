"""The server's SQL, as conditions know it."""

from __future__ import annotations

from replicator.sources.shared.dialect import SourceDialect

POSTGRES = SourceDialect("postgres", unquoted=str.lower)
