"""What goes wrong with the server, as it says it: one sentence with a remedy; never a row's values, never a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg2

from replicator.clear_text import LIBPQ_REFUSAL
from replicator.clear_text import REMEDY as CLEAR_TEXT
from replicator.errors import (
    ConfigurationError,
    StorageFull,
    TableError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
)
from replicator.redaction import redacted
from replicator.sources.postgres.connection import sql_state

MAX_TEXT = 300
REACH = "Check that the server is running and reachable from the web server and the workers at its address and port."
AGAIN = "Retried automatically."
# Longest first; https://www.postgresql.org/docs/current/errcodes-appendix.html.  What is not here is retried.
_MEANINGS: Mapping[str, tuple[type[TidemarkError], str, str]] = {
    "40001": (TargetConflict, "was overtaken by another transaction", AGAIN),
    "40P01": (TargetConflict, "met a deadlock", AGAIN),
    "23505": (TargetConflict, "met a row that another worker has put in", AGAIN),
    "42P07": (TargetConflict, "has the table already, which another worker has made", AGAIN),
    "55P03": (
        TargetError,
        "waited in vain for a lock",
        "Retried automatically. If it persists, look for long transactions on the table in pg_stat_activity.",
    ),
    "57014": (TargetError, "cancelled the statement", AGAIN),
    "25006": (
        TargetError,
        "is read-only",
        "Connect to the primary server: a standby is read-only. After a failover, correct host and port.",
    ),
    "53100": (StorageFull, "has no space left", "Free space on its disk. Tidemark then resumes automatically."),
    "53300": (TargetError, "has no connection free", "Raise max_connections, or end other connections."),
    "42501": (
        TargetUnauthorized,
        "does not allow it",
        "Run the test of the destination. It shows the GRANT to run on the server.",
    ),
    "42939": (
        UnsupportedDdl,
        "reserves names that begin with pg_",
        "Give the replicator a prefix, or a routing rule for this schema.",
    ),
    "2BP01": (
        TargetError,
        "has views or other objects that depend on it",
        "Drop what depends on the table, or on the column that changes. Retried automatically.",
    ),
    "0A000": (
        TargetError,
        "cannot do it",
        "Drop the views that use the column that changes, if that is the reason. Retried automatically.",
    ),
    "3D000": (TargetError, "has no such database", "Create the database, or correct the destination."),
    "54000": (
        ValueDoesNotFit,
        "takes no value of that size",
        "If the key is too long for an index, set Keys of the destination to Index only, and resnapshot the table.",
    ),
    "28": (TargetUnauthorized, "refused the login", "Correct the user and password of the destination."),
    "22": (ValueDoesNotFit, "does not take a value", "Exclude the column from the replicator, or change the value."),
    "54": (UnsupportedDdl, "has a limit that the table exceeds", "Exclude columns of the table from the replicator."),
}  # fmt: skip
_TEXTS = (
    ("does not exist", "database", "3D000"),
    ("authentication failed", "", "28"),
    ("pg_hba.conf", "", "28"),
    ("no password supplied", "", "28"),
    ("role", "does not exist", "28"),
)


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Raises TargetError, TableError or StorageFull for whatever psycopg2 and the socket raise inside.

    where: names the server.
    """
    try:
        yield
    except ConfigurationError as error:
        raise TargetError(error.message, remedy=error.remedy) from None
    except (psycopg2.Error, OSError, UnicodeError) as error:
        raise _explained(where, error) from None  # its text may hold a row (invariant 8)


def _explained(where: str, error: Exception) -> TidemarkError:
    state, said = sql_state(error), _said(error)
    if not state:
        if LIBPQ_REFUSAL in said:
            return TargetUnauthorized(f"{where} requests the password in clear text.", remedy=CLEAR_TEXT)
        state = next((code for one, two, code in _TEXTS if one in said and two in said), "")
    kind, does, remedy = _MEANINGS.get(state) or _MEANINGS.get(state[:2]) or (TargetError, "failed", REACH)
    message = f"{where} {does}: {said}"
    return kind(message, remedy=remedy) if kind is not TableError else TableError(message)


def _said(error: Exception) -> str:
    """The primary message only: DETAIL may hold a row."""
    state = sql_state(error)
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    text = f"{primary or type(error).__name__} (SQLSTATE {state})" if state else " ".join(str(error).split())
    return redacted(text)[:MAX_TEXT]
