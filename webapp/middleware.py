"""Response headers that Django does not set by itself."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

# Swagger UI sets styles from its script, so its page gets a policy of its own; scripts stay vendored there too.
DOCS_PREFIX = "/api/docs"
DOCS_POLICY = settings.CONTENT_SECURITY_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline'"
)


class ContentSecurityPolicy:
    """Sets the policy on every response that has none."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Django's middleware protocol."""
        response = self.get_response(request)
        policy = DOCS_POLICY if request.path.startswith(DOCS_PREFIX) else settings.CONTENT_SECURITY_POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return response
