"""The connection test: named checks in the order in which a user puts them right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from replicator.errors import SourceAuthenticationFailed, SourcePermissionDenied, TidemarkError
from replicator.model.identifiers import TableSet
from replicator.sources.base import CheckResult, Status
from replicator.sources.mysql import check_access, check_log
from replicator.sources.mysql.config import MySqlConfig, TlsMode
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.server import Finding, Server, failed, ok, warning

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MINIMUM = {"MySQL": (8, 0), "MariaDB": (10, 6)}


def tls(server: Server) -> Finding:
    """Whether this very connection is encrypted."""
    rows = server.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    cipher = str(rows[0][1]) if rows else ""
    if cipher:
        return ok(f"Encrypted with {cipher}.")
    if server.config.host in _LOOPBACK:
        return ok("Not encrypted, on this machine.")
    remedy = "Set TLS to 'Always' in the connection" + (
        "."
        if server.config.tls is TlsMode.DISABLED
        else ", and give the server a certificate (ssl_cert, ssl_key in my.cnf)."
    )
    return warning("The connection is not encrypted.", remedy)


def version(server: Server) -> Finding:
    """Older servers cannot describe rows in the log."""
    least = _MINIMUM[server.product]
    text = server.variables.get("version", "")
    if server.version >= least:
        return ok(f"{server.product} {text}.")
    wanted = ".".join(map(str, least))
    return failed(f"{server.product} {text} is too old.", f"Use {server.product} {wanted} or later.")


# Those that look at tables take them as a second argument.
_SERVER_CHECKS: tuple[tuple[str, str, Callable[[Server], Finding]], ...] = (
    ("tls", "Encryption", tls),
    ("version", "Version", version),
    ("grant_replication_slave", "Right to read the log", check_access.replication_slave),
    ("grant_replication_client", "Right to ask for the log's end", check_access.replication_client),
    ("log_bin", "Binary log", check_log.log_bin),
    ("binlog_format", "Rows in the log", check_log.binlog_format),
    ("binlog_row_image", "Whole rows in the log", check_log.binlog_row_image),
    ("binlog_row_metadata", "Column names in the log", check_log.binlog_row_metadata),
    ("binlog_filters", "All databases in the log", check_log.log_filters),
    ("replica_updates", "Replicated changes in the log", check_log.replica_updates),
    ("server_id", "Server id", check_log.server_id),
    ("gtid", "GTIDs", check_log.gtid),
    ("retention", "Retention of the log", check_log.retention),
    ("binlog_order_commits", "Order of commits", check_log.binlog_order_commits),
    ("binlog_compression", "Compression of the log", check_log.compression),
    ("clock", "Clocks", check_log.clock),
    ("watermark", "Watermark table", check_access.watermark),
)
_TABLE_CHECKS: tuple[tuple[str, str, Callable[[Server, TableSet | None], Finding]], ...] = (
    ("grant_select", "Right to read the tables", check_access.select),
    ("definitions", "Tables and column types", check_access.definitions),
    ("cascades", "Foreign keys", check_access.cascades),
)
_REACHABLE = ("reachable", "Connection")


def run_checks(config: MySqlConfig, tables: TableSet | None) -> list[CheckResult]:
    """All checks; where the server cannot be asked, one FAILED and the others SKIPPED."""
    where = f"{config.host}:{config.port}"
    try:
        connection = connect(config, read_timeout=60.0)
    except TidemarkError as error:
        first = CheckResult(*_REACHABLE, Status.FAILED, error.message, error.remedy)
        reason = "the login failed" if isinstance(error, SourceAuthenticationFailed) else "there is no connection"
        skipped = f"Not looked at, because {reason}."
        others = [(name, title) for name, title, _ in (*_SERVER_CHECKS, *_TABLE_CHECKS)]
        return [first, *(CheckResult(name, title, Status.SKIPPED, skipped) for name, title in others)]
    try:
        server = Server(config, connection)
        results = [CheckResult(*_REACHABLE, Status.OK, f"{where} answers as {server.product}.")]
        results += [_result(name, title, partial(check, server)) for name, title, check in _SERVER_CHECKS]
        return results + [_result(name, title, partial(check, server, tables)) for name, title, check in _TABLE_CHECKS]
    except TidemarkError as error:
        return [CheckResult(*_REACHABLE, Status.FAILED, error.message, error.remedy)]
    finally:
        connection.close()


def _result(name: str, title: str, check: Callable[[], Finding]) -> CheckResult:
    try:
        finding = check()
    except SourcePermissionDenied as error:
        finding = Finding(Status.WARNING, f"The user may not look at this: {error.message}", error.remedy)
    except TidemarkError as error:
        finding = Finding(Status.FAILED, error.message, error.remedy)
    return CheckResult(name, title, finding.status, finding.detail, finding.remedy)
