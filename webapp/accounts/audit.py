"""The audit log of the installation: sign-ins, users and tokens, connections, and users' actions on replicators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse

from replicator.redaction import redacted

SUMMARY, ABOUT = 500, 255


@dataclass
class Origin:
    """Where the request under way comes from; `request` is asked for its user when there is something to say."""

    address: str = ""
    request: HttpRequest | None = None
    token: str = ""
    user: str = ""

    @property
    def who(self) -> str:
        """The user's name."""
        user = getattr(self.request, "user", None)
        return self.user or (user.get_username() if user is not None and user.is_authenticated else "")


_ORIGIN: ContextVar[Origin | None] = ContextVar("origin", default=None)


class About:
    """Keeps the origin of the request under way."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        held = _ORIGIN.set(Origin(str(request.META.get("REMOTE_ADDR", "")), request))
        try:
            return self.get_response(request)
        finally:
            _ORIGIN.reset(held)


def came_with(token: str, user: str) -> None:
    """The request under way has shown this token of this user."""
    if (origin := _ORIGIN.get()) is not None:
        origin.token, origin.user = token, user


def enter(
    kind: str,
    summary: str,
    *,
    user: User | AnonymousUser | None = None,
    who: str = "command line",
    about: str = "",
    detail: Mapping[str, Any] | None = None,
) -> None:
    """One line, of `user`, else of whose request is under way, else of `who`.  Never a secret (invariant 8)."""
    from webapp.accounts.models import AuditEntry  # noqa: PLC0415 - settings name this module before there are models

    origin = _ORIGIN.get() or Origin()
    name = user.get_username() if user is not None and user.is_authenticated else origin.who or who
    AuditEntry.objects.create(
        who=name[:150], token=origin.token, address=origin.address[:64], kind=kind, about=about[:ABOUT],
        summary=redacted(summary)[:SUMMARY], detail=dict(detail or {}),
    )  # fmt: skip


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """{"name": [before, after]} of what differs; None where there was or is none."""
    names = [*before, *(name for name in after if name not in before)]
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}
