"""Replicators that can be put into every state, channels, and a server that takes webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User

from tests.browser.factories import make_connection, make_replicator, make_table, make_user
from webapp.alerts import services
from webapp.alerts.evaluation import evaluate
from webapp.alerts.models import Alert, Channel, Rule
from webapp.replicators.models import Replicator

TOKEN = "T0-s3cret-path"
START = datetime(2026, 3, 31, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def static_folder() -> None:
    """WhiteNoise warns where there is none, and a warning is an error here."""
    Path(configured.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@dataclass
class Receiver:
    """What came, and what is answered."""

    port: int = 0
    status: int = 200
    got: list[tuple[dict[str, str], dict[str, Any], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{TOKEN}"

    @property
    def events(self) -> list[str]:
        return [body["event"] for _, body, _ in self.got]


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """Loopback is allowed for it."""
    settings.TIDEMARK_ALERT_NETWORKS = (ip_network("127.0.0.0/8"),)
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((dict(self.headers), json.loads(raw), raw))
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def user(db: None) -> User:
    return make_user()


@pytest.fixture
def webhook(db: None, receiver: Receiver) -> Channel:
    return services.save_channel(name="hook", kind="webhook", url=receiver.url, key="signing-k3y")


@pytest.fixture
def email(db: None) -> Channel:
    return services.save_channel(name="mail", kind="email", recipients=["ada@example.com"])


class Watch:
    """A replicator and its rounds, at moments of our own."""

    def __init__(self) -> None:
        self.now = START
        self.replicator = make_replicator(make_connection(), "shop", source_ts=START)
        self.table = make_table(self.replicator, "orders")
        evaluate(START)

    def rule(self, kind: str) -> Rule:
        return self.replicator.alert_rules.get(kind=kind)

    def tell(self, kind: str, *channels: Channel) -> Rule:
        rule = self.rule(kind)
        rule.channels.set(channels)
        return rule

    def set(self, **fields: Any) -> None:
        Replicator.objects.filter(pk=self.replicator.pk).update(**fields)

    def round(self, seconds: float = 30, *, read: bool = True) -> int:
        """`read`: the source was, up to now."""
        self.now += timedelta(seconds=seconds)
        if read:
            self.set(source_ts=self.now)
        return evaluate(self.now)

    @property
    def open(self) -> list[Alert]:
        return [alert for alert in Alert.objects.filter(cleared_at=None) if alert.fired_at]


@pytest.fixture
def watch(db: None) -> Watch:
    return Watch()
