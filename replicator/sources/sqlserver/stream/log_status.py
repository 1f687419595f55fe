"""Where the log ends now, whose it is, and what the capture job has made of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from replicator.errors import (
    SourceBusy,
    SourceMisconfigured,
    SourcePermissionDenied,
    SourceReplaced,
    TidemarkError,
)
from replicator.sources.base import SourceLoad
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import binary, literal, quoted
from replicator.sources.sqlserver.edition import is_azure_database
from replicator.sources.sqlserver.offset import CommitPoint, LsnOffset, lsn_text, parse_lsn

CDC_OFF = "Change data capture is off in this database."
_ENABLE = "EXEC sys.sp_cdc_enable_db;"
NOWHERE = bytes(10)
MOST_HOURS, _AT_ONCE = 2000, 500  # local hours whose distance from UTC is kept, and asked for in one query
_LOAD = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id > 50 AND session_id <> @@SPID"
_START = "EXEC sys.sp_cdc_start_job @job_type = N'capture';"
NO_JOB = (
    "This server has no capture job for the database, so nothing fills the change tables. After a failover, create "
    "the jobs on the new primary replica."
)
ADD_JOB = "EXEC sys.sp_cdc_add_job @job_type = N'capture'; EXEC sys.sp_cdc_add_job @job_type = N'cleanup';"
_JOBS = (
    "SELECT (SELECT COUNT(*) FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() AND job_type = N'capture') + "
    "(SELECT COUNT(*) FROM sys.databases WHERE database_id = DB_ID() AND is_published = 1) + "
    "CASE WHEN EXISTS (SELECT 1 FROM cdc.change_tables) THEN 0 ELSE 1 END"
)
_RETENTION = "SELECT retention FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID() AND job_type = N'cleanup'"
_AZURE_RETENTION = "SELECT retention FROM cdc.cdc_jobs WHERE job_type = N'cleanup'"


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A transaction as cdc.lsn_time_mapping has it; `at`: UTC.  Entries without a transaction only move the end."""

    lsn: bytes
    transaction: str
    ended: str
    at: datetime

    @property
    def point(self) -> CommitPoint:
        return CommitPoint(self.lsn, self.transaction, self.ended)


def require_cdc(connection: SqlServerSession) -> None:
    """SourceMisconfigured where change data capture is off."""
    rows = connection.rows(
        "SELECT name, is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID()", connection.where
    )
    if not rows or not rows[0][1]:
        remedy = enable_statement(str(rows[0][0] if rows else ""), azure=is_azure_database(connection))
        raise SourceMisconfigured(f"{connection.where}: {CDC_OFF}", remedy=remedy)


def enable_statement(database: str, *, azure: bool) -> str:
    """SQL that turns change data capture on; Azure SQL Database has no USE."""
    return _ENABLE if azure else f"USE {quoted(database)}; {_ENABLE}"


def captured_end(connection: SqlServerSession) -> bytes:
    """The LSN up to which the capture job has read the log (sys.fn_cdc_get_max_lsn); zero before its first scan."""
    ((found,),) = connection.rows("SELECT sys.fn_cdc_get_max_lsn()", connection.where)
    return NOWHERE if found is None else bytes(found)


def log_end(connection: SqlServerSession) -> bytes:
    """The end of the log itself, beyond every commit until now; the captured one where the account may not see it."""
    captured = captured_end(connection)
    with suppress(TidemarkError, ValueError):
        ((text,),) = connection.rows("SELECT log_end_lsn FROM sys.dm_db_log_stats(DB_ID())", connection.where)
        return max(captured, parse_lsn(str(text)))
    return captured


def identity(connection: SqlServerSession) -> str:
    """The database and its recovery fork: a restore begins another, a failover without loss does not
    (learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-recovery-status-transact-sql).

    Where the view is not shown to the account, and in Azure SQL Database, which has none: the database and when it was
    made; there a restore makes another database.
    """
    rows = _recovery_fork(connection)
    if not rows or rows[0][0] is None:
        rows = connection.rows(
            "SELECT CONVERT(char(36), service_broker_guid), CONVERT(varchar(40), create_date, 121) "
            "FROM sys.databases WHERE database_id = DB_ID()",
            connection.where,
        )
    family, fork = rows[0]
    return f"sqlserver-{family}-{fork}".lower()


def _recovery_fork(connection: SqlServerSession) -> list[tuple[object, ...]]:
    """Return no rows if the account may not see the view.

    Any other error is raised: a transient one must not look like another database.
    """
    if is_azure_database(connection):
        return []
    try:
        return connection.rows(
            "SELECT CONVERT(char(36), family_guid), CONVERT(char(36), recovery_fork_guid) "
            "FROM sys.database_recovery_status WHERE database_id = DB_ID()",
            connection.where,
        )
    except SourcePermissionDenied:
        return []


