"""What goes wrong with the server, as it says it: one sentence with a remedy; never a row's values, never a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg2

from replicator.clear_text import LIBPQ_REFUSAL
from replicator.clear_text import REMEDY as CLEAR_TEXT
from replicator.errors import ConfigurationError, TargetError, TargetUnauthorized, TidemarkError, ValueDoesNotFit
from replicator.redaction import redacted
from replicator.sources.postgres.connection import sql_state
from replicator.targets.warehouse.sql_states import MAX_TEXT, MEANINGS, Meaning, explained_state

_MEANINGS: Mapping[str, Meaning] = {
    **MEANINGS,
    "55P03": (
        TargetError,
        "waited in vain for a lock",
        "Retried automatically. If it persists, look for long transactions on the table in pg_stat_activity.",
    ),
    "25006": (
        TargetError,
        "is read-only",
        "Connect to the primary server: a standby is read-only. After a failover, correct host and port.",
    ),
    "0A000": (
        TargetError,
        "cannot do it",
        "Drop the views that use the column that changes, if that is the reason. Retried automatically.",
    ),
    "54000": (
        ValueDoesNotFit,
        "takes no value of that size",
        "If the key is too long for an index, set Keys of the destination to Index only, and resnapshot the table.",
    ),
}
_TEXTS = (
    ("does not exist", "database", "3D000"),
    ("authentication failed", "", "28"),
    ("pg_hba.conf", "", "28"),
    ("no password supplied", "", "28"),
    ("role", "does not exist", "28"),
)


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Translate all errors of psycopg2 and the socket to TargetError, TableError or StorageFull.

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
    return explained_state(where, state, said, _MEANINGS)


def _said(error: Exception) -> str:
    """The primary message only: DETAIL may hold a row."""
    state = sql_state(error)
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    text = f"{primary or type(error).__name__} (SQLSTATE {state})" if state else " ".join(str(error).split())
    return redacted(text)[:MAX_TEXT]
