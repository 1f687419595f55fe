"""The metadata database as the stores use it: errors translated, the clock, the fence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import DateTimeField, Func

from replicator.errors import FenceLost, StateError
from replicator.state.lease import Lease

DEADLOCK, DEADLOCKS = "40P01", 3
NOW = Func(function="clock_timestamp", output_field=DateTimeField())  # `clock`, within another question
P = ParamSpec("P")
R = TypeVar("R")


def unanswered(error: OperationalError | InterfaceError) -> StateError:
    """What it means that the database broke off."""
    return StateError(f"The metadata database does not respond: {str(error).strip()}")


def stored(method: Callable[P, R]) -> Callable[P, R]:
    """A broken connection becomes a StateError (retried), and the next call opens a new one.

    A transaction that the database has chosen to end a deadlock was undone whole, and is made again at once.
    """

    @wraps(method)
    def translated(*args: P.args, **kwargs: P.kwargs) -> R:
        for again in range(DEADLOCKS, -1, -1):
            try:
                return method(*args, **kwargs)
            except (OperationalError, InterfaceError) as error:
                if again and getattr(error.__cause__, "pgcode", "") == DEADLOCK and not connection.in_atomic_block:
                    continue
                connection.close()
                raise unanswered(error) from error
        raise AssertionError

    return translated


FENCE = """
SELECT owner, fence, expires_at > clock_timestamp(), set_config('idle_in_transaction_session_timeout', %s, true)
FROM worker_lease WHERE name = %s FOR UPDATE
"""
MIN_IDLE_SECONDS = 5.0


@contextmanager
def fenced(lease: Lease, *, expired: bool = False) -> Iterator[None]:
    """Open a transaction that only the live owner of `lease` can commit (invariant 2).

    The lease's row stays locked until the end, so no other worker takes it over meanwhile.  If the owner freezes within
    the transaction, Postgres ends its session after the lease time (at least 5 s); otherwise its standby would wait
    forever.
    Raises FenceLost before anything is written.  expired: accept an expired lease that no other worker has taken.
    """
    idle = max(settings.TIDEMARK_LEASE_SECONDS, MIN_IDLE_SECONDS)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(FENCE, [f"{idle * 1000:.0f}", lease.name])
            row = cursor.fetchone()
        if row is None or (row[0], row[1]) != (lease.owner, lease.fence) or not (row[2] or expired):
            message = f"The lease {lease.name} was taken over by another worker."
            raise FenceLost(message)
        yield


def clock() -> datetime:
    """The database's time: the only clock that leases, claims and retries go by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def without_nul(value: Any) -> Any:
    """Postgres keeps no NUL character in texts and JSON."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nul(item) for item in value]
    return value
