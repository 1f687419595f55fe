"""Where a server's log can be continued from: never with a gap, never on another server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replicator.errors import LogPurged, LogUnreadable, SourceReplaced
from replicator.sources.mysql.connection import Connection, literal, server_is_mariadb, translated
from replicator.sources.mysql.offset import BinlogOffset, GtidSet, Past
from replicator.sources.mysql.wire.events import MAGIC

_MAX_POSITION = 2**32 - 1  # the dump command's


class LogStart(NamedTuple):
    """By GTID where `gtid` is set, else by file and position.

    `past`: what is to be held against the server's log, where that is there.
    """

    file: str
    position: int
    gtid: str
    mariadb: bool
    past: Past | None


def find_start(connection: Connection, start: BinlogOffset) -> LogStart:
    """How to continue at `start`.

    LogPurged where something after it is gone, SourceReplaced where it never was there.
    """
    mariadb, sizes = server_is_mariadb(connection), _log_files(connection)
    past = start.past if start.past is not None and start.past.file in sizes else None
    by_gtid = bool(start.gtid) and (mariadb or _value(connection, "@@gtid_mode") == "ON")
    if start.position > sizes.get(start.file, start.position):
        message = (
            f"The source's log file {start.file} ends before the captured position {start.position}. It is another"
            " server, an older copy, or it lost its last transactions in a crash."
        )
        raise SourceReplaced(message)
    if by_gtid:
        check = _check_domains if mariadb else _check_gtids
        check(connection, start, sizes)
        if mariadb or not GtidSet.parse(start.gtid).tagged:  # the library cannot encode those
            return LogStart(start.file, start.position, start.gtid, mariadb, past)
    _check_file(start, sizes)
    return LogStart(start.file, start.position, "", mariadb, past)


def unread(connection: Connection, start: BinlogOffset) -> int:
    """Bytes of the log from `start` on.

    Raises as `find_start` does; LogPurged too where only the server would say so.
    """
    find_start(connection, start)
    sizes = _log_files(connection)
    if start.file not in sizes:
        raise LogPurged(f"The source no longer has its log file {start.file}.")
    later = (size for file, size in sizes.items() if BinlogOffset(file, 0).sequence > start.sequence)
    return max(0, sizes[start.file] - start.position) + sum(later)


def _value(connection: Connection, expression: str) -> str:
    with translated("The source"), connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression}")
        value = (cursor.fetchone() or (None,))[0]
        return "" if value is None else str(value)


def _check_gtids(connection: Connection, start: BinlogOffset, sizes: Mapping[str, int]) -> None:
    """Of MySQL.

    A file is deleted with all that it says, so that what was read up to one that is gone must be gone as well.
    """
    gtid = literal(start.gtid)
    if _value(connection, f"GTID_SUBSET({gtid}, @@gtid_executed)") != "1":
        raise SourceReplaced(
            "The source has not executed the transactions that were read before. It is another server, or an older"
            " copy."
        )
    if _value(connection, f"GTID_SUBSET(@@gtid_purged, {gtid})") != "1":
        raise LogPurged("The source has purged transactions that were not read yet.")
    if start.file not in sizes and _value(connection, f"GTID_SUBSET({gtid}, @@gtid_purged)") != "1":
        raise _elsewhere(start)


def _check_domains(connection: Connection, start: BinlogOffset, sizes: Mapping[str, int]) -> None:
    """Of MariaDB, whose GTIDs are numbers that a restored server gives again: at our place it must say the same.

    Where our file is gone, that place can only be where the first one that is left begins.  The server itself says
    whether it has the GTID at all, and the log after it.  A domain that it has no more was deleted (FLUSH BINARY LOGS
    DELETE_DOMAIN_ID) where the file turns out to be the one that was read.
    """
    file, position = start.file, start.position
    if file not in sizes:
        file, position = next(iter(sizes)), len(MAGIC)
    if position > _MAX_POSITION:
        return
    at = _value(connection, f"BINLOG_GTID_POS({literal(file)}, {position})")
    there, read = _domains(at), _domains(start.gtid)
    known = start.past is not None and start.past.file in sizes
    if there == read or (known and there and there.items() <= read.items()):
        return
    if start.file in sizes:
        message = (
            f"The source's log is at {at or 'no GTID'} in {start}, where it was at {start.gtid}. The log was rewritten."
        )
        raise SourceReplaced(message)
    if any(number > read.get(domain, ("", 0))[1] for domain, (_, number) in there.items()):
        raise LogPurged("The source has purged transactions that were not read yet.")
    raise _elsewhere(start)


def _domains(gtids: str) -> dict[str, tuple[str, int]]:
    """Domain → server and number."""
    parts = (gtid.split("-") for gtid in gtids.split(",") if gtid)
    return {domain: (server, int(number)) for domain, server, number in parts}


def _elsewhere(start: BinlogOffset) -> SourceReplaced:
    return SourceReplaced(
        f"The source no longer has its log file {start.file}, but transactions that were read there are in files that"
        " it still has: it was restored from a copy, or its log was reset."
    )


def _log_files(connection: Connection) -> dict[str, int]:
    """Name → size in bytes, from the first to the present one."""
    with translated("The source"), connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return {str(row[0]): int(row[1]) for row in cursor.fetchall()}


def _check_file(start: BinlogOffset, sizes: Mapping[str, int]) -> None:
    if start.file not in sizes:
        if any(BinlogOffset(file, 0).sequence > start.sequence for file in sizes):
            raise LogPurged(f"The source no longer has its log file {start.file}.")
        raise SourceReplaced(f"The source has no log file {start.file}: it is another server, or its log was reset.")
    if start.position > _MAX_POSITION:
        raise LogUnreadable(f"{start} is beyond 4 GiB: without GTIDs reading cannot resume there.")
