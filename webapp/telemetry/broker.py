"""The broker, as pages and probes ask it."""

from __future__ import annotations

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

REDIS_SECONDS = 1.0


def broker() -> redis.Redis:
    """The broker, asked with little patience."""
    return redis.Redis.from_url(
        settings.REDIS_URL or "redis://127.0.0.1:6379/0",
        socket_timeout=REDIS_SECONDS,
        socket_connect_timeout=REDIS_SECONDS,
        retry=Retry(NoBackoff(), 0),  # its own default waits for seconds
    )
