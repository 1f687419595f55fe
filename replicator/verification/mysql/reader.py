"""Reading a MySQL or MariaDB table row by row as canonical cells, with plain SELECTs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pymysql
from pymysql.constants import ER
from pymysql.converters import encoders
from pymysql.cursors import SSCursor

from replicator.clear_text import connect_mysql
from replicator.errors import SourceError, SourceUnreachable, TableDisappeared, UnsupportedType
from replicator.verification.cells import Cell, CellRule, Cells, show
from replicator.verification.model import SourceConfig, TablePair
from replicator.verification.mysql.rules import CONVERT, SourceColumn, rule
from replicator.verification.source import Row, SourceTable

BATCH_ROWS = 10_000
ENCODERS: dict[int | type[Any], Any] = dict(encoders.items())  # and no decoders
# `DEFAULT` would be the server's own limit, at which every SELECT ends without a word.
SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600",
    "SET SESSION sql_select_limit = 18446744073709551615, sql_auto_is_null = 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
UNLIMITED = ("SET SESSION max_statement_time = 0", "SET SESSION max_execution_time = 0")
DENIED = (ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)
COLUMNS = """
    SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(NUMERIC_PRECISION, 0), COALESCE(NUMERIC_SCALE, 0),
           COALESCE(DATETIME_PRECISION, 0), COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, '')
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION
"""
ROWS = """
    SELECT IF(ENGINE = 'MEMORY', 0, COALESCE(TABLE_ROWS, 0)) FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s
      AND TABLE_NAME = %s
"""
TABLES = """
    SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
    WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
    AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
"""
CATALOG = TablePair("information_schema", "TABLES", "", "")


class MySqlReader:
    """A connection that gives values as the bytes the server sent."""

    def __init__(self, config: SourceConfig) -> None:
        """Raises SourceUnreachable."""
        self._config = config
        self._connection = connect(config)

    @contextmanager
    def reading(self, pair: TablePair) -> Iterator[None]:
        """Raises SourceUnreachable where it breaks off, SourceError where the server refuses."""
        try:
            self._connection.ping(reconnect=False)
        except (pymysql.MySQLError, OSError):
            self._connection = connect(self._config)
        try:
            yield
        except pymysql.MySQLError as error:
            if not self._connection.open:
                message = f"the connection to the source was lost while {pair} was read: {error.args[-1]}"
                raise SourceUnreachable(message, table=str(pair)) from error
            message = f"{pair} cannot be read from the source: {error.args[-1]}"
            raise SourceError(message, table=str(pair)) from error

    def tables(self) -> list[tuple[str, str]]:
        """Database and name of each table that the account sees.  Raises SourceUnreachable, SourceError."""
        with self.reading(CATALOG), self._connection.cursor() as cursor:
            cursor.execute(TABLES)
            return [(_text(database), _text(name)) for database, name in cursor.fetchall()]

    def folds_names(self) -> bool:
        """`lower_case_table_names` is 1 or 2.  Raises SourceUnreachable, SourceError."""
        with self.reading(CATALOG), self._connection.cursor() as cursor:
            cursor.execute("SELECT @@lower_case_table_names")
            return [_text(value) for (value,) in cursor.fetchall()] != ["0"]

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """Raises TableDisappeared, UnsupportedType."""
        with self._connection.cursor() as cursor:
            cursor.execute(COLUMNS, (pair.database, pair.table))
            found = [tuple(_text(value) for value in row) for row in cursor.fetchall()]
            cursor.execute(ROWS, (pair.database, pair.table))
            rows = sum(int(_text(row[0])) for row in cursor.fetchall())
        if not found:
            message = f"{pair} does not exist in the source"
            raise TableDisappeared(message, table=str(pair))
        if not pair.excluded_columns:
            self._see_all_columns(pair)
        left_out = {name.casefold() for name in pair.excluded_columns}  # the server compares columns without case
        columns: list[tuple[SourceColumn, CellRule]] = []
        for name, data_type, column_type, precision, scale, fraction, *text in found:
            if name.casefold() in left_out:
                continue
            column = SourceColumn(name, data_type, column_type, int(precision), int(scale), int(fraction), *text)
            if (how := rule(column, zero_dates)) is None:
                message = f"verification has no rule for the type {column_type} of {pair}.{name}"
                raise UnsupportedType(message, table=str(pair))
            columns.append((column, how))
        return SourceTable(tuple(columns), rows)

    def _see_all_columns(self, pair: TablePair) -> None:
        """The catalog keeps silent of columns that this account may not read, but the server does not select `*`
        without them.

        Raises SourceError.
        """
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {quote(pair.database)}.{quote(pair.table)} LIMIT 0")
        except pymysql.err.OperationalError as error:
            if error.args[0] not in DENIED:
                raise
            message = (
                f"the account may not read all columns of {pair}: grant SELECT on the table, or exclude the columns"
            )
            raise SourceError(message, table=str(pair)) from error

    def read(self, pair: TablePair, table: SourceTable, where: str = "") -> Iterator[list[Row]]:
        """All rows (or those that `where` selects) as of one moment, in batches of canonical cells."""
        # `%` stays as it is: PyMySQL only formats a statement that comes with arguments
        selected = ", ".join(how.select.replace("{}", quote(column.name)) for column, how in table.columns)
        from_ = f"{quote(pair.database)}.{quote(pair.table)}"
        converts = [(i, CONVERT[how.convert]) for i, (_, how) in enumerate(table.columns) if how.convert]
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT {selected} FROM {from_}{where}")
            while rows := cursor.fetchmany(BATCH_ROWS):
                if not converts:
                    yield list(rows)
                    continue
                cells: list[Cells] = list(zip(*rows, strict=True))
                for i, convert in converts:
                    cells[i] = convert(cells[i])
                yield list(zip(*cells, strict=True))

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows that the source holds now under these keys (a few hundred at a time)."""
        columns = [next(c for c in table.columns if c[0].name == name) for name in pair.key]
        names = ", ".join(how.select.replace("{}", quote(column.name)) for column, how in columns)
        for start in range(0, len(keys), 200):
            wanted = [
                "(" + ", ".join(_literal(cell, how) for cell, (_, how) in zip(key, columns, strict=True)) + ")"
                for key in keys[start : start + 200]
                if None not in key
            ]
            if wanted:
                yield from self.read(pair, table, f" WHERE ({names}) IN ({', '.join(wanted)})")

    def close(self) -> None:
        """The connection, too."""
        self._connection.close()


