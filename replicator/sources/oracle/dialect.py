"""The server's SQL, as conditions know it, and how names and texts are written."""

from __future__ import annotations

from replicator.errors import ConfigurationError
from replicator.sources.shared.dialect import SourceDialect

# Column names match regardless of case; a condition on a column that differs from another in case only is refused.
ORACLE = SourceDialect("oracle", unquoted=str.upper, ignores_case=True, text="VARCHAR2(4000)")
MAX_NAME_BYTES = 128


def quoted(*names: str) -> str:
    """An identifier, or several with dots between them.  ConfigurationError for what no identifier can hold."""
    for name in names:
        if not name or "\0" in name or '"' in name:
            message = f"{name!r} is not a name that Oracle supports."
            raise ConfigurationError(message)
    return ORACLE.quoted(*names)


def literal(text: str) -> str:
    """A text as an SQL literal."""
    if "\0" in text:
        message = "A name or value contains a NUL character."
        raise ConfigurationError(message)
    return "'" + text.replace("'", "''") + "'"
