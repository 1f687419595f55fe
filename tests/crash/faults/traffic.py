"""Writes to three tables; what was written to one of them is counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Self

from tests.integration.pipeline.lab import Lab, insert

ROWS = 8000


@dataclass
class Traffic:
    """In a thread until the block ends; `made` are the row events of `ledger`, from when `counting` is set."""

    lab: Lab
    stop: threading.Event = field(default_factory=threading.Event)
    counting: threading.Event = field(default_factory=threading.Event)
    made: dict[str, int] = field(default_factory=lambda: {"inserted": 0, "updated": 0, "deleted": 0})

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._write)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join()

    def count(self) -> None:
        """Begin with `ledger` once the replicator follows it: every change is an event from there on."""
        if not self.counting.is_set() and self.lab.states().get("ledger") == "streaming":
            self.counting.set()

    def shown(self) -> dict[str, int]:
        """The events of `ledger` as people see them."""
        row = self.lab.table("ledger")
        return {"inserted": row.rows_inserted, "updated": row.rows_updated, "deleted": row.rows_deleted}

    def _write(self) -> None:
        n = 0
        made = self.made
        with self.lab.connect(database=self.lab.database) as connection, connection.cursor() as cursor:
            while not self.stop.wait(0.03):  # what a machine with two busy cores can follow
                n += 1
                cursor.execute("UPDATE keyed SET v = %s WHERE id = %s", (n, n * 7919 % ROWS))
                cursor.execute("DELETE FROM keyed WHERE id = %s", (n * 104_729 % ROWS,))
                cursor.execute("INSERT IGNORE INTO keyed VALUES (%s, %s)", (n * 31 % (ROWS + 3000), -n))
                cursor.execute("INSERT INTO keyless VALUES (%s)", (n % 5,))
                cursor.execute("DELETE FROM keyless WHERE v = %s LIMIT 1", (n * 3 % 5,))
                if self.counting.is_set():
                    connection.begin()
                    made["inserted"] += cursor.execute("INSERT INTO ledger VALUES (%s, 0), (%s, 1)", (2 * n, 2 * n + 1))
                    made["updated"] += cursor.execute("UPDATE ledger SET v = v + 1 WHERE id > %s", (2 * n - 6,))
                    made["deleted"] += cursor.execute("DELETE FROM ledger WHERE id = %s", (2 * n - 40,))
                    connection.commit()


def fill(lab: Lab) -> None:
    """The three tables, with rows in two of them."""
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    lab.execute("CREATE TABLE ledger (id INT PRIMARY KEY, v INT)")
    with lab.transaction() as cursor:
        insert(cursor, "keyed", [(n, 0) for n in range(ROWS)])
        insert(cursor, "keyless", [(n % 5,) for n in range(1000)])
