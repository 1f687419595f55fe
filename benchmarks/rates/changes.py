"""Tables of many rows, and changes of random keys of them, waiting in the log: of ten six update, one deletes, three
insert.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

from benchmarks.data import traffic
from benchmarks.data.sources import Source
from benchmarks.initial_load import say
from benchmarks.latency import FAR, fill

UPDATES, DELETES, INSERTS = 600, 100, 300  # of a transaction
WRITERS = 2
POOL = 8 * 2**30  # bytes; while the source is filled: random keys in a smaller one would measure its disk

_MARIADB = (
    (
        "UPDATE {table} JOIN"
        " (SELECT DISTINCT {far} + FLOOR(RAND() * {rows}) AS id FROM seq_1_to_{updates}) k USING (id)"
        " SET amount = amount + 1, status = 'paid', written = {now}"
    ),
    (
        "DELETE {table} FROM {table} JOIN"
        " (SELECT DISTINCT {far} + FLOOR(RAND() * {rows}) AS id FROM seq_1_to_{deletes}) k USING (id)"
    ),
    (
        "INSERT INTO {table} SELECT seq, {now}, MOD(seq, 1000), MOD(seq, 9000), 'new', REPEAT('n', MOD(seq, 120)),"
        " '2026-01-01' FROM seq_{first}_to_{last}"
    ),
)
_POSTGRES = (
    (
        "UPDATE {table} SET amount = amount + 1, status = 'paid', written = {now} FROM (SELECT DISTINCT"
        " {far} + floor(random() * {rows})::bigint AS id FROM generate_series(1, {updates})) k WHERE {table}.id = k.id"
    ),
    (
        "DELETE FROM {table} USING (SELECT DISTINCT {far} + floor(random() * {rows})::bigint AS id"
        " FROM generate_series(1, {deletes})) k WHERE {table}.id = k.id"
    ),
    (
        "INSERT INTO {table} SELECT n, {now}, n % 1000, n % 9000, 'new', repeat('n', (n % 120)::int), '2026-01-01'"
        " FROM generate_series({first}, {last}) AS n"
    ),
)


def make(source: Source, database: str, tables: int, rows: int) -> list[str]:
    """Create `tables` tables and insert `rows` rows into each; the log has these inserts as well."""
    names = traffic.make(source, database, tables)
    for name in names:
        fill(source, database, name, rows)
    if source.kind == "postgres":
        with closing(source.connect(database)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                for name in names:
                    cursor.execute(f"VACUUM (ANALYZE, FREEZE) {database}.{name}")
    return names


def write(source: Source, database: str, names: list[str], rows: int, changes: int) -> int:
    """Make about `changes` changes of tables with `rows` rows, in transactions of a thousand; return their number."""
    began = time.monotonic()
    writers = [_Writer(source, database, names[n::WRITERS], rows, changes // WRITERS) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        if writer.failed is not None:
            raise writer.failed
    made = sum(writer.made for writer in writers)
    if source.kind == "mysql":  # its own tidying of what was changed is not to take the processor from what is measured
        with closing(source.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_max_purge_lag_wait = 0")
    say(f"{database}: {made:,} changes in {time.monotonic() - began:.0f} s")
    return made


class _Writer(threading.Thread):
    """A connection that writes to its own tables in turn."""

    def __init__(self, source: Source, database: str, names: list[str], rows: int, changes: int) -> None:
        super().__init__(name="changes", daemon=True)
        self._source, self._database, self._names, self._rows, self._wanted = source, database, names, rows, changes
        self.made, self.failed = 0, None

    made: int
    failed: Exception | None

    def run(self) -> None:
        try:
            with closing(self._source.connect(self._database)) as connection, connection.cursor() as cursor:
                self._write(connection, cursor)
        except Exception as error:  # noqa: BLE001 - `write` raises it
            self.failed = error

    def _write(self, connection: Any, cursor: Any) -> None:
        statements, turn = _POSTGRES if self._source.kind == "postgres" else _MARIADB, 0
        if self._source.kind == "postgres":
            cursor.execute("SET synchronous_commit = off")
        while self.made < self._wanted:
            table = self._names[turn % len(self._names)]
            first = FAR + self._rows + turn // len(self._names) * INSERTS
            values = {"table": table, "far": FAR, "rows": self._rows, "updates": UPDATES, "deletes": DELETES,
                "now": time.time_ns() // 1000, "first": first, "last": first + INSERTS - 1}  # fmt: skip
            for statement in statements:
                cursor.execute(statement.format(**values))
                self.made += cursor.rowcount
            connection.commit()
            turn += 1


def pool(source: Source, size: int | None) -> int:
    """Set the server's buffer pool (MariaDB); the size before, in bytes, or 0."""
    if source.kind != "mysql" or size is None:
        return 0
    with closing(source.connect("mysql")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@innodb_buffer_pool_size")
        before = int(cursor.fetchone()[0])
        cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {size}")
        status = "SHOW STATUS LIKE 'Innodb_buffer_pool_resize_status'"
        while cursor.execute(status) and not str(cursor.fetchone()[1]).startswith(("Completed", "Size did not")):
            time.sleep(0.2)
    return before
