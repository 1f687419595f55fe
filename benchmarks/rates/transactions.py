"""Very many transactions of one row each, waiting in the log, until they can be queried; beside Debezium Engine, which
reads the same log and writes it nowhere.
"""

from __future__ import annotations

from benchmarks.data import orders_table
from benchmarks.data.orders_table import DATABASE
from benchmarks.data.sources import MariaDBSource
from benchmarks.data.world import World
from benchmarks.initial_load import create, say, verify
from benchmarks.logs import mysql_log
from benchmarks.rates.catch_up import ran
from benchmarks.report import Row

ROWS, GOAL = 10_000_000, 100_000


def run(world: World[MariaDBSource], rows: int | None) -> list[Row]:
    """`rows` transactions."""
    rows = rows or ROWS
    with world.source.connect("mysql") as connection, connection.cursor() as cursor:
        orders_table.make(cursor, orders_table.MARIADB)
    copy = create(world, DATABASE, "transactions")
    ran(world, copy)  # the empty table
    written = mysql_log.write(world.source, rows, 1, 1, world.folder, new=False)
    ours = ran(world, copy)
    say(f"transactions: {rows / ours.seconds:,.0f}/s; {ours}; Debezium reads the same log")
    peer = mysql_log.debezium(written)
    rate, wrong, title = rows / ours.seconds, verify(copy)[0], f"transactions: {rows / 1e6:g} M of one row"
    return [
        Row(f"{title}, waiting in the log, until queryable", rate, None, f"≥ {GOAL:,}/s", rate >= GOAL,
            "transactions/s"),
        Row(f"{title}: Debezium, into nothing", rate, peer.rows, "none", met=True, unit="rows/s"),
        Row(f"{title}: CPU for a million, Debezium", ours.cpu / rows * 1e6, peer.cpu, "none", met=True, unit="s"),
        Row("transactions: rows lost, doubled or different", wrong, None, "0", wrong == 0),
    ]  # fmt: skip
