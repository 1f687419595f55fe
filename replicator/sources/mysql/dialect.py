"""The server's SQL, as conditions know it."""

from __future__ import annotations

from replicator.sources.shared.dialect import Dialect

MYSQL = Dialect("mysql", quote="`", ignores_case=True)
