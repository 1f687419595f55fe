"""Fault points: named places at every edge of invariants 1 to 3, where a test makes something go wrong.

In production nothing is armed, and `reach` costs the truth test of an empty dict.
"""

from __future__ import annotations

import ctypes
import errno
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from replicator.errors import TidemarkError

Action = Literal["kill", "fail", "stall", "pause", "full"]
ACTIONS: tuple[str, ...] = get_args(Action)
VARIABLE = "TIDEMARK_FAULTS"
FILE_VARIABLE = "TIDEMARK_FAULTS_FILE"
LOGGER = logging.getLogger("tidemark.faults")

POINTS: Mapping[str, str] = {
    # source
    "source.connect.before": "a connection to the source is about to be opened",
    # capture
    "capture.begin.before": "the tables to follow are known, and not in the journal",
    "capture.begin.after": "the journal knows the tables that capture follows from here",
    "capture.message.read": "a message of the log was read and nothing was done about it",
    "capture.schema.handled": "a DDL statement is part of the entry under way",
    "capture.reload.decided": "the entry under way requests a resnapshot of a table",
    "capture.failure.noted": "the entry under way stops a table",
    "capture.admit.before": "a chunk's window closed; its rows are not in the sequence",
    "capture.admit.after": "a chunk's rows are staged in the sequence; the journal does not know",
    "capture.journal.before": "all files of the entry are durable; the journal does not know them",
    "capture.journal.after": "the journal has the entry; the source was not told",
    "capture.confirm.after": "the source was told; capture goes on",
    # files
    "segment.spill.before": "rows of a segment are in memory only",
    "segment.spill.after": "rows of a segment are written; its file is open",
    "segment.close.before": "a segment's file lacks its footer",
    "segment.close.after": "a segment's file is durable; no journal row names it",
    "storage.open.before": "a staged file is about to be made",
    "storage.sync.before": "a staged file is closed and not forced to the disk",
    # journal
    "journal.begun": "the fence holds, nothing is written (inside the transaction)",
    "journal.written": "all statements are done, the commit is not (inside the transaction)",
    # snapshot
    "snapshot.plan.marked": "a run's plan mark is in the log, its end is not asked for yet",
    "snapshot.plan.before": "new chunk bounds are about to be stored",
    "snapshot.plan.after": "new chunk bounds are stored",
    "snapshot.claim.after": "a chunk belongs to this reader; nothing was done about it",
    "snapshot.low.after": "the low mark is in the log; nothing was read",
    "snapshot.select.after": "the SELECT was sent (or the consistent view opened); no row was taken",
    "snapshot.select.rows": "the first rows are in the raw file, more are to come",
    "snapshot.file.before": "all rows are in the raw file; it lacks its footer",
    "snapshot.file.after": "the raw file is durable; no journal row names it",
    "snapshot.chunk.after": "the journal names the raw file; the high mark is not written",
    "snapshot.high.after": "the high mark is in the log",
    # apply
    "apply.position.after": "the target said how far it is",
    "apply.read.after": "the segments are open; nothing is written",
    "apply.stage.before": "the change of rows is about to be staged in the target",
    "apply.publish.before": "the change is staged in the target and not visible",
    "apply.publish.after": "the change is visible; the journal does not know",
    "apply.mark.before": "a target commit is done; its mark is not in the journal",
    "apply.mark.written": "the mark is written, not committed (inside the transaction)",
    "apply.mark.after": "the mark is in the journal",
    "apply.create.before": "a target table is about to be made (anew)",
    "apply.create.between": "the older target table is gone, the new one is not there",
    "apply.create.after": "the target table is there, empty",
    "apply.drop.before": "a target table is about to be dropped",
    "apply.drop.after": "the target table is gone; the journal does not know",
    "apply.rename.before": "a target table is about to be renamed",
    "apply.rename.after": "the target table has its new name; the journal does not know",
    "apply.evolve.before": "a target table's columns are about to change",
    "apply.evolve.after": "a target table's columns have changed; the journal does not know",
    "apply.step.before": "a definition that commits by itself is marked in the target's position, and not made",
    "apply.step.between": "a definition that commits by itself is made; its mark is still there",
    "apply.step.after": "a definition that commits by itself is made, and its mark is gone",
    "apply.move.before": "a table's state or target name is about to change",
    "apply.move.after": "a table's state or target name has changed",
    "apply.maintain.before": "compaction and expiry are about to be looked at",
    "apply.compact.after": "a table was compacted; old snapshots are still there",
    "apply.moved.before": "a table was given another name, and has not been looked at under it",
    "apply.expire.listed": "the files of snapshots are listed to be deleted; the snapshots are still there",
    "apply.expire.after": "snapshots are gone; their files wait",
    "apply.delete.before": "files that waited are about to be deleted",
    "apply.delete.between": "data files that waited are gone; the manifests that name them are there",
    "apply.delete.after": "files that waited are gone; their list is there",
    "apply.maintain.after": "maintenance is over",
    # lease
    "lease.acquire.after": "the lease is held; nothing was done with it",
    "lease.renew.before": "the lease is about to be renewed",
    "lease.release.before": "the work is over; the lease is still held",
    "slice.failure.before": "a slice failed; the failure is not reported yet",
    # removal
    "garbage.rows.after": "applied segments are out of the journal; their files are there",
    "garbage.dropped.before": "a dropped table is about to be deleted with its files",
    "garbage.orphans.before": "files that no row names are about to be deleted",
    "delete.target.before": "a deleted replicator's target tables are about to be dropped",
    "delete.files.before": "a deleted replicator's staged files are about to be removed",
    "delete.source.before": "a deleted replicator's files are gone; what it made on the source is there",
    "delete.rows.before": "a deleted replicator's files are gone, and what it made on the source; its rows are there",
}


