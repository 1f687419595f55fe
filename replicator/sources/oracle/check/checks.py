"""The connection test: named checks in the order in which a user puts them right."""

from __future__ import annotations

from functools import partial

from replicator.errors import SourceMisconfigured, SourcePermissionDenied, TableError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult
from replicator.sources.oracle.check.server_info import Server
from replicator.sources.oracle.config import Logs, OracleConfig, TlsMode
from replicator.sources.oracle.connection import connect
from replicator.sources.oracle.container import ROOT, open_mode
from replicator.sources.oracle.dialect import quoted
from replicator.sources.oracle.stream.log_retention import ARCHIVELOG, MINIMAL
from replicator.sources.oracle.watermark import create_statements, watermark_table
from replicator.sources.shared.check_runner import (
    CheckFinding,
    Checks,
    encryption,
    failed,
    ok,
    warning,
    without_tables,
)

_LEAST, _NEWEST = (19, 0), 26
_PDB_MINING = (21, 0)  # LogMiner inside of a pluggable database
_VIEWS = (
    "v$database", "v$log", "v$logfile", "v$archived_log", "v$thread", "v$instance", "gv$transaction",
)  # fmt: skip
_ROOT_VIEWS = ("v$pdbs",)
_SHOWN = 5  # tables in a finding
_UNICODE, _NATIONAL = frozenset({"AL32UTF8", "UTF8"}), "AL16UTF16"


def tls(server: Server) -> CheckFinding:
    """Whether this very connection is encrypted."""
    off = server.config.tls is TlsMode.OFF
    cipher = "" if off else "TLS"
    return encryption(cipher, server.config.host, disabled=off, certificate="a TCPS endpoint of the listener")


def version(server: Server) -> CheckFinding:
    """Older servers have other views and no long-term support."""
    text = str(server.connection.version)
    if server.version < _LEAST:
        return failed(f"Oracle {text} is too old.", "Use Oracle 19c or later.")
    if server.version[0] > _NEWEST:
        return warning(f"Oracle {text} is newer than the versions that Tidemark knows.")
    return ok(f"Oracle {text}.")


def container(server: Server) -> CheckFinding:
    """Before 21c the log of a container database is read in its root."""
    if server.container != "YES":
        return ok("No container database.")
    name = str(server.rows("SELECT SYS_CONTEXT('USERENV', 'CON_NAME') FROM dual")[0][0])
    if server.config.pdb:
        if name != ROOT:
            return failed(f"The connection is to {name}, not to the root.", f"Set the service name of {ROOT}.")
        return _pluggable(server)
    if name == ROOT:
        return warning(
            "The connection is to the root, which has no tables of applications.",
            "Set the pluggable database of the connection.",
        )
    if server.version < _PDB_MINING:
        return failed(
            f"The connection is to the pluggable database {name}, whose log cannot be read there before 21c.",
            f"Set the service name of {ROOT} and the pluggable database {name}, and use a common user (C##…).",
        )
    return ok(f"The connection is to the pluggable database {name}, whose log is read there.")


def _pluggable(server: Server) -> CheckFinding:
    """Is it open, and does the account see it from the root?"""
    name = server.config.pdb
    try:
        mode = open_mode(server.connection, server.config)
    except SourcePermissionDenied as error:
        return failed(error.message, error.remedy)
    except SourceMisconfigured as error:
        if not server.has_container():
            remedy = "SELECT name, open_mode FROM v$pdbs; -- then correct the pluggable database of the connection"
            return failed(f"The pluggable database {name} does not exist.", remedy)
        return failed(error.message, error.remedy)
    if mode == "READ WRITE":
        return ok(f"The pluggable database {name} is open, and its transactions are seen from the root.")
    how = " READ WRITE FORCE" if mode == "READ ONLY" else ""
    remedy = f"ALTER PLUGGABLE DATABASE {quoted(name)} OPEN{how};"
    return failed(f"The pluggable database {name} is {mode}.", remedy)


def primary(server: Server) -> CheckFinding:
    """Marks are written."""
    if server.open_mode == "READ WRITE":
        return ok(f"The database is open for writing ({server.role}).")
    return failed(f"The database is {server.open_mode} ({server.role}).", "Connect to the primary database.")


