"""Playing a history against a live server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from testing.workload.dialects import driver
from testing.workload.drivers import Connect
from testing.workload.workload import AnySession, History, Phase, Step

RECONNECT_SECONDS = 60.0


class Stopped(Exception):
    """The player was asked to stop, or the server did not come back."""


@dataclass
class Played:
    """`statements` were sent, `failed` of them refused; `errors` by code, as text ("1062", "23505"); `lost`:
    connections.
    """

    statements: int = 0
    failed: int = 0
    transactions: int = 0
    rollbacks: int = 0
    lost: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Played) -> None:
        self.statements += other.statements
        self.failed += other.failed
        self.transactions += other.transactions
        self.rollbacks += other.rollbacks
        self.lost += other.lost
        self.errors.update(other.errors)


class Player:
    """`prepare`, then `play`.  `pace`: seconds between a writer's steps."""

    def __init__(self, history: History, connect: Connect, database: str, pace: float = 0.0) -> None:
        """`connect` gives a new connection each time; `database` (on Postgres a schema of the connection's database)
        must exist.
        """
        self.history, self.database, self.pace = history, database, pace
        self.driver, self._connect = driver(history.dialect), connect
        steps = (step for phase in history.phases for step in phase.steps)
        self._xids = {xid for step in steps for xid in self.driver.identifiers(step.statements)}

    def prepare(self) -> Played:
        """Makes the tables and their first rows; what fails is left out, as in `play`."""
        self._released()  # by a player of this history that was killed
        writer = _Writer(self, self.driver.setup, lambda: False)
        try:
            writer.step(Step(0, self.history.setup, "autocommit"))
        finally:
            writer.close()
        return writer.played

    def play(self, stopped: Callable[[], bool] = lambda: False) -> Played:
        """Play the history; return at its end, or soon after `stopped`.

        A failed statement is not an error: the expected rows are those of the source.
        """
        played = Played()
        for phase in self.history.phases:
            if stopped():
                break
            for writer in self._phase(phase, stopped):
                played.add(writer)
        self._released()
        return played

    def _released(self) -> None:
        if self._xids:
            with suppress(*self.driver.errors, OSError), closing(self.connected(self.driver.setup)) as connection:
                self.release(connection)

    def release(self, connection: Any) -> None:
        """Rolls back what is left prepared of the history's transactions in two phases."""
        for xid in self.driver.left(connection, self._xids):
            self.undo(connection, xid)

    def undo(self, connection: Any, identifier: str) -> None:
        """Ends a transaction in two phases; raises nothing where another session is at it."""
        for statement in self.driver.undone(identifier):
            with suppress(*self.driver.errors), connection.cursor() as cursor:
                cursor.execute(statement)

    def _phase(self, phase: Phase, stopped: Callable[[], bool]) -> list[Played]:
        at_work = sorted({step.writer for step in phase.steps})
        writers = [_Writer(self, self.history.sessions[number], stopped) for number in at_work]
        threads = [
            threading.Thread(target=writer.run, args=([step for step in phase.steps if step.writer == number],))
            for number, writer in zip(at_work, writers, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for writer in writers:
            if writer.broken is not None:
                raise writer.broken
        return [writer.played for writer in writers]

    def connected(self, session: AnySession) -> Any:
        """A connection of the writer's kind."""
        return self.driver.connected(self._connect, self.database, session)


class _Writer:
    """One session at its steps."""

    def __init__(self, player: Player, session: AnySession, stopped: Callable[[], bool]) -> None:
        self._player, self._session, self._stopped = player, session, stopped
        self._connection: Any = None
        self._refusals: tuple[type[Exception], ...] = (*player.driver.errors, UnicodeError)
        self._absences: tuple[type[Exception], ...] = (*player.driver.errors, OSError)
        self.played = Played()
        self.broken: BaseException | None = None

    def run(self, steps: list[Step]) -> None:
        """Run the steps, until stopped; an error other than a refused statement is kept in `broken`."""
        try:
            for step in steps:
                if self._stopped():
                    return
                self.step(step)
                self._rest(self._player.pace)
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - raised again by the player
            self.broken = error
        finally:
            self.close()

    def close(self) -> None:
        """Idempotent."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def step(self, step: Step) -> None:
        """Play a step; a lost connection ends it."""
        try:
            if xids := self._player.driver.identifiers(step.statements):
                self._prepared(step, xids)
            elif step.how == "autocommit":
                for statement in step.statements:
                    self._sent(statement)
            else:
                self._transaction(step)
        except (ConnectionLost, OSError):
            self.played.lost += 1
            self.close()

    def _transaction(self, step: Step) -> None:
        whole = self._sent("BEGIN") and all(self._sent(statement) for statement in step.statements)
        self._rest(step.pause)
        if whole and step.how == "commit" and self._sent("COMMIT"):
            self.played.transactions += 1
        else:
            self._sent("ROLLBACK")
            self.played.rollbacks += 1

    def _prepared(self, step: Step, xids: set[str]) -> None:
        """A transaction in two phases that is refused in part, or is not brought to its end, must not hold its
        locks.
        """
        whole = all(self._sent(statement) for statement in step.statements)
        if whole and step.how == "left":
            self.close()  # it stays when its session goes
            return
        if whole and self._player.driver.ends(step.statements[-1]):
            self.played.transactions += 1
            return
        self.played.rollbacks += 1
        for xid in sorted(xids):
            self._player.undo(self._connected(), xid)

    def _sent(self, statement: str) -> bool:
        """Did the server take it?"""
        connection = self._connected()
        self.played.statements += 1
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        except self._refusals as error:
            code = type(error).__name__ if isinstance(error, UnicodeError) else self._player.driver.code(error)
            if not code:
                raise ConnectionLost from error
            self.played.failed += 1
            self.played.errors[code] += 1
            self.refused(statement, error)
            return False
        return True

    def refused(self, statement: str, error: Exception) -> None:
        """For those who want to look."""

    def _connected(self) -> Any:
        """Raises Stopped when asked to stop, or after `RECONNECT_SECONDS` without a server."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        while self._connection is None:
            try:
                self._connection = self._player.connected(self._session)
                if self.played.lost:
                    self._player.release(self._connection)
            except self._absences:
                if self._stopped() or time.monotonic() > deadline:
                    raise Stopped from None
                time.sleep(0.1)
        return self._connection

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stopped():
            time.sleep(min(left, 0.1))


class ConnectionLost(Exception):
    """The server is gone, or this connection to it."""
