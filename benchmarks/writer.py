"""A writer beside the measurement."""

from __future__ import annotations

import random
import threading
import time
from types import TracebackType
from typing import Self

import pymysql

from benchmarks.datasets import Dataset
from benchmarks.world import World

PAUSE = 0.005


class Writer:
    """Runs the dataset's transactions one after the other, some two hundred a second, until it is stopped."""

    def __init__(self, world: World, dataset: Dataset) -> None:
        self._connection = world.mariadb.connect(database=dataset.database)
        self._connection.autocommit(False)  # noqa: FBT003 - pymysql's signature
        self._writes = dataset.writes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._random = random.Random(1)
        self._failed: pymysql.MySQLError | None = None
        self.transactions = 0
        self.stopped_at = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """The last transaction is committed when this returns; raises what stopped the writer before."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self.stopped_at = time.monotonic()
            self._connection.close()
            if self._failed is not None:
                raise self._failed

    def _run(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                while not self._stop.wait(PAUSE):
                    for statement in self._writes[self.transactions % len(self._writes)]:
                        number = self._random.randrange(1_000_000)
                        cursor.execute(statement.format(n=self.transactions, r=number))
                    self._connection.commit()
                    self.transactions += 1
        except pymysql.MySQLError as error:
            self._failed = error
