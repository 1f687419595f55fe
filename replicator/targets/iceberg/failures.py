"""What goes wrong with a catalog or a store, as pyiceberg says it: one sentence with a remedy, never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyiceberg import exceptions as iceberg

from replicator.errors import TargetError, TidemarkError
from replicator.targets.check import CREDENTIALS, said
from replicator.targets.iceberg.destination import LakeCatalog

ROLE = "Give the destination's role the privilege in the catalog, or in the store, that the message names."
REACH = "Check the address, and that a firewall lets the web server and the workers through."
STORE = "Check the credentials of the store, and that they may list, read, write and delete below the warehouse."
LATER = "Test again later. If it persists, look into the log of the catalog or the store."
AS_IT_IS = (
    "Change what the catalog does not take: the format version, partitions, sort order or properties among the"
    " replicator's target settings, or the warehouse of the destination."
)


@contextmanager
def explained(lake: LakeCatalog) -> Iterator[None]:
    """Translate all errors of pyiceberg and its clients to TargetError, except for names that do not exist."""
    try:
        yield
    except (TidemarkError, iceberg.NoSuchTableError, iceberg.NoSuchNamespaceError):
        raise
    except Exception as error:  # noqa: BLE001 - any error of drivers
        raise _explained(lake, error) from None  # its text may hold an address with its password: invariant 8


def _explained(lake: LakeCatalog, error: Exception) -> TargetError:
    where, text = f"The catalog at {lake.java.get('uri') or lake.kind}", said(error)
    whole = " ".join(one.__name__ for one in type(error).__mro__) + f": {error}"
    for pattern, message, remedy in _MEANINGS:
        if pattern.search(whole):
            return TargetError(message.format(where=where, said=text), remedy=remedy)
    return TargetError(f"{where} answers: {text}", remedy=LATER)


# Classes of the clients (pyiceberg, requests, SQLAlchemy, botocore, Thrift, pyarrow) and what they say.
_KEYS_OF_AWS = "ExpiredToken|UnrecognizedClient|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidClientTokenId"
_MEANINGS: Sequence[tuple[re.Pattern[str], str, str]] = tuple(
    (re.compile(pattern, re.DOTALL), message, remedy)
    for pattern, message, remedy in (
        ("password authentication failed", "{where} refuses the user or the password.", CREDENTIALS),
        (
            r'database "[^"]*" does not exist',
            "The database of the catalog does not exist: {said}",
            "Create the database, or correct the catalog's address.",
        ),
        (
            "UndefinedTable",
            "{where} contains no catalog tables.",
            "Correct the address, or connect a client of Iceberg's JDBC catalog that may create tables: it makes them.",
        ),
        (
            "InsufficientPrivilege",
            "{where} has tables that the user may not read or write: {said}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON iceberg_tables, iceberg_namespace_properties to the user.",
        ),
        (
            "NoCredentialsError|PartialCredentialsError|CredentialRetrievalError",
            "No AWS credentials are found: {said}",
            "Give the workers and the web server AWS credentials (environment, profile or role of the machine).",
        ),
        (
            f"UnauthorizedError|OAuthError|AuthorizationExpiredError|ClientError.*({_KEYS_OF_AWS})",
            "{where} refuses the credentials: {said}",
            CREDENTIALS,
        ),
        ("ForbiddenError|ClientError.*AccessDenied", "{where} does not allow it: {said}", ROLE),
        (
            "OSError.*(ACCESS_DENIED|AccessDenied|Forbidden|PERMISSION_DENIED|Permission denied|Authorization)",
            "The store does not allow it: {said}",
            STORE,
        ),
        (  # the answer to a HEAD has no body that says more
            r"HTTP status 400\) during HeadObject|ExpiredToken|InvalidToken|InvalidAccessKeyId|AuthenticationFailed",
            "The store refuses the credentials: {said}",
            "Check the credentials of the store, which may be wrong or have expired, and its region.",
        ),
        (
            "NO_SUCH_BUCKET|bucket does not exist|ContainerNotFound|container does not exist",
            "The bucket does not exist: {said}",
            "Create the bucket, or correct the warehouse.",
        ),
        ("unknown host name", "{where} does not answer: {said}.", REACH),
        (
            r"Timeout\b|ConnectionError|OperationalError|TTransportException|EndpointConnection",
            "{where} does not answer.",
            REACH,
        ),
        ("NETWORK_CONNECTION|curlCode", "The store does not answer: {said}", REACH),
        ("TooManyRequestsError|ServiceUnavailableError|ServerError", "{where} is not available: {said}", LATER),
        (r"HTTP status 5\d\d|SLOW_DOWN", "The store is not available: {said}", LATER),
        ("CommitStateUnknown|GatewayTimeout", "{where} did not say whether the change was committed: {said}", LATER),
        ("BadRequestError|ValidationError", "{where} does not take the table as it is: {said}", AS_IT_IS),
        ("OSError", "The store does not answer as it should: {said}", REACH),
    )
)
