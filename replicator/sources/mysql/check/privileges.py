"""Checks of what the account may do, and of what the selected tables bring with them."""

from __future__ import annotations

import re

from replicator.errors import SourceMisconfigured, SourcePermissionDenied, TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.check.server_info import Server
from replicator.sources.mysql.connection import READ_ONLY_REMEDY, quoted
from replicator.sources.mysql.stream.log_status import log_end
from replicator.sources.mysql.watermark import WatermarkTable, create_statements
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning, without_tables

_PROBE_REPLICATOR = "connection-test"
_MAX_TABLES = 500
_SHOWN = 5
_CASCADES = "'CASCADE', 'SET NULL', 'SET DEFAULT'"
_ON_ALL = re.compile(r"^GRANT (.*?) ON \*\.\* TO ", re.IGNORECASE)


def replication_slave(server: Server) -> CheckFinding:
    """COM_BINLOG_DUMP needs it."""
    privileges: set[str] = set()
    for grant in server.grants():
        if match := _ON_ALL.match(grant):
            privileges |= {privilege.strip().upper() for privilege in match[1].split(",")}
    if privileges & {"ALL PRIVILEGES", "REPLICATION SLAVE", "REPLICATION REPLICA"}:
        return ok("The user may read the log.")
    return failed(
        "The user lacks the privilege to read the log.", f"GRANT REPLICATION SLAVE ON *.* TO {server.account};"
    )


def replication_client(server: Server) -> CheckFinding:
    """Asking for the log's end needs it."""
    try:
        file, position, _ = log_end(server.connection, server.where)
    except SourcePermissionDenied:
        name = "BINLOG MONITOR" if server.mariadb else "REPLICATION CLIENT"
        return failed(
            "The user lacks the privilege to read the log position.", f"GRANT {name} ON *.* TO {server.account};"
        )
    except SourceMisconfigured as error:
        return failed(error.message, error.remedy)
    return ok(f"The log ends at {file}:{position}.")


def select(server: Server, tables: TableSet | None) -> CheckFinding:
    """Reads no row of each selected table."""
    if tables is None:
        return without_tables()
    selected = _selected(server, tables)
    existing = set(selected)
    missing = sorted(str(table) for table in tables.tables - existing if table in tables)
    denied = [table for table in selected[:_MAX_TABLES] if not _readable(server, table)]
    if denied or missing:
        wanted = [*denied, *(t for t in sorted(tables.tables) if str(t) in missing)]
        grants = [
            f"GRANT SELECT ON {quoted(t.database)}.{quoted(t.name)} TO {server.account};" for t in wanted[:_SHOWN]
        ]
        names = ", ".join(str(table) for table in wanted[:_SHOWN])
        more = f" and {len(wanted) - _SHOWN} more" if len(wanted) > _SHOWN else ""
        return failed(f"Missing, or not readable by the user: {names}{more}.", "\n".join(grants))
    return ok(f"The user may read the {len(selected)} selected tables.")


def definitions(server: Server, tables: TableSet | None) -> CheckFinding:
    """Tables that would stop because of a type, a character set or a name."""
    if tables is None:
        return without_tables()
    catalog = MySqlCatalog(server.connection, left_out=tables)
    found = catalog.describe(_selected(server, tables)[:_MAX_TABLES])
    errors = [result for result in found.values() if isinstance(result, TableError)]
    keyless = [str(table) for table, result in found.items() if not isinstance(result, TableError) and not result.key]
    if errors:
        return warning(" ".join(error.message for error in errors[:_SHOWN]), errors[0].remedy)
    if keyless:
        names = ", ".join(keyless[:_SHOWN])
        return warning(
            f"Without a key: read in one chunk and compared by whole rows: {names}.",
            "Add a primary key if possible.",
        )
    return ok("All column types are supported and all tables have a key.")


def cascades(server: Server, tables: TableSet | None) -> CheckFinding:
    """InnoDB carries a foreign key's action out below the log: before MySQL 9.6 no event is written for it."""
    if tables is None or (not server.mariadb and server.version >= (9, 6)):
        return ok("Foreign key actions are in the log.") if tables else without_tables()
    rows = server.rows(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "
        f"WHERE DELETE_RULE IN ({_CASCADES}) OR UPDATE_RULE IN ({_CASCADES})"
    )
    found = [(TableId(str(row[0]), str(row[1])), str(row[2])) for row in rows]
    names = [f"{table} ({constraint})" for table, constraint in found if table in tables]
    if not names:
        return ok("No selected table has foreign key actions.")
    return warning(
        f"Foreign key actions change rows of these tables without log entries: {', '.join(names[:_SHOWN])}.",
        "Select the referenced tables as well. These tables are then resnapshotted when such a row may have changed.",
    )


def watermark(server: Server) -> CheckFinding:
    """Makes the watermark table if it may, and writes one mark."""
    database = server.config.watermark_database
    try:
        WatermarkTable(database, _PROBE_REPLICATOR).write(server.connection, _PROBE_REPLICATOR)
    except TidemarkError as error:
        statements = "".join(f"{statement};\n" for statement in create_statements(database))
        grant = f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON {quoted(database)}.* TO {server.account};"
        remedy = error.remedy if error.remedy == READ_ONLY_REMEDY else statements + grant
        return failed(f"Watermarks cannot be written: {error.message}.", remedy)
    return ok(f"Watermarks are written to {database}.watermark.")


def _selected(server: Server, tables: TableSet) -> list[TableId]:
    names = MySqlCatalog(server.connection, hidden=frozenset({server.config.watermark_database})).names()
    return [table for table in names if table in tables]


def _readable(server: Server, table: TableId) -> bool:
    try:
        server.rows(f"SELECT * FROM {quoted(table.database)}.{quoted(table.name)} LIMIT 0")
    except TidemarkError:
        return False
    return True
