"""The test of a Postgres destination: named checks, each with what to paste where it fails."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from replicator.errors import TargetUnauthorized, TidemarkError
from replicator.sources.base import CheckResult, CheckStatus
from replicator.sources.postgres.config import TlsMode
from replicator.sources.postgres.connection import literal, quoted
from replicator.sources.shared.check_runner import CheckFinding, encryption, failed, ok, warning
from replicator.targets.postgres.config import PostgresDestination, destination
from replicator.targets.postgres.connection import PostgresSession
from replicator.targets.warehouse.dialect import POSITIONS

OLDEST = 130000
REACHABLE = ("reachable", "Connection")


@dataclass(frozen=True)
class _Server:
    destination: PostgresDestination
    session: PostgresSession

    def value(self, sql: str) -> Any:
        return self.session.query(f"SELECT {sql}")[0][0]

    @property
    def user(self) -> str:
        return quoted(str(self.value("current_user::text")))

    @property
    def database(self) -> str:
        return quoted(str(self.value("pg_catalog.current_database()::text")))


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """All of them; where the server cannot be reached, that alone."""
    try:
        session = PostgresSession(destination(settings).server)
    except TidemarkError as error:
        return [CheckResult(*REACHABLE, CheckStatus.FAILED, error.message, error.remedy)]
    try:
        server = _Server(destination(settings), session)
        said = f"PostgreSQL {server.value('pg_catalog.current_setting(' + literal('server_version') + ')')} answers."
        found = [CheckResult(*REACHABLE, CheckStatus.OK, said)]
        return [*found, *(_result(name, title, partial(one, server)) for name, title, one in _CHECKS)]
    except TidemarkError as error:
        return [CheckResult(*REACHABLE, CheckStatus.FAILED, error.message, error.remedy)]
    finally:
        session.close()


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Are there tables that Tidemark has made?  Never raises."""
    title = "Same database"
    try:
        session = PostgresSession(destination(settings).server)
        try:
            if session.query(f"SELECT 1 FROM pg_catalog.pg_class WHERE relname = {literal(POSITIONS)} LIMIT 1"):
                return CheckResult("written", title, CheckStatus.OK, "Tables of Tidemark exist there.")
        finally:
            session.close()
    except TidemarkError as error:
        return CheckResult("written", title, CheckStatus.FAILED, error.message, error.remedy)
    detail = "That database has no tables that Tidemark has made."
    remedy = "Use the same database. To write to another one, create another destination and another replicator."
    return CheckResult("written", title, CheckStatus.FAILED, detail, remedy)


def _result(name: str, title: str, look: Callable[[], CheckFinding]) -> CheckResult:
    try:
        finding = look()
    except TidemarkError as error:
        finding = failed(error.message, error.remedy)
    return CheckResult(name, title, finding.status, finding.detail, finding.remedy)


def _version(server: _Server) -> CheckFinding:
    if server.session.version < OLDEST:
        return failed("The server is older than PostgreSQL 13.", "Upgrade the server to version 13 or later.")
    return ok("The version is supported.")


def _primary(server: _Server) -> CheckFinding:
    if server.value("pg_catalog.pg_is_in_recovery()"):
        return failed("The server is a standby, which is read-only.", "Connect to the primary server.")
    return ok("The server takes writes.")


def _encoding(server: _Server) -> CheckFinding:
    found = server.value("pg_catalog.current_setting('server_encoding')")
    if found != "UTF8":
        remedy = "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'; then use that database."
        return failed(f"The encoding of the database is {found}: it cannot store every character.", remedy)
    return ok("The encoding of the database is UTF8.")


def _tls(server: _Server) -> CheckFinding:
    sql = "SELECT version, cipher FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid() AND ssl"
    rows = server.session.query(sql)
    reached = server.destination.server
    return encryption(
        ", ".join(map(str, rows[0])) if rows else "",
        reached.host,
        disabled=reached.tls is TlsMode.DISABLE,
        certificate="ssl = on, ssl_cert_file, ssl_key_file in postgresql.conf",
    )


def _temporary(server: _Server) -> CheckFinding:
    """Staging tables are temporary ones."""
    if server.value("pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')"):
        return ok("The user can make temporary tables.")
    grant = f"GRANT TEMPORARY ON DATABASE {server.database} TO {server.user};"
    return failed("The user cannot make temporary tables, in which changes are staged.", grant)


def _schemas(server: _Server) -> CheckFinding:
    if server.value("pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"):
        return ok("The user can create schemas.")
    grant = f"GRANT CREATE ON DATABASE {server.database} TO {server.user};"
    detail = "The user cannot create schemas: each schema must exist, and let the user create tables."
    return warning(detail, f"{grant} Or for each schema: GRANT USAGE, CREATE ON SCHEMA … TO {server.user};")


def _tables(server: _Server) -> CheckFinding:
    """Everything that a replicator does, in a transaction that is rolled back."""
    if not server.value("pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"):
        return CheckFinding(CheckStatus.SKIPPED, "Not checked, because the user cannot create schemas.")
    place = f"{quoted('tidemark_test_' + uuid.uuid4().hex[:12])}"
    table, session = f"{place}.t", server.session
    session.execute("BEGIN")
    try:
        session.execute(f"CREATE SCHEMA {place}")
        session.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, v text)")
        session.execute(f"INSERT INTO {table} VALUES (1, 'x')")
        session.execute(f"ALTER TABLE {table} ADD COLUMN w integer")
        found = session.execute(f"DELETE FROM {table} WHERE id = 1")
        session.execute(f"DROP TABLE {table}")
    except TargetUnauthorized as error:
        grant = f"GRANT CREATE ON DATABASE {server.database} TO {server.user};"
        return failed(error.message, grant)
    finally:
        session.execute("ROLLBACK")
    return ok(f"A schema and a table can be made, written, read and dropped: {found} row.")


_CHECKS: Sequence[tuple[str, str, Callable[[_Server], CheckFinding]]] = (
    ("version", "Version", _version),
    ("primary", "Primary server", _primary),
    ("encoding", "Encoding", _encoding),
    ("tls", "TLS", _tls),
    ("temporary", "Privilege for temporary tables", _temporary),
    ("schemas", "Privilege to create schemas", _schemas),
    ("tables", "Privilege to create and write tables", _tables),
)
