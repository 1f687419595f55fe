"""Sessions with known settings, and the server's errors as Tidemark's.

The driver is python-oracledb in its thin mode, which needs no Oracle client.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from replicator.addresses import checked_authority, resolved
from replicator.errors import (
    ConfigurationError,
    KeyChanged,
    LogPurged,
    SourceAuthenticationFailed,
    SourceMisconfigured,
    SourcePermissionDenied,
    SourceReplaced,
    SourceUnreachable,
    TableBusy,
    TableDisappeared,
    TableError,
    TableNotRead,
    TidemarkError,
    UnsupportedCharset,
)
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.sources.oracle.config import OracleConfig, TlsMode
from replicator.sources.oracle.dialect import quoted

if TYPE_CHECKING:
    import oracledb

Connection: TypeAlias = "oracledb.Connection"

# No default of the account, the session or the server may decide the text of a value.
SESSION = (
    "ALTER SESSION SET NLS_DATE_FORMAT = 'SYYYY-MM-DD HH24:MI:SS' NLS_TIMESTAMP_FORMAT = 'SYYYY-MM-DD HH24:MI:SS.FF9'"
    " NLS_TIMESTAMP_TZ_FORMAT = 'SYYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM' NLS_NUMERIC_CHARACTERS = '.,' NLS_SORT = BINARY"
    " NLS_COMP = BINARY TIME_ZONE = '+00:00'"
)
_CODE = re.compile(r"\b(?:ORA|DPY|PLS)-(\d{4,5})\b")
ARRAY_ROWS = 1_000
_LOST, _CONNECTING = frozenset({1001, 1080, 4005, 4011, 4024}), 6  # DPY-…, DPY-6…

# https://docs.oracle.com/en/error-help/db/; what is not here is retried: of a statement about one table as that table's
# trouble (invariant 13), of any other as the source's.
_LOGIN = frozenset({1017, 1005, 28000, 28001, 28002, 1045, 28009})
_DENIED = frozenset({1031, 1749, 41900, 6550})
_GONE_LOG = frozenset({308, 1291, 1292, 1323, 1284, 334})
_GONE_ROWS = frozenset({1555, 8181, 8180, 22924})  # of an SCN
_OTHER_LOG = frozenset({1295, 1346})  # of another database, or of another incarnation of it
_OF_ONE_TABLE: dict[int, type[TableError]] = {
    942: TableDisappeared,
    4043: TableDisappeared,
    8103: TableDisappeared,
    1555: TableNotRead,
    1466: TableNotRead,
    8181: TableNotRead,
    8180: TableNotRead,
    22924: TableNotRead,
    54: TableBusy,
    4021: TableBusy,
    60: TableBusy,
    # of values that are compared: bounds of chunks, under a key of another type
    **dict.fromkeys(
        (932, 1426, 1465, 1722, 1830, 1839, 1840, 1841, 1843, 1847, 1850, 1851, 1852, 1858, 1861, 1867, 1873),
        KeyChanged,
    ),
}
# Of the statement: syntax, names, values; the same statement fails again.
_OF_THE_STATEMENT = frozenset(
    {904, 907, 911, 917, 920, 933, 936, 1438, 1476, 6502, 12899}
    | {900, 902, 903, 905, 906, 909, 913, 921, 923, 928, 1756, 1788, 22806, 3048, 3049}
    | {code for code, kind in _OF_ONE_TABLE.items() if kind is KeyChanged}
)
_OPEN = "ALTER PLUGGABLE DATABASE ALL OPEN;"
_LISTENED = (
    "Correct the service name or SID of the connection; `lsnrctl services` lists them. The service of a pluggable"
    f" database is there while that is open: {_OPEN}"
)
_UNDO = "Retried automatically. If it persists: ALTER SYSTEM SET UNDO_RETENTION = 3600; or make the chunks smaller."
_NATIONAL = (
    "Exclude the columns of the types NCHAR, NVARCHAR2 and NCLOB, or migrate the national character set to AL16UTF16."
)
_REMEDIES = {
    1031: "Run the connection test. It shows the GRANT to run on the source.",
    **dict.fromkeys(_GONE_ROWS, _UNDO),
    1033: f"Wait until the database has started. Of a pluggable database that is mounted: {_OPEN}",
    1109: _OPEN,
    1219: f"ALTER DATABASE OPEN; -- of a pluggable database: {_OPEN}",
    1371: "EXECUTE DBMS_LOGMNR_D.BUILD(OPTIONS => DBMS_LOGMNR_D.STORE_IN_REDO_LOGS);",
    **dict.fromkeys((12514, 12505), _LISTENED),
    65011: "Correct the pluggable database of the connection.",
    1435: "Correct the pluggable database of the connection.",
    65054: _OPEN,
    28000: "ALTER USER tidemark ACCOUNT UNLOCK;",
    28001: 'ALTER USER tidemark IDENTIFIED BY "a new password"; and correct the password of the connection.',
}
_MISCONFIGURED = frozenset({65011, 1435, 16000, 16403, 1325, 1354, 1371})
_NOT_OPEN = frozenset({1109, 65054, 12514, 12505, 1219, 1033, 44609})  # as of a server that starts, too: retried
_NO_SERVICE, _NO_NATIONAL = frozenset({6001, 6003}), 3012  # DPY-…


def driver() -> Any:
    """python-oracledb; few processes need it.  ConfigurationError where it is not installed."""
    try:
        import oracledb  # noqa: PLC0415
    except ImportError:
        message = "The driver of Oracle is not installed."
        raise ConfigurationError(message, remedy="pip install 'tidemark[oracle]'") from None
    return oracledb


def connect(config: OracleConfig, *, root: bool = False, settings: str = SESSION) -> Connection:
    """A session with SESSION, autocommit off; in the pluggable database of the connection, if any, unless `root`.

    Raises SourceUnreachable, SourceAuthenticationFailed, SourceMisconfigured, ConfigurationError.
    """
    oracledb = driver()
    reach("source.connect.before")
    with translated(config.where):
        address = resolved(config.host, config.port)[0]
        verified = config.tls is TlsMode.VERIFY_IDENTITY  # the driver holds the certificate against the host's name
        connection: Connection = oracledb.connect(
            user=config.user,
            password=config.password,
            host=config.host if verified else address,
            port=config.port,
            service_name=config.service or None,
            sid=config.sid or None,
            tcp_connect_timeout=config.connect_timeout,
            expire_time=1,
            retry_count=0,
            disable_oob=True,
            program="tidemark",
            stmtcachesize=0,
            **_tls(config),
        )
        try:
            if config.statement_timeout:
                connection.call_timeout = config.statement_timeout * 1000
            with connection.cursor() as cursor:
                cursor.execute(settings)
                if config.pdb and not root:
                    cursor.execute(f"ALTER SESSION SET CONTAINER = {quoted(config.pdb)}")
                    cursor.execute(settings)
        except BaseException:
            close(connection)
            raise
        return connection


def _tls(config: OracleConfig) -> dict[str, Any]:
    if config.tls is TlsMode.OFF:
        return {"protocol": "tcp"}
    context = ssl.create_default_context(cadata=checked_authority(config.ca) or None)
    if config.tls is not TlsMode.VERIFY_IDENTITY:
        context.check_hostname = False
    if config.tls is TlsMode.REQUIRED:
        context.verify_mode = ssl.CERT_NONE
    return {"protocol": "tcps", "ssl_context": context, "ssl_server_dn_match": context.check_hostname}


def close(connection: Connection | None) -> None:
    """Gives it back to the server; no error where it is gone."""
    if connection is not None:
        with suppress(Exception):
            connection.close()


def cancel(*connections: Connection | None) -> None:
    """By any thread: what these connections are busy with ends at the server, and with ORA-01013 here."""
    for one in connections:
        if one is not None:
            with translated("The source"):
                one.cancel()


@contextmanager
def translated(where: str | TableId) -> Iterator[None]:
    """Errors of the driver and of the socket inside become Tidemark's.

    `where`: the table that was asked about, whose trouble the server's answer then is (invariant 13); or a name of the
    server.
    """
    oracledb = driver()
    try:
        yield
    except (oracledb.Error, OSError) as error:
        raise tidemark_error(error, where) from None  # the cause's text may hold rows (invariant 8)


def error_code(error: BaseException) -> int:
    """The server's number, of an error of the driver; 0: it has none of the server's."""
    found = error.args[0] if error.args else None
    full = str(getattr(found, "full_code", "") or "")
    return int(getattr(found, "code", 0) or 0) if full.startswith("ORA-") else 0


def driver_code(error: BaseException) -> int:
    """The number of an error that the driver itself raises: DPY-3012 is 3012; 0: it is the server's, or has none."""
    found = _CODE.match(str(getattr(error.args[0] if error.args else "", "full_code", "") or ""))
    return int(found[1]) if found and found[0].startswith("DPY-") else 0


