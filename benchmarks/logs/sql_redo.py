"""SQL_REDO of Oracle's LogMiner to change batches, the decoder alone: `python -m benchmarks.logs.sql_redo [ROWS]`.

Statements are those of a table with ten columns of seven types, as LogMiner writes them, half of them INSERTs and half
UPDATEs with whole rows before.  No server takes part: LogMiner itself gives some ten thousand rows a second.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.oracle.rows.redo_rows import INSERT, UPDATE, RedoLayout, RedoRun, TableRows
from replicator.sources.oracle.types import ColumnDefinition, column_of, value_type

TABLE = TableId("SHOP", "ORDERS")
BATCH_ROWS = 20_000
DEFINITIONS = (
    ColumnDefinition("ID", "NUMBER", nullable=False, precision=9, scale=0),
    ColumnDefinition("CUSTOMER", "NUMBER", precision=18, scale=0),
    ColumnDefinition("AMOUNT", "NUMBER", precision=12, scale=2),
    ColumnDefinition("ANY", "NUMBER"),
    ColumnDefinition("NAME", "VARCHAR2", size=100),
    ColumnDefinition("NOTE", "VARCHAR2", size=200),
    ColumnDefinition("MADE", "DATE"),
    ColumnDefinition("CHANGED", "TIMESTAMP(6)"),
    ColumnDefinition("TOKEN", "RAW", size=16),
    ColumnDefinition("RATE", "BINARY_DOUBLE"),
)


def statements(rows: int) -> list[bytes]:
    """INSERT, UPDATE, INSERT …"""
    names = ",".join(f'"{one.name}"' for one in DEFINITIONS)
    made = []
    for n in range(rows):
        values = (
            f"'{n}'", f"'{n * 7919}'", f"'{n}.25'", f"'{n}.5'", f"'customer number {n}'", f"'it''s note {n}'",
            "TO_DATE(' 2026-11-27 10:20:30', 'SYYYY-MM-DD HH24:MI:SS')",
            "TO_TIMESTAMP(' 2026-11-27 10:20:30.123456000')", f"HEXTORAW('{n:032x}')", f"'{n}.5E+000'",
        )  # fmt: skip
        if n % 2:
            where = " and ".join(f'"{one.name}" = {value}' for one, value in zip(DEFINITIONS, values, strict=True))
            made.append(f'update "SHOP"."ORDERS" set "NOTE" = \'another\' where {where}'.encode())
        else:
            made.append(f'insert into "SHOP"."ORDERS"({names}) values ({",".join(values)})'.encode())
    return made


def main(rows: int) -> None:
    """Prints rows and bytes a second of CPU time, of the whole way and of one thread."""
    columns = tuple(column_of(one, TABLE, key=one.name == "ID") for one in DEFINITIONS)
    schema = TableSchema(TABLE, columns, ("ID",))
    types = tuple(value_type(one, TABLE) for one in DEFINITIONS)
    gathered = TableRows(RedoLayout(schema, types, schema.names), "null")
    texts = statements(rows)
    bounds = np.cumsum([0, *map(len, texts)])
    stamps = np.zeros(rows, np.int64)
    run = RedoRun(
        np.frombuffer(b"".join(texts), np.uint8), bounds[:-1], bounds[1:],
        np.where(np.arange(rows) % 2, UPDATE, INSERT), stamps, stamps, stamps,
        np.zeros(rows, np.bool_),
    )  # fmt: skip
    begun, count = time.process_time(), 0
    for first in range(0, rows, BATCH_ROWS):
        part = run.at(slice(first, first + BATCH_ROWS))
        gathered.add(part, np.arange(first, first + len(part.begins)))
        count += gathered.take().num_rows
    seconds = time.process_time() - begun
    sys.stdout.write(f"{count / seconds:,.0f} rows/s, {bounds[-1] / seconds / 1e6:,.0f} MB/s of SQL_REDO\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
