"""One answer of a stream: from where, how much, and how long it waits for something to come."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from django.db import connection

from replicator.errors import CheckpointTooOld, ConfigurationError, StagingError, StreamDisabled
from replicator.streams.cursor import BatchLimits, CursorBatch, read_batch
from replicator.streams.position import StreamPosition, checkpoint, parse
from webapp.replicators.journal_notify import subscribe_to_journal
from webapp.replicators.staging import storage
from webapp.streams import groups
from webapp.streams.feed import captured, stretch_of
from webapp.streams.models import Stream

MAX_ROWS, MAX_BYTES = 100_000, 64 * 1024 * 1024
MAX_WAIT = 25.0  # seconds
MAX_WAITING = 3  # requests of a process: others than streams' clients need its threads, too
LOOK_SECONDS = 2.0
_waiting = threading.BoundedSemaphore(MAX_WAITING)


@dataclass(frozen=True)
class Asked:
    """`begin`: a checkpoint, `oldest`, `latest`, or empty: where the group has come to.  `wait` in seconds."""

    shard: int
    begin: str = ""
    group: str = ""
    member: str = ""
    limits: BatchLimits = field(default_factory=BatchLimits)
    wait: float = 0


def changes(stream: Stream, asked: Asked) -> tuple[StreamPosition, CursorBatch]:
    """From where it was read, and what is there.  Waits without holding a connection to the metadata database.

    StreamDisabled, CheckpointTooOld, MemberGone, ShardNotHeld, ConfigurationError.
    """
    _check(stream, asked)
    start = _start(stream, asked)
    until = time.monotonic() + asked.wait
    batch = _read(stream, start, asked)
    if not _idle(batch) or asked.wait <= 0 or not _waiting.acquire(blocking=False):
        return start, batch
    try:
        with subscribe_to_journal(stream.replicator_id) as wake:
            while _idle(batch) and (left := until - time.monotonic()) > 0:
                _let_go()
                wake.wait(min(left, LOOK_SECONDS))
                stream = _fresh(stream)
                batch = _read(stream, batch.position, asked)
    finally:
        _waiting.release()
    return start, batch


def _idle(batch: CursorBatch) -> bool:
    return batch.empty and not batch.more


def _check(stream: Stream, asked: Asked) -> None:
    _check_enabled(stream)
    if not 0 <= asked.shard < stream.shards:
        raise ConfigurationError(f"The stream {stream} has the shards 0 to {stream.shards - 1}.")
    if asked.member:
        groups.check_held(stream, asked.group, asked.member, asked.shard)


def _check_enabled(stream: Stream) -> None:
    if not stream.enabled:
        raise StreamDisabled(f"The stream {stream} is disabled.")


def _start(stream: Stream, asked: Asked) -> StreamPosition:
    if asked.begin == groups.LATEST:
        return StreamPosition(captured(stream))
    if asked.begin and asked.begin != groups.OLDEST:
        start = parse(asked.begin, stream.uid, asked.shard)
        if start.sequence > captured(stream):
            raise ConfigurationError("This checkpoint is ahead of the captured changes.")
        return start
    known = groups.acked(stream, asked.group, asked.shard) if asked.group and not asked.begin else None
    return known or StreamPosition(stream.oldest)


def _read(stream: Stream, start: StreamPosition, asked: Asked) -> CursorBatch:
    """Whether it is too old is looked at last: segments are deleted together with what says so."""
    stretch = stretch_of(stream, start, asked.shard)
    _check_age(stream, start, asked.shard)
    _let_go()
    try:
        return read_batch(storage(), stretch, start, shard=asked.shard, shards=stream.shards, limits=asked.limits)
    except StagingError:
        _check_age(stream, start, asked.shard)
        raise


def _check_age(stream: Stream, start: StreamPosition, shard: int) -> None:
    oldest = Stream.objects.values_list("oldest", flat=True).get(pk=stream.pk)
    if start.sequence < oldest:
        message = (
            f"Changes after this checkpoint are deleted. The stream {stream} retains them for"
            f" {stream.retention_hours:g} h."
        )
        raise CheckpointTooOld(message, oldest=checkpoint(stream.uid, shard, StreamPosition(oldest)))


def _fresh(stream: Stream) -> Stream:
    """As it is now; disabled or deleted meanwhile, a wait ends."""
    found = Stream.objects.select_related("replicator").get(pk=stream.pk)
    _check_enabled(found)
    return found


def _let_go() -> None:
    """The connection of this thread; the next query opens another.  In a transaction (a test's) it stays."""
    if not connection.in_atomic_block:
        connection.close()