def _of_the_answer(error: BaseException) -> bool:
    """Is it the driver's own, on what the server sent for a statement (DPY-4042: no Arrow value), and not its loss?"""
    number = driver_code(error)
    return number > 0 and number not in _LOST and number // 1000 != _CONNECTING


def tidemark_error(error: BaseException, where: str | TableId) -> TidemarkError:
    """The error of Tidemark's tree that says the same."""
    code = error_code(error)
    lines = str(getattr(error.args[0] if error.args else "", "message", None) or error).strip().splitlines()
    reason = f"{_first(lines) or type(error).__name__}"
    of_session = (
        (not code and not _of_the_answer(error))
        or code in _LOGIN
        or code in {28, 1012, 2396, 3113, 3114, 3135, 12537, 12547, 12570, 1089, 1090}
    )
    found = _of_driver(driver_code(error), reason, where)
    if found is None and isinstance(where, TableId) and not of_session:
        found = _of_table(code, reason, where)
    found = found or _of_source(code, reason, where, session=of_session)
    found.of_server = bool(code)
    found.answered = found.answered or (code in _OF_THE_STATEMENT and not of_session)
    return found


def _first(lines: list[str]) -> str:
    """`ORA-00942: table or view does not exist` → `table or view does not exist (error 942)`.

    `shared.conditions` searches for `(error …)`.  The reason for a failed connection (DPY-6005) is in the next line: a
    refusal, a wrong certificate.
    """
    line = (lines[1:] if len(lines) > 1 and "DPY-6005" in lines[0] else lines or [""])[0]
    found = _CODE.match(line)
    return f"{line[found.end() :].lstrip(': ')} (error {int(found[1])})" if found else line


