"""Reading an Oracle table row by row as canonical cells, with plain SELECTs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import oracledb

from replicator.addresses import resolved
from replicator.errors import SourceError, SourceUnreachable, TableDisappeared, UnsupportedType
from replicator.verification.cells import Cell, CellRule, show
from replicator.verification.model import TablePair
from replicator.verification.oracle.rules import CONVERT, OracleColumn, rule
from replicator.verification.source import Row, SourceTable, keys_where

DEFAULT_PORT = 1521
BATCH_ROWS, LOB_ROWS = 2_000, 50
LOBS = {"CLOB": "", "NCLOB": "", "BLOB": b"", "XMLTYPE": ""}  # and their empty values, which come as NULL
CATALOG = TablePair("SYS", "ALL_TABLES", "", "")
SESSION = "ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,' NLS_SORT = BINARY NLS_COMP = BINARY TIME_ZONE = '+00:00'"
TABLES = (
    "SELECT t.owner, t.table_name FROM all_tables t JOIN all_users u ON u.username = t.owner"
    " WHERE u.oracle_maintained = 'N' AND t.temporary = 'N' AND t.nested = 'NO' AND t.dropped = 'NO'"
    " AND t.table_name <> 'TIDEMARK_WATERMARK'"
)
ROWS = "SELECT num_rows FROM all_tables WHERE owner = {owner} AND table_name = {name}"
COLUMNS = (
    "SELECT column_name, data_type, data_precision, data_scale, virtual_column FROM all_tab_cols"
    " WHERE owner = {owner} AND table_name = {name} AND user_generated = 'YES' ORDER BY internal_column_id"
)


class OracleReader:
    """A connection that reads texts as Oracle prints them; one SELECT sees one moment."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Of a connection's settings, with its password.  Raises SourceUnreachable."""
        self._settings = settings
        self._connection = connect(settings)

    @contextmanager
    def reading(self, pair: TablePair) -> Iterator[None]:
        """Raises SourceUnreachable where it breaks off, SourceError where the server refuses."""
        try:
            self._connection.ping()
        except oracledb.Error:
            self.close()
            self._connection = connect(self._settings)
        try:
            yield
        except (oracledb.Error, OSError) as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            if not said.startswith("ORA-"):
                message = f"the connection to the source was lost while {pair} was read: {said}"
                raise SourceUnreachable(message, table=str(pair)) from error
            message = f"{pair} cannot be read from the source: {said}"
            raise SourceError(message, table=str(pair)) from error

    def tables(self) -> list[tuple[str, str]]:
        """Schema and name of each table that the account sees.  Raises SourceUnreachable, SourceError."""
        with self.reading(CATALOG):
            return [(str(owner), str(name)) for owner, name in self._rows(TABLES)]

    def folds_names(self) -> bool:
        """No."""
        return False

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """Raises TableDisappeared, UnsupportedType."""
        named = {"owner": literal(pair.database), "name": literal(pair.table)}
        found, rows = self._rows(COLUMNS.format(**named)), self._rows(ROWS.format(**named))
        if not found or not rows:
            message = f"{pair} does not exist in the source"
            raise TableDisappeared(message, table=str(pair))
        columns: list[tuple[OracleColumn, CellRule]] = []
        absent: dict[str, str] = {}
        for name, kind, precision, scale, virtual in found:
            if name in pair.excluded_columns:
                continue
            if virtual == "YES" and kind != "XMLTYPE":  # to the view it is one of a hidden column
                absent[name] = "it is virtual, so the log never has it"
                continue
            column = OracleColumn(name, kind, *(None if one is None else int(one) for one in (precision, scale)))
            if (how := rule(column, zero_dates)) is None:
                message = f"verification has no rule for the type {kind} of {pair}.{name}"
                raise UnsupportedType(message, table=str(pair))
            columns.append((column, how))
        return SourceTable(tuple(columns), int(rows[0][0] or 0), absent)

    def read(self, pair: TablePair, table: SourceTable, where: str = "") -> Iterator[list[Row]]:
        """All rows (or those that `where` selects) as of one moment, in batches of canonical cells."""
        selected = [how.select.replace("{}", quote(column.name)) for column, how in table.columns]
        converts = [CONVERT[how.convert] for _, how in table.columns]
        lobs = {at: LOBS[one.column_type] for at, (one, _) in enumerate(table.columns) if one.column_type in LOBS}
        lengths = [f"DBMS_LOB.GETLENGTH({selected[at]})" for at in lobs]
        sql = f"SELECT {', '.join(selected + lengths)} FROM {quote(pair.database)}.{quote(pair.table)}{where}"
        with self._connection.cursor() as cursor:
            cursor.arraysize = LOB_ROWS if lobs else BATCH_ROWS
            cursor.execute(sql, fetch_lobs=False)
            while rows := cursor.fetchmany():
                columns = list(zip(*rows, strict=True))
                for (at, empty), sizes in zip(lobs.items(), columns[len(converts) :], strict=True):
                    columns[at] = tuple(
                        empty if size == 0 else one for one, size in zip(columns[at], sizes, strict=True)
                    )
                pairs = zip(converts, columns[: len(converts)], strict=True)
                yield list(zip(*(one(texts) for one, texts in pairs), strict=True))

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows that the source holds now under these keys (a few hundred at a time)."""
        for where in keys_where(pair, table, keys, lambda c, column, how: f"{quote(column.name)} = {written(c, how)}"):
            yield from self.read(pair, table, where)

    def close(self) -> None:
        """The connection, too."""
        with suppress(oracledb.Error):
            self._connection.close()

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


def connect(settings: Mapping[str, Any]) -> oracledb.Connection:
    """A connection that reads only.  Raises SourceUnreachable."""
    host, port = str(settings["host"]), int(settings.get("port") or DEFAULT_PORT)
    mode = settings.get("tls") or "off"
    encrypted: dict[str, Any] = {"protocol": "tcp"}
    if mode != "off":
        context = ssl.create_default_context(cadata=settings.get("ca") or None)
        context.check_hostname = mode == "verify_identity"
        if mode == "required":
            context.verify_mode = ssl.CERT_NONE
        encrypted = {"protocol": "tcps", "ssl_context": context, "ssl_server_dn_match": context.check_hostname}
    try:
        address = resolved(host, port)[0]
        connection = oracledb.connect(
            user=settings["user"],
            password=settings.get("password") or "",
            host=host if mode == "verify_identity" else address,
            port=port,
            service_name=settings.get("service") or None,
            sid=settings.get("sid") or None,
            tcp_connect_timeout=10,
            disable_oob=True,
            program="tidemark-verify",
            **encrypted,
        )
        with connection.cursor() as cursor:
            if settings.get("pdb"):
                cursor.execute(f"ALTER SESSION SET CONTAINER = {quote(str(settings['pdb']).upper())}")
            cursor.execute(SESSION)
    except (oracledb.Error, OSError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        message = f"cannot connect to {host}:{port}: {said}"
        raise SourceUnreachable(message) from None
    return connection


def quote(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', "") + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def written(cell: Cell, how: CellRule) -> str:
    """A canonical cell as SQL, of the column's own type."""
    if cell is None:
        return "NULL"
    if how.iceberg == "binary":
        return how.compare.replace("{}", literal(cell.hex()))
    text = show(cell, how.iceberg) or ""
    if how.convert.startswith(("digits", "unscaled")):
        return text
    if how.iceberg.startswith("timestamp"):
        text = text[:19] if "TO_DATE" in how.compare else text.ljust(29, "0")
        return how.compare.replace("{}", literal(f" {text}"))
    return how.compare.replace("{}", literal(text))
