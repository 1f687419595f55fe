"""Playing a history against a live server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR, ER

from replicator.testing.workload import History, Phase, Session, Step

Connect = Callable[[], Any]
RECONNECT_SECONDS = 60.0
LOCK_SECONDS = 2
SETUP = Session("+00:00", "utf8mb4", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION")
LOST = frozenset(
    {
        CR.CR_SERVER_GONE_ERROR,
        CR.CR_SERVER_LOST,
        CR.CR_CONN_HOST_ERROR,
        CR.CR_CONNECTION_ERROR,
        ER.SERVER_SHUTDOWN,
        0,
        1927,
    }
)


def identifiers(statements: Sequence[str]) -> set[str]:
    """Of the XA transactions that occur."""
    return {statement.split("'")[1] for statement in statements if statement.startswith("XA ")}


class Stopped(Exception):
    """The player was asked to stop, or the server did not come back."""


@dataclass
class Played:
    """`statements` were sent, `failed` of them refused; `errors` by code, as text ("1062"); `lost`: connections."""

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
        """`connect` gives a new PyMySQL connection each time; `database` must exist."""
        self.history, self.database, self.pace = history, database, pace
        self._connect = connect
        steps = (step for phase in history.phases for step in phase.steps)
        self._xids = {xid for step in steps for xid in identifiers(step.statements)}

    def prepare(self) -> Played:
        """Makes the tables and their first rows; what fails is left out, as in `play`."""
        self._released()  # by a player of this history that was killed
        writer = _Writer(self, SETUP, lambda: False)
        try:
            writer.step(Step(0, self.history.setup, "autocommit"))
        finally:
            writer.close()
        return writer.played

    def play(self, stopped: Callable[[], bool] = lambda: False) -> Played:
        """Returns when all is played, or soon after `stopped`.  A statement that fails is no error: the source is the model."""
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
            with suppress(pymysql.MySQLError, OSError), self.connected(SETUP) as connection:
                self.release(connection)

    def release(self, connection: Connection[Any]) -> None:
        """Rolls back what is left prepared of the history's XA transactions: it outlives its session, with its locks."""
        with connection.cursor() as cursor:
            cursor.execute("XA RECOVER")
            left = sorted({str(row[3]) for row in cursor.fetchall()} & self._xids)
            for xid in left:
                with suppress(pymysql.MySQLError):  # another session is at it
                    cursor.execute(f"XA ROLLBACK '{xid}'")

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

    def connected(self, session: Session) -> Connection[Any]:
        """A connection of the writer's kind."""
        connection: Connection[Any] = self._connect()
        try:
            connection.select_db(self.database)
            connection.autocommit(True)  # noqa: FBT003
            connection.set_character_set(session.charset)
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION sql_mode = %s, time_zone = %s", (session.sql_mode, session.time_zone))
                cursor.execute(
                    f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}, lock_wait_timeout = {LOCK_SECONDS}"
                )
        except BaseException:
            connection.close()
            raise
        return connection


class _Writer:
    """One session at its steps."""

    def __init__(self, player: Player, session: Session, stopped: Callable[[], bool]) -> None:
        self._player, self._session, self._stopped = player, session, stopped
        self._connection: Connection[Any] | None = None
        self.played = Played()
        self.broken: BaseException | None = None

    def run(self, steps: list[Step]) -> None:
        """Ends early when stopped; what is no fault of a statement is kept in `broken`."""
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
        """A lost connection gives the step up."""
        try:
            if xids := identifiers(step.statements):
                self._prepared(step, xids)
            elif step.how == "autocommit":
                for statement in step.statements:
                    self._sent(statement)
            else:
                self._transaction(step)
        except (ConnectionLost, OSError, pymysql.err.InterfaceError):
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
        """An XA transaction that is refused in part, or is not brought to its end, must not hold its locks."""
        whole = all(self._sent(statement) for statement in step.statements)
        if whole and step.statements[-1].startswith(("XA COMMIT", "XA ROLLBACK")):
            self.played.transactions += 1
            return
        self.played.rollbacks += 1
        for statement in (f"XA {verb} '{xid}'" for xid in sorted(xids) for verb in ("END", "ROLLBACK")):
            with suppress(pymysql.MySQLError), self._connected().cursor() as cursor:
                cursor.execute(statement)

    def _sent(self, statement: str) -> bool:
        """Did the server take it?"""
        connection = self._connected()
        self.played.statements += 1
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        except (pymysql.MySQLError, UnicodeError) as error:
            code = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else type(error).__name__
            if code in LOST:
                raise ConnectionLost from error
            self.played.failed += 1
            self.played.errors[str(code)] += 1
            self.refused(statement, error)
            return False
        return True

    def refused(self, statement: str, error: Exception) -> None:
        """For those who want to look."""

    def _connected(self) -> Connection[Any]:
        """Raises Stopped when asked to stop, or after `RECONNECT_SECONDS` without a server."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        while self._connection is None:
            try:
                self._connection = self._player.connected(self._session)
                if self.played.lost:
                    self._player.release(self._connection)
            except (pymysql.MySQLError, OSError):
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
