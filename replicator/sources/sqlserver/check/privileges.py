"""Checks of what the user may do, and of what the selected tables bring with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replicator.errors import TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning, without_tables
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.check.server_info import Server
from replicator.sources.sqlserver.dialect import table_name
from replicator.sources.sqlserver.stream import capture_instances, log_status
from replicator.sources.sqlserver.watermark import create_statements, forget, watermark_table, write_mark

PROBE = "connection-test"  # the replicator's name, and the mark
MAX_TABLES = 2000
SHOWN = 5


def change_tables(server: Server) -> CheckFinding:
    """May it read them?"""
    if not server.captured:
        return failed(log_status.CDC_OFF, log_status.enable_statement(server.database, azure=server.azure))
    try:
        server.rows("SELECT TOP (0) 1 FROM cdc.lsn_time_mapping")
        server.rows("SELECT TOP (0) 1 FROM cdc.change_tables")
    except TidemarkError:
        return failed("The user may not read the change tables.", f"GRANT SELECT ON SCHEMA::cdc TO {server.user};")
    return ok("The user may read the change tables.")


def instances(server: Server) -> CheckFinding:
    """Only a db_owner may make capture instances."""
    if server.owner:
        return ok("The user may make capture instances (db_owner).")
    return warning(
        "The user may not make capture instances: each table needs one that you make, and another when its columns"
        " change.",
        f"ALTER ROLE db_owner ADD MEMBER {server.user}; -- or make them yourself, see the check of the tables",
    )


def watermark(server: Server) -> CheckFinding:
    """Makes the watermark table if it may, and writes one mark."""
    schema = server.config.watermark_schema
    table = watermark_table(schema)
    statements = "".join(f"{statement};\n" for statement in create_statements(schema))
    statements += f"{capture_instances.enable_statement(table, f'{schema}_watermark')};\n"
    statements += f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table_name(table)} TO {server.user};"

    def probe() -> None:
        write_mark(server.connection, schema, PROBE, PROBE)
        forget(server.connection, schema, PROBE)

    return writes_marks(server, table, create_statements(schema), statements, probe)


def writes_marks(
    server: Server, table: TableId, statements: Sequence[str], remedy: str, probe: Callable[[], None]
) -> CheckFinding:
    """`statements` make the table where it is missing; `probe` writes a mark and takes it away."""
    try:
        for statement in statements:
            server.connection.run(statement, server.config.where)
        probe()
    except TidemarkError as error:
        return failed(f"Watermarks cannot be written: {error.message}", remedy)
    return ok(f"Watermarks are written to {table}.")


def select(server: Server, tables: TableSet | None) -> CheckFinding:
    """Rights on each selected table."""
    if tables is None:
        return without_tables()
    selected = server.selected(tables)
    missing = sorted(tables.tables - set(selected) - tables.excluded)
    if missing:
        return failed(
            f"Missing: {names_of_tables(missing)}.", "Correct the selection, or the database of the connection."
        )
    denied = [table for table in selected[:MAX_TABLES] if not _readable(server, table)]
    if denied:
        grants = [f"GRANT SELECT ON {table_name(table)} TO {server.user};" for table in denied[:SHOWN]]
        return failed(f"Not readable by the user: {names_of_tables(denied)}.", "\n".join(grants))
    return ok(f"The user may read the {len(selected)} selected tables.")


def captured(server: Server, tables: TableSet | None) -> CheckFinding:
    """Each table has a capture instance, or gets one from us."""
    if tables is None:
        return without_tables()
    found = server.catalog(tables).details(server.selected(tables)[:MAX_TABLES]).values()
    described = [one for one in found if isinstance(one, TableDescription)]
    full = [one for one in described if one.missing and len(one.instances) >= capture_instances.MOST]
    if full:
        error = capture_instances.both_taken(full[0])
        return failed(error.message, error.remedy)
    without = [one for one in described if not one.instances]
    if without and not server.owner:
        statements = [
            capture_instances.enable_statement(
                one.schema.table, f"{one.schema.table.database}_{one.schema.table.name}", partitioned=one.partitioned
            )
            for one in without[:SHOWN]
        ]
        listed = names_of_tables([one.schema.table for one in without])
        return failed(f"Without a capture instance: {listed}.", "".join(f"{statement};\n" for statement in statements))
    switching = [one for one in described if one.partitioned and any(each.switches for each in one.instances)]
    if switching:
        return warning(
            "Partitions of these tables may be switched, which is not captured:"
            f" {names_of_tables(_ids(switching))}. The tables are then resnapshotted.",
            "Make their capture instances with @allow_partition_switch = 0.",
        )
    partly = [one for one in described if one.missing]
    if partly:
        return warning(
            f"Capture instances lack columns of: {names_of_tables(_ids(partly))}. These columns are left out, unless"
            " Tidemark has made the instance.",
            "Make a second capture instance with all columns.",
        )
    made = f"{len(without)} get one when the replicator starts" if without else "all are captured"
    return ok(f"{len(described)} selected tables: {made}.")


def definitions(server: Server, tables: TableSet | None) -> CheckFinding:
    """Tables that would stop because of what they are, of a type or of a name."""
    if tables is None:
        return without_tables()
    found = server.catalog(tables).describe(server.selected(tables)[:MAX_TABLES])
    errors = [one for one in found.values() if isinstance(one, TableError)]
    if errors:
        return warning(" ".join(error.message for error in errors[:SHOWN]), errors[0].remedy)
    keyless = sorted(table for table, one in found.items() if not isinstance(one, TableError) and not one.key)
    if keyless:
        said = f"Without a key: read in one chunk and compared by whole rows: {names_of_tables(keyless)}."
        return warning(said, "Add a primary key if possible.")
    return ok("All column types are supported and all tables have a key.")


def _readable(server: Server, table: TableId) -> bool:
    try:
        server.connection.rows(f"SELECT TOP (0) * FROM {table_name(table)}", table)
    except TidemarkError:
        return False
    return True


def _ids(found: Sequence[TableDescription]) -> list[TableId]:
    return [one.schema.table for one in found]


def names_of_tables(tables: Sequence[TableId]) -> str:
    """The first of them, and how many more."""
    more = f" and {len(tables) - SHOWN} more" if len(tables) > SHOWN else ""
    return ", ".join(str(table) for table in tables[:SHOWN]) + more
