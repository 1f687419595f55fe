"""What goes wrong with a table's log or its store, as delta-rs says it: one sentence with a remedy, never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from replicator.errors import StorageFull, TargetConflict, TargetError, TargetUnauthorized, TidemarkError
from replicator.targets.check import CREDENTIALS, said
from replicator.targets.delta.destination import DeltaStore

_TAGS = re.compile(r"<[^>]*>|\x1b\[\d*m|↳")
_REQUEST = re.compile(r".*Error performing (\w+) .*?(?=Server returned )", re.DOTALL)  # with the path twice before it
REACH = "Check the address of the store, and that a firewall lets the web server and the workers through."
_MEANINGS: Sequence[tuple[re.Pattern[str], type[TidemarkError], str, str]] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind, text, remedy)
    for pattern, kind, text, remedy in (
        (
            "table is append-only",
            TargetError,
            "The table's property delta.appendOnly forbids that rows change.",
            "Set it to false (ALTER TABLE … SET TBLPROPERTIES), or choose the mode changelog for the table.",
        ),
        (
            "NoSuchBucket|bucket does not exist|ContainerNotFound|container does not exist",
            TargetError,
            "The bucket of {where} does not exist.",
            "Create the bucket, or correct the location.",
        ),
        (
            "InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed|Unauthenticated|ExpiredToken|InvalidToken",
            TargetUnauthorized,
            "The store at {where} refuses the credentials.",
            CREDENTIALS,
        ),
        (
            "AccessDenied|403 Forbidden|Permission denied|PermissionDenied|not authorized|Read-only file system",
            TargetUnauthorized,
            "The store at {where} does not allow it: {said}",
            "Give the destination's role the rights to list, read, write and delete below the location.",
        ),
        (
            "No space left|quota",
            StorageFull,
            "The store at {where} is full.",
            "Free space at the location of the target's tables.",
        ),
        (
            "SlowDown|status code 5|status code 429",
            TargetError,
            "The store at {where} is not available: {said}",
            "Retried automatically. If it persists, check the store's health and its request limits.",
        ),
        (
            "error sending request|host name|Connection refused|dns error|timed out|connect error|unreachable",
            TargetError,
            "The store at {where} does not answer.",
            REACH,
        ),
    )
)


@contextmanager
def explained(store: DeltaStore) -> Iterator[None]:
    """Translate all errors of delta-rs and pyarrow to TargetError, except for a table that does not exist."""
    try:
        yield
    except (TidemarkError, TableNotFoundError):
        raise
    except (DeltaError, OSError) as error:
        raise _explained(store, error) from None  # its text may hold an address with its password: invariant 8


def _explained(store: DeltaStore, error: Exception) -> TidemarkError:
    text = _said(error)
    for pattern, kind, message, remedy in _MEANINGS:
        if pattern.search(str(error)):
            return kind(message.format(where=store.location, said=text), remedy=remedy)
    if isinstance(error, CommitFailedError):
        return TargetConflict(f"Another program committed to the table first: {text}")
    return TargetError(f"The table's log at {store.location} cannot be read or written: {text}")


def _said(error: Exception) -> str:
    return said(_REQUEST.sub(r"\1: ", _TAGS.sub(" ", str(error))))
