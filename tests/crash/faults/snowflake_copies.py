"""Snowflake's stand-in, which has the copies of all histories, what goes wrong with it, and a reader of witness
tables.
"""

from __future__ import annotations

import random
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from snowflake import connector

from replicator.verification import SnowflakeConfig
from testing.servers.snowflake.embedded import EmbeddedSnowflake
from tests.crash.consistency_checker import APPLIED
from tests.crash.faults.postgres_copies import COLUMNS, CopiesReader, PostgresCopies

TROUBLES = ("cut", "cut", "cancel", "hang")
HANG_SECONDS = (0.3, 3.0)


class SnowflakeCopies(PostgresCopies):
    """Its tables are in memory: it is never stopped."""

    kind = "snowflake"
    troubles = TROUBLES
    refused = ()

    def __init__(self, folder: Path, breaking: threading.Lock) -> None:
        """breaking: held while anything is broken."""
        super().__init__(folder, breaking)
        self.snowflake = EmbeddedSnowflake(folder)

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.snowflake.settings)

    def start(self) -> None:
        self.snowflake.start()

    def _make(self, what: str, chance: random.Random) -> None:
        """Sessions end, statements are cancelled, or no answer is given for a while."""
        seconds = chance.uniform(*HANG_SECONDS) if what == "hang" else 0
        with suppress(OSError):
            address = f"{self.snowflake.settings['host']}/trouble/{what}?seconds={seconds}"
            urlopen(Request(address, method="POST"), timeout=10).close()

    def _stop(self) -> None:
        self.snowflake.stop()

    def reader(self) -> SnowflakeConfig:  # type: ignore[override]
        return SnowflakeConfig(self.snowflake.database, self.snowflake.options)

    def witnesses(self, namespace: str, writer: Any) -> CopiesReader:
        return SnowflakeReader(self, namespace, writer)


class SnowflakeReader(CopiesReader):
    """See `CopiesReader`."""

    def look(self) -> None:
        """The present state of each table."""
        try:
            with closing(connector.connect(**self._copies.snowflake.options)) as db, db.cursor() as cursor:
                for name in self._seen:
                    cursor.execute("BEGIN")
                    self._look(cursor, name)
                    cursor.execute("COMMIT")
        except AssertionError as error:
            self.violations.append(str(error))
        except Exception as error:  # noqa: BLE001 - a server that has cut it off
            self.trouble = error

    def _look(self, cursor: Any, name: str) -> None:
        from replicator.targets.base import TargetTable
        from replicator.targets.snowflake.config import destination
        from replicator.targets.snowflake.dialect import SnowflakeDialect

        dialect, seen = SnowflakeDialect(destination(self._copies.settings)), self._seen[name]
        table = TargetTable(self._namespace, name)
        columns = {}
        for one in (table, dialect.positions(table)):
            cursor.execute(
                f'SELECT column_name FROM "{self._copies.snowflake.database}".INFORMATION_SCHEMA.COLUMNS'
                f" WHERE table_schema = '{one.namespace}' AND table_name = '{one.name}'"
            )
            columns[one] = [found for (found,) in cursor.fetchall()]
        if not all(columns.values()):
            return
        cursor.execute(f"SELECT load, applied, loaded, columns, pending FROM {dialect.place(dialect.positions(table))}")
        ((*position, recorded, pending),) = cursor.fetchall()
        if recorded == "{}" or pending or tuple(position) == self._position.get(name):
            return
        if position[0] != seen.uuid:  # made, or made again
            seen.uuid, seen.base = position[0], None
        names = [*COLUMNS[name], *(one for one in ("made_at", "made_by", "place") if one in columns[table])]
        cursor.execute(f"SELECT {dialect.listed(names)} FROM {dialect.place(table)}")
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        self._check(seen, rows, {APPLIED: str(position[1])})
        self._position[name] = tuple(position)
        self.states += 1
