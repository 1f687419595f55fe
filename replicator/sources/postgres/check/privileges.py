"""Checks of what the user may do, and of what the selected tables bring with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from psycopg2.extras import LogicalReplicationConnection

from replicator.errors import SourceAuthenticationFailed, SourcePermissionDenied, TableError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.postgres.catalog.attributes import ReplicaIdentity
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.catalog.describe_sql import named
from replicator.sources.postgres.check.server_info import Server, Service
from replicator.sources.postgres.connection import connect, literal, quoted
from replicator.sources.postgres.watermark import create_statements, needs_table, write_mark
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning, without_tables

_PROBE_REPLICATOR = "connection-test"
_MAX_TABLES = 2000
_SHOWN = 5


def replication(server: Server) -> CheckFinding:
    """Opens a connection that could read the log."""
    try:
        connect(server.config, connection_factory=LogicalReplicationConnection).close()
    except SourcePermissionDenied:
        grant = f"ALTER ROLE {server.user} WITH REPLICATION;"
        if server.service is Service.RDS:
            grant = f"GRANT rds_replication TO {server.user};"
        return failed("The user lacks the privilege to read the log.", grant)
    except SourceAuthenticationFailed as error:
        remedy = (
            "In pg_hba.conf allow the user to connect to the database (logical replication needs no line with the word"
            f" replication): hostssl {server.config.database} {server.user} <Tidemark's address>/32 scram-sha-256"
        )
        return failed(error.message, remedy)
    return ok("The user may read the log.")


def marks(server: Server) -> CheckFinding:
    """Writes one mark, as a snapshot does; on 13 only looks whether the table for them is there or can be made."""
    statements = "".join(f"{statement};\n" for statement in create_statements())
    if needs_table(server.connection):
        row = server.rows(
            "SELECT pg_catalog.to_regclass('tidemark.watermark') IS NOT NULL, "
            "pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
        )[0]
        if not any(row):
            grant = (
                f"GRANT USAGE ON SCHEMA tidemark TO {server.user};\nALTER TABLE tidemark.watermark OWNER TO"
                f" {server.user};"
            )
            return failed("The watermark table does not exist, and the user may not create it.", statements + grant)
        return ok("Watermarks are written to tidemark.watermark.")
    try:
        write_mark(server.connection, _PROBE_REPLICATOR, _PROBE_REPLICATOR, server.config.where)
    except SourcePermissionDenied as error:
        grant = f"GRANT EXECUTE ON FUNCTION pg_catalog.pg_logical_emit_message TO {server.user};"
        return failed(f"Watermarks cannot be written: {error.message}", grant)
    return ok("Watermarks are written as logical messages; no table is created on the source.")


def event_trigger(server: Server) -> CheckFinding:
    """Only superusers may make one; services have roles that stand for them."""
    if not server.config.event_trigger:
        return ok("The DDL trigger is off. Schema changes are detected with the next row.")
    if server.superuser:
        return ok("The user may create the event trigger.")
    if server.member_of("rds_superuser", "cloudsqlsuperuser", "azure_pg_admin", "neon_superuser", "supabase_admin"):
        return ok(f"The user has superuser rights on {server.service}.")
    remedy = "Turn the DDL trigger off in the connection, or connect as a superuser."
    return failed("The user may not create an event trigger.", remedy)


def publication(server: Server, tables: TableSet | None) -> CheckFinding:
    """One that the user has brought is as it must be; or we may make one, and put the tables into it."""
    if server.config.publication:
        return _brought(server, tables)
    name = quoted(server.config.database)
    if not server.rows("SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')")[0][0]:
        return failed("The user may not create a publication.", f"GRANT CREATE ON DATABASE {name} TO {server.user};")
    if tables is None:
        return ok("The user may create a publication, but must own its tables.")
    rows = _facts(
        server,
        server.selected(tables),
        "pg_catalog.pg_has_role(c.relowner, 'USAGE'), pg_catalog.pg_get_userbyid(c.relowner)",
    )
    foreign = {table: str(owner) for table, (owns, owner) in rows.items() if not owns}
    if not foreign:
        return ok("The user may create a publication with the selected tables.")
    owners = [owner for owner, _ in Counter(foreign.values()).most_common(_SHOWN)]
    grants = "\n".join(f"GRANT {quoted(owner)} TO {server.user};" for owner in owners)
    listed = ", ".join(_name(table) for table in sorted(foreign)[:_SHOWN])
    remedy = (
        f"{grants}\n-- or make the publication as their owner, and name it in the connection:\n"
        f"CREATE PUBLICATION tidemark FOR TABLE {listed}{', …' if len(foreign) > _SHOWN else ''} "
        "WITH (publish_via_partition_root = true);"
    )
    return failed(f"The user does not own these tables and cannot publish them: {_names(sorted(foreign))}.", remedy)


def _brought(server: Server, tables: TableSet | None) -> CheckFinding:
    name = server.config.publication
    generated = "pubgencols::text" if server.version >= 180000 else "''"  # noqa: PLR2004
    rows = server.rows(
        f"SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot, puballtables, {generated} "
        f"FROM pg_catalog.pg_publication WHERE pubname = {literal(name)}"
    )
    if not rows:
        create = f"CREATE PUBLICATION {quoted(name)} FOR ALL TABLES WITH (publish_via_partition_root = true);"
        return failed(f"No publication {name}.", create)
    whole, root, _, stored = rows[0]
    if not whole:
        remedy = f"ALTER PUBLICATION {quoted(name)} SET (publish = 'insert, update, delete, truncate');"
        return failed(f"The publication {name} excludes some kinds of changes.", remedy)
    if tables is None:
        return ok(f"The publication {name} exists.")
    selected = server.selected(tables)
    facts = _facts(
        server,
        selected,
        "c.relkind = 'p', EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attgenerated ="
        " 's')",
    )
    if not root and any(partitioned for partitioned, _ in facts.values()):
        remedy = f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true);"
        return failed(f"The publication {name} publishes the partitions instead of the partitioned tables.", remedy)
    if stored == "n" and any(has for _, has in facts.values()):
        remedy = f"ALTER PUBLICATION {quoted(name)} SET (publish_generated_columns = stored);"
        return failed(f"The publication {name} excludes generated columns.", remedy)
    return _members(server, name, selected, tables)


def _members(server: Server, name: str, selected: Sequence[TableId], tables: TableSet) -> CheckFinding:
    """All tables, with all rows and all columns."""
    newer = "t.attnames::text[], t.rowfilter" if server.version >= 150000 else "NULL::text[], NULL::text"  # noqa: PLR2004
    rows = server.rows(
        f"SELECT t.schemaname::text, t.tablename::text, {newer} "
        f"FROM pg_catalog.pg_publication_tables t WHERE t.pubname = {literal(name)}"
    )
    members = {TableId(schema, table): (columns, condition) for schema, table, columns, condition in rows}
    if missing := [table for table in selected if table not in members]:
        add = ", ".join(_name(table) for table in missing[:_SHOWN])
        return failed(
            f"Not in the publication {name}: {_names(missing)}.", f"ALTER PUBLICATION {quoted(name)} ADD TABLE {add};"
        )
    if filtered := [table for table in selected if members[table][1]]:
        return failed(
            f"The publication {name} has a row filter on: {_names(filtered)}.",
            f"Take the WHERE of these tables out of {name}.",
        )
    described = PostgresCatalog(server.connection, left_out=tables).describe(selected[:_MAX_TABLES])
    short = [
        table
        for table, found in described.items()
        if not isinstance(found, TableError)
        and members[table][0] is not None
        and set(found.names) - set(members[table][0])
    ]
    if short:
        return failed(
            f"The publication {name} excludes columns of: {_names(short)}.", f"Take the column lists out of {name}."
        )
    return ok(f"The publication {name} has the {len(selected)} selected tables.")


def select(server: Server, tables: TableSet | None) -> CheckFinding:
    """Rights on each selected table; a policy that hides rows counts as a missing one."""
    if tables is None:
        return without_tables()
    selected = server.selected(tables)
    missing = sorted(tables.tables - set(selected) - tables.excluded)
    if missing:
        return failed(f"Missing: {_names(missing)}.", "Correct the selection, or the database of the connection.")
    privileges = (
        "pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE'), pg_catalog.has_table_privilege(c.oid, 'SELECT'), "
        "pg_catalog.row_security_active(c.oid)"
    )
    facts = _facts(server, selected, privileges)
    denied = sorted(table for table, (usage, readable, _) in facts.items() if not (usage and readable))
    if denied:
        schemas = sorted({table.database for table in denied})[:_SHOWN]
        grants = [f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {server.user};" for schema in schemas]
        grants += [f"GRANT SELECT ON {_name(table)} TO {server.user};" for table in denied[:_SHOWN]]
        return failed(f"Not readable by the user: {_names(denied)}.", "\n".join(grants))
    hidden = sorted(table for table, (_, _, secured) in facts.items() if secured)
    if hidden:
        remedy = f"ALTER ROLE {server.user} BYPASSRLS;"
        return failed(f"Row-level security hides rows of these tables from the user: {_names(hidden)}.", remedy)
    return ok(f"The user may read the {len(selected)} selected tables.")


def replica_identity(server: Server, tables: TableSet | None) -> CheckFinding:
    """What of an old row the log has."""
    if tables is None:
        return without_tables()
    found = PostgresCatalog(server.connection, left_out=tables).keys(server.selected(tables)[:_MAX_TABLES])
    errors = [key for _, key in found.values() if isinstance(key, TableError)]
    if errors:
        remedies = "\n".join(error.remedy for error in errors[:_SHOWN])
        more = f" And {len(errors) - _SHOWN} more." if len(errors) > _SHOWN else ""
        return warning(" ".join(error.message for error in errors[:_SHOWN]) + more, remedies)
    counted = Counter(identity for identity, _ in found.values())
    full = counted.pop(ReplicaIdentity.FULL, 0)
    return ok(
        f"{full} table{'' if full == 1 else 's'} with full before images (FULL), {sum(counted.values())} with key only."
    )


def definitions(server: Server, tables: TableSet | None) -> CheckFinding:
    """Tables that would stop because of what they are, of a type or of a name."""
    if tables is None:
        return without_tables()
    catalog = PostgresCatalog(server.connection, left_out=tables)
    selected = server.selected(tables)[:_MAX_TABLES]
    unidentified = {table for table, (_, key) in catalog.keys(selected).items() if isinstance(key, TableError)}
    found = catalog.describe(selected)
    errors = [one for table, one in found.items() if isinstance(one, TableError) and table not in unidentified]
    if errors:
        return warning(" ".join(error.message for error in errors[:_SHOWN]), errors[0].remedy)
    keyless = sorted(table for table, one in found.items() if not isinstance(one, TableError) and not one.key)
    if keyless:
        said = f"Without a key: read in one chunk and compared by whole rows: {_names(keyless)}."
        return warning(said, "Add a primary key if possible.")
    return ok("All column types are supported.")


def _facts(server: Server, tables: Sequence[TableId], columns: str) -> dict[TableId, tuple[Any, ...]]:
    """`columns` of pg_class as c."""
    rows = server.rows(
        f"SELECT n.nspname::text, c.relname::text, {columns} FROM pg_catalog.pg_class c "
        f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid IN ({named(tables)})"
    )
    return {TableId(row[0], row[1]): row[2:] for row in rows}


def _name(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _names(tables: Sequence[TableId]) -> str:
    more = f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
    return ", ".join(str(table) for table in tables[:_SHOWN]) + more
