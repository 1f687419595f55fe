"""Reading a SQL Server table row by row as canonical cells, with plain SELECTs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from replicator.addresses import resolved
from replicator.errors import ConfigurationError, SourceError, SourceUnreachable, TableDisappeared, UnsupportedType
from replicator.verification.cells import Cell, CellRule, Cells, show
from replicator.verification.model import TablePair
from replicator.verification.source import NamedColumn, Row, SourceTable, keys_where
from replicator.verification.sqlserver.rules import CONVERT, SqlServerColumn, rule

DEFAULT_PORT, CONNECT_SECONDS = 1433, 30
START_ROWS, BATCH_ROWS, BATCH_BYTES = 100, 10_000, 32 * 1024 * 1024  # at a time: wide rows fit, too (invariant 9)
SESSION = "SET LANGUAGE us_english; SET TEXTSIZE 2147483647; SET ROWCOUNT 0; SET LOCK_TIMEOUT 10000"
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
DATABASE = "SELECT snapshot_isolation_state, collation_name FROM sys.databases WHERE database_id = DB_ID()"
COLUMNS = """
SELECT c.name, COALESCE(b.name, CASE WHEN u.is_assembly_type = 1 AND u.is_user_defined = 1 THEN N'assembly'
    ELSE u.name END), u.name, c.precision, c.scale, c.max_length, c.collation_name, c.is_computed, c.is_column_set
