"""Availability groups: which replica answers, how a secondary keeps up, and why a login to a database was refused
(learn.microsoft.com/sql/database-engine/availability-groups/windows/active-secondaries-readable-secondary-replicas-always-on-availability-groups).
"""

from __future__ import annotations

from contextlib import suppress

from replicator.errors import SourceUnreachable, TidemarkError
from replicator.sources.sqlserver.connection import TO_PRIMARY, SqlServerSession
from replicator.sources.sqlserver.dialect import quoted

_READ_ONLY = "SELECT CONVERT(nvarchar(40), DATABASEPROPERTYEX(DB_NAME(), 'Updateability'))"
_STATE = (
    "SELECT is_suspended, synchronization_state_desc, suspend_reason_desc FROM sys.dm_hadr_database_replica_states "
    "WHERE is_local = 1 AND database_id = DB_ID()"
)


def is_secondary(connection: SqlServerSession) -> bool:
    """Is the session on a replica that takes no writes?"""
    ((updateability,),) = connection.rows(_READ_ONLY, connection.where)
    return bool(updateability == "READ_ONLY")


def require_primary(connection: SqlServerSession) -> None:
    """SourceUnreachable: after a failover another replica answers at the address, or will."""
    if is_secondary(connection):
        said = f"{connection.where} is a secondary replica, where Tidemark cannot write its marks."
        raise SourceUnreachable(said, remedy=TO_PRIMARY)


def resume(database: str) -> str:
    """SQL for the secondary."""
    return f"ALTER DATABASE {quoted(database)} SET HADR RESUME; -- on the secondary replica"


def standing_still(connection: SqlServerSession) -> str:
    """Why the secondary that the session is on gets or redoes no log; empty where it does, or nothing is shown of it
    (VIEW SERVER STATE).
    """
    with suppress(TidemarkError):
        for suspended, state, reason in connection.rows(_STATE, connection.where):
            if suspended:
                return f"its data movement is suspended ({reason or state})"
            if "NOT" in str(state).upper():
                return f"it is {str(state).lower()}"
    return ""
