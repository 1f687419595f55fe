"""A session of the target: statements, COPY, transactions."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import extensions

from replicator.errors import TargetError
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import (
    Connection,
    connection_options,
    prepare,
    quoted,
)
from replicator.sources.postgres.connection import cancel as cancel_at_server
from replicator.targets.base import TargetTable
from replicator.targets.postgres.copy_text import encoded
from replicator.targets.postgres.failures import explained
from replicator.targets.warehouse.session import as_arrow, transaction

# A worker that stalls within a transaction locks the position's row no longer than this.  A statement of a worker that
# died ends soon.  A commit waits for a synchronous standby where the server has one.
SESSION = (
    "SET idle_in_transaction_session_timeout = '60s'; SET synchronous_commit = on; SET client_min_messages = 'warning'"
)
CONNECTION_CHECK_SINCE = 140000
CONNECTION_CHECK = "SET client_connection_check_interval = '10s'"


class PostgresSession:
    """See `Session`."""

    def __init__(self, config: PostgresConfig) -> None:
        """Connects.  Raises TargetError."""
        self._config, self._stopped = config, threading.Event()
        self.stages: list[str] = []
        with explained(config.where), connection_options(config) as options:
            self._connection: Connection = psycopg2.connect(**options)
            try:
                prepare(self._connection)
                with self._connection.cursor() as cursor:
                    cursor.execute(SESSION)
                    if self._connection.server_version >= CONNECTION_CHECK_SINCE:
                        cursor.execute(CONNECTION_CHECK)
            except BaseException:
                self._connection.close()
                raise

    @property
    def version(self) -> int:
        """As the server's server_version_num: 170005."""
        return int(self._connection.server_version)

    def execute(self, sql: str) -> int:
        """See `Session`."""
        with self._asking() as cursor:
            cursor.execute(sql)
            return max(int(cursor.rowcount), 0)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """See `Session`."""
        with self._asking() as cursor:
            cursor.execute(sql)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def read(self, sql: str, schema: pa.Schema) -> pa.Table:
        """See `Session`."""
        return as_arrow(self.query(sql), schema, bytes)

    def load(self, place: str, rows: pa.Table, table: TargetTable) -> int:
        """See `Session`."""
        names = ", ".join(map(quoted, rows.column_names))
        for lines in encoded(rows, str(table)):
            with self._asking() as cursor:
                cursor.copy_expert(f"COPY {place} ({names}) FROM STDIN", io.BytesIO(lines), 1 << 20)
        return int(rows.num_rows)

    def transaction(self) -> AbstractContextManager[None]:
        """See `Session`."""
        return transaction(self.execute, self._roll_back)

    def _roll_back(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("ROLLBACK")

    def usable(self) -> bool:
        """See `Session`."""
        try:
            self.query("SELECT 1")
        except TargetError:
            return False
        return bool(self._connection.get_transaction_status() == extensions.TRANSACTION_STATUS_IDLE)

    def interrupt(self) -> None:
        """See `Session`."""
        self._stopped.set()
        with suppress(Exception):
            cancel_at_server(self._config, self._connection)

    def close(self) -> None:
        """See `Session`."""
        with suppress(psycopg2.Error):
            self._connection.close()

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        if self._stopped.is_set():
            raise TargetError(f"The work at {self._config.where} was interrupted.", remedy="No action required.")
        with explained(self._config.where), self._connection.cursor() as cursor:
            yield cursor
