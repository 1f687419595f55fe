"""Answers that serve htmx and plain forms alike."""

from __future__ import annotations

import json
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme

LEVELS = {"success": messages.SUCCESS, "error": messages.ERROR, "info": messages.INFO}


def is_htmx(request: HttpRequest) -> bool:
    """True where a fragment is asked for."""
    return request.headers.get("HX-Request") == "true"


def user_of(request: HttpRequest) -> User:
    """The signed-in user; views behind `login_required` only."""
    return cast("User", request.user)


def done(request: HttpRequest, text: str, *, level: str = "success", to: str = "/") -> HttpResponse:
    """htmx: no content, a message, and a signal that live fragments look again.  Otherwise back to `next` or `to`."""
    if is_htmx(request):
        response = HttpResponse(status=204)
        message = {"text": text, "level": level}
        response["HX-Trigger"] = json.dumps({"tidemark:message": message, "tidemark:changed": True})
        return response
    messages.add_message(request, LEVELS[level], text)
    target = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return redirect(target if target and safe else to)
