"""Spark Connect: Spark runs in a server.

A session lives there, and ends with the server or after an hour without use.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

RETRIES = 5
# between two of them: a request without an answer is abandoned after some ten seconds, and not after pyspark's ten
# minutes
MAX_RETRY_MS = 4000
KEEPALIVE_MS = 60_000  # how often a silent server is pinged: it may be frozen
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
    except Exception:  # noqa: BLE001 - another session is taken, and reports what is wrong
        close(session)
        return False
    return True


def close(session: Any) -> None:
    """Close our side; the server ends its own after a time.

    Not by `client.close`: it waits for pending messages to the server, and blocks the statements of all other sessions
    meanwhile.
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
    """Is it an error of the server, and not of this process's JVM?"""
    return hasattr(error, "getGrpcStatusCode")
