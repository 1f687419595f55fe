"""The watch over logs that sources keep for replicators, above all for stopped ones, and the guard of their disks."""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Sequence

from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError, InterfaceError
from django.db import connections as databases
from django.db.models import QuerySet

from replicator.engine.reporting import Level
from replicator.errors import SourceUnreachable, TidemarkError
from replicator.sources.base import LogHeld, MeasuredLog, RetainedLog, Source
from replicator.sources.registry import source_kind
from webapp.connections.selectors import full_config
from webapp.database import clock
from webapp.monitoring.models import Stage
from webapp.monitoring.services import note
from webapp.replicators.models import LogConcern, Replicator, Status
from webapp.replicators.source_log import MISSING, concern, log_kept
from webapp.web.formatting import size
from webapp.worker.run import wiring

LOGGER = logging.getLogger("tidemark.worker")
WATCH_SECONDS = 30.0
ROUND_SECONDS = 20.0
CONNECT_SECONDS = 5
PARALLEL = 8
_under_way: set[int] = set()  # connections; one that hangs is not asked again by this process
_lock = threading.Lock()


def watch(seconds: float = ROUND_SECONDS) -> None:
    """Run one round over all sources.  A source that does not answer does not fail the round.

    It takes `seconds` at most: a check that hangs is left behind in its thread.  The order is random.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    connections = list(watched().order_by().values_list("connection_id", flat=True).distinct())
    random.shuffle(connections)
    for connection_id in connections:
        waiting.put(connection_id)
    deadline = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_work, args=(waiting, deadline), name="watch", daemon=True)
        for _ in range(min(PARALLEL, len(connections)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def watch_one(replicator_id: int) -> None:
    """The same for one replicator, in this thread."""
    _guarded(watched().filter(pk=replicator_id))


def watched() -> QuerySet[Replicator]:
    """Return all replicators that were ever started, in any state: a log that is not read is kept all the more."""
    return Replicator.objects.exclude(status=Status.CREATED).select_related("connection", "destination")


def _work(waiting: queue.SimpleQueue[int], deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            connection_id = waiting.get_nowait()
        except queue.Empty:
            return
        with _lock:
            if connection_id in _under_way:
                continue
            _under_way.add(connection_id)
        try:
            _guarded(watched().filter(connection_id=connection_id))
        finally:
            with _lock:
                _under_way.discard(connection_id)


def _guarded(found: QuerySet[Replicator]) -> None:
    """Replicators of one connection.  Nothing is raised."""
    try:
        _look(list(found))
    except TidemarkError as error:
        LOGGER.info("The log retained on a source is unknown: %s", error.message)
    except (DatabaseError, InterfaceError, ObjectDoesNotExist) as error:  # or the replicator was deleted meanwhile
        LOGGER.info("The log retained on a source could not be stored: %s", str(error).strip())
    except Exception:  # other sources are looked at all the same
        LOGGER.exception("Checking the log retained on a source failed")
    finally:
        databases.close_all()


def _look(replicators: Sequence[Replicator]) -> None:
    if not replicators:
        return
    connection = replicators[0].connection
    source = source_kind(connection.kind).open({**full_config(connection), "connect_timeout": CONNECT_SECONDS})
    try:
        for replicator in replicators:
            try:
                look(replicator, source)
            except SourceUnreachable:
                raise
            except TidemarkError as error:  # the others are looked at all the same
                wiring.reporter(replicator, Stage.CONTROL).log(Level.WARNING, error.message, code=error.code)
    finally:
        source.close()


def look(replicator: Replicator, source: Source) -> None:
    """Store what is kept; give it up beyond the connection's limit.  Raises SourceError."""
    log, kind = source.log(wiring.label(replicator)), source_kind(replicator.connection.kind)
    if not isinstance(log, MeasuredLog):
        return
    checkpoint = kind.parse_offset(replicator.checkpoint_offset) if replicator.checkpoint_offset else None
    held = log.held(checkpoint)
    if held is not None and held.beyond and isinstance(log, RetainedLog) and log.give_up():
        _say_given_up(replicator, held)
        held = log.held(checkpoint)
    replicator.refresh_from_db()
    if held is None and isinstance(log, RetainedLog) and replicator.checkpoint_offset is not None:
        held = LogHeld(None, MISSING, lost=True)
    _store(replicator, held)


def _store(replicator: Replicator, held: LogHeld | None) -> None:
    """What there is to warn of is said once, when it comes and when it goes; by one of several that look at the same
    time.
    """
    row = Replicator.objects.filter(pk=replicator.pk)
    if held is None:
        row.update(log_held_bytes=None, log_held_most=None, log_held_status="", log_held_at=None, log_concern="")
        return
    lost = held.lost and replicator.checkpoint_offset is not None  # without one nothing is gone on from
    before, now = replicator.log_concern, concern(held, replicator.parsed_options, replicator.log_concern)
    now = "" if held.lost and not lost else now
    row.update(
        log_held_bytes=held.bytes, log_held_most=held.most, log_held_status=held.status[:40], log_held_at=clock()
    )
    if before != now and row.filter(log_concern=before).update(log_concern=now):
        replicator.refresh_from_db()
        _say(replicator, now)


def _say(replicator: Replicator, now: str) -> None:
    kept = log_kept(replicator)
    assert kept is not None
    if not now:
        note(replicator=replicator, kind="log_safe", summary="The log retained on the source is below the limit again")
        return
    kind = "log_lost" if now == LogConcern.LOST else "log_large"
    detail = {"bytes": kept.bytes, "most": kept.most, "status": kept.status, "remedy": kept.remedy}
    note(replicator=replicator, kind=kind, summary=kept.message, detail=detail)
    wiring.reporter(replicator, Stage.CONTROL).log(Level.WARNING, kept.message, code=kind, remedy=kept.remedy)


def _say_given_up(replicator: Replicator, held: LogHeld) -> None:
    summary = (
        f"The source retained {size(held.bytes)} of its log for this replicator, more than the {size(held.limit)} that"
        " its connection allows: it was released, so that the source's disk does not fill"
    )
    note(replicator=replicator, kind="log_given_up", summary=summary, detail={"bytes": held.bytes, "limit": held.limit})
    wiring.reporter(replicator, Stage.CONTROL).log(Level.WARNING, summary, code="log_given_up")
