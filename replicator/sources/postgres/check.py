"""The connection test: named checks in the order in which a user puts them right."""

from __future__ import annotations

from functools import partial

from replicator.model.identifiers import TableSet
from replicator.sources.base import CheckResult
from replicator.sources.checking import Checks, Finding, failed, ok, warning
from replicator.sources.postgres import check_access, check_log
from replicator.sources.postgres.config import PostgresConfig, TlsMode
from replicator.sources.postgres.connection import connect
from replicator.sources.postgres.server import Server, Service

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LEAST, _NEWEST = 13, 18


def tls(server: Server) -> Finding:
    """Whether this very connection is encrypted."""
    rows = server.rows(
        "SELECT version, cipher FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid() AND ssl"
    )
    if rows:
        return ok(f"Encrypted with {rows[0][0]}, {rows[0][1]}.")
    if server.config.host in _LOOPBACK:
        return ok("Not encrypted, on this machine.")
    remedy = "Set TLS to 'Always' in the connection" + (
        "."
        if server.config.tls is TlsMode.DISABLE
        else ", and give the server a certificate (ssl = on, ssl_cert_file, ssl_key_file in postgresql.conf)."
    )
    return warning("The connection is not encrypted.", remedy)


def version(server: Server) -> Finding:
    """Older servers have no rows of partitioned tables as one in their log."""
    text = server.value("server_version")
    if server.service is Service.YUGABYTE:
        return warning(
            f"YugabyteDB ({text}): a snapshot beside the running log cannot be proven exact there.",
            "See the guide: what differs on YugabyteDB.",
        )
    if server.major < _LEAST:
        return failed(f"PostgreSQL {text} is too old.", f"Use PostgreSQL {_LEAST} or later.")
    if server.major > _NEWEST:
        return warning(f"PostgreSQL {text} is newer than what Tidemark was tried with ({_LEAST} to {_NEWEST}).")
    return ok(f"PostgreSQL {text}, {server.service}.")


# Those that look at tables take them as a second argument.
_CHECKS = Checks[Server](
    of_server=(
        ("tls", "Encryption", tls),
        ("version", "Version", version),
        ("primary", "Primary server", check_log.primary),
        ("wal_level", "Rows in the log", check_log.wal_level),
        ("replication", "Right to read the log", check_access.replication),
        ("free_slots", "Free replication slots", check_log.free_slots),
        ("slot", "Replication slot", check_log.own_slot),
        ("marks", "Marks in the log", check_access.marks),
        ("retention", "Retention of the log", check_log.retention),
        ("wal_sender_timeout", "Patience of the server", check_log.sender_timeout),
        ("other_slots", "Idle replication slots", check_log.other_slots),
        ("decoding_memory", "Large transactions", check_log.decoding_memory),
        ("prepared", "Prepared transactions", check_log.prepared),
        ("open_transactions", "Open transactions", check_log.open_transactions),
        ("standby", "Standbys", check_log.standby),
        ("event_trigger", "DDL trigger", check_access.event_trigger),
        ("clock", "Clocks", check_log.clock),
    ),
    of_tables=(
        ("publication", "Publication", check_access.publication),
        ("grant_select", "Right to read the tables", check_access.select),
        ("replica_identity", "Replica identity", check_access.replica_identity),
        ("definitions", "Tables and column types", check_access.definitions),
    ),
)


def run_checks(config: PostgresConfig, tables: TableSet | None) -> list[CheckResult]:
    """`Checks.run` of this server."""
    return _CHECKS.run(partial(connect, config), partial(Server, config), lambda _: f"{config.where} answers.", tables)
