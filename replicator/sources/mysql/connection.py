"""Connections with known session settings, and the server's errors as Tidemark's."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeAlias

import pymysql
from pymysql.constants import ER

from replicator.addresses import checked_authority
from replicator.clear_text import REMEDY, ClearTextRefused, connect_mysql, unverified_context
from replicator.errors import (
    SourceAuthenticationFailed,
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
from replicator.sources.mysql.config import MySqlConfig, TlsMode

Connection: TypeAlias = "pymysql.connections.Connection[Any]"  # generic for the type checker only

_AUTHENTICATION = {ER.ACCESS_DENIED_ERROR, 1524, 1698, 1862, 3118, 4151}  # unknown plugin, expired, locked accounts
_PERMISSION = {
    ER.DBACCESS_DENIED_ERROR,
    ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    ER.PROCACCESS_DENIED_ERROR,
    ER.VIEW_NO_EXPLAIN,
    ER.OPTION_PREVENTS_STATEMENT,
    1836,
}
_READ_ONLY = {ER.OPTION_PREVENTS_STATEMENT, 1836}  # ER_READ_ONLY_MODE
READ_ONLY_REMEDY = (
    "Connect to a server that accepts writes, or set read_only to OFF on this one. Tidemark writes watermarks into"
    " its own table."
)
_DISAPPEARED = {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.UNKNOWN_TABLE, 1932}  # 1932: not in engine (DISCARD TABLESPACE)
# The empty sql_mode, but for dates: a key bound like 2020-02-31 must stay what it is and not become NULL. `DEFAULT` is
# the server's own limit of rows: a SELECT would end there without a word. A server that kills a quiet or slow session
# would end long snapshots; MDL waits must not outlive a stop (invariant 10).
_SESSION = (
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', wait_timeout = 28800, net_write_timeout ="
    " 3600, net_read_timeout = 3600, lock_wait_timeout = 10, sql_select_limit = 18446744073709551615,"
    " sql_auto_is_null = 0"
)
_OPTIONAL_SESSION = (
    "SET SESSION max_statement_time = {seconds}",
    "SET SESSION max_execution_time = {milliseconds}",
)
READ_TIMEOUT = 600.0
# The server answers, but this one table's files, tablespace or underlying tables are not as they must be
# (mysqld_error.h: ER_CANT_OPEN_FILE, FILE_NOT_FOUND, GET_ERRNO, NOT_FORM_FILE, NOT_KEYFILE, OLD_KEYFILE,
# WRONG_MRG_TABLE, CRASHED_ON_USAGE, CRASHED_ON_REPAIR, two of FEDERATED, TABLE_NEEDS_UPGRADE, INDEX_CORRUPT,
# TABLESPACE_MISSING, TABLESPACE_DISCARDED).
_BROKEN = frozenset({1016, 1017, 1030, 1033, 1034, 1035, 1168, 1194, 1195, 1429, 1430, 1459, 1712, 1812, 1814})
_DISK_FULL = "Got error 28 "  # passes
_NUMBERS = 1 << 16
_SERVERS, _CLIENTS = 1000, range(2000, 3000)  # numbers of the server's errors, and of the client's own
# Of the connection or the whole server, regardless of the statement: too many connections, network, shutdown, limits of
# the user, kills.
_OF_THE_SERVER = frozenset(
    {1040, 1041, 1042, 1043, 1053, 1077, 1078, 1079, 1080, 1129, 1130, 1135, 1152, 1153, 1154, 1155, 1156, 1157, 1158,
        1159, 1160, 1161,
     1184, 1203, 1226, 1927, 3169}
)  # fmt: skip
_LOCKED = frozenset({1205, 3572})
# Of the moment: out of memory or disk, changes of the table, deadlocks, interrupted statements, time limits.
_PASSING = _OF_THE_SERVER | _LOCKED | {
    1020, 1021, 1023, 1026, 1037, 1038, 1114, 1180, 1181, 1206, 1213, 1317, 1412, 1615, 1637, 1969, 3024
}  # fmt: skip
_BROKEN_REMEDY = "Run CHECK TABLE on the source and repair or drop it, then resnapshot the table; or exclude the table."


_SILENT = (
    "Check the port: another kind of server may listen there, Postgres for one, which waits for its client to speak"
    " first."
)


def connect(config: MySqlConfig, **overrides: Any) -> Connection:
    """An open connection in autocommit with utf8mb4, UTC, a lenient sql_mode and REPEATABLE READ.

    `overrides` are options of `pymysql.connect`.  Raises SourceUnreachable, SourceAuthenticationFailed (also where the
    server asks for the password in clear and is not verified), SourcePermissionDenied; ConfigurationError for a CA
    certificate that is none.
    """
    options: dict[str, Any] = {
        "host": config.host,
        "port": config.port,
        "user": config.user,
        "password": config.password.encode(),  # pymysql itself would take Latin-1
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": config.connect_timeout,
        "read_timeout": _patience(config),
        "write_timeout": _patience(config),
        "program_name": "tidemark",
        **_tls_options(config),
    }
    reach("source.connect.before")
    with translated(f"{config.host}:{config.port}"):
        wanted = options | overrides
        try:
            connection: Connection = connect_mysql(
                verified=config.verified, **wanted | {"read_timeout": config.connect_timeout}
            )
        except pymysql.err.OperationalError as error:
            if not isinstance(error.__cause__ or error.__context__, TimeoutError):
                raise
            silent = f"{config.host}:{config.port} is reachable, but is not a MySQL or MariaDB server."
            raise SourceUnreachable(silent, remedy=_SILENT) from None
        vars(connection)["_read_timeout"] = wanted["read_timeout"]  # of a login it is the connect timeout
        try:
            _prepare(connection, config.statement_timeout)
        except BaseException:
            connection.close()
            raise
        return connection


def _patience(config: MySqlConfig) -> float:
    """Return the seconds to wait for an answer: a server that hangs does not enforce its own statement timeout."""
    return config.statement_timeout + 5.0 if config.statement_timeout else READ_TIMEOUT


def cancel(config: MySqlConfig, *connections: Connection | None) -> None:
    """End at the server what these connections are busy with; by any thread.  Raises as `connect`."""
    busy = [one.thread_id() for one in connections if one is not None and one.open]  # type: ignore[no-untyped-call]
    if busy:
        with closing(connect(config)) as own, own.cursor() as cursor, translated(f"{config.host}:{config.port}"):
            for number in busy:
                try:
                    cursor.execute(f"KILL QUERY {number}")
                except pymysql.err.MySQLError as error:
                    if _number(error) != ER.NO_SUCH_THREAD:  # it is gone already
                        raise


def _prepare(connection: Connection, limit: int) -> None:
    """`limit`: seconds for one SELECT, 0 for none."""
    with connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute(_SESSION)
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for statement in _OPTIONAL_SESSION:
            try:
                cursor.execute(
                    statement.format(seconds=limit, milliseconds=1000 * limit)
                )  # MariaDB knows the first only, MySQL the second
            except pymysql.err.MySQLError as error:
                if _number(error) != ER.UNKNOWN_SYSTEM_VARIABLE:
                    raise


def _tls_options(config: MySqlConfig) -> dict[str, Any]:
    """Return pymysql's TLS options; without any, it prefers TLS."""
    if config.tls is TlsMode.DISABLED:
        return {"ssl_disabled": True}
    if config.tls is TlsMode.PREFERRED:
        return {}
    authority = checked_authority(config.ca)
    if config.tls is TlsMode.REQUIRED:
        return {"ssl": unverified_context()}
    context = ssl.create_default_context(cadata=authority or None)
    # The certificates that MySQL and MariaDB make for themselves break the strict rules of Python 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = config.tls is TlsMode.VERIFY_IDENTITY
    return {"ssl": context}


