"""Spark Connect: Spark runs in a server.  A session lives there, and is gone when the server is, or after an hour in which nobody used it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

RETRIES = 5
LONGEST_MS = 4000  # between two of them: a request without an answer is given up after some ten seconds, and not after pyspark's ten minutes
_FORGOTTEN = ("INVALID_HANDLE", "SparkContext was shut down", "stopped SparkContext", "SparkContext has been shutdown")


def new_session(url: str) -> SparkSession:
    """Asks nothing of the server yet."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - gRPC is loaded only where it is used

    session: Any = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=LONGEST_MS)])
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
    """Our side: the server forgets its own by itself."""
    with suppress(Exception):
        session.client.close()


def without_answer(error: BaseException) -> bool:
    """No server answers, or one that was started since and knows neither session nor statement."""
    status = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    if callable(status) and getattr(status(), "name", "") in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}:
        return True
    return told_by_a_server(error) and any(mark in str(error) for mark in _FORGOTTEN)


def told_by_a_server(error: BaseException) -> bool:
    """It is no failure of this process's JVM."""
    return hasattr(error, "getGrpcStatusCode")
