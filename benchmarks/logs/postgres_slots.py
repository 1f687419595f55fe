"""The slots and the publication by which a table's log is read, again and again from the same place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.data.sources import PostgresSource

PUBLICATION, START, RUN = "bench", "bench_start", "bench_run"  # START stays where the log begins
PUBLISH = f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {{}} WITH (publish = 'insert, update, delete')"
COUNT = (
    f"SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{START}', NULL, NULL, 'proto_version', '1', "
    f"'publication_names', '{PUBLICATION}') WHERE get_byte(data, 0) IN (ascii('I'), ascii('U'), ascii('D'))"
)
POLL, PATIENCE = 0.02, 600.0  # seconds


@dataclass(frozen=True)
class Server:
    """`cursor` in autocommit mode."""

    source: PostgresSource
    cursor: Any
    folder: Path

    @property
    def config(self) -> dict[str, str]:
        return {**self.source.config, "slot": RUN, "publication": PUBLICATION}

    def value(self, sql: str, *parameters: Any) -> Any:
        """None where there is no row."""
        self.cursor.execute(sql, parameters)
        row = self.cursor.fetchone()
        return row and row[0]

    def until(self, sql: str, *parameters: Any) -> Any:
        """The first value that is true."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if value := self.value(sql, *parameters):
                return value
            time.sleep(POLL)
        raise TimeoutError(sql)


@contextmanager
def connected(source: PostgresSource, folder: Path) -> Iterator[Server]:
    """The slots that it made are gone with the block."""
    with closing(source.connect("public")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            server = Server(source, cursor, folder)
            yield server
            drop_slots(server)


def drop_slots(server: Server, *names: str) -> None:
    """All by default; a reader that has just ended may still be on it."""
    server.until("SELECT count(*) = 0 FROM pg_replication_slots WHERE active")
    chosen = list(names or (START, RUN))
    server.cursor.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ANY(%s)", (chosen,)
    )


def publish(server: Server, table: str) -> None:
    """The log of this table begins here."""
    drop_slots(server)
    server.cursor.execute(f"DROP PUBLICATION IF EXISTS {PUBLICATION}")
    server.cursor.execute(PUBLISH.format(table))
    server.cursor.execute(f"SELECT pg_create_logical_replication_slot('{START}', 'pgoutput')")
    rewind(server)


def rewind(server: Server) -> None:
    """The slot that is read stands at the log's beginning again."""
    drop_slots(server, RUN)
    server.cursor.execute(f"SELECT pg_copy_logical_replication_slot('{START}', '{RUN}')")


def rows_in_log(server: Server) -> int:
    """As the server itself decodes it."""
    return int(server.value(COUNT))
