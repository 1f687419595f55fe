"""What goes wrong with Spanner, as it says it: one sentence with a remedy; never a row's values, never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import grpc
from google.api_core import exceptions

from replicator.errors import (
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
)
from replicator.targets.check import said
from replicator.targets.google_login import explained_login
from replicator.targets.spanner.config import SpannerDestination
from replicator.targets.warehouse.sql_states import AGAIN, Meaning

REACH = "Check the endpoint, and that the workers reach Spanner over HTTPS. Retried automatically."
GRANT = (
    "gcloud spanner databases add-iam-policy-binding DATABASE --instance=INSTANCE"
    " --member=serviceAccount:ACCOUNT --role=roles/spanner.databaseUser"
)
QUOTA = "Retried automatically. If it persists, add nodes or processing units to the instance, or raise the quota."
SHORTEN = "Exclude the column from the replicator, or shorten the value; then resnapshot the table."
LIMIT = "Exclude columns of the table from the replicator."


class TooManyMutations(TargetError):
    """A commit beyond Spanner's limits: with fewer rows it may fit."""


class NoSuchTable(TargetError):
    """Of a statement or a read."""


# By what the text of an answer with INVALID_ARGUMENT or FAILED_PRECONDITION has; it may repeat values of a row.
_TEXTS: Sequence[tuple[str, Meaning]] = (
    (r"too many mutations|transaction exceeds|size limit for a commit|commit.*too large|larger than max",
        (TooManyMutations, "does not take so much in one commit", AGAIN)),
    (r"maximum .*(length|size)|exceeds the .*(limit|maximum)|new value exceeds|too long",
        (ValueDoesNotFit, "does not take a value that is so long", SHORTEN)),
    (r"concurrent schema change|schema change .*progress", (TargetConflict, "changes another definition", AGAIN)),
    (r"referenced by|depends on|dependent|used by|part of|drop .*index",
        (TargetError, "has indexes, views or change streams that depend on it",
         "Drop what depends on the table, or on the column that changes. Retried automatically.")),
    (r"too many|more than \d+ (columns|tables)|limit", (UnsupportedDdl, "has a limit that the table exceeds", LIMIT)),
    (r"invalid value|out of range|could not parse|cannot parse|invalid utf",
        (ValueDoesNotFit, "does not take a value", "Exclude the column from the replicator, or change the value.")),
)  # fmt: skip
_CODES: Mapping[type[exceptions.GoogleAPICallError], Meaning] = {
    exceptions.Unauthenticated: (TargetUnauthorized, "refused the login", "Correct the login of the destination."),
    exceptions.PermissionDenied: (TargetUnauthorized, "does not allow it", GRANT),
    exceptions.Aborted: (TargetConflict, "aborted the transaction in favour of another one", AGAIN),
    exceptions.AlreadyExists: (TargetConflict, "has it already, which another worker has made", AGAIN),
    exceptions.ResourceExhausted: (TargetError, "has no capacity left or a quota is used up", QUOTA),
    exceptions.DeadlineExceeded: (TargetError, "did not answer in time", AGAIN),
    exceptions.ServiceUnavailable: (TargetError, "cannot be reached", REACH),
    exceptions.Cancelled: (TargetError, "stopped: the work was interrupted", "No action required."),
    exceptions.OutOfRange: (ValueDoesNotFit, "does not take a value", SHORTEN),
}
_VALUES = re.compile(r"\{.*\}|\[.*\]|'[^']*'|\"[^\"]*\"|key .*", re.DOTALL)


@contextmanager
def explained(one: SpannerDestination) -> Iterator[None]:
    """Translate all errors of the vendor's client to TargetError or TableError."""
    try:
        with explained_login(one.settings):
            yield
    except exceptions.GoogleAPICallError as error:
        raise _explained(one, error) from None  # its text may hold a row (invariant 8)
    except (exceptions.RetryError, grpc.RpcError, OSError, ValueError) as error:
        if isinstance(error, ValueError) and "closed channel" not in str(error):
            raise
        raise TargetError(f"{one.where} cannot be reached: {type(error).__name__}", remedy=REACH) from None


def _explained(one: SpannerDestination, error: exceptions.GoogleAPICallError) -> TidemarkError:
    text = str(error.message or "")
    if isinstance(error, exceptions.NotFound):
        kind, does, remedy = _missing(text)
    else:
        texts = (exceptions.InvalidArgument, exceptions.FailedPrecondition, exceptions.BadRequest)
        found = _named(text) if isinstance(error, texts) else None
        kind, does, remedy = found or _CODES.get(type(error)) or (TargetError, "failed", REACH)
    remedy = remedy.replace("DATABASE", one.database).replace("INSTANCE", one.instance)
    return kind(f"{one.where} {does}: {said(_VALUES.sub('…', text)) or type(error).__name__}", remedy=remedy)


def _named(text: str) -> Meaning | None:
    return next((meaning for pattern, meaning in _TEXTS if re.search(pattern, text, re.IGNORECASE)), None)


def _missing(text: str) -> Meaning:
    if "Session" in text:
        return TargetError, "has ended the session", AGAIN
    if re.search(r"\btable\b", text, re.IGNORECASE):
        return NoSuchTable, "has no such table", AGAIN
    return TargetError, "does not exist", "gcloud spanner databases create DATABASE --instance=INSTANCE"
