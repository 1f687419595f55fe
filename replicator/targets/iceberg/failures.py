"""What goes wrong with a catalog or a store, as pyiceberg says it: one sentence with a remedy, never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyiceberg import exceptions as iceberg
from requests import exceptions as http
from sqlalchemy import exc as sql

from replicator.errors import TargetError, TidemarkError
from replicator.redaction import redacted
from replicator.targets.iceberg.destination import LakeCatalog

MAX_TEXT = 300
CREDENTIALS = "Check the credentials of the destination: they may be wrong or have expired."
ROLE = "Give the destination's role the privilege in the catalog, or in the store, that the message names."
REACH = "Check the address, and that a firewall lets the web server and the workers through."
_HIDDEN = re.compile(r"(?<=://)[^/@\s]+@")


@contextmanager
def explained(lake: LakeCatalog) -> Iterator[None]:
    """Raises TargetError for whatever pyiceberg and its clients raise, but for names that do not exist."""
    try:
        yield
    except (TidemarkError, iceberg.NoSuchTableError, iceberg.NoSuchNamespaceError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever drivers raise
        raise _explained(lake, error) from None  # its text may hold an address with its password: invariant 8


def _explained(lake: LakeCatalog, error: Exception) -> TargetError:
    where = f"The catalog at {lake.java.get('uri') or lake.kind}"
    said = without_secrets(lake, str(error))
    if isinstance(error, sql.OperationalError) and "authentication" in said:
        return TargetError(f"{where} refuses the user or the password.", remedy=CREDENTIALS)
    if isinstance(error, OSError) and any(mark in said for mark in _DENIED):
        return TargetError(f"The store does not allow it: {said}", remedy=ROLE)
    for kinds, text, remedy in _MEANINGS:
        if isinstance(error, kinds):
            return TargetError(text.format(where=where, said=said), remedy=remedy)
    return TargetError(f"{where} answers: {said}")


_DENIED = ("ACCESS_DENIED", "AccessDenied", "Forbidden", "Permission denied")
_MEANINGS: Sequence[tuple[tuple[type[Exception], ...], str, str | None]] = (
    (
        (iceberg.UnauthorizedError, iceberg.OAuthError, iceberg.AuthorizationExpiredError),
        "{where} refuses the credentials: {said}",
        CREDENTIALS,
    ),
    ((iceberg.ForbiddenError,), "{where} does not allow it: {said}", ROLE),
    (
        (iceberg.TooManyRequestsError, iceberg.ServiceUnavailableError, iceberg.ServerError),
        "{where} is not available: {said}",
        None,
    ),
    ((http.Timeout, http.ConnectionError, sql.OperationalError), "{where} does not answer.", REACH),
    ((sql.SQLAlchemyError,), "{where} has no tables of a catalog, or they cannot be read.", ROLE),
    ((OSError,), "The store does not answer as it should: {said}", REACH),
)


def without_secrets(lake: LakeCatalog, text: str) -> str:
    """On one line, and not too long."""
    plain = _HIDDEN.sub("", " ".join(text.split()))
    for name, value in (*lake.java.items(), *lake.python.items()):
        if value and SECRET.search(name):
            for part in {value, value.partition(":")[2]} - {""}:
                plain = plain.replace(part, "***")
    return redacted(plain)[:MAX_TEXT]


SECRET = re.compile(r"(?i)password|secret|token$|credential|account\.key|account-key|session-token")
