"""Delivering queued OpenLineage events, in order, to a URL or a file; tried again with growing pauses."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.db.models import F

from replicator.redaction import redacted
from webapp.database import clock, stored
from webapp.telemetry.gathering import gather
from webapp.telemetry.models import LineageEvent, LineageState
from webapp.worker.failure.retry_policy import backoff
from webapp.worker.supervisor import claim_dispatch, dispatch_taken

LOGGER = logging.getLogger("tidemark.telemetry")
CLAIM = "openlineage"
ROUND_SECONDS = 20.0
CLAIM_SECONDS = 60.0
ANSWER_SECONDS = 10.0
PAGE = 100
REMEMBERED = timedelta(hours=1)  # longer than rounds overlap; only the START of a longer snapshot is queued again
OLD_FILES = 3
REFUSED = frozenset({400, 413, 415, 422})  # this event will never be taken; anything else may pass


class DeliveryFailed(Exception):
    """Try again later.  Its text holds no secret."""


class EventRefused(Exception):
    """The receiver will never take this event."""


Sender = Callable[[str], None]


def configured() -> bool:
    """Return whether a URL or a file for OpenLineage events is configured."""
    return bool(settings.TIDEMARK_OPENLINEAGE_URL or settings.TIDEMARK_OPENLINEAGE_FILE)


@stored
def tell() -> int:
    """One round: gather what happened and deliver what waits; the number delivered.  One process at a time."""
    if not configured() or not claim_dispatch(CLAIM, CLAIM_SECONDS):
        return 0
    try:
        state = LineageState.objects.first() or LineageState()
        now = clock()
        gather(state, now)
        LineageEvent.objects.filter(delivered_at__lt=now - REMEMBERED).delete()
        if state.retry_at is not None and state.retry_at > now:
            return 0
        return _deliver(state, now)
    finally:
        dispatch_taken(CLAIM)


def _deliver(state: LineageState, now: datetime) -> int:
    """In the order in which they happened; the first one that fails ends the round."""
    send, end = sender(), time.monotonic() + ROUND_SECONDS
    delivered = refused = 0
    try:
        while time.monotonic() < end and (page := list(LineageEvent.objects.filter(delivered_at=None)[:PAGE])):
            for event in page:
                try:
                    send(json.dumps(event.body, ensure_ascii=False))
                    delivered += 1
                except EventRefused as error:
                    refused += 1
                    LOGGER.warning("An OpenLineage event was rejected and is dropped: %s", error)
                LineageEvent.objects.filter(pk=event.pk).update(body={}, delivered_at=clock())
                if time.monotonic() >= end:
                    break
        LineageState.objects.filter(pk=state.pk).update(attempt=0, retry_at=None, error="")
    except DeliveryFailed as error:
        attempt = state.attempt + 1
        pause = timedelta(seconds=backoff(attempt))
        LineageState.objects.filter(pk=state.pk).update(attempt=attempt, retry_at=now + pause, error=str(error)[:500])
        LOGGER.warning("OpenLineage events could not be delivered (attempt %s): %s", attempt, error)
    LineageState.objects.filter(pk=state.pk).update(
        delivered=F("delivered") + delivered, dropped=F("dropped") + refused
    )
    return delivered


def sender() -> Sender:
    """The URL where there is one, else the file."""
    if settings.TIDEMARK_OPENLINEAGE_URL:
        return Receiver(settings.TIDEMARK_OPENLINEAGE_URL, settings.TIDEMARK_OPENLINEAGE_TOKEN).send
    return EventFile(Path(settings.TIDEMARK_OPENLINEAGE_FILE), settings.TIDEMARK_OPENLINEAGE_FILE_MIB << 20).append


class Receiver:
    """An OpenLineage endpoint.

    Redirections are not followed: the token goes to the host that was named, and no other.
    """

    def __init__(self, url: str, token: str) -> None:
        """`url` is http or https; an empty token sends none."""
        self._parts, self._token = urlsplit(url), token

    def send(self, body: str) -> None:
        """One event.  Raises DeliveryFailed, EventRefused."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        path = (self._parts.path or "/api/v1/lineage") + (f"?{self._parts.query}" if self._parts.query else "")
        connection = _connection(self._parts)
        try:
            connection.request("POST", path, body.encode(), headers)
            answer = connection.getresponse()
            said = answer.read(500).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise DeliveryFailed(redacted(f"{type(error).__name__}: {error}")) from None
        finally:
            connection.close()
        text = f"the receiver answered {answer.status}"
        if not self._token:  # what it says may repeat what it was sent
            text = redacted(f"{text} {answer.reason}: {said.strip()}")
        if answer.status in REFUSED:
            raise EventRefused(text)
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's own figures
            raise DeliveryFailed(text)


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=ANSWER_SECONDS)
    return http.client.HTTPSConnection(host, parts.port, timeout=ANSWER_SECONDS, context=ssl.create_default_context())


class EventFile:
    """JSON lines; beyond `limit` bytes the file becomes `.1`, that one `.2`, and so on up to three."""

    def __init__(self, path: Path, limit: int) -> None:
        """`limit` in bytes."""
        self._path, self._limit = path, limit

    def append(self, body: str) -> None:
        """One line.  Raises DeliveryFailed."""
        line = f"{body}\n".encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size + len(line) > self._limit:
                self._rotate()
            with self._path.open("ab") as file:
                file.write(line)
        except OSError as error:
            raise DeliveryFailed(f"the file cannot be written: {error.strerror}") from None

    def _rotate(self) -> None:
        for number in range(OLD_FILES, 0, -1):
            older = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number}"))
