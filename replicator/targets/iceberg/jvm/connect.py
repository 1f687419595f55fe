"""Spark Connect: Spark runs in a server.

A session lives there, and is gone when the server is, or after an hour in which nobody used it.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

RETRIES = 5
# between two of them: a request without an answer is given up after some ten seconds, and not after pyspark's ten
# minutes
MAX_RETRY_MS = 4000
KEEPALIVE_MS = 60_000  # a server that says nothing is asked so often for a sign of life: it may be frozen
ANSWER_MS = 20_000
_FORGOTTEN = ("INVALID_HANDLE", "SparkContext was shut down", "stopped SparkContext", "SparkContext has been shutdown")


def new_session(url: str) -> SparkSession:
    """Asks nothing of the server yet."""
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - gRPC is loaded only where it is used
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415
    from pyspark.sql.connect.session import SparkSession as Connected  # noqa: PLC0415

    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as pyspark's `remote(url)` does, which takes no options
    options = {
        "grpc.keepalive_time_ms": KEEPALIVE_MS,
        "grpc.keepalive_timeout_ms": ANSWER_MS,
        "grpc.http2.max_pings_without_data": 0,
    }
    session: Any = Connected.builder.channelBuilder(DefaultChannelBuilder(url, list(options.items()))).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=MAX_RETRY_MS)])
    atexit.unregister(session.client._cleanup_ml_cache)  # noqa: SLF001 - a statement per session, when the process is to end
    found: SparkSession = session
    return found


def lives(session: SparkSession) -> bool:
    """Does the server know it still?  One round trip; what does not live is closed."""
    try:
        session.conf.get("spark.sql.session.timeZone")
    except Exception:  # noqa: BLE001 - whatever it is, another session is taken, which says what is wrong
        close(session)
        return False
    return True


def close(session: Any) -> None:
    """Our side: the server forgets its own by itself.

    Not by `client.close`, which waits, in the way of all other sessions' statements, for what they have to tell the
    server.
    """
    with suppress(Exception):
        session.client._channel.close()  # noqa: SLF001


def without_answer(error: BaseException) -> bool:
    """No server answers, or one that was started since and knows neither session nor statement."""
    status = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    if callable(status) and getattr(status(), "name", "") in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}:
        return True
    return is_server_error(error) and any(mark in str(error) for mark in _FORGOTTEN)


def is_server_error(error: BaseException) -> bool:
    """It is no failure of this process's JVM."""
    return hasattr(error, "getGrpcStatusCode")
