"""MariaDB's log into durable segments, beside Debezium Engine and beside a client that throws its bytes away.

The log is written first, then read from its first position to its last, by each side in turn (`capture_side`,
`debezium.engine`, `binlog_dump`).  Debezium's clock starts with its first batch, so that the start of the JVM and of
the engine is not counted; ours with the first commit, so that neither are the connection, the catalog, and the first
call of everything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.data import orders_table
from benchmarks.data.orders_table import DATABASE, TABLE
from benchmarks.data.sources import MariaDBSource
from benchmarks.debezium import engine
from benchmarks.logs.capture_side import Log, begin, captured, throughput
from benchmarks.logs.log_reading import LogReader, Speed, alternating, python
from benchmarks.report import Row
from replicator.model.identifiers import TableId

# Issue D's table.
DEBEZIUM_ONE, DEBEZIUM_MANY = 10, 20
CPU = 1 / 15
DUMP = 0.4


@dataclass(frozen=True)
class Written:
    """A log and its size in rows and bytes."""

    source: MariaDBSource
    log: Log
    rows: int
    bytes: int


def one_row_statements(source: MariaDBSource, rows: int, repeats: int, folder: Path) -> list[Row]:
    """100 of them in a transaction."""
    name = "MySQL log, 1-row statements"
    found = measure(write(source, rows, 1, 100, folder), repeats)
    ours, debezium, dump = found["ours"], found["Debezium"], found["dump"]
    return [
        Row.at_least(f"{name}: Debezium", ours.rows, debezium.rows, DEBEZIUM_ONE, "rows/s"),
        Row.at_most(f"{name}: CPU for a million rows, Debezium", ours.cpu, debezium.cpu, CPU, "s"),
        Row.at_least(f"{name}: raw dump", ours.rows, dump.rows, DUMP, "rows/s"),
    ]


def many_row_events(source: MariaDBSource, rows: int, repeats: int, folder: Path) -> list[Row]:
    """Statements of a thousand rows each, which the server splits into events of 8 KiB."""
    name = "MySQL log, many-row events"
    found = measure(write(source, rows, orders_table.MOST, 1, folder), repeats)
    ours, debezium, dump = found["ours"], found["Debezium"], found["dump"]
    return [
        Row.at_least(f"{name}: Debezium", ours.rows, debezium.rows, DEBEZIUM_MANY, "rows/s"),
        Row(f"{name}: CPU for a million rows, Debezium", ours.cpu, debezium.cpu, "none", met=True, unit="s"),
        Row(f"{name}: raw dump", ours.rows, dump.rows, "none", met=True, unit="rows/s"),
    ]


def write(source: MariaDBSource, rows: int, per: int, together: int, folder: Path, *, new: bool = True) -> Written:
    """Write `rows` rows into a new log file, without annotations: neither side uses the statements' texts.

    new: recreate the table first.
    """
    print(f"writing {rows:,} rows in statements of {per}", file=sys.stderr)
    with closing(source.connect("mysql")) as connection, connection.cursor() as cursor:
        connection.autocommit(value=True)
        cursor.execute("SET SESSION binlog_annotate_row_events = OFF")
        if new:
            orders_table.make(cursor, orders_table.MARIADB)
        cursor.execute(f"USE {DATABASE}")
        cursor.execute("FLUSH BINARY LOGS")
        log = begin(source.kind, source.config, TableId(DATABASE, TABLE), folder)
        orders_table.fill(cursor, rows, per, together)
        cursor.execute("SHOW BINARY LOGS")
        size = sum(row[1] for row in cursor.fetchall() if row[0] >= log.offset["file"]) - log.offset["position"]
    return Written(source, log, rows, size)


def measure(written: Written, repeats: int) -> dict[str, Speed]:
    """Ours, Debezium's, the dump's."""
    sides = {"ours": ours, "Debezium": debezium, "dump": dump}
    return alternating({name: lambda side=side: side(written) for name, side in sides.items()}, repeats)


def ours(written: Written) -> Speed:
    with captured(written.log, written.rows) as reader:
        return throughput(reader.stamps(written.rows)[1:])


def debezium(written: Written) -> Speed:
    log = written.log
    orders = engine.mariadb_orders(written.source.address, log.table, log.offset, written.rows, log.folder)
    with LogReader("debezium", engine.command(), orders, log.folder) as reader:
        stamps = reader.stamps(written.rows)
    return Speed.between(stamps[0], stamps[-1])


def dump(written: Written, more: Mapping[str, Any] = MappingProxyType({})) -> Speed:
    """`more`: of the connection (pymysql's names)."""
    orders = {"address": {**written.source.address, **more}, "bytes": written.bytes, "rows": written.rows}
    orders |= {name: written.log.offset[name] for name in ("file", "position")}
    with LogReader("dump", python("benchmarks.logs.binlog_dump"), json.dumps(orders), written.log.folder) as reader:
        first, last = reader.stamps(written.rows)
    return Speed.between(first, last)
