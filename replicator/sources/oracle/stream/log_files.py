"""The files of the redo log that have a range of SCNs: online ones and archived ones, of each thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from replicator.errors import LogPurged
from replicator.sources.oracle.connection import Connection, read_rows

_ONLINE = (
    "SELECT l.thread#, l.sequence#, l.first_change#, l.next_change#, MIN(f.member), MAX(l.bytes), MAX(l.status)"
    " FROM v$log l JOIN v$logfile f ON f.group# = l.group# WHERE l.status <> 'UNUSED'"
    " GROUP BY l.thread#, l.sequence#, l.first_change#, l.next_change#"
)
_ARCHIVED = (
    "SELECT thread#, sequence#, first_change#, next_change#, MIN(name), MAX(blocks * block_size), 'ARCHIVED'"
    " FROM v$archived_log WHERE name IS NOT NULL AND deleted = 'NO' AND archived = 'YES' AND standby_dest = 'NO'"
    " AND next_change# > {low} AND resetlogs_change# = {incarnation}"
    " GROUP BY thread#, sequence#, first_change#, next_change#"
)
_FIRST = (  # deleted ones are listed, too, for as long as the control file knows of them
    "SELECT MIN(sequence#) FROM v$archived_log WHERE thread# = {thread} AND next_change# > {low}"
    " AND resetlogs_change# = {incarnation}"
)
_THREADS = (
    "SELECT thread#, last_redo_change#, last_redo_sequence#, last_redo_block FROM v$thread WHERE status = 'OPEN'"
    " ORDER BY 1"
)
_ENABLED = "SELECT thread# FROM v$thread WHERE enabled <> 'DISABLED'"
_OWN_THREAD = "SELECT thread# FROM v$instance"


class LogFile(NamedTuple):
    """One file: SCNs from `first` to below `next`."""

    thread: int
    sequence: int
    first: int
    next: int
    name: str
    bytes: int
    status: str


class LogRange(NamedTuple):
    """The files that have the SCNs from `low` to `end`."""

    files: tuple[LogFile, ...]
    low: int
    end: int


def log_range(
    connection: Connection, low: int, end: int, where: str, incarnation: int, *, archived: bool, ended: bool = False
) -> LogRange | None:
    """Of all threads; None: there is nothing to read yet.  LogPurged where a file is gone.

    incarnation: its RESETLOGS_CHANGE#; ended: it is an earlier one, whose threads write nothing more; archived: of
    archived files only, `end` being no later than what all threads have archived: each that is enabled may have commits
    in a log that is not archived yet.
    """
    by_thread: dict[int, dict[int, LogFile]] = defaultdict(dict)
    listed = [] if archived else [LogFile(*row) for row in read_rows(connection, _ONLINE, where)]
    # After the online ones: a log that was archived meanwhile is there twice, and the file that stays is taken.
    sql = _ARCHIVED.format(low=low, incarnation=incarnation)
    listed += [LogFile(*row) for row in read_rows(connection, sql, where)]
    for one in listed:
        by_thread[int(one.thread)][int(one.sequence)] = one
    files: list[LogFile] = []
    for found in by_thread.values():
        ordered = [found[sequence] for sequence in sorted(found)]
        if archived:
            end = min(end, int(ordered[-1].next) - 1)
        if _begins_late(ordered, low):
            last, thread = int(ordered[0].sequence) - 1, int(ordered[0].thread)
            sql = _FIRST.format(thread=thread, low=low, incarnation=incarnation)
            raise _purged(where, low, last, thread, first=int(read_rows(connection, sql, where)[0][0] or last))
        files += _contiguous(ordered, low, where)
    if archived and not ended and not {int(row[0]) for row in read_rows(connection, _ENABLED, where)} <= set(by_thread):
        return None
    if end < low:
        return None
    if not files:
        if archived:
            return None
        raise _purged(where, low, 0)
    if int(min(one.first for one in files)) > low:
        raise _purged(where, low, 0)
    return LogRange(tuple(one for one in files if int(one.first) <= end), low, end)


def _begins_late(ordered: Sequence[LogFile], low: int) -> bool:
    """Is the log that has `low` gone, of one thread?"""
    needed = next((one for one in ordered if int(one.next) > low), None)
    return needed is not None and int(needed.first) > low and int(needed.sequence) > 1


def _contiguous(ordered: Sequence[LogFile], low: int, where: str) -> list[LogFile]:
    """Those from `low` on, of one thread."""
    needed = [one for one in ordered if int(one.next) > low]
    for one, following in pairwise(needed):
        if int(following.sequence) != int(one.sequence) + 1:
            last = int(following.sequence) - 1
            raise _purged(where, low, last, int(one.thread), first=int(one.sequence) + 1)
    return needed


def _purged(where: str, low: int, sequence: int, thread: int = 1, *, first: int = 2**62) -> LogPurged:
    """sequence: the last one that is missing, 0: which is not known; first: of several."""
    lost = f"the archived log of thread {thread}, sequence {sequence}, is gone" if sequence else "no log file has it"
    message = f"{where}: the redo log from SCN {low} on cannot be read: {lost}."
    missing = f"SEQUENCE {sequence} THREAD {thread}" if sequence else f"FROM SCN {low}"
    if first < sequence:
        missing = f"FROM SEQUENCE {first} UNTIL {missing}"
    remedy = f"RMAN> RESTORE ARCHIVELOG {missing}; -- and resume the replicator; or restart it from scratch"
    return LogPurged(message, remedy=remedy)


def log_ends(connection: Connection, where: str) -> list[tuple[Any, ...]]:
    """(thread, SCN, log sequence, block) up to which each log writer has written; equal ones: no commit between."""
    return read_rows(connection, _THREADS, where)


def written_by_all(connection: Connection, threads: Sequence[tuple[Any, ...]], end: int, where: str) -> int:
    """The SCN up to which the log writers of other instances (RAC) have written, by `log_ends`; `end` at most."""
    if len(threads) <= 1:
        return end
    own = int(read_rows(connection, _OWN_THREAD, where)[0][0])
    return min([end, *(int(scn) for thread, scn, *_ in threads if int(thread) != own)])


def kept_bytes(connection: Connection, low: int, where: str) -> int:
    """Of the files from an SCN on.  LogPurged."""
    opened = int(read_rows(connection, "SELECT resetlogs_change# FROM v$database", where)[0][0] or 0)
    found = log_range(connection, max(low, opened), 2**62, where, opened, archived=False)
    return sum(int(one.bytes or 0) for one in found.files) if found else 0
