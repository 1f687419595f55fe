"""Where a server's log can be continued from: never with a gap, never on another server."""

from __future__ import annotations

from typing import NamedTuple

from replicator.errors import LogPurged, SourceError, SourceReplaced
from replicator.sources.mysql.connection import Connection, literal, server_is_mariadb, translated
from replicator.sources.mysql.offset import BinlogOffset, GtidSet

_MAX_POSITION = 2**32 - 1  # the dump command's


class LogStart(NamedTuple):
    """By GTID where `gtid` is set, else by file and position."""

    file: str
    position: int
    gtid: str
    mariadb: bool


def find_start(connection: Connection, start: BinlogOffset) -> LogStart:
    """How to continue at `start`.  LogPurged where something after it is gone, SourceReplaced where it never was there."""
    mariadb = server_is_mariadb(connection)
    if mariadb and start.gtid:
        _check_history(connection, start)
        return LogStart(start.file, start.position, start.gtid, mariadb)
    if not mariadb and start.gtid and _value(connection, "@@gtid_mode") == "ON":
        _check_gtids(connection, start.gtid)
        if not GtidSet.parse(start.gtid).tagged:  # the library cannot encode those
            return LogStart(start.file, start.position, start.gtid, mariadb)
    _check_file(connection, start)
    return LogStart(start.file, start.position, "", mariadb)


def unread(connection: Connection, start: BinlogOffset) -> int:
    """Bytes of the log from `start` on.  Raises as `find_start` does; LogPurged too where only the server would say so."""
    find_start(connection, start)
    sizes = _log_files(connection)
    if start.file not in sizes:
        raise LogPurged(f"The source no longer has its log file {start.file}.")
    later = (size for file, size in sizes.items() if BinlogOffset(file, 0).sequence > start.sequence)
    return max(0, sizes[start.file] - start.position) + sum(later)


def _value(connection: Connection, expression: str) -> str:
    with translated("The source"), connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression}")
        return str((cursor.fetchone() or ("",))[0])


def _check_gtids(connection: Connection, gtid: str) -> None:
    if _value(connection, f"GTID_SUBSET({literal(gtid)}, @@gtid_executed)") != "1":
        raise SourceReplaced(
            "The source has not executed the transactions that were read before: it is another server."
        )
    if _value(connection, f"GTID_SUBSET(@@gtid_purged, {literal(gtid)})") != "1":
        raise LogPurged("The source has purged transactions that were not read yet.")


def _check_history(connection: Connection, start: BinlogOffset) -> None:
    """MariaDB's GTIDs are numbers that a restored server gives again: where our file is still there, it must say the same.

    The server itself says whether it has the GTID at all, and the log after it.
    """
    if start.position > _MAX_POSITION or start.file not in _log_files(connection):
        return
    at = _value(connection, f"BINLOG_GTID_POS({literal(start.file)}, {start.position})")
    if set(at.split(",")) != set(start.gtid.split(",")):
        message = (
            f"The source's log is at {at or 'no GTID'} in {start}, where it was at {start.gtid}: it was written anew."
        )
        raise SourceReplaced(message)


def _log_files(connection: Connection) -> dict[str, int]:
    """Name → size in bytes."""
    with translated("The source"), connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return {str(row[0]): int(row[1]) for row in cursor.fetchall()}


def _check_file(connection: Connection, start: BinlogOffset) -> None:
    sizes = _log_files(connection)
    if start.file not in sizes:
        if any(BinlogOffset(file, 0).sequence > start.sequence for file in sizes):
            raise LogPurged(f"The source no longer has its log file {start.file}.")
        raise SourceReplaced(f"The source has no log file {start.file}: it is another server, or its log was reset.")
    if start.position > sizes[start.file]:
        raise SourceReplaced(f"The source's log file {start.file} ends before {start.position}: it is another server.")
    if start.position > _MAX_POSITION:
        raise SourceError(f"{start} is beyond 4 GiB: without GTIDs reading cannot resume there.")
