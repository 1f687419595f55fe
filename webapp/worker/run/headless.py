"""Capture, snapshot and merge of one replicator as threads of this process, without Celery."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

from django.db import InterfaceError, OperationalError, connection, connections

from replicator.errors import StateError, TidemarkError
from replicator.model.offset import Offset
from replicator.sources.registry import source_kind
from replicator.state.tables import TableState
from webapp.database import clock
from webapp.monitoring.models import Stage
from webapp.monitoring.slo import gauges
from webapp.replicators import selectors, services
from webapp.replicators.models import Desired, Replicator, Status
from webapp.worker import signals
from webapp.worker.failure.failures import retry_ahead
from webapp.worker.lease.lease_store import live_leases
from webapp.worker.run import wiring
from webapp.worker.run.outcome import ExitCode
from webapp.worker.run.work_slice import lease_name, run_slice
from webapp.worker.supervisor import last_round
from webapp.worker.upkeep import garbage_collection, quiet_tables
from webapp.worker.upkeep.source_log_retention import WATCH_SECONDS, watch_one

STAGES = (Stage.CAPTURE, Stage.SNAPSHOT, Stage.APPLY)
LOGGER = logging.getLogger("tidemark.worker")
POLL_SECONDS, MAX_POLL_SECONDS = 0.25, 1.0
MAX_LOOKING = 20  # where a look takes long, a twentieth of the time goes by with looking
STOP_SECONDS = 60.0
TIDY_SECONDS = 3600.0
SETTLE_SECONDS = 15.0  # a metadata database that is away at the very end is waited for so long
SUPERVISED = timedelta(seconds=25)


class HeadlessRun:
    """`with HeadlessRun(replicator) as run: run.wait(…)`."""

    def __init__(self, replicator: Replicator, stopped: Callable[[], bool] = lambda: False) -> None:
        """`stopped` ends waiting and working early (a signal)."""
        self._replicator = replicator
        self._stop = threading.Event()
        self._current = False  # then what is under way (a compaction) is let finish
        self._upto: int | None = None
        self._since = clock()
        self._stopped = stopped
        self._threads = [
            threading.Thread(target=self._stage, args=(stage,), name=str(stage), daemon=True) for stage in STAGES
        ]
        self._threads.append(threading.Thread(target=self._watch, name="watch", daemon=True))

    def __enter__(self) -> Self:
        """Start (again after a failure) and begin."""
        replicator = self._replicator
        replicator.refresh_from_db()
        self._since = clock()
        if replicator.desired != Desired.RUNNING or replicator.status in {Status.FAILED, Status.CREATED}:
            services.start_replicator(replicator=replicator)
        elif replicator.status not in {Status.RUNNING, Status.RETRYING}:
            Replicator.objects.filter(pk=replicator.pk).update(status=Status.STARTING)
        gc.freeze()  # as a worker does
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop within seconds; without a supervisor nothing of it runs any more, and the status says so."""
        self._stop.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            while thread.is_alive() and (time.monotonic() < deadline or not self._hurried()):
                thread.join(POLL_SECONDS)
            if thread.is_alive():
                LOGGER.warning("%s does not stop.", thread.name)
        self._tell()
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._settled() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _settled(self) -> bool:
        """The status says what runs; False: the metadata database does not answer."""
        with _patience():
            self._settle()
            return True
        return False

    def _settle(self) -> None:
        seen = last_round()
        held = {lease_name(stage, self._replicator.pk) for stage in STAGES} & live_leases()  # by another such run
        if not held and (seen is None or clock() - seen > SUPERVISED):
            running = (Status.STARTING, Status.RUNNING, Status.RETRYING, Status.STOPPING)
            Replicator.objects.filter(pk=self._replicator.pk, status__in=running).update(status=Status.STOPPED)

    def wait(self, reached: Mapping[str, Any] | None, timeout: float | None) -> ExitCode:
        """Until current (the source's position `reached` is captured and everything is applied), failed, or `timeout`
        seconds.

        With `reached` None: until failed, stopped or the time is over.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while deadline is None or time.monotonic() < deadline:
            began = time.monotonic()
            with _patience():
                if (outcome := self._look(reached)) is not None:
                    self._current = outcome is ExitCode.CURRENT
                    return outcome
            time.sleep(min(MAX_POLL_SECONDS, max(POLL_SECONDS, MAX_LOOKING * (time.monotonic() - began))))
        return ExitCode.TIMEOUT

    def _look(self, reached: Mapping[str, Any] | None) -> ExitCode | None:
        replicator = self._replicator
        replicator.refresh_from_db()
        if replicator.status == Status.FAILED:
            return ExitCode.FAILED
        if self._stopped() or replicator.desired != Desired.RUNNING:
            return ExitCode.TIMEOUT if reached is not None else ExitCode.CURRENT
        if reached is None or not self._begun() or not captured(replicator, reached):
            return None
        if self._upto is None and selectors.parts_open(replicator):
            return None
        if self._upto is None:  # what is captured now holds all up to there; a source under load never stops
            replicator.refresh_from_db(fields=["next_sequence"])  # after the look at the parts: the last one's rows too
            self._upto = replicator.next_sequence - 1
        if not selectors.is_current(replicator, self._upto):
            return None
        failed = replicator.tables.filter(state=TableState.FAILED.value).exists()
        return ExitCode.FAILED if failed else ExitCode.CURRENT

    def _begun(self) -> bool:
        """Capture found the source to be the one it knows: another one's position says nothing about ours."""
        at = self._replicator.captured_at
        return at is not None and at >= self._since

    def _over(self) -> bool:
        return self._stop.is_set() or self._stopped()

    def _hurried(self) -> bool:
        return self._stopped() or (self._stop.is_set() and not self._current)

    def _stage(self, stage: Stage) -> None:
        try:
            while not self._over():
                with _patience():
                    if not retry_ahead(self._replicator.pk, stage, clock()):
                        run_slice(
                            stage, self._replicator.pk, seconds=None, idle=None, over=self._over, stopped=self._hurried
                        )
                self._stop.wait(POLL_SECONDS)
        finally:
            connections.close_all()

    def _watch(self) -> None:
        """Watch the source's log and the backlog, deliver lineage; collect garbage where no supervisor runs."""
        looked, tidied = -WATCH_SECONDS, time.monotonic()
        try:
            while not self._over():
                if time.monotonic() - tidied >= TIDY_SECONDS:
                    tidied = time.monotonic()
                    self._tidy()
                if time.monotonic() - looked >= WATCH_SECONDS:
                    looked = time.monotonic()
                    watch_one(self._replicator.pk)
                    self._gauge()
                    self._tell()
                self._stop.wait(POLL_SECONDS)
        finally:
            connections.close_all()

    def _tidy(self) -> None:
        with _patience():
            seen = last_round()
            if seen is not None and clock() - seen <= SUPERVISED:
                return
            try:
                garbage_collection.collect()
                quiet_tables.keep_quiet_tables(self._replicator)
            except TidemarkError as error:
                LOGGER.warning("Maintenance: %s", error.message)

    @staticmethod
    def _gauge() -> None:
        with _patience():
            gauges.look(clock())

    @staticmethod
    def _tell() -> None:
        """Deliver OpenLineage events, where a receiver is configured."""
        try:
            signals.looked.send(HeadlessRun)
        except StateError as error:
            LOGGER.warning("OpenLineage: %s", error.message)


@contextmanager
def _patience() -> Iterator[None]:
    """A metadata database that is away for a while is asked again."""
    try:
        yield
    except (OperationalError, InterfaceError, StateError) as error:
        LOGGER.warning("The metadata database does not respond: %s", str(error).strip())
        connection.close()


def source_position(replicator: Replicator) -> Mapping[str, Any]:
    """Where the source's log ends now.  Raises SourceError."""
    with wiring.opened_source(replicator) as source:
        return source.log(wiring.label(replicator)).state().offset.to_dict()


def captured(replicator: Replicator, reached: Mapping[str, Any]) -> bool:
    """The checkpoint covers `reached`."""
    if replicator.checkpoint_offset is None:
        return False
    parse: Callable[[Mapping[str, Any]], Offset] = source_kind(replicator.connection.kind).parse_offset
    return parse(replicator.checkpoint_offset).covers(parse(reached))
