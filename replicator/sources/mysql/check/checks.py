"""The connection test: named checks in the order in which a user puts them right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from replicator.clear_text import REMEDY
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult
from replicator.sources.mysql.check import log_settings, privileges
from replicator.sources.mysql.check.server_info import Server
from replicator.sources.mysql.config import MySqlConfig, TlsMode
from replicator.sources.mysql.connection import connect
from replicator.sources.shared.check_runner import CheckFinding, Checks, encryption, failed, ok, warning

_MINIMUM = {"MySQL": (8, 0), "MariaDB": (10, 6)}


def tls(server: Server) -> CheckFinding:
    """Whether this very connection is encrypted."""
    rows = server.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    cipher = str(rows[0][1]) if rows else ""
    if getattr(server.connection, "remembered", False):
        return warning(
            "The server accepted the password from its cache (caching_sha2_password). After a restart it "
            "requests the password in clear text. This is refused because the server is not verified by TLS.",
            REMEDY,
        )
    disabled = server.config.tls is TlsMode.DISABLED
    return encryption(cipher, server.config.host, disabled=disabled, certificate="ssl_cert, ssl_key in my.cnf")


def version(server: Server) -> CheckFinding:
    """Older servers cannot describe rows in the log."""
    least = _MINIMUM[server.product]
    text = server.variables.get("version", "")
    if server.version >= least:
        return ok(f"{server.product} {text}.")
    wanted = ".".join(map(str, least))
    return failed(f"{server.product} {text} is too old.", f"Use {server.product} {wanted} or later.")


def of_selected(
    check: Callable[[Server, TableSet | None], CheckFinding],
) -> Callable[[Server, TableSet | None], CheckFinding]:
    """The check of these tables under the names that the server gives them."""
    return lambda server, tables: check(server, None if tables is None else server.names.selection(tables))


# Those that look at tables take them as a second argument.
_CHECKS = Checks[Server](
    of_server=(
        ("tls", "Encryption", tls),
        ("version", "Version", version),
        ("grant_replication_slave", "Privilege to read the log", privileges.replication_slave),
        ("grant_replication_client", "Privilege to read the log position", privileges.replication_client),
        ("log_bin", "Binary log", log_settings.log_bin),
        ("binlog_format", "Row format of the log", log_settings.binlog_format),
        ("binlog_row_image", "Full row images in the log", log_settings.binlog_row_image),
        ("binlog_row_metadata", "Column metadata in the log", log_settings.binlog_row_metadata),
        ("binlog_filters", "Databases in the log", log_settings.log_filters),
        ("replica_updates", "Replicated changes in the log", log_settings.replica_updates),
        ("server_id", "Server id", log_settings.server_id),
        ("gtid", "GTIDs", log_settings.gtid),
        ("retention", "Retention of the log", log_settings.retention),
        ("binlog_order_commits", "Commit order", log_settings.binlog_order_commits),
        ("binlog_compression", "Compression of the log", log_settings.compression),
        ("clock", "Clocks", log_settings.clock),
        ("lower_case_table_names", "Case sensitivity of names", log_settings.lower_case_table_names),
        ("watermark", "Watermark table", privileges.watermark),
    ),
    of_tables=(
        ("grant_select", "Privilege to read the tables", of_selected(privileges.select)),
        ("definitions", "Tables and column types", of_selected(privileges.definitions)),
        ("cascades", "Foreign keys", of_selected(privileges.cascades)),
    ),
)


def run_checks(config: MySqlConfig, tables: TableSet | None) -> list[CheckResult]:
    """`Checks.run` of this server."""
    return _CHECKS.run(
        partial(connect, config, read_timeout=60.0),
        partial(Server, config),
        lambda server: f"{server.where} answers as {server.product}.",
        tables,
    )
