"""A writer beside the measurement."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

Transactions = Sequence[Sequence[str]]

PAUSE = 0.005
# Another writer was faster (serialization failure, deadlock): the transaction is rolled back, as in any application.
_LOST_RACES = {"40001", "40P01", 1213}


class Writer:
    """Runs a dataset's transactions one after the other, some two hundred a second, until it is stopped."""

    def __init__(self, connection: Any, writes: Transactions, seed: int = 1) -> None:
        """`connection`: DB-API, without autocommit; closed at the end."""
        self._connection = connection
        self._writes = writes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._random = random.Random(seed)
        self._failed: Exception | None = None
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
                    try:
                        for statement in self._writes[self.transactions % len(self._writes)]:
                            number = self._random.randrange(1_000_000)
                            cursor.execute(statement.format(n=self.transactions, r=number))
                        self._connection.commit()
                    except Exception as error:
                        if not _LOST_RACES & {getattr(error, "pgcode", None), *error.args[:1]}:
                            raise
                        self._connection.rollback()
                    self.transactions += 1
        except Exception as error:  # noqa: BLE001 - `stop` raises any error
            self._failed = error