def connect(config: SourceConfig) -> pymysql.Connection[SSCursor]:
    """A connection that gives values as the bytes the server sent.  Raises SourceUnreachable."""
    try:
        connection = connect_mysql(
            verified=config.verified,
            **{"connect_timeout": 10, **config.connect},
            host=config.host,
            port=config.port,
            user=config.user,
            password=config.password.encode(),
            charset="utf8mb4",
            use_unicode=False,
            conv=ENCODERS,
            autocommit=True,
            cursorclass=SSCursor,
        )
        with connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
            for statement in UNLIMITED:
                with suppress(pymysql.MySQLError):  # MariaDB knows the first only, MySQL the second
                    cursor.execute(statement)
    except (pymysql.err.OperationalError, OSError) as error:
        message = f"cannot connect to {config.host}:{config.port}: {error.args[-1]}"
        raise SourceUnreachable(message) from None
    return connection


def quote(name: str) -> str:
    """An identifier in SQL."""
    return "`" + name.replace("`", "``") + "`"


def _text(value: bytes | str | int) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _literal(cell: Cell, how: CellRule) -> str:
    """A canonical cell as SQL.  Text goes as hexadecimal so that no quoting rule matters."""
    if cell is None:
        return "NULL"
    if how.iceberg == "string":
        return how.compare.replace("{}", f"CONVERT(x'{cell.hex()}' USING utf8mb4)")
    if how.iceberg == "binary":
        return f"x'{cell.hex()}'"
    if how.iceberg in {"date", "timestamp", "timestamptz"}:
        return f"'{cell.decode()}'"
    if how.iceberg in {"float", "double"}:
        return repr(float(np.frombuffer(cell, np.float32 if how.iceberg == "float" else np.float64)[0]))
    return show(cell, how.iceberg) or "NULL"