FROM sys.columns c JOIN sys.types u ON u.user_type_id = c.user_type_id
LEFT JOIN sys.types b ON b.user_type_id = c.system_type_id AND u.is_user_defined = 1
WHERE c.object_id = OBJECT_ID({table}, N'U') ORDER BY c.column_id
"""
ROWS = "SELECT SUM(p.rows) FROM sys.partitions p WHERE p.index_id IN (0, 1) AND p.object_id = OBJECT_ID({table}, N'U')"
TABLES = """
SELECT s.name, t.name FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id
WHERE t.is_ms_shipped = 0 AND s.name NOT IN (N'cdc', N'sys')
"""
CATALOG = TablePair("sys", "tables", "", "")
AUTHENTICATIONS = {
    "entra_password": "ActiveDirectoryPassword",
    "entra_service_principal": "ActiveDirectoryServicePrincipal",
    "entra_managed_identity": "ActiveDirectoryMSI",
    "entra_default": "ActiveDirectoryDefault",
}


class SqlServerReader:
    """A connection that gives values as the text the server printed."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Of a connection's settings.  Raises SourceUnreachable."""
        self._settings = settings
        self._connect()

    @contextmanager
    def reading(self, pair: TablePair) -> Iterator[None]:
        """Raises SourceUnreachable where it breaks off, SourceError where the server refuses."""
        if not self._alive():
            self._connect()
        try:
            yield
        except (self._driver.Error, RuntimeError) as error:
            if not self._alive():
                message = f"the connection to the source was lost while {pair} was read: {_said(error)}"
                raise SourceUnreachable(message, table=str(pair)) from error
            raise SourceError(f"{pair} cannot be read from the source: {_said(error)}", table=str(pair)) from error

    def tables(self) -> list[tuple[str, str]]:
        """Schema and name of each table that the account sees.  Raises SourceUnreachable, SourceError."""
        with self.reading(CATALOG):
            return [(str(schema), str(name)) for schema, name in self._rows(TABLES)]

    def folds_names(self) -> bool:
        """Is the database's collation one without case?"""
        return not {"cs", "bin", "bin2"} & set(self._collation.lower().split("_"))

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """Raises TableDisappeared, UnsupportedType."""
        del zero_dates
        name = text_literal(f"{quote(pair.database)}.{quote(pair.table)}")
        found = self._rows(COLUMNS.format(table=name))
        if not found:
            raise TableDisappeared(f"{pair} does not exist in the source", table=str(pair))
        left_out = set(pair.excluded_columns)
        if self.folds_names():
            left_out = {one.casefold() for one in left_out}
        columns: list[tuple[SqlServerColumn, CellRule]] = []
        absent: dict[str, str] = {}
        for label, base, kind, precision, scale, length, collation, computed, column_set in found:
            if (label.casefold() if self.folds_names() else label) in left_out:
                continue
            if computed or column_set:
                absent[label] = "it is computed" if computed else "it is a column set"
                continue
            column = SqlServerColumn(label, kind, base, precision, scale, length, collation or "")
            if (how := rule(column)) is None:
                raise UnsupportedType(
                    f"verification has no rule for the type {kind} of {pair}.{label}", table=str(pair)
                )
            columns.append((column, how))
        ((rows,),) = self._rows(ROWS.format(table=name))
        return SourceTable(tuple(columns), int(rows or 0), absent)

    def read(self, pair: TablePair, table: SourceTable, where: str = "") -> Iterator[list[Row]]:
        """All rows (or those that `where` selects), in batches of canonical cells: as of one moment where the database
        allows SNAPSHOT isolation.
        """
        selected = ", ".join(how.select.replace("{}", quote(column.name)) for column, how in table.columns)
        converts = [CONVERT[how.convert] for _, how in table.columns]
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT {selected} FROM {quote(pair.database)}.{quote(pair.table)}{where}")
            wanted = START_ROWS
            while (batch := cursor.arrow_batch(wanted)).num_rows:
                columns = [column.to_pylist() for column in batch.columns]
                cells: list[Cells] = [convert(texts) for convert, texts in zip(converts, columns, strict=True)]
                yield list(zip(*cells, strict=True))
                if batch.num_rows < wanted:
                    return
                wanted = max(1, min(BATCH_ROWS, batch.num_rows * BATCH_BYTES // (batch.nbytes + 1)))

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows that the source holds now under these keys (a few hundred at a time), and those it calls equal."""

        def equal(cell: Cell, column: NamedColumn, how: CellRule) -> str:
            return f"{quote(column.name)} = {literal(cell, column, how)}"

        for where in keys_where(pair, table, keys, equal):
            yield from self.read(pair, table, where)

    def close(self) -> None:
        """The connection, too."""
        with suppress(self._driver.Error, RuntimeError):
            self._connection.close()

    def _connect(self) -> None:
        """Raises SourceUnreachable."""
        try:
            import mssql_python  # noqa: PLC0415 - loaded where it is used
        except ImportError as error:
            raise ConfigurationError(f"The driver for SQL Server cannot be loaded: {error}") from None
        self._driver: Any = mssql_python
        where = f"{self._settings['host']}:{self._settings.get('port') or DEFAULT_PORT}"
        try:
            mssql_python.pooling(enabled=False)
            self._connection: Any = mssql_python.connect(
                connection_string(self._settings), autocommit=True, timeout=CONNECT_SECONDS
            )
            with self._connection.cursor() as cursor:
                cursor.execute(SESSION)
                ((snapshot, collation),) = [tuple(row) for row in cursor.execute(DATABASE).fetchall()]
                if snapshot:
                    cursor.execute(SNAPSHOT)
        except (mssql_python.Error, RuntimeError, OSError, ValueError) as error:
            raise SourceUnreachable(f"cannot connect to {where}: {_said(error)}") from None
        self._collation = str(collation or "")

    def _alive(self) -> bool:
        try:
            return bool(self._rows("SELECT 1"))
        except (self._driver.Error, RuntimeError):
            return False

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            return [tuple(row) for row in cursor.execute(sql).fetchall()]


def connection_string(settings: Mapping[str, Any]) -> str:
    """Of Microsoft's ODBC driver; values in braces."""
    port = int(settings.get("port") or DEFAULT_PORT)
    login, tls = settings.get("login") or "sql", settings.get("tls") or "verify_identity"
    options = {
        "Server": f"tcp:{resolved(str(settings['host']), port)[0]},{port}",
        "Database": str(settings["database"]),
        "Encrypt": "no" if tls == "disabled" else "yes",
        "TrustServerCertificate": "no" if tls == "verify_identity" else "yes",
    }
    if tls == "verify_identity":
        options["HostnameInCertificate"] = str(settings.get("certificate_host") or settings["host"])
    if login == "windows":
        options["Trusted_Connection"] = "yes"
    else:
        options |= {"Authentication": AUTHENTICATIONS[login]} if login in AUTHENTICATIONS else {}
        options |= {"UID": str(settings["user"])} if settings.get("user") and login != "entra_default" else {}
        options |= {"PWD": str(settings.get("password") or "")} if not login.startswith(("entra_m", "entra_d")) else {}
    return ";".join(f"{name}={{{value.replace('}', '}}')}}}" for name, value in options.items())


def quote(name: str) -> str:
    """An identifier in SQL."""
    return "[" + name.replace("]", "]]") + "]"


def text_literal(text: str) -> str:
    """A Unicode text."""
    return "N'" + text.replace("'", "''") + "'"


def literal(cell: Cell, column: NamedColumn, how: CellRule) -> str:
    """A canonical cell as SQL, of the column's own type and collation."""
    assert isinstance(column, SqlServerColumn)
    if how.iceberg == "binary":
        return f"0x{(cell or b'').hex()}"
    text = text_literal(show(cell, how.iceberg) or "")
    if column.base in {"char", "varchar", "text"}:
        return f"CAST({text} COLLATE {column.collation} AS {column.sql_type})"
    if column.base in {"datetime", "smalldatetime"}:
        return f"CAST(CONVERT(datetime2(7), {text}, 121) AS {column.base})"
    if column.base in {"date", "datetime2", "datetimeoffset", "time"}:
        return f"CONVERT({column.sql_type}, {text}, 121)"
    return text if column.base in {"nchar", "nvarchar"} else f"CAST({text} AS {column.sql_type})"


def _said(error: Exception) -> str:
    return " ".join(str(getattr(error, "ddbc_error", "") or error).split())
