"""A database of the emulator, and waiting for what comes a moment later."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from replicator.model.change import ChangeBatch, Commit, LogMessage, SchemaChange, TableFailed
from replicator.model.offset import Offset
from replicator.sources.sqlserver.offset import LsnOffset
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.contract.place import Place

PATIENCE_SECONDS = 60.0


def until(true: Callable[[], object]) -> None:
    """AssertionError after a minute."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def told(messages: list[LogMessage]) -> list[Any]:
    """Rows and schema changes, in their order."""
    found: list[Any] = []
    for message in messages:
        if isinstance(message, ChangeBatch):
            found += [(row["_operation"], row["id"], row.get("w")) for row in message.data.to_pylist()]
        elif isinstance(message, SchemaChange) and (message.statement or message.reload):
            found.append((message.operation, message.reload))
        elif isinstance(message, TableFailed):
            found.append(message.error)
    return found


def last(place: Place, start: Offset) -> LsnOffset:
    """Where the last commit is."""
    found = next(one for one in reversed(place.read(start)) if isinstance(one, Commit)).offset
    assert isinstance(found, LsnOffset)
    return found


class Database:
    """`run` gives the rows of the last result; `refused` the server's text."""

    def __init__(self, server: EmbeddedSQLServer, name: str) -> None:
        self.server, self.name = server, name
        self._connection: Any = server.connect(name)

    def run(self, *statements: str, **variables: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(statement, *variables.values())
                if cursor.description:
                    rows = [tuple(row) for row in cursor.fetchall()]
        return rows

    def refused(self, statement: str) -> str:
        try:
            self.run(statement)
        except Exception as error:  # noqa: BLE001 - of the driver
            return str(error)
        raise AssertionError("not refused")

    def capture(self, table: str, *more: str) -> None:
        arguments = ", ".join(more)
        self.run(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{table}', @role_name = NULL"
            f"{', ' if more else ''}{arguments}"
        )

    def changes(self, instance: str, columns: str, count: int) -> list[tuple[Any, ...]]:
        """Return operation and columns of the rows of a change table, once there are `count` of them."""
        order = "[__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
        query = f"SELECT [__$operation], {columns} FROM cdc.[{instance}_CT] ORDER BY {order}"
        until(lambda: len(self.run(query)) >= count)
        return self.run(query)

    def close(self) -> None:
        self._connection.close()
