"""Connections with known session settings, and the server's errors as Tidemark's."""

from __future__ import annotations

import math
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import psycopg2
import psycopg2.extensions
from psycopg2.extras import LogicalReplicationConnection

from replicator.addresses import checked_authority
from replicator.clear_text import LIBPQ_OPTIONS, LIBPQ_REFUSAL, REMEDY, libpq_address
from replicator.errors import (
    ConfigurationError,
    KeyChanged,
    SourceAuthenticationFailed,
    SourceMisconfigured,
    SourcePermissionDenied,
    SourceUnreachable,
    TableBusy,
    TableDisappeared,
    TableError,
    TableNotRead,
    TidemarkError,
)
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.sources.postgres.config import PostgresConfig, TlsMode

Connection: TypeAlias = psycopg2.extensions.connection

# Sent when the session starts, so that no setting of the role, the database or the server decides how a value is
# printed; the log's connection has the same.  row_security off: a policy that hides rows is an error, not a smaller
# table.
SESSION_SETTINGS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "lc_monetary": "C",
    "xmloption": "content",
    "xmlbinary": "base64",
    "search_path": "",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "0",
    "synchronous_commit": "local",  # a mark is flushed when its commit returns; no standby is waited for
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "jit": "off",
}
SESSION_OPTIONS = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
NEWER_SETTINGS = ((140000, "SET idle_session_timeout = 0"), (170000, "SET transaction_timeout = 0"))
_MIN_TIMEOUT = 2  # libpq takes less as this
# A peer that is gone without a word is noticed within a minute; a quiet one is not mistaken for it.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")

# Longest first; https://www.postgresql.org/docs/current/errcodes-appendix.html.  What is not here is retried: of a
# statement about one table as that table's trouble (invariant 13), of any other as the source's.
_BY_STATE: dict[str, type[TidemarkError]] = {
    "42501": SourcePermissionDenied,
    "42704": SourceMisconfigured,  # no such publication, slot, role
    "25006": SourceMisconfigured,  # read only: a standby
    "53400": SourceMisconfigured,  # no slot or WAL sender is free
    "3D000": ConfigurationError,  # no such database
    "0A000": SourceMisconfigured,
    "28": SourceAuthenticationFailed,
}
_OF_ONE_TABLE: dict[str, type[TidemarkError]] = {
    "42P01": TableDisappeared,
    "3F000": TableDisappeared,
    "42883": KeyChanged,  # no operator compares the key with the bounds that were planned
    "42501": SourcePermissionDenied,
    "55P03": TableBusy,
    "55006": TableBusy,
    "0A": TableError,
    "22": TableError,  # a value or an expression that the server itself cannot compute
    "54": TableError,  # a row of more than a gigabyte: the table has it, the protocol does not
    "XX001": TableError,
    "XX002": TableError,
    "58P01": TableError,
    "58030": TableError,
}
# Cardinality, transforms, routines of others, syntax and names, RAISE: the same statement fails again.
_OF_THE_STATEMENT = frozenset({"0A", "0L", "0P", "20", "21", "2F", "38", "39", "42", "44", "P0"})
# Of the connection or the whole server, regardless of the statement; so is every FATAL or PANIC.
_OF_THE_SERVER = ("08", "28", "3D", "57P", "53300", "25006")
_FATAL = ("FATAL", "PANIC")
_REMEDIES = {
    "25006": "Connect to the primary server: a standby is read-only.",
    "53400": "Raise max_replication_slots and max_wal_senders (restart), or drop unused slots.",
    "55006": "Another client reads this replication slot. Tidemark resumes automatically when the slot is free.",
    "54000": "Make the row smaller on the source, or exclude its largest columns; then resnapshot the table.",
    "XX001": "Check the server's log and repair the table, then resnapshot it; or exclude the table.",
    "XX002": "REINDEX the table on the source, then resnapshot it; or exclude the table.",
}
# A login that fails has no SQLSTATE in libpq, only the server's text (in English unless its lc_messages is another).
_BY_TEXT: tuple[tuple[re.Pattern[str], type[TidemarkError], str], ...] = (
    (re.compile(r"startup parameter|unrecognized configuration parameter"), ConfigurationError, "pooler"),
    (
        re.compile(r"authentication failed|pg_hba\.conf|not permitted to log in|no password supplied"),
        SourceAuthenticationFailed,
        "",
    ),
    (re.compile(r'FATAL: +role ".*" does not exist'), SourceAuthenticationFailed, ""),
    (re.compile(r"permission denied|must be (superuser|replication role)"), SourcePermissionDenied, ""),
    (re.compile(r'FATAL: +database ".*" does not exist'), ConfigurationError, "database"),
    (re.compile(r"does not support SSL|certificate|SSL error: (tlsv1|wrong|unsupported)"), ConfigurationError, "tls"),
)
_TEXT_REMEDIES = {
    "pooler": (
        "Connect to the server itself, not to a connection pooler. Poolers do not support session settings and"
        " replication."
    ),
    "database": "Correct the database of the connection.",
    "tls": "Correct TLS mode and CA certificate of the connection, or the server's certificate.",
}