def archiving(server: Server) -> CheckFinding:
    """Without it, the log is overwritten in minutes."""
    if server.mode == "ARCHIVELOG":
        return ok("The redo log is archived.")
    rds = "On RDS: set a backup retention of at least one day."
    return failed("The redo log is not archived (NOARCHIVELOG).", f"{ARCHIVELOG} -- {rds}")


def minimal_logging(server: Server) -> CheckFinding:
    """LogMiner tells rows and transactions only with it."""
    if server.minimal != "NO":
        return ok("Minimal supplemental logging is on.")
    rds = "EXEC rdsadmin.rdsadmin_util.alter_supplemental_logging('ADD');"
    return failed("Supplemental logging is off.", f"{MINIMAL} -- on RDS: {rds}")


def forced_logging(server: Server) -> CheckFinding:
    """NOLOGGING operations change rows without a trace."""
    if server.forced == "YES":
        return ok("All changes are logged (FORCE LOGGING).")
    return warning(
        "Direct loads into NOLOGGING tables do not appear in the log.",
        "ALTER DATABASE FORCE LOGGING; -- on RDS: EXEC rdsadmin.rdsadmin_util.force_logging(p_enable => true);",
    )


def views(server: Server) -> CheckFinding:
    """The views that say what is in the log."""
    asked = (*_VIEWS, *_ROOT_VIEWS) if server.config.pdb else _VIEWS
    missing = [view for view in asked if server.allows(f"SELECT 1 FROM {view} WHERE 1 = 0")]
    if not missing:
        return ok("The views of the log can be read.")
    everywhere = " CONTAINER = ALL" if server.config.pdb else ""
    grants = " ".join(f"GRANT SELECT ON {_granted(view)} TO {server.account}{everywhere};" for view in missing)
    return failed(f"The user cannot read {', '.join(missing)}.", f"{grants} -- or: GRANT SELECT_CATALOG_ROLE")


def _granted(view: str) -> str:
    prefix, _, name = view.partition("$")
    return f"SYS.{prefix.upper()}_${name.upper()}"


def mining(server: Server) -> CheckFinding:
    """LogMiner itself."""
    everywhere = " CONTAINER = ALL" if server.config.pdb else ""
    grants = (
        f"GRANT LOGMINING TO {server.account}{everywhere};"
        f" GRANT EXECUTE ON SYS.DBMS_LOGMNR TO {server.account}{everywhere};"
        f" GRANT SELECT ON SYS.V_$LOGMNR_CONTENTS TO {server.account}{everywhere};"
    )
    refused = server.mining_refused()
    if refused is not None:
        return failed(f"The user may not use LogMiner: {refused}", grants)
    return ok("LogMiner can be used.")


def character_set(server: Server) -> CheckFinding:
    """Text that the server cannot convert to Unicode, or the driver cannot read, is lost on the way."""
    found = server.tables(
        "SELECT parameter, value FROM nls_database_parameters"
        " WHERE parameter IN ('NLS_CHARACTERSET', 'NLS_NCHAR_CHARACTERSET')"
    )
    names = {str(name): str(value) for name, value in found}
    name = names.get("NLS_CHARACTERSET", "unknown")
    if name == "US7ASCII":
        return warning(
            "The database's character set is US7ASCII: other characters that programs stored in it cannot be read.",
            "SELECT id FROM shop.orders WHERE note <> CONVERT(note, 'US7ASCII', 'WE8ISO8859P1'); -- finds such rows;"
            " migrate the database to AL32UTF8",
        )
    national = names.get("NLS_NCHAR_CHARACTERSET", _NATIONAL)
    if national != _NATIONAL:
        return warning(
            f"The national character set is {national}: the driver does not read columns of the types NCHAR, NVARCHAR2"
            " and NCLOB.",
            f"Exclude such columns, or migrate the national character set to {_NATIONAL}.",
        )
    return ok(f"The database's character set is {name}{'' if name in _UNICODE else ', which is converted to Unicode'}.")


def marks(server: Server) -> CheckFinding:
    """The table that Tidemark writes."""
    table = watermark_table(server.config)
    create = "; ".join(create_statements(table)) + ";"
    found = server.tables(
        f"SELECT COUNT(*) FROM all_tables WHERE owner = '{table.database}' AND table_name = '{table.name}'"
    )
    if int(found[0][0]):
        return ok(f"The watermark table {table} exists.")
    if server.privileges & {"CREATE TABLE", "CREATE ANY TABLE"}:
        return ok(f"The watermark table {table} is made by the first snapshot.")
    remedy = f"GRANT CREATE TABLE, UNLIMITED TABLESPACE TO {server.account}; -- or, as an administrator: {create}"
    return failed(f"The watermark table {table} does not exist, and the user may not make it.", remedy)


