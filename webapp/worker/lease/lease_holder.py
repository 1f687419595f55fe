"""Holding a lease while a slice works: renewed in the background; the work ends when it is lost or no longer wanted."""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from replicator.errors import TidemarkError
from replicator.faults import reach
from replicator.state.lease import Lease
from webapp.database import clock
from webapp.monitoring.services import note
from webapp.replicators.models import Desired, Replicator, Status
from webapp.web.formatting import span
from webapp.worker.lease.lease_store import OrmLeaseStore

LOGGER = logging.getLogger("tidemark.worker")
POLL_SECONDS = 1.0
# Shares of the lease time: it is renewed after the one, and not counted on for the other at its end.
RENEW_SHARE = 0.3
SAFETY_SHARE = 0.1


class LeaseHolder:
    """`with LeaseHolder(...) as holder:`; `holder.lease` is None while another process has it.  Invariants 2 and 10."""

    def __init__(
        self,
        name: str,
        replicator_id: int,
        *,
        seconds: float | None = None,
        over: Callable[[], bool] = lambda: False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """The slice ends after `seconds` (None: never by time), or when `over()`; what is under way is let finish
        unless `stopped()`.
        """
        self.lease: Lease | None = None
        self._name, self._id, self._seconds = name, replicator_id, seconds
        self._ended, self._stopped = over, stopped
        self._leases = OrmLeaseStore()
        self._lease_seconds: float = settings.TIDEMARK_LEASE_SECONDS
        self._wanted = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guard, name=f"lease {name}", daemon=True)

    def __enter__(self) -> Self:
        """Acquire, and start renewing."""
        started = time.monotonic()
        self._deadline = None if self._seconds is None else started + self._seconds
        taken = self._leases.take(self._name, uuid.uuid4().hex)
        self._renewed = started
        if taken is not None:
            self.lease, ran_out = taken
            reach("lease.acquire.after")
            self._thread.start()
            if ran_out is not None:
                self._tell(ran_out)
        return self

    def _tell(self, ran_out: datetime) -> None:
        """Note the failover on the timeline: the previous owner did not release the lease."""
        work = self._name.partition(":")[0]
        try:
            replicator = Replicator.objects.filter(pk=self._id).first()
            if replicator is None:
                return
            silent = span(max(1, round((clock() - ran_out).total_seconds())))
            summary = f"Failover: {work} is taken over from a worker whose lease expired {silent} ago"
            detail = {"work": work, "ran_out_at": ran_out.isoformat(), "worker": socket.gethostname()}
            note(replicator=replicator, kind="failover", summary=summary, detail=detail)
        except (DatabaseError, InterfaceError):  # the work is worth more than a word of it
            LOGGER.warning("A failover of %s could not be recorded.", self._name)
            connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop renewing and release."""
        if self.lease is None:
            return
        self._over.set()
        self._thread.join(timeout=5)
        try:
            reach("lease.release.before")
            self._leases.release(self.lease)
        except TidemarkError:
            LOGGER.warning("The lease %s could not be released; it expires automatically.", self._name)

    def keep(self) -> bool:
        """Go on?  Cheap.  By this process's own clock it is False before the lease can have run out."""
        over = self._ended() or (self._deadline is not None and time.monotonic() >= self._deadline)
        return not over and not self.hurried()

    def hurried(self) -> bool:
        """Not even what is under way is to be finished.  Cheap, as `keep`."""
        return self._stopped() or not self.wanted

    @property
    def wanted(self) -> bool:
        """False, and for good, once the user wants it to stop, or the lease is lost or may be."""
        if time.monotonic() - self._renewed >= self._lease_seconds * (1 - SAFETY_SHARE):
            self._wanted = False
        return self._wanted

    def _guard(self) -> None:
        renew = self._lease_seconds * RENEW_SHARE
        try:
            while not self._over.wait(min(POLL_SECONDS, renew / 2)) and self._wanted:
                try:
                    self._look()
                except (TidemarkError, DatabaseError, InterfaceError):
                    connection.close()  # until it answers again, the clock in `keep` runs
        finally:
            connection.close()

    def _look(self) -> None:
        assert self.lease is not None
        running = Replicator.objects.filter(pk=self._id, desired=Desired.RUNNING).exclude(status=Status.FAILED)
        if not running.exists():
            self._wanted = False
            return
        asked = time.monotonic()
        if asked - self._renewed >= self._lease_seconds * RENEW_SHARE:
            reach("lease.renew.before")
            if self._leases.renew(self.lease):
                self._renewed = asked
            else:
                self._wanted = False
