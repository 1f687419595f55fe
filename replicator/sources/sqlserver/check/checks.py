"""The connection test: named checks in the order in which a user puts them right."""

from __future__ import annotations

from functools import partial

from replicator.errors import TidemarkError
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult
from replicator.sources.shared.check_runner import CheckFinding, Checks, encryption, warning
from replicator.sources.sqlserver.check import capture_settings, privileges, replicas, tracking
from replicator.sources.sqlserver.check.server_info import Server
from replicator.sources.sqlserver.config import Capture, SqlServerConfig, TlsMode
from replicator.sources.sqlserver.connection import connect


def tls(server: Server) -> CheckFinding:
    """Whether this very connection is encrypted."""
    try:
        rows = server.rows("SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID")
    except TidemarkError:
        if server.config.tls is TlsMode.DISABLED:
            return warning("Whether the connection is encrypted is not shown to the user.", "Turn TLS on.")
        rows = [("TRUE",)]  # else the driver had not connected
    return encryption(
        "TLS" if rows and str(rows[0][0]).upper() == "TRUE" else "",
        server.config.host,
        disabled=server.config.tls is TlsMode.DISABLED,
        certificate="SQL Server Configuration Manager, Protocols, Certificate",
    )


# Those that look at tables take them as a second argument.
_CHECKS = Checks[Server](
    of_server=(
        ("tls", "Encryption", tls),
        ("version", "Version and edition", capture_settings.version),
        ("primary", "Primary replica", capture_settings.writable),
        ("secondary", "Replica that is read", replicas.read_replica),
        ("cdc", "Change data capture", capture_settings.change_data_capture),
        ("agent", "Capture job", capture_settings.capture_job),
        ("change_tables", "Privilege to read change tables", privileges.change_tables),
        ("instances", "Privilege to make capture instances", privileges.instances),
        ("retention", "Retention of changes", capture_settings.retention),
        ("isolation", "Snapshot isolation", capture_settings.isolation),
        ("collation", "Case sensitivity of names", capture_settings.names),
        ("clock", "Clocks", capture_settings.clock),
        ("watermark", "Watermark table", privileges.watermark),
    ),
    of_tables=(
        ("grant_select", "Privilege to read the tables", privileges.select),
        ("captured", "Capture instances", privileges.captured),
        ("definitions", "Tables and column types", privileges.definitions),
    ),
)


_TRACKING_CHECKS = Checks[Server](
    of_server=(
        ("tls", "Encryption", tls),
        ("version", "Version and edition", capture_settings.version),
        ("primary", "Primary replica", capture_settings.writable),
        ("tracking", "Change Tracking", tracking.enabled),
        ("retention", "Retention of changes", tracking.retention),
        ("isolation", "Snapshot isolation", capture_settings.isolation),
        ("collation", "Case sensitivity of names", capture_settings.names),
        ("clock", "Clocks", capture_settings.clock),
        ("watermark", "Watermark table", tracking.watermark),
    ),
    of_tables=(
        ("grant_select", "Privilege to read the tables", privileges.select),
        ("tracked", "Tables and Change Tracking", tracking.tracked),
        ("definitions", "Tables and column types", privileges.definitions),
    ),
)


def run_checks(config: SqlServerConfig, tables: TableSet | None) -> list[CheckResult]:
    """`Checks.run` of this server."""
    checks = _TRACKING_CHECKS if config.capture is Capture.TRACKING else _CHECKS
    return checks.run(partial(connect, config), partial(Server, config), lambda _: f"{config.where} answers.", tables)
