"""Middleware: response headers beyond Django's, client addresses, time zones, and 503 without the metadata database."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.db import InterfaceError, OperationalError, ProgrammingError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.middleware.http import ConditionalGetMiddleware
from django.utils import timezone

LOGGER = logging.getLogger("tidemark.web")
_TOKEN = re.compile(rb"name=\"csrfmiddlewaretoken\" value=\"\w+\"|X-CSRFToken[^}]*")
UNANSWERED = (OperationalError, InterfaceError)
MAX_ZONE = 64
NOT_THERE = {"42P01", "42703"}  # a table or a column

# Swagger UI sets styles from its script, so its page gets a separate policy; scripts stay vendored there too.
DOCS_PREFIX = "/api/docs"
DOCS_POLICY = settings.CONTENT_SECURITY_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline'"
)


class ClientAddress:
    """Behind proxies of one's own: the client is whom the outermost of them has seen, not the nearest proxy."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Of X-Forwarded-For, what stands further left is the client's own word, and is not believed."""
        if proxies := settings.TIDEMARK_PROXIES:
            seen = [one.strip() for one in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
            with suppress(ValueError):
                request.META["REMOTE_ADDR"] = str(ip_address(seen[-min(proxies, len(seen))]))
        return self.get_response(request)


class NoNul:
    """400 for a U+0000 in an address: the metadata database has no such character, and no page a use for it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Bodies are the forms' and serializers', which refuse it themselves."""
        if "\0" not in request.path_info and "\0" not in unquote(request.META.get("QUERY_STRING", "")):
            return self.get_response(request)
        message = "The address contains an invalid character (U+0000)."
        if request.path.startswith("/api/"):
            return JsonResponse({"code": "configuration", "message": message, "remedy": ""}, status=400)
        return HttpResponse(f"{message}\n", status=400, content_type="text/plain")


class Zone:
    """Show times of pages in the time zone that the browser names in a cookie; UTC without a known one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The API's times carry theirs."""
        name = unquote(request.COOKIES.get("zone", ""))
        if not name or len(name) > MAX_ZONE or request.path.startswith("/api/"):
            return self.get_response(request)
        try:
            zone = ZoneInfo(name)
        except (ValueError, OSError, ZoneInfoNotFoundError):
            return self.get_response(request)
        with timezone.override(zone):
            return self.get_response(request)


class DatabaseAway:
    """503 where the metadata database does not respond or has another schema version: the client may try again."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Django's middleware protocol."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Also what other middleware asks the database."""
        try:
            return self.get_response(request)
        except (*UNANSWERED, ProgrammingError) as error:
            answer = self.process_exception(request, error)
            if answer is None:
                raise
            return answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Django's middleware protocol."""
        another = isinstance(error, ProgrammingError) and getattr(error.__cause__, "pgcode", "") in NOT_THERE
        if not (another or isinstance(error, UNANSWERED)):
            return None
        connection.close()
        message = "The metadata database does not respond."
        if another:
            message = "The metadata database has another schema version. Run `manage.py migrate`."
        LOGGER.error("%s: %s %s", request.path, message, str(error).strip())
        if request.path.startswith("/api/"):
            said = {"code": "state", "message": message, "remedy": "Try again when it is available."}
            answer: HttpResponse = JsonResponse(said, status=503)
        else:
            answer = HttpResponse(f"{message}\n", status=503, content_type="text/plain")
        answer["Retry-After"] = "10"
        return answer


class Unchanged(ConditionalGetMiddleware):
    """304 for a page or fragment, or an answer of the API, that would be the same again: most polls of a calm page.

    The tokens of its forms differ every time and mean the same.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Django's middleware protocol."""
        if request.method == "GET" and self.needs_etag(response) and isinstance(response, HttpResponse):
            said = _TOKEN.sub(b"", response.content)
            response.headers.setdefault("ETag", f'"{hashlib.blake2b(said, digest_size=12).hexdigest()}"')
            if not response.has_header("Cache-Control"):
                response["Cache-Control"] = "private, no-cache"
        answer: HttpResponseBase = super().process_response(request, response)
        return answer


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
