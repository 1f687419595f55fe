"""The server's SQL, as conditions know it."""

from __future__ import annotations

from replicator.sources.shared.dialect import Dialect

POSTGRES = Dialect("postgres", unquoted=str.lower)
