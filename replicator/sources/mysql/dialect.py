"""The server's SQL, as conditions know it."""

from __future__ import annotations

from replicator.sources.shared.dialect import SourceDialect

MYSQL = SourceDialect("mysql", quote="`", ignores_case=True)
