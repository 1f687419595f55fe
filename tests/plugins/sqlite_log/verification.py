"""The file as `manage.py verify` reads it: with plain SELECTs, and code that shares nothing with the source's."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from replicator.errors import SourceError, SourceUnreachable, TableDisappeared, UnsupportedType
from replicator.verification.cells import CellRule, show
from replicator.verification.model import TablePair
from replicator.verification.source import Row, SourceTable

BATCH_ROWS = 10_000
ICEBERG = {"INT": "int", "SMALLINT": "int", "INTEGER": "int", "BIGINT": "long", "BOOLEAN": "boolean", "DATE": "date"}
ICEBERG |= {"REAL": "double", "FLOAT": "double", "DOUBLE PRECISION": "double", "BLOB": "binary"}
ICEBERG |= dict.fromkeys(("TEXT", "CHAR", "VARCHAR"), "string")
CELLS: Mapping[str, Callable[[Any], bytes]] = {
    "double": lambda value: struct.pack("<d", float(value)),
    "binary": bytes,
}


@dataclass(frozen=True)
class FileColumn:
    name: str
    column_type: str


class SqliteReader:
    """One connection."""

    def __init__(self, file: str) -> None:
        try:
            self._connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
            self._connection.execute("SELECT 1 FROM sqlite_master")
        except sqlite3.Error as error:
            raise SourceUnreachable(f"cannot open {file}: {error}") from None

    @contextmanager
    def reading(self, pair: TablePair) -> Iterator[None]:
        """SourceError."""
        try:
            yield
        except sqlite3.Error as error:
            raise SourceError(f"{pair} cannot be read from the source: {error}", table=str(pair)) from error

    def tables(self) -> list[tuple[str, str]]:
        """All but SQLite's own and the log's."""
        rows = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [("main", name) for (name,) in rows if not name.startswith(("sqlite_", "tidemark_log"))]

    def folds_names(self) -> bool:
        """No."""
        return False

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """TableDisappeared, UnsupportedType."""
        del zero_dates
        found = self._connection.execute(f"PRAGMA table_info({_quoted(pair.table)})").fetchall()
        if not found:
            raise TableDisappeared(f"{pair} does not exist in the source", table=str(pair))
        taken = [FileColumn(row[1], row[2]) for row in found if row[1] not in pair.excluded_columns]
        return SourceTable(tuple((column, CellRule(_iceberg(column))) for column in taken), 0)

    def read(self, pair: TablePair, table: SourceTable, where: str = "") -> Iterator[list[Row]]:
        """All rows, as of one moment."""
        names = ", ".join(map(_quoted, table.names))
        cursor = self._connection.execute(f"SELECT {names} FROM {_quoted(pair.table)}{where}")
        cells = [_cell(how.iceberg) for _, how in table.columns]
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield [tuple(made(value) for made, value in zip(cells, row, strict=True)) for row in rows]

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """Those with these keys."""
        types = [table.iceberg(name) for name in pair.key]
        for key in keys:
            parts = [
                f"{_quoted(name)} = {_literal(show(cell, kind) or '', kind)}"
                for name, cell, kind in zip(pair.key, key, types, strict=True)
                if cell is not None
            ]
            yield from self.read(pair, table, f" WHERE {' AND '.join(parts)}")

    def close(self) -> None:
        """The connection."""
        self._connection.close()


def _iceberg(column: FileColumn) -> str:
    text = column.column_type.upper()
    base, _, digits = text.partition("(")
    if base in {"DECIMAL", "NUMERIC", "DECIMAL_TEXT"}:
        precision, _, scale = digits.rstrip(")").partition(",")
        return f"decimal({int(precision)}, {int(scale or 0)})"
    if base not in ICEBERG:
        raise UnsupportedType(f"verification has no rule for the type {text} of {column.name}")
    return ICEBERG[base]


def _cell(iceberg: str) -> Callable[[Any], bytes | None]:
    if iceberg.startswith("decimal"):
        scale = int(iceberg.rstrip(")").rpartition(",")[2])
        made: Callable[[Any], bytes] = lambda value: b"%d" % int(Decimal(str(value)).scaleb(scale))
    else:
        made = CELLS.get(iceberg, lambda value: str(value).encode())
    return lambda value: None if value is None else made(value)


def _literal(text: str, iceberg: str) -> str:
    if iceberg == "binary":
        return f"X'{text.removeprefix('0x')}'"
    plain = iceberg in {"int", "long", "boolean", "double"} or iceberg.startswith("decimal")
    return text if plain else "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