class FaultInjected(TidemarkError):
    """A test asked for it: before an operation "failed and not done", after it "done but reported failed"."""

    code = "fault"
    retryable = True
    default_remedy = "A test sets this fault. Unset TIDEMARK_FAULTS outside of tests."


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the `hit`-th time (from 1) that `point` is reached after arming.

    kill: SIGKILL to this process.  fail: raises FaultInjected.  full: raises OSError(ENOSPC).
    stall: the whole process stops for `seconds`, including the renewal of its leases, as after SIGSTOP or on a paused
    machine.  pause: only the thread stops.
    """

    point: str
    action: Action
    hit: int = 1
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """ValueError for what cannot be meant."""
        if self.point not in POINTS:
            raise ValueError(f"There is no fault point {self.point!r}.")
        if self.action not in ACTIONS:
            raise ValueError(f"There is no fault action {self.action!r}; there are: {', '.join(ACTIONS)}.")
        if self.hit < 1 or self.seconds < 0:
            raise ValueError(f"A fault needs a hit of at least 1 and no negative seconds: {self}.")


_armed: dict[str, list[Fault]] = {}
_hits: dict[str, int] = {}
_journal: Path | None = None
_lock = threading.Lock()


def reach(point: str) -> None:
    """Execution is at `point`.  Does nothing unless a fault is armed."""
    if _armed:
        _reached(point)


def arm(faults: Sequence[Fault], journal: Path | None = None) -> None:
    """These faults, in place of others, each once; counting starts at zero.

    Every fault that fires is one JSON line in the file `journal` before it acts: time, pid, point, action, hit.
    """
    global _journal  # noqa: PLW0603 - faults are of the process
    with _lock:
        _journal = journal
        _hits.clear()
        _armed.clear()
        for fault in faults:
            _armed.setdefault(fault.point, []).append(fault)


def disarm() -> None:
    """Nothing happens any more."""
    arm(())


def arm_from_environment() -> bool:
    """Arm what TIDEMARK_FAULTS says, and warn of it; False where it says nothing.

    ValueError for what it cannot mean.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return False
    file = os.environ.get(FILE_VARIABLE, "")
    arm(parse(text), Path(file) if file else None)
    LOGGER.warning("Faults are armed (%s=%s): this process will fail on purpose.", VARIABLE, text)
    return True


def parse(text: str) -> list[Fault]:
    """`point=action[:seconds][@hit]`, separated by semicolons."""
    return [_parse_one(part.strip()) for part in text.split(";") if part.strip()]


def _parse_one(text: str) -> Fault:
    point, found, rest = text.partition("=")
    rest, _, hit = rest.partition("@")
    action, _, seconds = rest.partition(":")
    if not found:
        raise ValueError(f"A fault is written point=action[:seconds][@hit], not {text!r}.")
    return Fault(point.strip(), cast("Action", action.strip()), int(hit or 1), float(seconds or 0))  # it checks them


def _reached(point: str) -> None:
    with _lock:
        count = _hits[point] = _hits.get(point, 0) + 1
        due = next((fault for fault in _armed.get(point, ()) if fault.hit == count), None)
        if due is not None and _journal is not None:
            _note(_journal, due)
    if due is not None:
        _act(due)


def _note(journal: Path, fault: Fault) -> None:
    line = {"time": time.time(), "pid": os.getpid(), "point": fault.point, "action": fault.action, "hit": fault.hit}
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, json.dumps(line).encode() + b"\n")  # one write: lines of several processes do not mix
    finally:
        os.close(handle)


def _act(fault: Fault) -> None:
    match fault.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail":
            raise FaultInjected(f"A fault was injected at {fault.point}: {POINTS[fault.point]}.")
        case "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), fault.point)
        case "stall":
            _stand_still(fault.seconds)
        case "pause":
            time.sleep(fault.seconds)


def _stand_still(seconds: float) -> None:
    """PyDLL calls keep the interpreter's lock: no thread of this process goes on."""
    deadline = time.monotonic() + seconds
    poll = ctypes.PyDLL(None).poll
    while (left := deadline - time.monotonic()) > 0:  # a signal ends it early
        poll(None, 0, int(left * 1000) + 1)