def archived_only(server: Server) -> CheckFinding:
    """Changes wait for a log switch."""
    if server.config.logs is not Logs.ARCHIVED:
        return ok("Online and archived logs are read.")
    return warning(
        "Only archived logs are read: changes arrive when the log is switched.",
        "ALTER SYSTEM SET ARCHIVE_LAG_TARGET = 300; -- a switch every five minutes at least",
    )


def definitions(server: Server, tables: TableSet | None) -> CheckFinding:
    """Can each selected table be replicated?"""
    if tables is None:
        return without_tables()
    described = server.described(tables)
    if missing := sorted(tables.tables - described.keys()):
        grant = f"GRANT SELECT, FLASHBACK ON {quoted(missing[0].database, missing[0].name)} TO {server.account};"
        return failed(
            f"{_named(missing)} cannot be seen: it does not exist, or the user may not read it.",
            f"{grant} -- or remove it from the selection",
        )
    wrong = [one for one in described.values() if isinstance(one, TableError)]
    return failed(wrong[0].message, wrong[0].remedy) if wrong else ok("All tables and column types are known.")


def table_logging(server: Server, tables: TableSet | None) -> CheckFinding:
    """Rows in the log have all columns only with it."""
    if tables is None:
        return without_tables()
    described = server.described(tables)
    lacking = [table for table, one in described.items() if not isinstance(one, TableError) and not one.logged]
    if not lacking:
        return ok("Supplemental logging of all columns is on for all selected tables.")
    remedy = " ".join(
        f"ALTER TABLE {quoted(table.database, table.name)} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS;"
        for table in sorted(lacking)
    )
    return failed(f"Supplemental logging of all columns is off for {_named(lacking)}.", remedy)


def flashback(server: Server, tables: TableSet | None) -> CheckFinding:
    """Snapshots are queries AS OF SCN."""
    if tables is None:
        return without_tables()
    if "FLASHBACK ANY TABLE" in server.privileges:
        return ok("The user may read tables as of an SCN.")
    scn = int(server.rows("SELECT current_scn FROM v$database")[0][0])
    refused = []
    for table in sorted(tables.tables):
        sql = f"SELECT 1 FROM {quoted(table.database, table.name)} AS OF SCN {scn} WHERE 1 = 0"
        if not server.config.pdb and server.allows(sql):
            refused.append(table)
    if not refused:
        return ok("The user may read the selected tables as of an SCN.")
    grants = " ".join(f"GRANT FLASHBACK ON {quoted(one.database, one.name)} TO {server.account};" for one in refused)
    return failed(
        f"The user may not read {_named(refused)} as of an SCN.", f"{grants} -- or: GRANT FLASHBACK ANY TABLE"
    )


def _named(tables: list[TableId]) -> str:
    more = f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
    return ", ".join(map(str, sorted(tables)[:_SHOWN])) + more


_CHECKS = Checks[Server](
    of_server=(
        ("tls", "Encryption", tls),
        ("version", "Version", version),
        ("container", "Pluggable database", container),
        ("primary", "Primary database", primary),
        ("archivelog", "Archived log", archiving),
        ("supplemental_min", "Supplemental logging", minimal_logging),
        ("force_logging", "Changes without log", forced_logging),
        ("views", "Privileges on the views of the log", views),
        ("logminer", "LogMiner", mining),
        ("character_set", "Character set", character_set),
        ("marks", "Watermarks", marks),
        ("archived_only", "Log files", archived_only),
    ),
    of_tables=(
        ("definitions", "Tables and column types", definitions),
        ("supplemental_tables", "Supplemental logging of the tables", table_logging),
        ("flashback", "Privilege to read as of an SCN", flashback),
    ),
)


def run_checks(config: OracleConfig, tables: TableSet | None) -> list[CheckResult]:
    """`Checks.run` of this server."""
    return _CHECKS.run(
        partial(connect, config, root=True), partial(Server, config), lambda _: f"{config.where} answers.", tables
    )
