"""Changes at a given rate over some tables, each row stamped with the writer's clock."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing
from types import TracebackType
from typing import Any, Self

from benchmarks.data.sources import Source

CHANGES = 10  # of a transaction, or a multiple: six rows inserted, three updated, one deleted; in three statements
FIRST_ROWS = 300
WRITERS = 4
LATE = 5.0  # seconds; behind by more, the pace begins again: the machine cannot write that much

MARIADB_TABLE = """CREATE TABLE {name} (id BIGINT PRIMARY KEY, written BIGINT NOT NULL, customer INT NOT NULL,
  amount DECIMAL(12, 2) NOT NULL, status VARCHAR(10) NOT NULL, note VARCHAR(120), placed DATETIME(6) NOT NULL)"""
POSTGRES_TABLE = MARIADB_TABLE.replace("DATETIME(6)", "TIMESTAMP")


def make(source: Source, database: str, tables: int, filled: int | None = None) -> list[str]:
    """Create `tables` tables of a few hundred rows; with `filled`, only the first `filled`, the others have one row."""
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
            for number, name in enumerate(names):
                cursor.execute(table.format(name=name))
                cursor.execute(_insert(name, range(FIRST_ROWS if filled is None or number < filled else 1), 0))
                if number % 500 == 499:
                    connection.commit()
        connection.commit()
    return names


class Traffic:
    """`with Traffic(source, database, names, rate) as traffic:` writes until the block ends, over several
    connections.
    """

    def __init__(self, source: Source, database: str, names: list[str], rate: float, times: int = 1) -> None:
        """`rate`: changes a second, over all tables, in transactions of ten times `times`."""
        self._stop = threading.Event()
        self._writers = [
            _Writer(source.connect(database), names[seed::WRITERS], rate / WRITERS, times, seed, self._stop)
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

    def __init__(
        self, connection: Any, names: list[str], rate: float, times: int, seed: int, stop: threading.Event
    ) -> None:
        super().__init__(name="traffic", daemon=True)
        self._connection, self._names, self._rate, self._over = connection, names, rate, stop
        self._times = times
        self._next = {name: _next(connection, name) for name in names}
        self._random = random.Random(seed)
        self.failed: Exception | None = None
        self.changes, self.seconds = 0, 1e-9

    def run(self) -> None:
        started = paced = time.monotonic()
        sent = 0
        try:
            while not self._over.is_set():
                self._transaction(self._random.choice(self._names))
                sent += CHANGES * self._times
                self.changes += CHANGES * self._times
                self.seconds = time.monotonic() - started
                ahead = paced + sent / self._rate - time.monotonic()
                if ahead > 0:
                    self._over.wait(ahead)
                elif ahead < -LATE:
                    paced, sent = time.monotonic(), 0
        except Exception as error:  # noqa: BLE001 - the end of the block raises any error
            self.failed = error
        finally:
            self._connection.close()

    def _transaction(self, name: str) -> None:
        """The stamp is taken before the transaction's first statement."""
        now, times = time.time_ns() // 1000, self._times
        first = self._next[name]
        self._next[name] += 6 * times
        at = self._random.randrange(first // 2, first - 3 * times)
        gone = (first - FIRST_ROWS) // 6
        with self._connection.cursor() as cursor:
            cursor.execute(_insert(name, range(first, first + 6 * times), now))
            cursor.execute(
                f"UPDATE {name} SET written = {now}, amount = amount + 1, status = 'paid' WHERE id BETWEEN {at} AND"
                f" {at + 3 * times - 1}"
            )
            cursor.execute(f"DELETE FROM {name} WHERE id BETWEEN {gone} AND {gone + times - 1}")
        self._connection.commit()


def _next(connection: Any, name: str) -> int:
    """The first key that the table has not had yet."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT max(id) + 1 FROM {name} WHERE id < 1000000000")
        found = int(cursor.fetchone()[0])
    connection.commit()
    return found


def _insert(name: str, ids: range, now: int) -> str:
    rows = ", ".join(
        f"({i}, {now}, {i % 1000}, {i % 9000}.25, 'new', 'left at the neighbour''s, door {i}', '2026-11-21 10:00:00.5')"
        for i in ids
    )
    return f"INSERT INTO {name} VALUES {rows}"
