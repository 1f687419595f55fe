"""Connections with known session settings, and the server's errors as Tidemark's.

Microsoft's driver is loaded when it is first used.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import pyarrow as pa

from replicator.addresses import resolved
from replicator.errors import (
    ConfigurationError,
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
from replicator.model.table_set import NameRule
from replicator.sources.sqlserver.config import Login, SqlServerConfig, TlsMode
from replicator.sources.sqlserver.dialect import literal, table_name

LOCK_MILLISECONDS = 5_000
ROWS, ROW_BYTES = 10_000, 16 * 1024 * 1024  # of a result that is wanted as a whole, at a time
SILENT_SECONDS = 60  # in the midst of a result
FIRST_ROWS = 20  # of a result, until it is known how wide they are, and how fast they come
HELD_SECONDS = 0.2  # of a batch: the driver may keep Python's lock meanwhile (ADR 52)
# Messages are recognised by their English text: the driver gives the SQLSTATE and no number.
_SESSION = (
    "SET LANGUAGE us_english; SET DATEFORMAT ymd; SET TEXTSIZE 2147483647; SET ROWCOUNT 0; SET ANSI_NULLS ON; "
    "SET ANSI_PADDING ON; SET ANSI_WARNINGS ON; SET QUOTED_IDENTIFIER ON; SET CONCAT_NULL_YIELDS_NULL ON; "
    f"SET ARITHABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET LOCK_TIMEOUT {LOCK_MILLISECONDS}; "
    "SET DEADLOCK_PRIORITY LOW; SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
)
_AUTHENTICATIONS = {
    Login.ENTRA_PASSWORD: "ActiveDirectoryPassword",
    Login.ENTRA_PRINCIPAL: "ActiveDirectoryServicePrincipal",
    Login.ENTRA_MANAGED: "ActiveDirectoryMSI",
    Login.ENTRA_DEFAULT: "ActiveDirectoryDefault",
}
_PERMISSION = re.compile(
    r"permission (?:was )?denied|does not have permission|do not have permission|requires (?:a )?member|"
    r"must be a member|User does not have|is not able to access the database|"
    r"Cannot find the object .* because it does not exist or you do not have",
    re.IGNORECASE,
)
# Of another database that a statement names, such as msdb: error 916, whose SQLSTATE is that of a refused connection.
_NOT_LET_IN = re.compile(r"server principal .* is not able to access the database", re.IGNORECASE)
_LOST = re.compile(
    r"Communication link failure|Connection not open|Client unable to establish|Connection failure|Server rejected|"
    r"connection is broken|Connection timeout expired|SHUTDOWN is in progress|Statement completion unknown|"
    r"SQLSTATE:08|TCP Provider|Login timeout expired",
    re.IGNORECASE,
)
# Of databases in availability groups, and of Azure's while they move: not of one table, and they pass
# (learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors: 976 to 988, 3906).
_TO_READERS = (
    "Let the secondary accept readers: ALTER AVAILABILITY GROUP [group] MODIFY REPLICA ON N'server' WITH "
    "(SECONDARY_ROLE (ALLOW_CONNECTIONS = READ_ONLY)); and resume its data movement if it is suspended: "
    "ALTER DATABASE [database] SET HADR RESUME;"
)
OR_ANOTHER = " -- or to the connection's user, if it has another name"
TO_PRIMARY = (
    "Enter the availability group's listener in the connection, or the primary replica as it is now; a replica's own "
    "address leads to a secondary after a failover."
)
_FAILING_OVER = "Retried automatically: a failover may be under way. If it persists, check the availability group."
_REPLICA = (
    (re.compile("currently not accessible for queries|does not allow read only|no online secondary"), _TO_READERS),
    (re.compile("when the application intent is set to read only|because the database is read-only"), TO_PRIMARY),
    (re.compile("not in the PRIMARY or SECONDARY role|lacks a quorum|is not currently available"), _FAILING_OVER),
)
_ACCESS = (
    "SELECT d.state_desc, d.group_database_id, sys.fn_hadr_is_primary_replica(d.name), HAS_DBACCESS(d.name) "
    "FROM sys.databases d WHERE d.name = {name}"
)
_GONE = re.compile(r"Invalid object name|Base table or view not found|schema .* does not exist", re.IGNORECASE)
_LOCKED = re.compile(r"Lock request time out|was deadlocked on|Serialization failure|update conflict", re.IGNORECASE)
_NO_SNAPSHOT = re.compile(r"Snapshot isolation transaction failed accessing|snapshot isolation is not allowed")
_NOT_LOADED = re.compile(r"Failed to load the driver|driver could not be loaded|libltdl|cannot open shared")
_TLS = re.compile(r"SSL Provider|certificate|TLS|Encryption not supported", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:\[[^\]]*\])+\s*")
_DRIVER_REMEDY = (
    "Install Tidemark with its extra sqlserver (pip install 'tidemark[sqlserver]'), and the libraries that Microsoft's"
    " driver needs (Debian, Ubuntu: apt-get install libltdl7 libgssapi-krb5-2)."
)


@cache
def driver() -> ModuleType:
    """Microsoft's mssql-python, without its pool: a connection of a pool keeps its session.  ConfigurationError."""
    try:
        import mssql_python  # noqa: PLC0415 - loaded where it is used
    except ImportError as error:
        message = f"The driver for SQL Server cannot be loaded: {error}"
        raise ConfigurationError(message, remedy=_DRIVER_REMEDY) from None
    mssql_python.pooling(enabled=False)
    module: ModuleType = mssql_python
    return module


