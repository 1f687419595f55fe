"""What goes wrong with BigQuery, as it says it: one sentence with a remedy; never a row's values, never a secret.

https://docs.cloud.google.com/bigquery/docs/error-messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager

import requests
from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError
from google.resumable_media.common import InvalidResponse

from replicator.errors import (
    ConfigurationError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
)
from replicator.targets.bigquery.config import BigQueryDestination
from replicator.targets.check import said
from replicator.targets.google_login import enable, explained_login
from replicator.targets.warehouse.sql_states import AGAIN, Meaning

REACH = "Retried automatically. Check that the workers reach BigQuery's API over HTTPS."
TEST = "Run the test of the destination. It shows the command to run."
LOGIN = "Correct the key of the destination: it may be deleted, disabled or of another project."
QUOTA = (
    "Retried automatically. Raise the seconds between commits, or the quota in the Google Cloud console under"
    " IAM & Admin, Quotas."
)
SLOTS = "Retried automatically. Reserve more slots."
BILLING = "Link the project to a billing account: transactions need one."
SERVICE = "bigquery.googleapis.com"
THROTTLED = frozenset({"rateLimitExceeded", "jobRateLimitExceeded"})
PASSING = THROTTLED | {
    "backendError", "internalError", "jobBackendError", "jobInternalError", "badGateway", "tableUnavailable",
}  # fmt: skip
# By the reason that BigQuery gives.
_REASONS: Mapping[str, Meaning] = {
    **dict.fromkeys(THROTTLED, (TargetError, "throttles the project", QUOTA)),
    **dict.fromkeys(PASSING - THROTTLED, (TargetError, "has a passing error", AGAIN)),
    "quotaExceeded": (TargetError, "has used up a quota", QUOTA),
    "accessDenied": (TargetUnauthorized, "does not allow it", TEST),
    "forbidden": (TargetUnauthorized, "does not allow it", TEST),
    "accessNotConfigured": (TargetUnauthorized, "has its API turned off", "{enable}"),
    "authError": (TargetUnauthorized, "refused the login", LOGIN),
    "billingNotEnabled": (TargetUnauthorized, "needs billing", BILLING),
    "blocked": (TargetError, "has blocked the project for a while", QUOTA),
    "duplicate": (TargetConflict, "has the object already, which another worker has made", AGAIN),
    "notFound": (TargetError, "has no such object", TEST),
    "resourcesExceeded": (TargetError, "lacks resources for the statement", SLOTS),
    "responseTooLarge": (TargetError, "has too large an answer", AGAIN),
    "stopped": (TargetError, "cancelled the statement", AGAIN),
    "timeout": (TargetError, "cancelled a statement that took too long", SLOTS),
    "resourceInUse": (TargetConflict, "has another change of the object under way", AGAIN),
}  # fmt: skip
_CODES: Mapping[int, str] = {
    401: "authError", 403: "accessDenied", 404: "notFound", 409: "duplicate", 429: "rateLimitExceeded",
    500: "internalError", 502: "badGateway", 503: "backendError", 504: "backendError",
}  # fmt: skip
_CONFLICT = re.compile(r"concurrent update|aborted due to|could not serialize|precondition", re.IGNORECASE)
_EXISTS = re.compile(r"\bAlready Exists\b", re.IGNORECASE)
_DISABLED = re.compile(r"has not been used in project|is disabled|SERVICE_DISABLED")
_LIMIT = re.compile(r"too many (?:columns|fields)|exceeds? .{0,40}column|maximum allowed .{0,40}fields", re.IGNORECASE)
_VALUES = "invalid"  # its texts repeat values of loaded files


@contextmanager
def explained(to: BigQueryDestination) -> Iterator[None]:
    """Translate all errors of the vendor's client and the socket to TargetError or TableError."""
    try:
        with explained_login(to.login):
            yield
    except ConfigurationError as error:
        raise TargetError(error.message, remedy=error.remedy) from None
    except exceptions.RetryError as error:
        raise _explained(to, error.cause or error) from None
    except (exceptions.GoogleAPIError, InvalidResponse, requests.RequestException, TooLate, OSError) as error:
        raise _explained(to, error) from None  # its text may hold a row (invariant 8)


def _explained(to: BigQueryDestination, error: BaseException) -> TidemarkError:
    if isinstance(error, GoogleAuthError):
        try:
            with explained_login(to.login):
                raise error
        except TargetError as found:
            return found
    if not isinstance(error, exceptions.GoogleAPICallError):
        return TargetError(f"{to.where} cannot be reached: {type(error).__name__}", remedy=REACH)
    reason, text = reason_of(error), str(error.message)
    kind, does, remedy = _meaning(reason, text)
    told = reason if reason == _VALUES else f"{reason}: {said(_first(text))}"
    return kind(f"{to.where} {does}: {told}", remedy=remedy.format(enable=enable(to.project, SERVICE)))


def _meaning(reason: str, text: str) -> Meaning:
    if _CONFLICT.search(text) or _EXISTS.search(text):
        return TargetConflict, "was overtaken by another transaction", AGAIN
    if _DISABLED.search(text):
        return _REASONS["accessNotConfigured"]
    if reason == _VALUES:
        return ValueDoesNotFit, "does not take a value", "Exclude the column from the replicator."
    if _LIMIT.search(text):
        return UnsupportedDdl, "has a limit that the table exceeds", "Exclude columns of the table."
    return _REASONS.get(reason, (TargetError, "failed", REACH))


def reason_of(error: BaseException) -> str:
    """BigQuery's own word for it, such as quotaExceeded; empty where it has none."""
    found = getattr(error, "errors", None) or []
    if found and isinstance(found[0], Mapping) and found[0].get("reason"):
        return str(found[0]["reason"])
    return _CODES.get(int(getattr(error, "code", 0) or 0), "")


def _first(text: str) -> str:
    """Without what the vendor's client puts behind it: the request's address, job and location."""
    return re.split(r"; reason: |\n", re.sub(r"^(?:GET|POST|PUT|PATCH|DELETE) \S+: ", "", text), maxsplit=1)[0]
