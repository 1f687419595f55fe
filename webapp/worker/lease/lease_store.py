"""Leases on the metadata database's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.db import connection
from django.utils import timezone

from replicator.state.lease import Lease
from webapp.database import stored
from webapp.worker.models import Lease as LeaseRow

# The last column tells a lease that ran out from one that was given back (`RELEASED`), if `before` is really the one
# before.
ACQUIRE = """
WITH before AS (SELECT owner, fence, expires_at FROM worker_lease WHERE name = %s)
INSERT INTO worker_lease (name, owner, fence, expires_at)
VALUES (%s, %s, 1, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (name) DO UPDATE
SET owner = EXCLUDED.owner, fence = worker_lease.fence + 1, expires_at = EXCLUDED.expires_at
WHERE worker_lease.owner = EXCLUDED.owner OR worker_lease.expires_at <= clock_timestamp()
RETURNING fence, (
    SELECT expires_at FROM before
    WHERE before.fence = worker_lease.fence - 1 AND before.owner <> worker_lease.owner AND before.expires_at > %s
)
"""
RENEW = """
UPDATE worker_lease SET expires_at = clock_timestamp() + make_interval(secs => %s)
WHERE name = %s AND owner = %s AND fence = %s AND expires_at > clock_timestamp()
"""
RELEASE = """
UPDATE worker_lease SET expires_at = %s
WHERE name = %s AND owner = %s AND fence = %s AND expires_at > clock_timestamp()
"""
RELEASED = datetime(1970, 1, 1, tzinfo=UTC)  # when a lease that was given back ended
NOT_RELEASED = "SELECT name, expires_at > clock_timestamp() FROM worker_lease WHERE expires_at > %s"


class OrmLeaseStore:
    """`replicator.state.lease.LeaseStore`.  A released lease keeps its row, so that the fence never starts over."""

    def acquire(self, name: str, owner: str, seconds: float | None = None) -> Lease | None:
        """None while another owner's lease is live."""
        found = self.take(name, owner, seconds)
        return found and found[0]

    @stored
    def take(self, name: str, owner: str, seconds: float | None = None) -> tuple[Lease, datetime | None] | None:
        """As `acquire`, with the moment at which the lease of the owner before ran out; None where it was given
        back.
        """
        with connection.cursor() as cursor:
            cursor.execute(ACQUIRE, [name, name, owner, _seconds(seconds), RELEASED])
            row = cursor.fetchone()
        return (Lease(name, owner, row[0]), row[1]) if row else None

    @stored
    def renew(self, lease: Lease, seconds: float | None = None) -> bool:
        """False: it has expired, or another owner has it."""
        with connection.cursor() as cursor:
            cursor.execute(RENEW, [_seconds(seconds), lease.name, lease.owner, lease.fence])
            return bool(cursor.rowcount == 1)

    @stored
    def release(self, lease: Lease) -> None:
        """Release a live lease; no error where it is gone.  An expired one is not marked as released."""
        with connection.cursor() as cursor:
            cursor.execute(RELEASE, [RELEASED, lease.name, lease.owner, lease.fence])


def _seconds(asked: float | None) -> float:
    return settings.TIDEMARK_LEASE_SECONDS if asked is None else asked


def live_leases() -> set[str]:
    """Return the names of the live leases."""
    return live_and_lost()[0]


@stored
def live_and_lost() -> tuple[set[str], set[str]]:
    """Return the names of the live leases, and of those that expired without a release."""
    with connection.cursor() as cursor:
        cursor.execute(NOT_RELEASED, [RELEASED])
        rows = cursor.fetchall()
    return {name for name, live in rows if live}, {name for name, live in rows if not live}


def forget(names: list[str]) -> None:
    """Remove rows of a deleted replicator."""
    LeaseRow.objects.filter(name__in=names, expires_at__lte=timezone.now()).delete()
