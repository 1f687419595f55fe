"""The test of a destination: what would fail later, tried now, one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from replicator.errors import ConfigurationError, TidemarkError
from replicator.redaction import redacted
from replicator.sources.base import CheckResult, CheckStatus

CREDENTIALS = "Check the credentials of the destination: they may be wrong or have expired."
LOOKED_INTO = 20  # tables at most, in search of one that Tidemark has made
MAX_TEXT = 300
Attempt = tuple[str, Callable[[], str]]  # a title, and what is tried: it returns a sentence, or raises TidemarkError


class Probe(Protocol):
    """A test table in the destination.  attempts: in their order; remove: deletes what is left of it, if possible."""

    @property
    def attempts(self) -> list[Attempt]: ...

    def remove(self) -> None: ...


def tried(place: str, opened: Callable[[], AbstractContextManager[Probe]]) -> list[CheckResult]:
    """One line for each attempt; it ends with the first that fails.  place: what opening reaches, a word of it."""
    results: list[CheckResult] = []
    title = place
    try:
        with opened() as probe:
            try:
                for title, attempt in probe.attempts:
                    results.append(CheckResult(title.lower().replace(" ", "_"), title, CheckStatus.OK, attempt()))
            finally:
                probe.remove()
    except TidemarkError as error:
        title = "Settings" if isinstance(error, ConfigurationError) else title
        results.append(CheckResult("failed", title, CheckStatus.FAILED, error.message, error.remedy))
    return results


def written(place: str, ours: Callable[[], Iterable[bool]]) -> CheckResult:
    """Are there tables that Tidemark has made?  ours: whether it made each that is there.  Never raises."""
    title = f"Same {place}"
    try:
        if any(ours()):
            return CheckResult("written", title, CheckStatus.OK, "Tables of Tidemark exist there.")
    except TidemarkError as error:
        return CheckResult("written", title, CheckStatus.FAILED, error.message, error.remedy)
    detail = f"That {place} has no tables that Tidemark has made."
    remedy = f"Use the same {place}. To write to another one, create another destination and another replicator."
    return CheckResult("written", title, CheckStatus.FAILED, detail, remedy)


def said(error: object) -> str:
    """What a client's error or text says, on one line, not too long, and without secrets."""
    return redacted(" ".join(str(error).split()))[:MAX_TEXT]