def connect(config: PostgresConfig, **overrides: Any) -> Connection:
    """An open connection in autocommit with SESSION_SETTINGS.

    `overrides` are options of `psycopg2.connect`: a connection factory for the log, say.  Raises SourceUnreachable,
    SourceAuthenticationFailed, SourcePermissionDenied; ConfigurationError for a database, pooler or certificate that
    will not do.
    """
    with libpq_options(config) as options:
        connection: Connection = psycopg2.connect(**(options | overrides))
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def libpq_options(config: PostgresConfig) -> Iterator[dict[str, Any]]:
    """What to connect with; the file of the certificate authority is there within the block.

    Errors inside become Tidemark's as in `translated`.
    """
    reach("source.connect.before")
    with translated(config.where), connection_options(config) as options:
        yield options


@contextmanager
def connection_options(config: PostgresConfig) -> Iterator[dict[str, Any]]:
    """The same, with errors as they are raised."""
    with _authority(config) as authority:
        yield {
            "user": config.user,
            "password": config.password,
            "dbname": config.database,
            "connect_timeout": max(_MIN_TIMEOUT, math.ceil(config.connect_timeout)),
            "application_name": "tidemark",
            "options": f"{SESSION_OPTIONS} -c statement_timeout={config.statement_timeout}s",
            "sslmode": str(config.tls),
            "gssencmode": "disable",
            **_KEEPALIVE,
            **({} if config.verified else LIBPQ_OPTIONS),
            **libpq_address(config.host, config.port),
            **authority,
        }


def cancel(config: PostgresConfig, *connections: Connection | None) -> None:
    """End at the server what these connections are busy with; by any thread.

    On a connection as protected as theirs: what libpq itself would send (CancelRequest) goes in the clear.  Raises as
    `connect`.
    """
    busy = [str(one.info.backend_pid) for one in connections if one is not None and not one.closed]
    if busy:
        with closing(connect(config)) as own:
            read_rows(
                own,
                f"SELECT pg_catalog.pg_cancel_backend(pid) FROM unnest(ARRAY[{', '.join(busy)}]) AS pid",
                config.where,
            )


def prepare(connection: Connection) -> None:
    """Autocommit, and the settings that older servers do not know when a session starts."""
    if not isinstance(connection, LogicalReplicationConnection):  # which is in autocommit already
        connection.autocommit = True
    with connection.cursor() as cursor:
        for since, statement in NEWER_SETTINGS:
            if connection.server_version >= since:
                cursor.execute(statement)


@contextmanager
def _authority(config: PostgresConfig) -> Iterator[dict[str, Any]]:
    """The option of libpq for the certificate authority: it takes a file, read while connecting only."""
    if config.ca and config.tls is not TlsMode.DISABLE:
        checked_authority(config.ca)
        with tempfile.NamedTemporaryFile("w", prefix="tidemark-ca-", suffix=".pem") as file:
            file.write(config.ca + "\n")
            file.flush()
            yield {"sslrootcert": file.name}
    elif config.tls in (TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL):
        yield {"sslrootcert": _system_authorities()}
    else:
        yield {}


def _system_authorities() -> str:
    """The file of the system's authorities; that of the libpq in use may be compiled for another system."""
    for path in (ssl.get_default_verify_paths().cafile, *_BUNDLES):
        if path and Path(path).is_file():
            return path
    message = "This machine has no system CA certificates. Paste the CA certificate into the connection."
    raise ConfigurationError(message)


@contextmanager
def translated(where: str | TableId) -> Iterator[None]:
    """Errors of psycopg2 and of the socket inside become Tidemark's.

    `where`: the table that was asked about, whose trouble the server's answer then is (invariant 13); or a name of the
    server.
    """
    try:
        yield
    except (psycopg2.Error, OSError) as error:
        raise tidemark_error(error, where) from None  # the cause's text may hold rows (invariant 8)


def tidemark_error(error: Exception, where: str | TableId) -> TidemarkError:
    """The error of Tidemark's tree that says the same."""
    state = sql_state(error)
    severity = _error_field(error, "severity_nonlocalized")
    return _worded(state, _reason(error, state), where, severity or "")


def server_error(state: str, message: str, where: str | TableId, severity: str = "") -> TidemarkError:
    """The same of an ErrorResponse: its SQLSTATE (empty: libpq says it), message and severity."""
    return _worded(state, _with_state(state, message) if state else message, where, severity)


