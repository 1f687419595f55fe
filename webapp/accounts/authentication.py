"""`Authorization: Bearer <token>` for the REST API."""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from webapp.accounts import services
from webapp.accounts.models import ApiToken

PARTS = 2


class ApiTokenAuthentication(authentication.BaseAuthentication):
    """Bearer tokens made by `accounts.services.create_token`."""

    keyword = "Bearer"

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """None where the header is absent or of another scheme."""
        parts = authentication.get_authorization_header(request).split()
        if not parts or parts[0].lower() != self.keyword.lower().encode():
            return None
        if len(parts) != PARTS:
            raise exceptions.AuthenticationFailed("The Authorization header must be: Bearer <token>.")
        token = services.token_for(plain=parts[1].decode(errors="replace"))
        if token is None:
            raise exceptions.AuthenticationFailed("This token is unknown, expired or revoked.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Makes missing credentials a 401."""
        del request
        return self.keyword