@contextmanager
def translated(where: str | TableId) -> Iterator[None]:
    """Errors of pymysql and of the socket inside become Tidemark's.

    `where`: the table that was asked about, whose trouble the server's answer then is (invariant 13); or a name of the
    server.
    """
    try:
        yield
    except (pymysql.err.Error, OSError, RuntimeError) as error:
        raise tidemark_error(error, where) from None  # the cause's text may hold what the user typed (invariant 8)


def tidemark_error(error: Exception, where: str | TableId) -> TidemarkError:
    """The error of Tidemark's tree that says the same."""
    number = _number(error)
    reason = _reason(error)
    if isinstance(error, ClearTextRefused):
        return SourceAuthenticationFailed(f"{where}: {reason}", remedy=REMEDY)
    of_server = number >= _SERVERS and number not in _CLIENTS
    if isinstance(where, TableId) and of_server and number not in _OF_THE_SERVER | _AUTHENTICATION:
        found = _of_table(number, reason, where)
    elif number in _AUTHENTICATION or isinstance(error, RuntimeError):
        found = SourceAuthenticationFailed(f"{where} refused the login: {reason}")
    elif number in _PERMISSION:
        remedy = READ_ONLY_REMEDY if number in _READ_ONLY else None
        found = SourcePermissionDenied(f"{where} does not allow it: {reason}", remedy=remedy)
    else:
        found = SourceUnreachable(f"{where} could not be read: {reason}")
    found.of_server = of_server
    found.answered = of_server and number not in _PASSING | _PERMISSION | _DISAPPEARED | _BROKEN | _AUTHENTICATION
    return found


def _of_table(number: int, reason: str, table: TableId) -> TidemarkError:
    """Translate the server's answer to a statement about one table into that table's error (invariant 13)."""
    name = str(table)
    if number in _PERMISSION:
        return SourcePermissionDenied(f"{name} does not allow it: {reason}", table=name)
    if number in _DISAPPEARED:
        return TableDisappeared(f"{name}: {reason}", table=name)
    if number in _BROKEN and not reason.startswith(_DISK_FULL):
        return TableError(f"The server itself cannot read {name}: {reason}.", table=name, remedy=_BROKEN_REMEDY)
    kind = TableBusy if number in _LOCKED else TableNotRead
    return kind(f"{name} could not be read temporarily: {reason}", table=name)


def _number(error: Exception) -> int:
    first = error.args[0] if error.args else 0
    return first % _NUMBERS if isinstance(first, int) else 0  # pymysql reads it as a signed one


def _reason(error: Exception) -> str:
    """What the server said, with the number; without the statement, which pymysql does not repeat."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    number = _number(error)
    return f"{text} (error {number})" if number else text


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as an SQL literal that no sql_mode and no character can break out of."""
    return f"_utf8mb4 X'{text.encode('utf-8', 'surrogatepass').hex()}'"


def server_is_mariadb(connection: Connection) -> bool:
    """MariaDB says so in its version text (after the `5.5.5-` that old clients need)."""
    return "mariadb" in str(connection.server_version).lower()  # type: ignore[attr-defined]