def _of_driver(number: int, reason: str, where: str | TableId) -> TidemarkError | None:
    """Return the error for a driver's error that settings can solve; else None."""
    if number in _NO_SERVICE or any(f"(error {one})" in reason for one in _NO_SERVICE):  # behind DPY-6005, too
        return SourceUnreachable(f"{where}: {reason}", remedy=_LISTENED)
    if number == _NO_NATIONAL:
        message = f"{where} has a column of the national character set UTF8, which the driver does not read: {reason}"
        table = str(where) if isinstance(where, TableId) else None
        return (UnsupportedCharset if table else SourceMisconfigured)(message, remedy=_NATIONAL, table=table)
    return None


def _of_source(code: int, reason: str, where: object, *, session: bool) -> TidemarkError:  # noqa: PLR0911 - a case each
    remedy = _REMEDIES.get(code)
    if code in _LOGIN:
        return SourceAuthenticationFailed(f"{where} refused the login: {reason}", remedy=remedy)
    if code in _DENIED:
        return SourcePermissionDenied(f"{where} does not allow it: {reason}", remedy=remedy)
    if code in _GONE_LOG:
        return LogPurged(f"{where}: the log that is needed to continue is gone: {reason}")
    if code in _GONE_ROWS:
        return SourceUnreachable(f"{where} does not have the rows of an SCN: {reason}", remedy=remedy)
    if code in _OTHER_LOG:
        return SourceReplaced(f"{where}: the log files are not those of the database's dictionary: {reason}")
    if code in _NOT_OPEN:
        return SourceUnreachable(f"{where} is not open: {reason}", remedy=remedy)
    if code in _MISCONFIGURED:
        return SourceMisconfigured(f"{where} cannot be used: {reason}", remedy=remedy)
    if session and "certificate" in reason.lower():
        remedy = "Correct TLS mode and CA certificate of the connection, or the server's certificate."
        return ConfigurationError(f"{where} could not be read: {reason}", remedy=remedy)
    return SourceUnreachable(f"{where} could not be read: {reason}", remedy=remedy)


def _of_table(code: int, reason: str, table: TableId) -> TidemarkError:
    """Translate the server's answer to a statement about one table into that table's error (invariant 13)."""
    name, statement = str(table), code in _OF_THE_STATEMENT
    if code in _DENIED:
        return SourcePermissionDenied(f"{name} does not allow it: {reason}", remedy=_REMEDIES.get(code), table=name)
    kind = _OF_ONE_TABLE.get(code) or (TableError if statement else TableNotRead)
    if kind is TableDisappeared:
        return kind(f"{name}: {reason}", table=name)
    if issubclass(kind, TableNotRead):
        return kind(f"{name} could not be read temporarily: {reason}", table=name, remedy=_REMEDIES.get(code))
    if kind is KeyChanged:
        return kind(f"{name} no longer has the key for which its chunks were planned: {reason}", table=name)
    return kind(f"{name} cannot be read: the server refuses it: {reason}", table=name, remedy=_REMEDIES.get(code))


def read_rows(connection: Connection, sql: str, where: str | TableId) -> list[tuple[Any, ...]]:
    """All rows of a small query; raises as `translated` does."""
    with translated(where), connection.cursor() as cursor:
        cursor.arraysize = ARRAY_ROWS
        cursor.execute(sql)
        return list(cursor.fetchall())


def execute(connection: Connection, sql: str, where: str | TableId) -> int:
    """A statement without rows; how many rows it changed."""
    with translated(where), connection.cursor() as cursor:
        cursor.execute(sql)
        return max(int(cursor.rowcount), 0)


def commit(connection: Connection, where: str | TableId) -> None:
    """The transaction under way."""
    with translated(where):
        connection.commit()


def answers(connection: Connection) -> bool:
    """Does the server, still?"""
    try:
        connection.ping()
    except Exception:  # noqa: BLE001 - any error: the connection is replaced
        return False
    return True
