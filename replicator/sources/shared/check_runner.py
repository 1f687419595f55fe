"""How a source's connection test runs: its checks one after another, each answered with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from replicator.errors import SourceAuthenticationFailed, SourcePermissionDenied, TidemarkError
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult, CheckStatus

_REACHABLE = ("reachable", "Connection")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What one check found; `remedy` is SQL to paste or a sentence."""

    status: CheckStatus
    detail: str
    remedy: str = ""


def ok(detail: str) -> CheckFinding:
    """Nothing to do."""
    return CheckFinding(CheckStatus.OK, detail)


def warning(detail: str, remedy: str = "") -> CheckFinding:
    """It works, but."""
    return CheckFinding(CheckStatus.WARNING, detail, remedy)


def failed(detail: str, remedy: str) -> CheckFinding:
    """It does not work until `remedy` is done."""
    return CheckFinding(CheckStatus.FAILED, detail, remedy)


def without_tables() -> CheckFinding:
    """Return the finding for a check that needs tables before any are selected: skipped, not passed."""
    return CheckFinding(CheckStatus.SKIPPED, "Checked when tables are selected.")


def encryption(cipher: str, host: str, *, disabled: bool, certificate: str) -> CheckFinding:
    """Of the connection that asks.  cipher: empty where it is not encrypted; `disabled` by its settings.

    certificate: what to set on a server without one.
    """
    if cipher:
        return ok(f"Encrypted with {cipher}.")
    if host in _LOOPBACK:
        return ok("Not encrypted; the server is on this machine.")
    remedy = "Set TLS to 'Always' in the connection"
    return warning(
        "The connection is not encrypted.",
        f"{remedy}." if disabled else f"{remedy}, and give the server a certificate ({certificate}).",
    )


class CheckConnection(Protocol):
    """What a login gives."""

    def close(self) -> None: ...


C = TypeVar("C", bound=CheckConnection)
S = TypeVar("S")


@dataclass(frozen=True)
class Checks(Generic[S]):
    """Of a kind of source, each with its name and title, in the order in which a user puts them right."""

    of_server: Sequence[tuple[str, str, Callable[[S], CheckFinding]]]
    of_tables: Sequence[tuple[str, str, Callable[[S, TableSet | None], CheckFinding]]]

    def run(
        self, login: Callable[[], C], look: Callable[[C], S], answer: Callable[[S], str], tables: TableSet | None
    ) -> list[CheckResult]:
        """All of them; where the server cannot be asked, one FAILED and the others SKIPPED.

        `answer`: what a reachable one says.
        """
        try:
            connection = login()
        except TidemarkError as error:
            first = CheckResult(*_REACHABLE, CheckStatus.FAILED, error.message, error.remedy)
            reason = "the login failed" if isinstance(error, SourceAuthenticationFailed) else "there is no connection"
            skipped = f"Not checked, because {reason}."
            others = [(name, title, False) for name, title, _ in self.of_server]
            others += [(name, title, True) for name, title, _ in self.of_tables]
            return [
                first,
                *(CheckResult(name, title, CheckStatus.SKIPPED, skipped, of_tables=of) for name, title, of in others),
            ]
        try:
            server = look(connection)
            results = [CheckResult(*_REACHABLE, CheckStatus.OK, answer(server))]
            results += [_result(name, title, partial(check, server)) for name, title, check in self.of_server]
            return results + [
                replace(_result(name, title, partial(check, server, tables)), of_tables=True)
                for name, title, check in self.of_tables
            ]
        except TidemarkError as error:
            return [CheckResult(*_REACHABLE, CheckStatus.FAILED, error.message, error.remedy)]
        finally:
            connection.close()


def _result(name: str, title: str, check: Callable[[], CheckFinding]) -> CheckResult:
    try:
        finding = check()
    except SourcePermissionDenied as error:
        finding = CheckFinding(
            CheckStatus.WARNING, f"The user lacks the privilege for this check: {error.message}", error.remedy
        )
    except TidemarkError as error:
        finding = CheckFinding(CheckStatus.FAILED, error.message, error.remedy)
    return CheckResult(name, title, finding.status, finding.detail, finding.remedy)
