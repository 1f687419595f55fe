"""`Authorization: Bearer <token>` for the REST API."""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from webapp.accounts import services

PARTS = 2


class ApiTokenAuthentication(authentication.BaseAuthentication):
    """Bearer tokens made by `accounts.services.create_token`."""

    keyword = "Bearer"

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        """None where the header is absent or of another scheme."""
        parts = authentication.get_authorization_header(request).split()
        if not parts or parts[0].lower() != self.keyword.lower().encode():
            return None
        if len(parts) != PARTS:
            raise exceptions.AuthenticationFailed("The Authorization header must be: Bearer <token>.")
        user = services.user_for_token(plain=parts[1].decode(errors="replace"))
        if user is None:
            raise exceptions.AuthenticationFailed("This token is not known, or was revoked.")
        return user, None

    def authenticate_header(self, request: Request) -> str:
        """Makes missing credentials a 401."""
        del request
        return self.keyword
