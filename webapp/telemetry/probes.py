"""Is it alive, and does it work: for load balancers, orchestrators and Prometheus."""

from __future__ import annotations

import hmac
from datetime import timedelta

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webapp.celery import QUEUES
from webapp.database import clock
from webapp.telemetry.broker import broker
from webapp.telemetry.exposition import exposed
from webapp.web.serving import at_most
from webapp.worker.models import WorkerHeartbeat

DATABASE_SECONDS = 2.0
SILENT = timedelta(seconds=50)
SCHEME = "Bearer "


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers; without a look at anything else."""
    del request
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 where replication as a whole can work: database, broker, supervisor and a worker of every queue; else 503
    with which not.

    Words only: what is wrong in detail is in the log, and no secret is here (invariant 8).
    """
    del request
    with at_most(DATABASE_SECONDS):
        checks = {"database": _database(), "redis": _redis()} | {"workers": "unknown"}
        if checks["database"] == "ok":
            checks["workers"] = _workers()
    ready = all(word == "ok" for word in checks.values())
    return JsonResponse({"status": "ready" if ready else "not ready", "checks": checks}, status=200 if ready else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text form, for who knows TIDEMARK_METRICS_TOKEN; where none is set there is nothing here."""
    token = settings.TIDEMARK_METRICS_TOKEN
    if not token:
        return HttpResponseNotFound("Set TIDEMARK_METRICS_TOKEN to enable metrics.\n", content_type="text/plain")
    said = request.headers.get("Authorization", "")
    given = said.removeprefix(SCHEME) if said.startswith(SCHEME) else ""
    if not hmac.compare_digest(given.encode(), token.encode()):
        answer = HttpResponse("Send the token of TIDEMARK_METRICS_TOKEN.\n", status=401, content_type="text/plain")
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    try:
        return HttpResponse(exposed(), content_type=CONTENT_TYPE_LATEST)
    except (DatabaseError, InterfaceError):
        connection.close()
        return HttpResponse("The metadata database does not respond.\n", status=503, content_type="text/plain")


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        connection.close()
        return "does not respond"
    return "ok"


def _redis() -> str:
    try:
        with broker() as client:
            client.ping()
    except (redis.RedisError, ValueError):
        return "does not respond"
    return "ok"


def _workers() -> str:
    try:
        seen = WorkerHeartbeat.objects.filter(seen_at__gte=clock() - SILENT)
        roles = set(seen.values_list("role", flat=True))
    except (DatabaseError, InterfaceError):
        return "unknown"
    missing = sorted({"supervisor"} - roles) + ([] if "several" in roles else sorted(set(QUEUES) - roles))
    return "ok" if not missing else f"no heartbeat: {', '.join(missing)}"