class SqlServerSession:
    """One session in autocommit; one statement at a time.  `cancel` may be called by any thread.

    names: how the database compares names; None until it was asked for.
    """

    def __init__(self, raw: Any, where: str, statement_timeout: int = 0) -> None:
        self._raw, self.where = raw, where
        self._statement_timeout = self._waits = statement_timeout
        self._cursor: Any = raw.cursor()
        self.open = True
        self.names: NameRule | None = None

    def run(self, sql: str, where: str | TableId) -> None:
        """A statement without rows, or whose rows are not wanted."""
        with translated(where, self):
            self._bound_waits(self._statement_timeout)
            self._cursor.execute(sql)
            while self._cursor.nextset():
                pass

    def rows(self, sql: str, where: str | TableId) -> list[tuple[Any, ...]]:
        """All rows of a SELECT.

        By Arrow as well: of columns of max, the driver's `fetchall` keeps Python's lock whenever it waits (ADR 52).
        """
        found: list[tuple[Any, ...]] = []
        for batch in self.batches(sql, where, ROWS, ROW_BYTES):
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return found

    def batches(self, sql: str, where: str | TableId, rows: int, size: int) -> Iterator[pa.RecordBatch]:
        """Yield rows of a SELECT as they come, at most `rows` and about `size` bytes at a time (invariant 9).

        Yields at least one batch, which may be empty.
        """
        with translated(where, self):
            self._bound_waits(self._statement_timeout)
            self._cursor.execute(sql)
            self._bound_waits(SILENT_SECONDS)
        wanted, first = min(rows, FIRST_ROWS), True
        while True:
            started = time.monotonic()
            batch = self._batch(wanted, where)
            if batch.num_rows or first:
                yield batch
            if not batch.num_rows:  # a short batch need not be the last one
                return
            by_time = wanted * HELD_SECONDS / (time.monotonic() - started + 1e-6)
            wanted, first = max(1, min(rows, size * batch.num_rows // (batch.nbytes + 1), int(by_time))), False

    def _batch(self, rows: int, where: str | TableId) -> pa.RecordBatch:
        started = time.monotonic()
        try:
            with translated(where):
                batch: pa.RecordBatch = self._cursor.arrow_batch(rows)
        except SourceUnreachable as error:
            if time.monotonic() - started >= SILENT_SECONDS:
                self.open = False  # the driver waits for the server to end the session: not in this thread
                threading.Thread(target=self._end, name="silent session", daemon=True).start()
                said = f"{self.where}: the server sent nothing for {SILENT_SECONDS} s in the midst of a result."
                raise SourceUnreachable(said) from None
            if not error.answered:
                self.close()
            raise
        return batch

    def _bound_waits(self, seconds: int) -> None:
        """How long the driver waits for the server to send anything; 0: without end.

        While rows come, too: of a value of max, the driver waits with Python's lock held (ADR 52).  A result that flows
        is not bounded by it, however long it takes.
        """
        if self._waits != seconds:
            self._waits = seconds
            attribute = driver().constants.ConstantsDDBC.SQL_ATTR_QUERY_TIMEOUT.value
            driver().ddbc_bindings.DDBCSQLSetStmtAttr(self._cursor.hstmt, attribute, seconds)

    def cancel(self) -> None:
        """What is under way ends at the server, and with an error here."""
        cursor = self._cursor
        handle = getattr(cursor, "hstmt", None)
        if self.open and handle is not None:
            with suppress(driver().Error, RuntimeError):
                handle._cancel()  # noqa: SLF001 - the driver has no other way

    def close(self) -> None:
        """Ends the session, with what is under way in it."""
        if self.open:
            self.open = False
            self._end()

    def _end(self) -> None:
        with suppress(driver().Error, RuntimeError, AttributeError):  # the server stops sending the remaining rows
            self._cursor.hstmt._cancel()  # noqa: SLF001
        with suppress(driver().Error, RuntimeError):
            self._cursor.close()
        with suppress(driver().Error, RuntimeError):
            self._raw.close()


def connect(config: SqlServerConfig) -> SqlServerSession:
    """An open connection in the database, READ COMMITTED, with English messages.

    Raises SourceUnreachable, SourceAuthenticationFailed, SourcePermissionDenied; ConfigurationError without the driver.
    """
    driver()
    reach("source.connect.before")
    try:
        addresses = resolved(config.host, config.port)
    except OSError as error:
        raise SourceUnreachable(f"{config.where}: {error}") from None
    for address in addresses[:-1]:  # a listener has one in each subnet, of which one answers
        try:
            return _connected(config, address)
        except SourceUnreachable as error:
            if error.of_server:
                raise
    return _connected(config, addresses[-1])


def _connected(config: SqlServerConfig, address: str) -> SqlServerSession:
    try:
        return _logged_in(config, address)
    except SourceAuthenticationFailed as error:
        raise _refused(config, address, error) from None


def _refused(config: SqlServerConfig, address: str, error: SourceAuthenticationFailed) -> TidemarkError:
    """Find out whether a login was refused because of the database.

    Of several messages the driver gives only the last, which is the same in both cases.  A login that works in master
    was not refused for its password, and master shows the state of the database.
    """
    if config.database.lower() == "master":
        return error
    try:
        with closing(_logged_in(replace(config, database="master", read_only=False), address)) as master:
            return _not_let_in(config, master.rows(_ACCESS.format(name=literal(config.database)), config.where))
    except SourceUnreachable as away:  # in the midst of a failover, perhaps
        return error if away.answered else away
    except TidemarkError:
        return error


def _not_let_in(config: SqlServerConfig, rows: list[tuple[Any, ...]]) -> TidemarkError:
    """`rows`: of `_ACCESS`."""
    said = f"{config.where}: the login is valid, but the database does not admit it"
    if not rows:
        return SourcePermissionDenied(f"{said}: there is none of that name.", remedy="Correct the database's name.")
    ((state, group, primary, access),) = rows
    if state == "ONLINE" and not access and (group is None or primary):
        remedy = f"CREATE USER [tidemark] FOR LOGIN [tidemark]; in the database {config.database}."
        return SourcePermissionDenied(f"{said}.", remedy=remedy)
    if state != "ONLINE":
        why, remedy = f"it is {str(state).lower()}", _FAILING_OVER
    elif group is None or (primary and not config.read_only):
        why, remedy = "it was not available yet", _FAILING_OVER
    elif primary or config.read_only:
        why, remedy = "no secondary replica accepts readers now", _TO_READERS
    elif primary is None:
        why, remedy = "the replica is neither primary nor secondary now", _FAILING_OVER
    else:
        why, remedy = "this is a secondary replica", TO_PRIMARY
    return _of_the_server(SourceUnreachable(f"{said}: {why}.", remedy=remedy))


def _logged_in(config: SqlServerConfig, address: str) -> SqlServerSession:
    module = driver()
    with translated(config.where):
        raw = module.connect(_connection_string(config, address), autocommit=True, timeout=config.connect_timeout)
        try:
            raw.timeout = config.statement_timeout
            connection = SqlServerSession(raw, config.where, config.statement_timeout)
            connection.run(_SESSION, config.where)
        except BaseException:
            raw.close()
            raise
    return connection


def _connection_string(config: SqlServerConfig, address: str) -> str:
    """Of Microsoft's ODBC driver: each value in braces, of which the closing one is doubled
    (learn.microsoft.com/sql/connect/odbc/dsn-connection-string-attribute).
    """
    verified = config.tls is TlsMode.VERIFY_IDENTITY
    options = {
        "Server": f"tcp:{address},{config.port}",
        "Database": config.database,
        "Encrypt": "no" if config.tls is TlsMode.DISABLED else "yes",
        "TrustServerCertificate": "no" if verified else "yes",
        "ConnectRetryCount": "0",  # a session that is made again in silence has lost its settings
        "ApplicationIntent": "ReadOnly" if config.read_only else "ReadWrite",
    }
    if verified:
        options["HostnameInCertificate"] = config.certificate_host or config.host
    if config.login is Login.WINDOWS:
        options["Trusted_Connection"] = "yes"
    elif config.login in _AUTHENTICATIONS:
        options["Authentication"] = _AUTHENTICATIONS[config.login]
    if config.login not in {Login.WINDOWS, Login.ENTRA_DEFAULT} and config.user:
        options["UID"] = config.user
    if config.login in {Login.SQL, Login.ENTRA_PASSWORD, Login.ENTRA_PRINCIPAL}:
        options["PWD"] = config.password
    return ";".join(f"{name}={{{value.replace('}', '}}')}}}" for name, value in options.items())


@contextmanager
def translated(where: str | TableId, connection: SqlServerSession | None = None) -> Iterator[None]:
    """Errors of the driver inside become Tidemark's.

    `where`: the table that was asked about, whose trouble the server's answer then is (invariant 13); or a name of the
    server.  A connection whose statement failed in its session is closed.
    """
    module = driver()
    try:
        yield
    except (module.exceptions.Exception, RuntimeError, OSError, pa.ArrowException, ValueError) as error:
        found = tidemark_error(error, where)
        if connection is not None and isinstance(found, SourceUnreachable) and not found.answered:
            connection.close()
        raise found from None  # the cause's text may hold what the user typed (invariant 8)


def tidemark_error(error: Exception, where: str | TableId) -> TidemarkError:
    """The error of Tidemark's tree that says the same."""
    said = _said(error)
    state = str(getattr(error, "driver_error", ""))
    if _NOT_LOADED.search(said):
        return ConfigurationError(f"The driver for SQL Server cannot be loaded: {said}", remedy=_DRIVER_REMEDY)
    found = _of_server(f"{state} {said}", f"{where}: {said}")
    if found is not None:
        return found
    if isinstance(where, TableId):
        return _of_table(f"{state} {said}", said, where)
    if _PERMISSION.search(said):
        return _answered(SourcePermissionDenied(f"{where}: {said}"))
    return _answered(SourceUnreachable(f"{where}: {said}")) if state else SourceUnreachable(f"{where}: {said}")


def _of_server(text: str, message: str) -> TidemarkError | None:
    """Return the error if it is the server's, regardless of the statement; else None."""
    for pattern, remedy in _REPLICA:
        if pattern.search(text):
            return _of_the_server(SourceUnreachable(message, remedy=remedy))
    if "Login failed" in text or "Invalid authorization" in text:
        return SourceAuthenticationFailed(message)
    if "Cannot open database" in text:
        return SourcePermissionDenied(message, remedy="CREATE USER [tidemark] FOR LOGIN [tidemark]; in the database.")
    if _LOST.search(text) and not _NOT_LET_IN.search(text):
        tls = "Check TLS in the connection, and the server's certificate." if _TLS.search(message) else None
        return SourceUnreachable(message, remedy=tls)
    if _NO_SNAPSHOT.search(text):
        return SourceMisconfigured(message, remedy="ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;")
    return None


def _of_table(text: str, said: str, table: TableId) -> TidemarkError:
    """The server's answer to a statement about one table."""
    if _PERMISSION.search(text):
        found = TableError(
            f"{table}: {said}",
            table=str(table),
            remedy=f"GRANT SELECT ON {table_name(table)} TO [tidemark];{OR_ANOTHER}",
        )
        return _answered(found)
    if _GONE.search(text):
        return TableDisappeared(f"{table} no longer exists.", table=str(table))
    if _LOCKED.search(text):
        return TableBusy(f"{table} is locked: {said}", table=str(table))
    return _answered(TableNotRead(f"{table}: {said}", table=str(table)))


def _answered(error: TidemarkError) -> TidemarkError:
    error.answered = error.of_server = True
    return error


def _of_the_server(error: TidemarkError) -> TidemarkError:
    error.of_server = True
    return error


def _said(error: Exception) -> str:
    """The server's or the driver's words, on one line, without the names of the layers before them."""
    text = str(getattr(error, "ddbc_error", "") or error)
    return " ".join(_PREFIX.sub("", text).split())
