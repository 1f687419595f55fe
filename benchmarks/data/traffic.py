"""Changes at a given rate over some tables, each row stamped with the writer's clock."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from types import TracebackType
from typing import Any, Self

from benchmarks.data.sources import Source

CHANGES = 10  # of a transaction: six rows inserted, three updated, one deleted; in three statements
FIRST_ROWS = 300
WRITERS = 4
LATE = 5.0  # seconds; behind by more, the pace begins again: the machine cannot write that much

MARIADB_TABLE = """CREATE TABLE {name} (id BIGINT PRIMARY KEY, written BIGINT NOT NULL, customer INT NOT NULL,
  amount DECIMAL(12, 2) NOT NULL, status VARCHAR(10) NOT NULL, note VARCHAR(120), placed DATETIME(6) NOT NULL)"""
POSTGRES_TABLE = MARIADB_TABLE.replace("DATETIME(6)", "TIMESTAMP")


def make(source: Source, database: str, tables: int) -> list[str]:
    """A database with so many tables of a few hundred rows."""
    names = [f"orders_{number:03}" for number in range(tables)]
    table = POSTGRES_TABLE if source.kind == "postgres" else MARIADB_TABLE
    with closing(source.connect("postgres" if source.kind == "postgres" else "mysql")) as connection:
        with connection.cursor() as cursor:
            if source.kind == "postgres":
                cursor.execute(f"CREATE SCHEMA {database}")
                cursor.execute(f"SET search_path = {database}")
            else:
                cursor.execute(f"CREATE DATABASE {database}")
                cursor.execute(f"USE {database}")
            for name in names:
                cursor.execute(table.format(name=name))
                cursor.execute(_insert(name, range(FIRST_ROWS), 0))
        connection.commit()
    return names


class Traffic:
    """`with Traffic(source, database, names, rate) as traffic:` writes until the block ends, over several
    connections.
    """

    def __init__(self, source: Source, database: str, names: list[str], rate: float) -> None:
        """`rate`: changes a second, over all tables."""
        self._stop = threading.Event()
        self._writers = [
            _Writer(source.connect(database), names[seed::WRITERS], rate / WRITERS, seed, self._stop)
            for seed in range(WRITERS)
        ]

    def __enter__(self) -> Self:
        for writer in self._writers:
            writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for writer in self._writers:
            writer.join()
        for writer in self._writers:
            if writer.failed is not None:
                raise writer.failed

    @property
    def rate(self) -> float:
        """Changes a second that were written."""
        return sum(writer.changes / writer.seconds for writer in self._writers)


class _Writer(threading.Thread):
    """One connection; each transaction is one table's, chosen at random."""

    def __init__(self, connection: Any, names: list[str], rate: float, seed: int, stop: threading.Event) -> None:
        super().__init__(name="traffic", daemon=True)
        self._connection, self._names, self._rate, self._over = connection, names, rate, stop
        self._next = dict.fromkeys(names, FIRST_ROWS)
        self._random = random.Random(seed)
        self.failed: Exception | None = None
        self.changes, self.seconds = 0, 1e-9

    def run(self) -> None:
        started = paced = time.monotonic()
        sent = 0
        try:
            while not self._over.is_set():
                self._transaction(self._random.choice(self._names))
                sent += CHANGES
                self.changes += CHANGES
                self.seconds = time.monotonic() - started
                ahead = paced + sent / self._rate - time.monotonic()
                if ahead > 0:
                    self._over.wait(ahead)
                elif ahead < -LATE:
                    paced, sent = time.monotonic(), 0
        except Exception as error:  # noqa: BLE001 - whatever it was, the end of the block raises it
            self.failed = error
        finally:
            self._connection.close()

    def _transaction(self, name: str) -> None:
        """The stamp is taken before the transaction's first statement."""
        now = time.time_ns() // 1000
        first = self._next[name]
        self._next[name] += 6
        at = self._random.randrange(first // 2, first - 3)
        with self._connection.cursor() as cursor:
            cursor.execute(_insert(name, range(first, first + 6), now))
            cursor.execute(
                f"UPDATE {name} SET written = {now}, amount = amount + 1, status = 'paid' WHERE id BETWEEN {at} AND"
                f" {at + 2}"
            )
            cursor.execute(f"DELETE FROM {name} WHERE id = {(first - FIRST_ROWS) // 6}")
        self._connection.commit()


def _insert(name: str, ids: range, now: int) -> str:
    rows = ", ".join(
        f"({i}, {now}, {i % 1000}, {i % 9000}.25, 'new', 'left at the neighbour''s, door {i}', '2026-11-21 10:00:00.5')"
        for i in ids
    )
    return f"INSERT INTO {name} VALUES {rows}"