def _worded(state: str, reason: str, where: str | TableId, severity: str) -> TidemarkError:
    of_server = not state or severity in _FATAL or state.startswith(_OF_THE_SERVER)
    if isinstance(where, TableId) and not of_server:
        error = _of_table(state, reason, where)
    else:
        error = _of_source(state, reason, where)
    error.of_server = bool(state)
    return error


def _of_source(state: str, reason: str, where: str | TableId) -> TidemarkError:
    kind, remedy = _kind(state, reason)
    if issubclass(kind, SourceAuthenticationFailed):
        refusal = (
            "requests the password in clear text and is not verified by TLS"
            if remedy is REMEDY
            else "refused the login"
        )
        return kind(f"{where} {refusal}: {reason}", remedy=remedy)
    if issubclass(kind, SourcePermissionDenied):
        return kind(f"{where} does not allow it: {reason}", remedy=remedy)
    error = kind(f"{where} could not be read: {reason}", remedy=remedy)
    error.answered = kind is SourceUnreachable and state[:2] in _OF_THE_STATEMENT
    return error


def _of_table(state: str, reason: str, table: TableId) -> TidemarkError:
    """Translate the server's answer to a statement about one table into that table's error (invariant 13)."""
    statement = state[:2] in _OF_THE_STATEMENT
    kind = _OF_ONE_TABLE.get(state) or _OF_ONE_TABLE.get(state[:2]) or (TableError if statement else TableNotRead)
    remedy, name = _REMEDIES.get(state), str(table)
    if issubclass(kind, SourcePermissionDenied):
        return kind(f"{name} does not allow it: {reason}", remedy=remedy, table=name)
    if issubclass(kind, TableDisappeared):
        return kind(f"{name}: {reason}", table=name)
    said = (
        "could not be read temporarily"
        if issubclass(kind, TableBusy | TableNotRead)
        else "no longer has the key for which its chunks were planned"
        if issubclass(kind, KeyChanged)
        else "cannot be read: the server refuses it"
    )
    error = kind(f"{name} {said}: {reason}", table=name, remedy=remedy)
    error.answered = statement
    return error


def _kind(state: str, reason: str) -> tuple[type[TidemarkError], str | None]:
    if LIBPQ_REFUSAL in reason:
        return SourceAuthenticationFailed, REMEDY
    if state:
        kind = _BY_STATE.get(state) or _BY_STATE.get(state[:2]) or SourceUnreachable
        return kind, _REMEDIES.get(state)
    for pattern, kind, remedy in _BY_TEXT:
        if pattern.search(reason):
            return kind, _TEXT_REMEDIES.get(remedy)
    return SourceUnreachable, None


def sql_state(error: BaseException) -> str:
    """The server's code of five characters, of an error of psycopg2 or psycopg 3; empty for one of the connection."""
    return str(getattr(error, "pgcode", None) or getattr(error, "sqlstate", None) or "")


def _reason(error: Exception, state: str) -> str:
    """What the server said first, with its code: DETAIL may hold a row, and libpq's text has the statement."""
    if state:
        return _with_state(state, _error_field(error, "message_primary"))
    return " ".join(str(error).split()) or type(error).__name__


def _error_field(error: Exception, name: str) -> str | None:
    value: str | None = getattr(getattr(error, "diag", None), name, None)
    return value


def _with_state(state: str, message: str | None) -> str:
    return f"{message or 'no message'} (SQLSTATE {state})"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + _clean(name).replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as an SQL literal that is valid regardless of standard_conforming_strings."""
    text = _clean(text).replace("'", "''")
    return "E'" + text.replace("\\", "\\\\") + "'" if "\\" in text else f"'{text}'"


def _clean(text: str) -> str:
    """ConfigurationError for what no statement can hold: the server would see its beginning only."""
    with suppress(UnicodeEncodeError):
        text.encode()
        if "\0" not in text:
            return text
    message = "A name or value contains a character that Postgres does not support."
    raise ConfigurationError(message)


@contextmanager
def kept_open(connection: Connection) -> Iterator[None]:
    """A transaction that is open goes on after an error of a statement inside."""
    if connection.get_transaction_status() != psycopg2.extensions.TRANSACTION_STATUS_INTRANS:
        yield
        return
    with translated("The source"), connection.cursor() as cursor:
        cursor.execute("SAVEPOINT tidemark")
        try:
            yield
        except TidemarkError:
            if not connection.closed:
                cursor.execute("ROLLBACK TO SAVEPOINT tidemark")
            raise
        cursor.execute("RELEASE SAVEPOINT tidemark")


def read_rows(connection: Connection, sql: str, where: str | TableId) -> list[tuple[Any, ...]]:
    """All rows of a small query; raises as `translated` does."""
    with translated(where), connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def server_version(connection: Connection) -> int:
    """As the server's server_version_num: 170005."""
    return int(connection.server_version)
