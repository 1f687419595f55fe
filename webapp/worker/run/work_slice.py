"""Bounded pieces of work on one replicator: capture, snapshot, apply.

Each holds its lease and ends at a checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError, close_old_connections, connections

from replicator.engine.apply.scheduler import ApplyOptions, run_apply
from replicator.engine.capture.capture import CaptureOptions, run_capture
from replicator.engine.reporting import Level
from replicator.engine.snapshot import SnapshotOptions, run_snapshot
from replicator.errors import FenceLost, SourceBusy, SourceError, StateError, TidemarkError
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.periodic import periodically
from replicator.sources.base import Source, SourceWait
from replicator.sources.registry import source_kind
from replicator.state.journal import Checkpoint, JournalEntry
from replicator.state.lease import Lease
from webapp.database import fenced, stored
from webapp.monitoring.models import Stage
from webapp.replicators.journal_notify import subscribe_to_journal
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import table_set
from webapp.replicators.staging import storage
from webapp.worker.failure.failures import clear_stage_failure, stage_failed, stage_waits
from webapp.worker.failure.retry_policy import InternalError, RetryDecision, as_tidemark
from webapp.worker.lease.lease_holder import LeaseHolder
from webapp.worker.run import wiring
from webapp.worker.run.snapshot_throttle import Pacing
from webapp.worker.store.apply_store import OrmApplyStore, loads
from webapp.worker.store.chunk_store import OrmChunkStore, has_work
from webapp.worker.store.journal import OrmJournal, OrmRawChunkStore

LOGGER = logging.getLogger("tidemark.worker")
LEASES = {Stage.CAPTURE: "capture", Stage.SNAPSHOT: "snapshot", Stage.APPLY: "merge"}
IDLE_POLL, MAX_POLL = 0.2, 1.0
WAKE_SECONDS = 1.0  # what nothing wakes it for (a retry whose time has come) waits no longer
Journaled = Callable[[], None]
Work = Callable[[Replicator, LeaseHolder, float | None, Journaled], None]


def lease_name(stage: Stage, replicator_id: int) -> str:
    """capture:ID, snapshot:ID, merge:ID."""
    return f"{LEASES[stage]}:{replicator_id}"


def run_slice(
    stage: Stage,
    replicator_id: int,
    *,
    seconds: float | None = 60.0,
    idle: float | None = 5.0,
    over: Callable[[], bool] = lambda: False,
    stopped: Callable[[], bool] = lambda: False,
    began: Callable[[], None] | None = None,
    journaled: Journaled = lambda: None,
) -> bool:
    """Run one slice; True if it held the lease and nothing failed.  No failure is raised.

    The retry policy gets every failure of the work; failures of the metadata database are only logged.
    It ends after `seconds`, when `over()`, or when there was nothing to do for `idle` seconds (None: never for that
    reason).  A long merge is then finished, unless `stopped()`.
    journaled: capture calls it whenever it has given the apply loop something to do.
    """
    close_old_connections()
    try:
        if not Replicator.objects.filter(pk=replicator_id).exists():
            return False
        with LeaseHolder(
            lease_name(stage, replicator_id), replicator_id, seconds=seconds, over=over, stopped=stopped
        ) as tenure:
            if tenure.lease is None:
                return False
            # Only now: what was read before may have changed under the owner before, its checkpoint among all.
            replicator = Replicator.objects.select_related("connection", "destination").filter(pk=replicator_id).first()
            if replicator is None:
                return False
            if began is not None:
                began()
            return _work(stage, replicator, tenure, idle, journaled)
    except (TidemarkError, OperationalError, InterfaceError) as error:  # the metadata database itself
        LOGGER.error("%s of replicator %s: %s", stage, replicator_id, as_tidemark(error).message)  # noqa: TRY400 - it says enough
        return False
    finally:
        close_old_connections()


def _work(stage: Stage, replicator: Replicator, tenure: LeaseHolder, idle: float | None, journaled: Journaled) -> bool:
    try:
        WORK[stage](replicator, tenure, idle, journaled)
    except FenceLost:
        return False  # another worker has taken over; there is nothing to report
    except Exception as error:  # noqa: BLE001 - the policy decides about any error, and it is reported
        assert tenure.lease is not None
        _tell(stage, replicator, tenure.lease, as_tidemark(error), error)
        return False
    return True


def _tell(stage: Stage, replicator: Replicator, lease: Lease, error: TidemarkError, cause: BaseException) -> None:
    """A stale owner's trouble is not the replicator's: a successor that works must not be stopped by it."""
    close_old_connections()  # it may be the connection itself that broke
    if isinstance(error, InternalError):
        LOGGER.error("Unexpected error in %s of %s", stage, replicator.name, exc_info=cause)
    reach("slice.failure.before")
    try:
        verdict = _count(stage, replicator.pk, lease, error)
    except FenceLost:
        LOGGER.warning("%s of %s, after another worker took over: %s", stage, replicator.name, error.message)
        return
    except StateError:
        LOGGER.error("%s of %s: %s", stage, replicator.name, error.message)  # noqa: TRY400 - it says enough
        raise
    report = wiring.reporter(replicator, stage)
    stack = error.stack or ("".join(traceback.format_exception(cause)) if isinstance(error, InternalError) else "")
    detail: dict[str, Any] = {"stack": stack} if stack else {}
    if verdict is not None:  # else it has started again
        detail["next"] = (
            f"next retry at {verdict.retry_at:%H:%M:%S} UTC" if verdict.retry_at else "stopped, see the remedy"
        )
    report.log(Level.ERROR, error.message, code=error.code, remedy=error.remedy, **detail)


@stored
def _count(stage: Stage, replicator_id: int, lease: Lease, error: TidemarkError) -> RetryDecision | None:
    with fenced(lease, expired=True):
        return stage_failed(replicator_id, stage, error)


@stored
def _works(stage: Stage, replicator_id: int, lease: Lease) -> None:
    """Its failures are over."""
    with fenced(lease):
        clear_stage_failure(replicator_id, stage)


def _capture(replicator: Replicator, tenure: LeaseHolder, idle: float | None, journaled: Journaled) -> None:
    del idle  # the log never ends
    assert tenure.lease is not None
    staging = storage()
    with wiring.opened_source(replicator) as source, _cancelled(source, tenure):
        journal = OrmJournal(replicator.pk, source, staging.delete, journaled)
        _begin_log(replicator, journal, source, tenure)
        run_capture(
            replicator=wiring.label(replicator),
            source=source,
            parse_offset=source_kind(replicator.connection.kind).parse_offset,
            journal=journal,
            chunks=OrmRawChunkStore(replicator.pk),
            storage=staging,
            lease=tenure.lease,
            keep=tenure.keep,
            options=CaptureOptions(read=wiring.read_options(replicator)),
            report=wiring.reporter(replicator, Stage.CAPTURE),
            hurried=tenure.hurried,
        )


@contextmanager
def _cancelled(source: Source, tenure: LeaseHolder) -> Iterator[None]:
    """What the source is asked for within the block ends there once it is not to be finished (invariant 10); then an
    error is none.
    """
    cancelled = threading.Event()

    def look() -> None:
        if tenure.hurried():
            cancelled.set()
            with suppress(SourceError):
                source.cancel()

    with periodically(look, name="capture watch"):
        try:
            yield
        except SourceError:
            if not cancelled.is_set():
                raise


def _begin_log(replicator: Replicator, journal: OrmJournal, source: Source, tenure: LeaseHolder) -> None:
    """The first checkpoint, and only then the tables that are there: what is made later is met in the log."""
    lease = tenure.lease
    assert lease is not None
    if replicator.checkpoint_offset is None:
        waiting = SourceWait(tenure.hurried, partial(_waits, replicator, lease))
        state = source.log(wiring.label(replicator)).prepare(table_set(replicator), first=True, waiting=waiting)
        journal.commit(
            lease, JournalEntry(checkpoint=Checkpoint(state.offset.to_dict(), replicator.next_sequence, state.identity))
        )
    journal.plan()


@stored
def _waits(replicator: Replicator, lease: Lease, busy: SourceBusy) -> None:
    """Said where failures are, and in the log."""
    with fenced(lease):
        stage_waits(replicator.pk, Stage.CAPTURE, busy)
    wiring.reporter(replicator, Stage.CAPTURE).log(Level.WARNING, busy.message, code=busy.code, remedy=busy.remedy)


def _snapshot(replicator: Replicator, tenure: LeaseHolder, idle: float | None, journaled: Journaled) -> None:
    del journaled
    assert tenure.lease is not None
    waited, cleared = Patience(idle), False
    while tenure.keep() and waited.on():
        if has_work(replicator.pk, tenure.lease.owner):
            replicator.refresh_from_db(fields=["options", "plan_version"])
            store = OrmChunkStore(replicator.pk, replicator.plan_version)
            with wiring.opened_source(replicator) as source:  # the selection of that plan, or a later one
                done = _read_chunks(replicator, tenure, store, source)
            waited.reset(worked=bool(done))
            cleared = False
        else:
            time.sleep(waited.pause())
        if not cleared:  # a slice without an end would never say that it works again
            _works(Stage.SNAPSHOT, replicator.pk, tenure.lease)
            cleared = True


def _read_chunks(replicator: Replicator, tenure: LeaseHolder, store: OrmChunkStore, source: Source) -> int:
    assert tenure.lease is not None
    parallel, report = replicator.parsed_options.snapshot_parallel, wiring.reporter(replicator, Stage.SNAPSHOT)
    try:
        with Pacing(replicator, report) as pacing:
            return run_snapshot(
                replicator=wiring.label(replicator),
                source=source,
                chunks=store,
                storage=storage(),
                owner=tenure.lease.owner,
                keep=tenure.keep,
                options=SnapshotOptions(parallel, read=wiring.read_options(replicator), throttle=pacing.throttle),
                report=report,
                hurried=tenure.hurried,
                released=connections.close_all,
            )
    except TidemarkError as error:
        if not any(error is blamed for blamed in store.blamed):
            raise
        return 0  # one table's trouble (invariant 13)


_RESTING: dict[int, dict[TableId, float]] = {}  # tables by replicator, from slice to slice of this process


def _apply(replicator: Replicator, tenure: LeaseHolder, idle: float | None, journaled: Journaled) -> None:
    """Stays for `idle` seconds after the last commit: what comes then is applied at once."""
    del journaled
    assert tenure.lease is not None
    store = OrmApplyStore(replicator.pk, gather=True)
    report = wiring.reporter(replicator, Stage.APPLY)
    works = _Once(partial(_works, Stage.APPLY, replicator.pk, tenure.lease))
    waited, prepared = Patience(idle), False
    with closing(wiring.open_target(replicator)) as target, subscribe_to_journal(replicator.pk) as wake:
        while tenure.keep() and waited.on():
            replicator.refresh_from_db(fields=["options"])
            commits = run_apply(
                target=target,
                store=store,
                lease=tenure.lease,
                keep=tenure.keep,
                hurried=tenure.hurried,
                options=ApplyOptions(parallel=replicator.parsed_options.merge_parallel),
                report=report,
                wake=wake,
                turned=works,
                released=connections.close_all,
                resting=_RESTING.setdefault(replicator.pk, {}),
            )
            waited.reset(worked=commits > 0)
            if not (commits or prepared) and loads(replicator.pk):  # Spark starts while the first chunks are read
                target.prepare()
                prepared = True
            wake.wait(WAKE_SECONDS)


class _Once:
    """Calls something the first time only: a slice without an end would never say that it works again, and once is
    enough.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Patience:
    """How long a slice stays without work."""

    def __init__(self, seconds: float | None) -> None:
        """None: for ever."""
        self._seconds = seconds
        self._since = time.monotonic()

    def on(self) -> bool:
        """Stay?"""
        return self._seconds is None or time.monotonic() - self._since < self._seconds

    def reset(self, *, worked: bool) -> None:
        """Work was done just now."""
        if worked:
            self._since = time.monotonic()

    def pause(self) -> float:
        """Seconds before the next look: the longer nothing came, the more."""
        return min(MAX_POLL, max(IDLE_POLL, (time.monotonic() - self._since) / 10))


WORK: dict[Stage, Work] = {Stage.CAPTURE: _capture, Stage.SNAPSHOT: _snapshot, Stage.APPLY: _apply}
