"""How a source's connection test runs: its checks one after another, each answered with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from replicator.errors import SourceAuthenticationFailed, SourcePermissionDenied, TidemarkError
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult, Status

_REACHABLE = ("reachable", "Connection")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; `remedy` is SQL to paste or a sentence."""

    status: Status
    detail: str
    remedy: str = ""


def ok(detail: str) -> Finding:
    """Nothing to do."""
    return Finding(Status.OK, detail)


def warning(detail: str, remedy: str = "") -> Finding:
    """It works, but."""
    return Finding(Status.WARNING, detail, remedy)


def failed(detail: str, remedy: str) -> Finding:
    """It does not work until `remedy` is done."""
    return Finding(Status.FAILED, detail, remedy)


def without_tables() -> Finding:
    """Of a check of tables before there are any: that is no pass."""
    return Finding(Status.SKIPPED, "Checked when tables are selected.")


class Connection(Protocol):
    """What a login gives."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
S = TypeVar("S")


@dataclass(frozen=True)
class Checks(Generic[S]):
    """Of a kind of source, each with its name and title, in the order in which a user puts them right."""

    of_server: Sequence[tuple[str, str, Callable[[S], Finding]]]
    of_tables: Sequence[tuple[str, str, Callable[[S, TableSet | None], Finding]]]

    def run(
        self, login: Callable[[], C], look: Callable[[C], S], answer: Callable[[S], str], tables: TableSet | None
    ) -> list[CheckResult]:
        """All of them; where the server cannot be asked, one FAILED and the others SKIPPED.

        `answer`: what a reachable one says.
        """
        try:
            connection = login()
        except TidemarkError as error:
            first = CheckResult(*_REACHABLE, Status.FAILED, error.message, error.remedy)
            reason = "the login failed" if isinstance(error, SourceAuthenticationFailed) else "there is no connection"
            skipped = f"Not checked, because {reason}."
            others = [(name, title) for name, title, _ in (*self.of_server, *self.of_tables)]
            return [first, *(CheckResult(name, title, Status.SKIPPED, skipped) for name, title in others)]
        try:
            server = look(connection)
            results = [CheckResult(*_REACHABLE, Status.OK, answer(server))]
            results += [_result(name, title, partial(check, server)) for name, title, check in self.of_server]
            return results + [
                _result(name, title, partial(check, server, tables)) for name, title, check in self.of_tables
            ]
        except TidemarkError as error:
            return [CheckResult(*_REACHABLE, Status.FAILED, error.message, error.remedy)]
        finally:
            connection.close()


def _result(name: str, title: str, check: Callable[[], Finding]) -> CheckResult:
    try:
        finding = check()
    except SourcePermissionDenied as error:
        finding = Finding(Status.WARNING, f"The user lacks the privilege for this check: {error.message}", error.remedy)
    except TidemarkError as error:
        finding = Finding(Status.FAILED, error.message, error.remedy)
    return CheckResult(name, title, finding.status, finding.detail, finding.remedy)
