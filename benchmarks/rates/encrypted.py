"""Reading the source over TLS, beside the same without: its log, and a snapshot of a table.

What the bytes of MariaDB's log alone take over TLS stands beside, as a client reads them that throws them away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import snapshots
from benchmarks.data.orders_table import DATABASE, TABLE
from benchmarks.data.sources import MariaDBSource, PostgresSource
from benchmarks.data.world import World
from benchmarks.logs import mysql_log, postgres_log, postgres_slots
from benchmarks.logs.capture_side import Log, begin, captured, throughput
from benchmarks.logs.log_reading import Speed, alternating
from benchmarks.report import Row
from replicator.model.identifiers import TableId

LOG_ROWS, SNAPSHOT_ROWS, LEAST = 1_000_000, 2_000_000, 0.8
PLAIN = {"ssl_disabled": True}
Written = tuple[Callable[[str], Speed], dict[str, Callable[[], Speed]]]
MODES = {"mysql": {"TLS": "required", "plain": "disabled"}, "postgres": {"TLS": "require", "plain": "disable"}}


def run(world: World[Any], rows: int | None, repeats: int) -> list[Row]:
    """`rows` of the log and of the table."""
    source = world.source
    source.offer_tls()
    modes, title = MODES[source.kind], snapshots.TITLES[source.kind]
    written = in_mariadb if isinstance(source, MariaDBSource) else in_postgres
    with written(source, rows or LOG_ROWS, world.folder) as (read, floors):
        log = alternating({name: lambda mode=mode: read(mode) for name, mode in modes.items()} | floors, repeats)
    with snapshots.filled(source, rows or SNAPSHOT_ROWS, world.folder) as table:
        sides = {name: lambda mode=mode: snapshots.ours(table, {"tls": mode}) for name, mode in modes.items()}
        snapshot = alternating(sides, repeats)
    found = []
    if "floor" in log:
        found.append(
            Row(f"{title} log over TLS, and without: a client that discards", log["floor"].rows,
                log["plain floor"].rows, "none", met=True, unit="rows/s")
        )  # fmt: skip
    for what, speeds in (("log", log), ("snapshot", snapshot)):
        ours, plain = speeds["TLS"], speeds["plain"]
        name = f"{title} {what} over TLS, and without"
        found += [
            Row.at_least(name, ours.rows, plain.rows, LEAST, "rows/s"),
            Row(f"{name}: CPU for a million rows", ours.cpu, plain.cpu, "none", met=True, unit="s"),
        ]
    return found


@contextmanager
def in_mariadb(source: MariaDBSource, rows: int, folder: Path) -> Iterator[Written]:
    """Yield a function that reads the log's `rows` rows in a TLS mode, and further readers to measure (`floors`)."""
    written = mysql_log.write(source, rows, 1, 100, folder)
    floors = {"floor": lambda: mysql_log.dump(written), "plain floor": lambda: mysql_log.dump(written, PLAIN)}
    yield lambda mode: _read(written.log, rows, mode), floors


@contextmanager
def in_postgres(source: PostgresSource, rows: int, folder: Path) -> Iterator[Written]:
    """The same."""
    with postgres_slots.connected(source, folder) as server:
        postgres_log.empty(server)
        postgres_log.fill(server, rows)

        def read(mode: str) -> Speed:
            postgres_slots.rewind(server)
            return _read(begin("postgres", server.config, TableId(DATABASE, TABLE), folder), rows, mode)

        yield read, {}


def _read(log: Log, rows: int, mode: str) -> Speed:
    with captured(replace(log, config={**log.config, "tls": mode}), rows) as reader:
        return throughput(reader.stamps(rows)[1:])
