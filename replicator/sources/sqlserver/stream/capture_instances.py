"""Capture instances: which change table has a table's changes, made where one is missing, dropped when another has
taken over.

A table has two at most.  Those that Tidemark makes are called `tidemark_…`; all others are the user's, and are left as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicator.errors import SourcePermissionDenied, TableBusy, TableDisappeared, TableError
from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.catalog.table_description import CaptureInstance, TableDescription
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import literal, quoted, table_name

OWN = "tidemark_"
MOST = 2


def is_ours(instance: CaptureInstance) -> bool:
    """Was it made by Tidemark?"""
    return instance.name.startswith(OWN)


def enable_statement(table: TableId, name: str, columns: Sequence[str] = (), *, partitioned: bool = False) -> str:
    """SQL that makes an instance; also the remedy that the user can paste.

    Without partition switching: the log would not show what it moves
    (learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql).
    """
    listed = f", @captured_column_list = {literal(', '.join(map(quoted, columns)))}" if columns else ""
    switch = ", @allow_partition_switch = 0" if partitioned else ""
    return (
        f"EXEC sys.sp_cdc_enable_table @source_schema = {literal(table.database)}, @source_name = "
        f"{literal(table.name)}, @role_name = NULL, @capture_instance = {literal(name)}, "
        f"@supports_net_changes = 0{listed}{switch}"
    )


def disable_statement(table: TableId, name: str) -> str:
    """SQL that drops an instance."""
    return (
        f"EXEC sys.sp_cdc_disable_table @source_schema = {literal(table.database)}, @source_name = "
        f"{literal(table.name)}, @capture_instance = {literal(name)}"
    )


def enable(connection: SqlServerSession, described: TableDescription) -> str:
    """Make an instance with all columns; its name.

    TableBusy while the table is locked; TableDisappeared where it went since it was described; TableError otherwise.
    """
    table = described.schema.table
    if len(described.instances) >= MOST:
        raise both_taken(described)
    taken = {one.name for one in described.instances}
    name = next(f"{OWN}{described.number}_{at}" for at in (1, 2, 3) if f"{OWN}{described.number}_{at}" not in taken)
    statement = enable_statement(
        table, name, [one.name for one in described.columns], partitioned=described.partitioned
    )
    try:
        connection.run(statement, table)
    except (TableBusy, TableDisappeared):
        raise
    except TableError as error:
        require_there(connection, described)
        message = f"{table} is not captured, and Tidemark cannot change that: {error.message}"
        raise TableError(message, table=str(table), remedy=f"{statement};") from None
    return name


def require_there(connection: SqlServerSession, described: TableDescription) -> None:
    """Raise TableDisappeared if the described table is no longer there, or has another name."""
    table = described.schema.table
    if not connection.rows(f"SELECT 1 WHERE OBJECT_ID({literal(table_name(table))}) = {described.number}", table):
        raise TableDisappeared(f"{table} no longer exists.", table=str(table))


def both_taken(described: TableDescription) -> TableError:
    """For a table whose columns want another instance, and that has two."""
    table, oldest = described.schema.table, described.instances[0]
    message = (
        f"{table} has columns that none of its two capture instances has"
        f" ({', '.join(described.missing)}), and SQL Server allows no third."
    )
    return TableError(message, table=str(table), remedy=f"{disable_statement(table, oldest.name)};")


def disable(connection: SqlServerSession, table: TableId, name: str) -> None:
    """Drop an instance; one that is not there, or may not be dropped now, is left for another time."""
    try:
        connection.run(disable_statement(table, name), table)
    except (TableError, SourcePermissionDenied):
        return
