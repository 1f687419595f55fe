"""Checks of Change Tracking: the database, how long changes are kept, the selected tables."""

from __future__ import annotations

from replicator.errors import TableError
from replicator.model.table_set import TableSet
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning, without_tables
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.check.capture_settings import DAY, kept
from replicator.sources.sqlserver.check.privileges import MAX_TABLES, PROBE, SHOWN, names_of_tables, writes_marks
from replicator.sources.sqlserver.check.server_info import Server
from replicator.sources.sqlserver.dialect import quoted, table_name
from replicator.sources.sqlserver.tracking import change_tracking

_MINUTES = {1: 1, 2: 60, 3: DAY}  # sys.change_tracking_databases.retention_period_units
_RETENTION = (
    "SELECT retention_period, retention_period_units, is_auto_cleanup_on FROM sys.change_tracking_databases "
    "WHERE database_id = DB_ID()"
)


def enabled(server: Server) -> CheckFinding:
    """Without it there is nothing to follow; with change data capture there is more."""
    if not server.rows(_RETENTION):
        return failed(change_tracking.OFF, change_tracking.ENABLE.format(database=quoted(server.database)))
    if server.captured:
        return warning(
            "Change data capture is on in this database, and tells each change; Change Tracking tells only which rows"
            " changed.",
            "Choose change data capture in the connection.",
        )
    return ok(f"Change Tracking is on in {server.database}: it tells which rows changed, and not how.")


def retention(server: Server) -> CheckFinding:
    """Check how long Tidemark may be stopped before the changes that it needs are gone."""
    rows = server.rows(_RETENTION)
    if not rows:
        return failed(change_tracking.OFF, change_tracking.ENABLE.format(database=quoted(server.database)))
    period, unit, cleans = rows[0]
    if not cleans:
        return warning(
            "Changes are never removed: automatic cleanup is off.",
            "ALTER DATABASE CURRENT SET CHANGE_TRACKING (AUTO_CLEANUP = ON);",
        )
    longer = "ALTER DATABASE CURRENT SET CHANGE_TRACKING (CHANGE_RETENTION = 7 DAYS);"
    return kept(int(period) * _MINUTES.get(int(unit), DAY), longer)


def watermark(server: Server) -> CheckFinding:
    """Makes the table for marks if it may, and writes one."""
    schema = server.config.watermark_schema
    table, statements = change_tracking.marks_table(schema), change_tracking.marks_statements(schema)
    remedy = "".join(f"{one};\n" for one in (*statements, change_tracking.enable_statement(table)))
    remedy += f"GRANT SELECT, INSERT, UPDATE, DELETE, VIEW CHANGE TRACKING ON {table_name(table)} TO {server.user};"

    def probe() -> None:
        change_tracking.write_mark(server.connection, schema, PROBE, PROBE)
        change_tracking.forget_marks(server.connection, schema, PROBE, [PROBE])

    return writes_marks(server, table, statements, remedy, probe)


def tracked(server: Server, tables: TableSet | None) -> CheckFinding:
    """Each table is tracked, or will be by us; and what the log will not tell of them."""
    if tables is None:
        return without_tables()
    selected = server.selected(tables)[:MAX_TABLES]
    catalog = server.catalog(tables)
    details = catalog.details(selected)
    refused = [one for one in details.values() if isinstance(one, TableError)]
    if refused:
        return warning(" ".join(one.message for one in refused[:SHOWN]), refused[0].remedy)
    found = [one for one in details.values() if isinstance(one, TableDescription)]
    without = [one.schema.table for one in found if one.since is None]
    if without and not server.owner:
        statements = [
            f"{change_tracking.enable_statement(one)};\nGRANT VIEW CHANGE TRACKING ON {table_name(one)} TO"
            f" {server.user};"
            for one in without[:SHOWN]
        ]
        return failed(f"Without Change Tracking: {names_of_tables(without)}.", "\n".join(statements))
    notes = [f"{table}: {note}" for table, info in catalog.infos(selected).items() for note in info.notes]
    if notes:
        return warning(" ".join(notes[:SHOWN]), "Exclude the table, or choose change data capture in the connection.")
    made = f"{len(without)} get it when the replicator starts" if without else "all are tracked"
    return ok(f"{len(found)} selected tables: {made}.")
