"""The messages about an alert, in each channel's format."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.urls import reverse

from webapp.alerts.models import Alert, ChannelKind
from webapp.replicators.models import Replicator
from webapp.web.formatting import exact

VERSION = 1
SUBJECT = 150
COLOURS = {"cleared": "#11704a", "critical": "#b3261e", "warning": "#8a5200", "test": "#0a6f73"}
WORDS = {"fired": "firing", "cleared": "cleared", "test": "test"}


@dataclass(frozen=True)
class Message:
    """id: the same for every attempt to send it, so that a receiver can tell one that comes twice."""

    id: str
    event: str
    kind: str
    severity: str
    replicator: str
    replicator_id: int | None
    summary: str
    detail: Mapping[str, Any]
    fired_at: datetime | None
    cleared_at: datetime | None
    path: str

    @property
    def url(self) -> str:
        """URL of the page about the alert; empty without TIDEMARK_URL."""
        return f"{settings.TIDEMARK_URL}{self.path}" if settings.TIDEMARK_URL else ""

    @property
    def title(self) -> str:
        """One line."""
        state = "cleared" if self.event == "cleared" else self.severity
        return " ".join(f"[Tidemark] {state}: {self.replicator}: {self.summary}".split())[:SUBJECT]


def of_alert(alert: Alert, event: str, delivery: int) -> Message:
    """What a delivery tells."""
    return Message(
        id=f"{delivery}",
        event=event,
        kind=alert.rule.kind,
        severity=alert.severity,
        replicator=alert.replicator.name,
        replicator_id=alert.replicator_id,
        summary=alert.summary,
        detail={name: value for name, value in alert.detail.items() if name != "members"},
        fired_at=alert.fired_at,
        cleared_at=alert.cleared_at if event == "cleared" else None,
        path=reverse("replicators:overview", args=[alert.replicator_id]),
    )


def of_test(now: datetime, replicator: Replicator | None = None) -> Message:
    """What the test buttons send: as of that replicator, where there is one."""
    summary = "This is a test message."
    path = reverse("replicators:overview", args=[replicator.pk]) if replicator else reverse("alerts:index")
    name, pk = (replicator.name, replicator.pk) if replicator else ("any replicator", None)
    return Message("test", "test", "test", "test", name, pk, summary, {}, now, None, path)


def as_json(message: Message) -> dict[str, Any]:
    """The body of a webhook."""
    return {
        "version": VERSION,
        "id": message.id,
        "event": message.event,
        "kind": message.kind,
        "severity": message.severity,
        "replicator": {"id": message.replicator_id, "name": message.replicator},
        "summary": message.summary,
        "detail": message.detail,
        "fired_at": message.fired_at.isoformat() if message.fired_at else None,
        "cleared_at": message.cleared_at.isoformat() if message.cleared_at else None,
        "url": message.url,
    }


def as_slack(message: Message) -> dict[str, Any]:
    """Slack's attachments, which Mattermost and others take too; < > & are escaped, so nothing typed becomes a link or
    a mention.
    """
    colour = COLOURS.get("cleared" if message.event == "cleared" else message.severity, COLOURS["warning"])
    lines = [_escaped(message.summary)]
    if remedy := message.detail.get("remedy"):
        lines.append(f"*What to do:* {_escaped(str(remedy))}")
    if message.url:
        lines.append(f"<{message.url}|Open in Tidemark>")
    title = f"{_escaped(message.replicator)}: {WORDS[message.event]}"
    return {
        "text": _escaped(message.title),
        "attachments": [
            {"color": colour, "title": title, "text": "\n".join(lines), "fallback": _escaped(message.title)}
        ],
    }


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def as_text(message: Message) -> str:
    """The body of an e-mail."""
    lines = [
        message.summary,
        "",
        f"Replicator: {message.replicator}",
        f"State: {WORDS[message.event]}, {message.severity}",
    ]
    if message.fired_at:
        lines.append(f"Fired: {exact(message.fired_at)}")
    if message.cleared_at:
        lines.append(f"Cleared: {exact(message.cleared_at)}")
    if remedy := message.detail.get("remedy"):
        lines += ["", f"What to do: {remedy}"]
    if message.url:
        lines += ["", message.url]
    return "\n".join(lines) + "\n"


def request(kind: str, message: Message, key: str) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a webhook; signed where the channel has a key: X-Tidemark-Signature is HMAC-SHA256 of the
    body.
    """
    form = as_slack(message) if kind == ChannelKind.SLACK else as_json(message)
    body = json.dumps(form, default=str).encode()
    headers = {"Content-Type": "application/json"}
    if key:
        digest = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
        headers["X-Tidemark-Signature"] = f"sha256={digest}"
    return body, headers
