"""Retry policy: exponential backoff with jitter during a window, then stop."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import InterfaceError, OperationalError

from replicator.errors import KeyChanged, SourceBusy, StorageFull, TableBusy, TableDisappeared, TidemarkError
from webapp.database import unanswered
from webapp.replicators.options import ReplicatorOptions

FIRST_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0
BELIEVED_AFTER = 2  # failures: a server may answer anything once
# The DROP of a table that is not there, or the ALTER of its key, may still be on its way through the log: by the log's
# own time, however late capture is.
ANNOUNCED_WINDOW = timedelta(seconds=30)


@dataclass(frozen=True)
class RetryDecision:
    """`retry_at` None: stop."""

    attempt: int
    first_failure_at: datetime
    retry_at: datetime | None


def backoff(attempt: int, jitter: float | None = None) -> float:
    """Seconds before attempt + 1: 1, 2, 4 … 60, each shortened by up to a half at random so that many do not come at
    once.
    """
    longest = min(MAX_BACKOFF_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt - 1, 10))
    return longest * (1 - (random.random() if jitter is None else jitter) / 2)  # noqa: S311 - not for secrecy


def decide(
    error: TidemarkError,
    options: ReplicatorOptions,
    *,
    attempt: int,
    first_failure_at: datetime | None,
    now: datetime,
    log_time: datetime | None = None,
) -> RetryDecision:
    """`attempt` failures in a row came before this one, the first at `first_failure_at`; capture has read up to
    `log_time`.
    """
    first = first_failure_at or now
    over = now
    window = timedelta(minutes=options.retry_minutes)
    retryable = error.retryable
    if isinstance(error, TableDisappeared | KeyChanged):
        retryable, window, over = True, ANNOUNCED_WINDOW, min(now, log_time or first)
    elif isinstance(error, SourceBusy | TableBusy | StorageFull):
        window = timedelta.max  # it ends when others end, or make room
    elif error.of_server and attempt < BELIEVED_AFTER:
        retryable = True
    if not retryable or over - first >= window:
        return RetryDecision(attempt + 1, first, None)
    return RetryDecision(attempt + 1, first, now + timedelta(seconds=backoff(attempt + 1)))


class InternalError(TidemarkError):
    """An unexpected exception; its stack is in the worker's log only.  Retried: most are of the moment."""

    code = "internal"
    retryable = True


def as_tidemark(error: BaseException) -> TidemarkError:
    """`error` itself; a StateError for a broken connection to the metadata database; or an InternalError that names the
    class.
    """
    if isinstance(error, TidemarkError):
        return error
    if isinstance(error, OperationalError | InterfaceError):
        return unanswered(error)
    return InternalError(f"Unexpected {type(error).__name__}: {str(error)[:500]}")
