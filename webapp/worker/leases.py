"""Leases on the metadata database's clock."""

from __future__ import annotations

from django.conf import settings
from django.db import connection
from django.utils import timezone

from replicator.state.lease import Lease
from webapp.worker.database import stored
from webapp.worker.models import Lease as LeaseRow

ACQUIRE = """
INSERT INTO worker_lease (name, owner, fence, expires_at)
VALUES (%s, %s, 1, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (name) DO UPDATE
SET owner = EXCLUDED.owner, fence = worker_lease.fence + 1, expires_at = EXCLUDED.expires_at
WHERE worker_lease.owner = EXCLUDED.owner OR worker_lease.expires_at <= clock_timestamp()
RETURNING fence
"""
RENEW = """
UPDATE worker_lease SET expires_at = clock_timestamp() + make_interval(secs => %s)
WHERE name = %s AND owner = %s AND fence = %s AND expires_at > clock_timestamp()
"""
RELEASE = """
UPDATE worker_lease SET expires_at = clock_timestamp() WHERE name = %s AND owner = %s AND fence = %s
"""
LIVE = "SELECT name FROM worker_lease WHERE expires_at > clock_timestamp()"


class OrmLeaseStore:
    """`replicator.state.lease.LeaseStore`.  A released lease keeps its row, so that the fence never starts over."""

    @stored
    def acquire(self, name: str, owner: str, seconds: float | None = None) -> Lease | None:
        """None while another owner's lease is live."""
        with connection.cursor() as cursor:
            cursor.execute(ACQUIRE, [name, owner, _seconds(seconds)])
            row = cursor.fetchone()
        return Lease(name, owner, row[0]) if row else None

    @stored
    def renew(self, lease: Lease, seconds: float | None = None) -> bool:
        """False: it ran out, or somebody else has it now."""
        with connection.cursor() as cursor:
            cursor.execute(RENEW, [_seconds(seconds), lease.name, lease.owner, lease.fence])
            return bool(cursor.rowcount == 1)

    @stored
    def release(self, lease: Lease) -> None:
        """No error where it is gone."""
        with connection.cursor() as cursor:
            cursor.execute(RELEASE, [lease.name, lease.owner, lease.fence])


def _seconds(asked: float | None) -> float:
    return settings.TIDEMARK_LEASE_SECONDS if asked is None else asked


@stored
def live_leases() -> set[str]:
    """Names of the leases that somebody holds now."""
    with connection.cursor() as cursor:
        cursor.execute(LIVE)
        return {row[0] for row in cursor.fetchall()}


def forget(names: list[str]) -> None:
    """Remove rows of a deleted replicator."""
    LeaseRow.objects.filter(name__in=names, expires_at__lte=timezone.now()).delete()
