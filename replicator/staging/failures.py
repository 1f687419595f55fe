"""What a store answers when it fails, in Tidemark's words: no secret, and no request of ours, is in them (invariant
8).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from replicator.errors import ConfigurationError, StagedFileLost, StagingError, StorageFull, TidemarkError

_BUCKET = re.compile(r"in bucket '([^']*)'")
_DENIED = (
    "ACCESS_DENIED",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "UNRECOGNIZED_CLIENT",
    "MISSING_AUTHENTICATION_TOKEN",
    "ExpiredToken",
    "InvalidToken",
)
_SILENT = ("NETWORK_CONNECTION", "REQUEST_TIMEOUT", "SERVICE_UNAVAILABLE", "SLOW_DOWN", "INTERNAL_FAILURE")


@contextmanager
def translated(path: str, *, staged: bool = False) -> Iterator[None]:
    """Translate what went wrong with the file at `path` to StorageFull or StagingError.

    ConfigurationError where the bucket does not exist; StagedFileLost where a `staged` file does not.
    """
    try:
        yield
    except OSError as error:
        if staged and isinstance(error, FileNotFoundError):
            message = f"The staged file {path} does not exist."
            raise StagedFileLost(message) from error
        raise _known(path, error) from error


def _known(path: str, error: OSError) -> TidemarkError:
    text = str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in text:
        return StorageFull(f"The staging location is full: {path} could not be written.")
    if "NO_SUCH_BUCKET" in text or "NoSuchBucket" in text:
        found = _BUCKET.search(text)
        return ConfigurationError(
            f"The staging location's bucket {found[1] if found else ''} does not exist.".replace("  ", " "),
            remedy=(
                "Create the bucket, or correct TIDEMARK_STAGING_URL and AWS_ENDPOINT_URL, and start the replicator"
                " again."
            ),
        )
    if any(mark in text for mark in _DENIED):
        return StagingError(
            f"The staging store denies access to {path}.",
            remedy=(
                "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and that their owner may list, read, write and delete"
                " in the bucket."
            ),
        )
    if any(mark in text for mark in _SILENT):
        return StagingError(
            f"The staging store does not respond (at {path}).",
            remedy=(
                "Check AWS_ENDPOINT_URL and that the store is running and reachable. Tidemark then resumes"
                " automatically."
            ),
        )
    return StagingError(f"The staging location failed at {path}: {error}")
