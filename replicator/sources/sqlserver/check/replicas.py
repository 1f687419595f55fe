"""The check of the secondary replica that change tables are read from."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

from replicator.errors import SourceAuthenticationFailed, TidemarkError
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning
from replicator.sources.sqlserver import availability
from replicator.sources.sqlserver.check.server_info import Server
from replicator.sources.sqlserver.config import ReadFrom
from replicator.sources.sqlserver.connection import SqlServerSession, connect
from replicator.sources.sqlserver.stream import log_status

_MAX_BEHIND = 60.0  # seconds
_NEWEST = "SELECT CONVERT(varchar(40), MAX(tran_end_time), 121) FROM cdc.lsn_time_mapping"
_LOGIN = (
    "Logins are each server's own. On the secondary, with the SID that sys.server_principals of the primary shows: "
    "CREATE LOGIN [tidemark] WITH PASSWORD = '…', SID = 0x…;"
)
_ROUTE = (
    "Configure read-only routing (READ_ONLY_ROUTING_URL, READ_ONLY_ROUTING_LIST) in the availability group, or enter "
    "the secondary's own host in the connection."
)


def read_replica(server: Server) -> CheckFinding:
    """Is it there, is it a secondary of this very database, does it keep up?"""
    if server.config.read_from is ReadFrom.PRIMARY:
        return ok("Change tables are read from the primary replica.")
    config = server.config.of_reading
    try:
        with closing(connect(config)) as reading:
            return _keeps_up(server, reading)
    except SourceAuthenticationFailed as error:
        return failed(error.message, _LOGIN)
    except TidemarkError as error:
        return failed(error.message, error.remedy)


def _keeps_up(server: Server, reading: SqlServerSession) -> CheckFinding:
    if not availability.is_secondary(reading):
        return warning(f"{reading.where} is the primary replica: change tables are read from it.", _ROUTE)
    if log_status.identity(reading) != log_status.identity(server.connection):
        said = f"{reading.where} is another database than that of the primary replica."
        return failed(said, "Correct the host of the secondary.")
    if why := availability.standing_still(reading):
        return failed(f"{reading.where} does not keep up: {why}.", availability.resume(server.database))
    behind = _seconds_behind(server.connection, reading)
    said = f"{reading.where} is a secondary replica, {behind:.1f} s behind the primary replica"
    if behind > _MAX_BEHIND:
        return warning(
            f"{said}: rows come later by that.", "Look at redo_queue_size in sys.dm_hadr_database_replica_states."
        )
    return ok(f"{said}.")


def _seconds_behind(primary: SqlServerSession, reading: SqlServerSession) -> float:
    """Between the newest transactions that each has captured."""
    ((redone,),), ((captured,),) = (one.rows(_NEWEST, one.where) for one in (reading, primary))
    if redone is None or captured is None:
        return 0.0
    return max(0.0, (datetime.fromisoformat(captured[:26]) - datetime.fromisoformat(redone[:26])).total_seconds())
