"""The connection test: named checks in the order in which a user puts them right."""

from __future__ import annotations

from functools import partial

from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult
from replicator.sources.postgres.check import log_settings, privileges
from replicator.sources.postgres.check.server_info import Server, Service
from replicator.sources.postgres.config import PostgresConfig, TlsMode
from replicator.sources.postgres.connection import connect
from replicator.sources.shared.check_runner import CheckFinding, Checks, encryption, failed, ok, warning

_LEAST, _NEWEST = 13, 18


def tls(server: Server) -> CheckFinding:
    """Whether this very connection is encrypted."""
    rows = server.rows(
        "SELECT version, cipher FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid() AND ssl"
    )
    return encryption(
        ", ".join(map(str, rows[0])) if rows else "",
        server.config.host,
        disabled=server.config.tls is TlsMode.DISABLE,
        certificate="ssl = on, ssl_cert_file, ssl_key_file in postgresql.conf",
    )


def version(server: Server) -> CheckFinding:
    """Older servers have no rows of partitioned tables as one in their log."""
    text = server.value("server_version")
    if server.service is Service.YUGABYTE:
        return warning(
            f"YugabyteDB ({text}): the exactness of a snapshot during streaming cannot be guaranteed.",
            "See the differences on YugabyteDB in the setup guide.",
        )
    if server.major < _LEAST:
        return failed(f"PostgreSQL {text} is too old.", f"Use PostgreSQL {_LEAST} or later.")
    if server.major > _NEWEST:
        return warning(f"PostgreSQL {text} is newer than the tested versions ({_LEAST} to {_NEWEST}).")
    return ok(f"PostgreSQL {text}, {server.service}.")


# Those that look at tables take them as a second argument.
_CHECKS = Checks[Server](
    of_server=(
        ("tls", "Encryption", tls),
        ("version", "Version", version),
        ("primary", "Primary server", log_settings.primary),
        ("wal_level", "Row format of the log", log_settings.wal_level),
        ("replication", "Privilege to read the log", privileges.replication),
        ("free_slots", "Free replication slots", log_settings.free_slots),
        ("slot", "Replication slot", log_settings.own_slot),
        ("marks", "Watermarks", privileges.marks),
        ("retention", "Retention of the log", log_settings.retention),
        ("wal_sender_timeout", "WAL sender timeout", log_settings.sender_timeout),
        ("other_slots", "Idle replication slots", log_settings.other_slots),
        ("decoding_memory", "Large transactions", log_settings.decoding_memory),
        ("prepared", "Prepared transactions", log_settings.prepared),
        ("open_transactions", "Open transactions", log_settings.open_transactions),
        ("standby", "Standbys", log_settings.standby),
        ("event_trigger", "DDL trigger", privileges.event_trigger),
        ("clock", "Clocks", log_settings.clock),
    ),
    of_tables=(
        ("publication", "Publication", privileges.publication),
        ("grant_select", "Privilege to read the tables", privileges.select),
        ("replica_identity", "Replica identity", privileges.replica_identity),
        ("definitions", "Tables and column types", privileges.definitions),
    ),
)


def run_checks(config: PostgresConfig, tables: TableSet | None) -> list[CheckResult]:
    """`Checks.run` of this server."""
    return _CHECKS.run(partial(connect, config), partial(Server, config), lambda _: f"{config.where} answers.", tables)
