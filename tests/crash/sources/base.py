"""What a stand and a trial need of a source."""

from __future__ import annotations

import random
import shutil
import subprocess
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from testing.workload.workload import Dialect
from tests.crash.faults.errors import CODES
from tests.crash.faults.proxy import Proxy


def copied(folder: Path, to: Path) -> None:
    """In the place of what is there, with owners and modes, which a server looks at."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", folder, to], check=True)


class SourceUnderTest(ABC):
    """A server, and the part of it for one history: its tables have the history's name as their `TableId.database`.

    dialect   of its histories; `version` is the server's major version where that matters to them
    kind      of the connection in Tidemark
    errors    what its client library raises
    tls_off   the connection's setting for no TLS
    moves_are_updates   the log has an UPDATE of a key as one event, not as DELETE and INSERT
    locks_python   its client library holds the GIL while it waits for some rows
    nets_changes   its log has the net change of each key, not every change
    """

    dialect: ClassVar[Dialect]
    kind: ClassVar[str] = "mysql"
    errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.MySQLError,)
    tls_off: ClassVar[str] = "disabled"
    moves_are_updates: ClassVar[bool] = True
    locks_python: ClassVar[bool] = False
    nets_changes: bool = False
    version: int | None = None
    server: Any

    @abstractmethod
    def connect(self, name: str | None = None) -> Any:
        """An administrator's connection, autocommit; `name`: a history's, whose tables need no database then."""

    @abstractmethod
    def make(self, name: str) -> None:
        """Room for a history's tables."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """All that `make` made and what is in it."""

    @abstractmethod
    def tables(self, name: str) -> set[str]:
        """Names of the history's tables; partitions are none."""

    @abstractmethod
    def one_of(self, verb: str, table: str, where: str) -> str:
        """A statement that changes one row alone of equal ones; `verb`: "DELETE FROM" or "UPDATE … SET …"."""

    def unfollowable(self, name: str) -> set[str]:
        """Tables whose changes the log does not tell apart, as they stand now: a history's statements may leave one
        so.
        """
        del name
        return set()

    def inexact(self, name: str) -> set[str]:
        """Tables of which the log does not tell all, so that a copy may rightly differ."""
        del name
        return set()

    def made_keyless(self, create: str, table: str) -> tuple[str, ...]:
        """Statements that make a table without key so that all changes of it can be followed."""
        del table
        return (create,)

    def address(self, name: str, port: int) -> dict[str, Any]:
        """Of the history's part, by way of a proxy at this port, as a connection's config has it."""
        del name
        return {**self.server.address, "port": port, "tls": self.tls_off}

    def copy_data(self) -> None:
        """The data folder, aside; the server is stopped for it, and goes on."""
        self.server.stop()
        copied(self._data, self._copy)
        self.server.start()

    def restore_data(self) -> None:
        """The copy in the place of what there is; the server goes on from it."""
        self.server.stop()
        copied(self._copy, self._data)
        self.server.start()

    @property
    def _data(self) -> Path:
        folder: Path = self.server.folder
        return folder / "data"

    @property
    def _copy(self) -> Path:
        return self._data.with_name("copy")

    def fail_over(self) -> None:
        """Of a group of servers: another one takes over, with all that was committed."""
        raise NotImplementedError

    def hold_redo(self, seconds: float) -> None:
        """Of a group of servers: pause redo on the one that is read, for `seconds`."""
        raise NotImplementedError

    def answer_errors(self, proxy: Proxy, statements: int, chance: random.Random, share: float = 1.0) -> None:
        """Of any class, to about such a share of Tidemark's next statements, done or not; 0 statements end it."""
        proxy.answer_errors(statements, CODES.get(self.kind, ()), chance=chance, share=share)

    def open_memory_tables(self, name: str) -> bool:
        """Open the tables that a restart of the server empties, so that its log tells of it; True where there are
        any.
        """
        del name
        return False

    def end_stuck_statements(self) -> int:
        """Of the workload, which no lock timeout ends; returns how many."""
        return 0

    def log_files(self) -> list[Path]:
        """Files of the source's log that help to analyse a finding later."""
        return []

    def execute(self, *statements: str, name: str | None = None) -> None:
        """One after another."""
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
