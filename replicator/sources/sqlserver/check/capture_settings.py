"""Checks of change data capture: the database, the jobs, how long changes are kept."""

from __future__ import annotations

from datetime import UTC, datetime

from replicator.errors import TidemarkError
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning
from replicator.sources.sqlserver.check.server_info import Server
from replicator.sources.sqlserver.config import Capture
from replicator.sources.sqlserver.dialect import quoted
from replicator.sources.sqlserver.edition import AZURE_MANAGED
from replicator.sources.sqlserver.names import names_of
from replicator.sources.sqlserver.stream import log_status
from replicator.sources.sqlserver.tracking import change_tracking

DAY = 24 * 60
_MAX_SKEW = 5.0
_LEAST = 13
_TIMES = {13: "2016", 14: "2017", 15: "2019", 16: "2022", 17: "2025"}
_START = "EXEC sys.sp_cdc_start_job @job_type = N'capture';"


def version(server: Server) -> CheckFinding:
    """Older versions lack what is read here: __$command_id, printed digits of float."""
    text = f"{server.version}, {server.edition}"
    if server.azure or server.engine == AZURE_MANAGED:
        return ok(f"Azure SQL: {text}.")
    if server.major < _LEAST:
        return failed(f"SQL Server {text} is too old.", "Use SQL Server 2016 SP1 or later.")
    if "Express" in str(server.edition) and server.config.capture is Capture.CDC:
        return failed(
            f"{text} has no change data capture.",
            "Use the Standard, Enterprise or Developer edition, or choose Change Tracking in the connection.",
        )
    name = _TIMES.get(server.major, "")
    known = f"SQL Server {name} ({text})"
    return ok(f"{known}.") if name else warning(f"{known} is newer than the versions that Tidemark is written for.")


def writable(server: Server) -> CheckFinding:
    """Marks are written into the database."""
    if not server.read_only:
        return ok("The database takes writes.")
    return failed(
        f"{server.database} is read-only: a secondary replica, perhaps.",
        "Connect to the primary replica, or to the availability group's listener without ApplicationIntent=ReadOnly.",
    )


def change_data_capture(server: Server) -> CheckFinding:
    """Without it there is nothing to follow."""
    if server.captured:
        return ok(f"Change data capture is on in {server.database}.")
    return failed(log_status.CDC_OFF, log_status.enable_statement(server.database, azure=server.azure))


def capture_job(server: Server) -> CheckFinding:
    """Changes reach the change tables only while it runs."""
    if not server.captured:
        return failed(log_status.CDC_OFF, log_status.enable_statement(server.database, azure=server.azure))
    if server.azure:
        return ok("Azure SQL Database runs the capture itself.")
    if log_status.has_job(server.connection) is False:
        return failed(log_status.NO_JOB, log_status.ADD_JOB)
    try:
        rows = server.rows(
            "SELECT servicename, status_desc FROM sys.dm_server_services WHERE servicename LIKE N'SQL Server Agent%'"
        )
    except TidemarkError:
        return warning(
            "Whether SQL Server Agent runs is not shown to the user.",
            f"GRANT VIEW SERVER STATE TO {server.user}; -- or look yourself: the capture job needs the agent",
        )
    if not rows:
        return warning("SQL Server Agent is not among the server's services.", f"Look whether it runs: {_START}")
    stopped = [str(row[1]).lower() for row in rows if str(row[1]).lower() != "running"]
    return (
        failed(
            f"SQL Server Agent is {stopped[0]}: nothing fills the change tables.",
            f"Start the service SQL Server Agent, then in the database: {_START}",
        )
        if stopped
        else ok("SQL Server Agent is running.")
    )


def retention(server: Server) -> CheckFinding:
    """Check how long Tidemark may be stopped before the changes that it needs are gone."""
    try:
        minutes = log_status.retention_minutes(server.connection)
    except TidemarkError:
        look = "SELECT * FROM cdc.cdc_jobs;" if server.azure else "EXEC sys.sp_cdc_help_jobs;"
        return warning("How long changes are kept is not shown to the user.", look)
    if minutes is None:
        return warning(
            "There is no cleanup job: change tables grow without limit.",
            "EXEC sys.sp_cdc_add_job @job_type = N'cleanup';",
        )
    longer = "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 4320; -- minutes"
    return kept(minutes, longer)


def kept(minutes: int, longer: str) -> CheckFinding:
    """`longer`: SQL that has changes kept for longer."""
    if minutes < DAY:
        return warning(f"Changes are kept for only {minutes / 60:.1f} hours.", longer)
    return ok(f"Changes are kept for {minutes / DAY:.1f} days.")


def isolation(server: Server) -> CheckFinding:
    """Tables without key are read in one view where that is allowed; Change Tracking is read in no other way."""
    if server.snapshot:
        return ok("SNAPSHOT isolation is allowed.")
    allow = change_tracking.ALLOW.format(database=quoted(server.database))
    if server.config.capture is Capture.TRACKING:
        return failed(change_tracking.NO_SNAPSHOT, allow)
    return warning(
        "SNAPSHOT isolation is not allowed: a table without a key can be read only while no transaction writes to it.",
        allow,
    )


def names(server: Server) -> CheckFinding:
    """Which names mean the same table."""
    if names_of(server.connection).folds:
        return ok(f"{server.collation}: dbo.Orders and dbo.orders are one table, shown in lower case.")
    return ok(f"{server.collation}: dbo.Orders and dbo.orders are two tables.")


def clock(server: Server) -> CheckFinding:
    """Lag is the difference of two clocks."""
    before = datetime.now(UTC)
    source = log_status.server_time(server.connection)
    skew = (source - (before + (datetime.now(UTC) - before) / 2)).total_seconds()
    if abs(skew) <= _MAX_SKEW:
        return ok(f"The source's clock differs from ours by {abs(skew):.1f} s.")
    side = "ahead of" if skew > 0 else "behind"
    return warning(
        f"The source's clock is {abs(skew):.1f} s {side} ours, so lag is shown incorrectly.", "Synchronise both by NTP."
    )
