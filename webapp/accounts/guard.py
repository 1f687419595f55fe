"""Where roles are asked for: before every page, before every operation of the API, and in what pages show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from rest_framework.exceptions import PermissionDenied as NotPermitted
from rest_framework.permissions import BasePermission

from webapp.accounts.roles import Role, needed, refusal, role_of

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView


class Guard:
    """Pages: refuses what the signed-in user's role may not do.

    The API's requests may come with a token: see `RolePermission`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Django's middleware protocol."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """PermissionDenied.  Who is not signed in is sent to do that by the view."""
        match = request.resolver_match
        least = needed(match, str(request.method)) if match else Role.VIEWER
        if least is Role.VIEWER or request.path.startswith("/api/"):  # probes must not wait for the database
            return
        user = request.user
        if user.is_authenticated and role_of(user).rank < least.rank:
            raise PermissionDenied(refusal(least))


class RoleRefused(NotPermitted):
    """The API's 403 for an account or a token without the role."""

    remedy = "Ask an admin for the role, or use a token that has it."


class RolePermission(BasePermission):
    """Of every operation of the API."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """RoleRefused for an authenticated request without the role; False for an unauthenticated one."""
        del view
        match = request.resolver_match
        least = needed(match, str(request.method)) if match else Role.ADMIN
        if role_of(request.user, request.auth).rank >= least.rank:
            return True
        if request.successful_authenticator:
            raise RoleRefused(refusal(least))
        return False


def context(request: HttpRequest) -> dict[str, Any]:
    """For templates: `can_run`, `can_change`; `zone`, the name of the one that times are in."""
    user = getattr(request, "user", None)
    role = role_of(user) if user is not None and user.is_authenticated else Role.VIEWER
    return {
        "role": role,
        "can_run": role.rank >= Role.OPERATOR.rank,
        "can_change": role is Role.ADMIN,
        "zone": timezone.get_current_timezone_name(),
    }
