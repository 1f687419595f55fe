"""What Change Tracking says of a database and a table, and the SQL that enables it
(learn.microsoft.com/sql/relational-databases/track-changes/about-change-tracking-sql-server).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from replicator.errors import SourceMisconfigured, SourcePermissionDenied, TableBusy, TableDisappeared, TableError
from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import literal, quoted, table_name
from replicator.sources.sqlserver.stream.capture_instances import require_there
from replicator.sources.sqlserver.watermark import MAX_TOKEN, check_mark, create_statements

OFF = "Change Tracking is off in this database."
ENABLE = "ALTER DATABASE {database} SET CHANGE_TRACKING = ON (CHANGE_RETENTION = 7 DAYS, AUTO_CLEANUP = ON);"
NO_SNAPSHOT = "Change Tracking is read under SNAPSHOT isolation, which this database does not allow."
ALLOW = "ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON;"
MARKS = "tracked_watermark"  # a row for each mark: of a row that is written twice, only the last state is reported
_STATE = (
    "SELECT d.name, d.snapshot_isolation_state, (SELECT COUNT(*) FROM sys.change_tracking_databases c "
    "WHERE c.database_id = d.database_id) FROM sys.databases d WHERE d.database_id = DB_ID()"
)
_VERSION = "SELECT CHANGE_TRACKING_CURRENT_VERSION(), CONVERT(varchar(40), SYSUTCDATETIME(), 121)"
_FORGOTTEN_AT_ONCE = 100


def require_tracking(connection: SqlServerSession) -> None:
    """SourceMisconfigured where Change Tracking is off, or cannot be read as of one moment."""
    ((name, snapshot, tracked),) = connection.rows(_STATE, connection.where)
    database = quoted(str(name))
    if not tracked:
        raise SourceMisconfigured(f"{connection.where}: {OFF}", remedy=ENABLE.format(database=database))
    if not snapshot:
        raise SourceMisconfigured(f"{connection.where}: {NO_SNAPSHOT}", remedy=ALLOW.format(database=database))


def newest_version(connection: SqlServerSession) -> tuple[int, datetime]:
    """Of the last committed transaction that the connection sees, and the server's clock, UTC.

    SourceMisconfigured where Change Tracking is off.
    """
    ((version, at),) = connection.rows(_VERSION, connection.where)
    if version is None:
        require_tracking(connection)
        raise SourceMisconfigured(f"{connection.where}: {OFF}")
    return int(version), datetime.fromisoformat(str(at)[:26]).replace(tzinfo=UTC)


def changes(table: TableId, since: int) -> str:
    """What changed after this version, as a table `ct` in SQL."""
    return f"CHANGETABLE(CHANGES {table_name(table)}, {since}) AS ct"


def enable_statement(table: TableId) -> str:
    """SQL that has a table tracked; also the remedy that the user can paste."""
    return f"ALTER TABLE {table_name(table)} ENABLE CHANGE_TRACKING"


def enabled(connection: SqlServerSession, found: TableDescription) -> TableDescription:
    """The same, tracked from now on if it was not.  TableBusy while it is locked; TableDisappeared; TableError."""
    table = found.schema.table
    if found.since is not None:
        return found
    try:
        connection.run(enable_statement(table), table)
        rows = connection.rows(
            f"SELECT begin_version FROM sys.change_tracking_tables WHERE object_id = {found.number}", table
        )
    except (TableBusy, TableDisappeared):
        raise
    except (TableError, SourcePermissionDenied) as error:
        require_there(connection, found)
        if isinstance(error, SourcePermissionDenied):
            raise
        message = f"{table} is not tracked, and Tidemark cannot change that: {error.message}"
        raise TableError(message, table=str(table), remedy=f"{enable_statement(table)};") from None
    if not rows:
        raise TableDisappeared(f"{table} no longer exists.", table=str(table))
    return replace(found, since=int(rows[0][0])).under(None)


# Marks


def marks_table(schema: str) -> TableId:
    """Where marks are written."""
    return TableId(schema, MARKS)


def marks_statements(schema: str) -> tuple[str, ...]:
    """SQL that makes schema and table where they are missing."""
    return create_statements(schema, MARKS, "replicator, token")


def write_mark(connection: SqlServerSession, schema: str, replicator: str, token: str) -> None:
    """Returns when the mark is committed."""
    check_mark(replicator, token)
    name = table_name(marks_table(schema))
    connection.run(
        f"UPDATE {name} SET token = token WHERE {_mark(replicator, [token])}; IF @@ROWCOUNT = 0 INSERT INTO {name} "
        f"(replicator, token) VALUES ({literal(replicator)}, {literal(token)})",
        connection.where,
    )


def forget_marks(connection: SqlServerSession, schema: str, replicator: str, tokens: list[str]) -> None:
    """Those that will not be read again."""
    for first in range(0, len(tokens), _FORGOTTEN_AT_ONCE):
        some = tokens[first : first + _FORGOTTEN_AT_ONCE]
        connection.run(
            f"DELETE FROM {table_name(marks_table(schema))} WHERE {_mark(replicator, some)}", connection.where
        )


def _mark(replicator: str, tokens: list[str]) -> str:
    listed = ", ".join(literal(one[:MAX_TOKEN]) for one in tokens)
    return f"replicator = {literal(replicator)} AND token IN ({listed})"