class ServerZone:
    """The server's time zone, in which times of commits are.

    A server that names its zone (CURRENT_TIMEZONE_ID, from 2022 on, and Azure SQL) is asked how far each hour was from
    UTC; of others the present distance holds for all hours, so a commit from before a change of the clocks is an hour
    wrong.  An hour that the clocks repeat is in standard time
    (learn.microsoft.com/sql/t-sql/queries/at-time-zone-transact-sql).
    """

    def __init__(self, connection: SqlServerSession) -> None:
        self._connection = connection
        self._minutes: dict[str, int] = {}  # by local hour, `2026-10-25 02`
        ((minutes,),) = connection.rows("SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())", connection.where)
        self._present, self._name = int(minutes), ""
        with suppress(TidemarkError):
            ((name,),) = connection.rows("SELECT CURRENT_TIMEZONE_ID()", connection.where)
            self._name = str(name or "")

    def utc(self, texts: Sequence[str]) -> list[datetime]:
        """Of local times as the server prints them."""
        if self._name:
            self._learn({text[:13] for text in texts} - self._minutes.keys())
        return [_moment(text, self._minutes.get(text[:13], self._present)) for text in texts]

    def _learn(self, hours: set[str]) -> None:
        if len(self._minutes) > MOST_HOURS:
            self._minutes.clear()
        asked = sorted(hours)
        for first in range(0, len(asked), _AT_ONCE):
            hour = "(" + "), (".join(literal(f"{one}:00:00") for one in asked[first : first + _AT_ONCE]) + ")"
            rows = self._connection.rows(
                "SELECT h.[hour], DATEPART(TZOFFSET, CONVERT(datetime2(0), h.[hour]) AT TIME ZONE "
                f"{literal(self._name)}) FROM (VALUES {hour}) AS h([hour])",
                self._connection.where,
            )
            self._minutes |= {str(text)[:13]: int(minutes) for text, minutes in rows}


def server_time(connection: SqlServerSession) -> datetime:
    """The server's clock, UTC."""
    ((text,),) = connection.rows("SELECT CONVERT(varchar(40), SYSUTCDATETIME(), 121)", connection.where)
    return _moment(str(text), 0)


def commits_after(
    connection: SqlServerSession, lsn: bytes, end: bytes, most: int, zone: ServerZone
) -> list[LoggedCommit]:
    """Those up to `end`, in log order."""
    rows = connection.rows(
        f"SELECT TOP ({most}) start_lsn, CONVERT(varchar(40), tran_id, 2), CONVERT(varchar(40), tran_end_time, 121) "
        f"FROM cdc.lsn_time_mapping WHERE start_lsn > {binary(lsn)} AND start_lsn <= {binary(end)} ORDER BY start_lsn",
        connection.where,
    )
    times = zone.utc([str(row[2]) for row in rows])
    return [
        LoggedCommit(bytes(row[0]), str(row[1] or ""), str(row[2]), at) for row, at in zip(rows, times, strict=True)
    ]


def check_past(connection: SqlServerSession, offset: LsnOffset) -> None:
    """Is the last commit that was read still the one at its place?  SourceReplaced.

    Where the cleanup job has removed it, purge detection tells the rest.
    """
    point = offset.commit
    if point is not None and not has_commit(connection, point):
        missing = f"does not have the transaction {point.transaction} at {lsn_text(point.lsn)}, which was read from it"
        raise replaced(connection, missing)


def has_commit(connection: SqlServerSession, point: CommitPoint) -> bool:
    """True as well where the cleanup job has removed what is before it, and it."""
    rows = connection.rows(
        "SELECT CONVERT(varchar(40), tran_id, 2), CONVERT(varchar(40), tran_end_time, 121), "
        "(SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn) FROM (SELECT 1 AS one) AS o "
        f"LEFT JOIN cdc.lsn_time_mapping m ON m.start_lsn = {binary(point.lsn)}",
        connection.where,
    )
    transaction, ended, oldest = rows[0]
    if transaction is None and oldest is not None and bytes(oldest) > point.lsn:
        return True
    return (transaction, ended) == (point.transaction, point.ended)


def replaced(connection: SqlServerSession, said: str) -> SourceReplaced:
    """For a log of another past than the one that was read."""
    return SourceReplaced(
        f"The log of {connection.where} {said}. The database was restored from an older backup, or a replica without it"
        " took over."
    )


def load(connection: SqlServerSession) -> SourceLoad:
    """Statements of all sessions that the account may see."""
    with suppress(TidemarkError):
        ((running,),) = connection.rows(_LOAD, connection.where)
        return SourceLoad(int(running))
    return SourceLoad(0)


def stalled(connection: SqlServerSession, seconds: float) -> str:
    """What to say where the capture job does not read the log."""
    if is_azure_database(connection):
        return (
            f"Azure's scheduler has captured nothing of {connection.where} for {seconds:.0f} s, and should every 20 s:"
            " a serverless database is not captured while it is paused. In the database: EXEC sys.sp_cdc_scan;"
        )
    return (
        f"The capture job of {connection.where} has read nothing for {seconds:.0f} s: SQL Server Agent or the job may"
        f" be stopped. In the database: {_START}"
    )


def require_job(connection: SqlServerSession) -> None:
    """SourceBusy where the server has no capture job for the database: after a failover the new primary may have none,
    for jobs lie in msdb, which is each server's own
    (learn.microsoft.com/sql/database-engine/availability-groups/windows/replicate-track-change-data-capture-always-on-availability).
    """
    if has_job(connection) is False:
        raise SourceBusy(f"{connection.where}: {NO_JOB}", remedy=ADD_JOB)


def has_job(connection: SqlServerSession) -> bool | None:
    """Has the server a capture job for the database, or a Log Reader Agent, which captures where it is there?  True as
    well before a table is captured, for the first one makes the jobs (sys-sp-cdc-enable-table-transact-sql).  None
    where the account may not see it, and in Azure SQL Database, whose scheduler goes by no job.
    """
    with suppress(TidemarkError):
        if is_azure_database(connection):
            return None
        ((found,),) = connection.rows(_JOBS, connection.where)
        return bool(found)
    return None


def retention_minutes(connection: SqlServerSession) -> int | None:
    """How long the cleanup job keeps changes; None without such a job.  Raises where the account may not see it."""
    rows = connection.rows(_AZURE_RETENTION if is_azure_database(connection) else _RETENTION, connection.where)
    return int(rows[0][0] or 0) if rows else None


def _moment(text: str, offset_minutes: int) -> datetime:
    found = datetime.fromisoformat(text[:26])
    return (found - timedelta(minutes=offset_minutes)).replace(tzinfo=UTC)
