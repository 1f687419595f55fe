"""What goes wrong with a catalog or a store, as pyiceberg says it: one sentence with a remedy, never a secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyiceberg import exceptions as iceberg
from requests import exceptions as http
from sqlalchemy import exc as sql

from replicator.errors import TargetError, TidemarkError
from replicator.targets.check import said
from replicator.targets.iceberg.destination import LakeCatalog

CREDENTIALS = "Check the credentials of the destination: they may be wrong or have expired."
ROLE = "Give the destination's role the privilege in the catalog, or in the store, that the message names."
REACH = "Check the address, and that a firewall lets the web server and the workers through."


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
    text = said(error)
    if isinstance(error, sql.OperationalError) and "authentication" in text:
        return TargetError(f"{where} refuses the user or the password.", remedy=CREDENTIALS)
    if isinstance(error, OSError) and any(mark in text for mark in _DENIED):
        return TargetError(f"The store does not allow it: {text}", remedy=ROLE)
    for kinds, message, remedy in _MEANINGS:
        if isinstance(error, kinds):
            return TargetError(message.format(where=where, said=text), remedy=remedy)
    return TargetError(f"{where} answers: {text}")


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
