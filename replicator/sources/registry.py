"""The sources that exist: one line each."""

from __future__ import annotations

from replicator.errors import ConfigurationError
from replicator.sources import mysql, oracle, postgres, sqlserver
from replicator.sources.kind import SourceKind

__all__ = ["DEFAULT_KIND", "KINDS", "SourceKind", "source_kind"]

KINDS: dict[str, SourceKind] = {
    kind.name: kind
    for kind in (
        mysql.KIND,
        postgres.KIND,
        sqlserver.KIND,
        oracle.KIND,
    )
}
DEFAULT_KIND = mysql.KIND.name  # of a form, and of a definition, that names none


def source_kind(name: str) -> SourceKind:
    """ConfigurationError for a name that is not registered."""
    try:
        return KINDS[name]
    except KeyError:
        message = f"Unknown source kind {name!r}; known kinds: {', '.join(sorted(KINDS))}."
        raise ConfigurationError(message) from None
