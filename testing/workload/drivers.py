"""What the player needs of a client library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from testing.workload.schemas import Statements
from testing.workload.workload import AnySession

Connect = Callable[[], Any]
LOCK_SECONDS = 2


class Driver(Protocol):
    """One dialect's.  Connections are those of its client library, autocommit.

    errors   what the library raises
    setup    the session that makes the tables
    """

    errors: tuple[type[Exception], ...]
    setup: AnySession

    def connected(self, connect: Connect, database: str, session: AnySession) -> Any:
        """A connection of the writer's kind, whose statements mean tables of `database` (on Postgres: that schema)."""

    def code(self, error: Exception) -> str:
        """The server's code for a refused statement; "" where the connection or the server is gone."""

    def identifiers(self, statements: Sequence[str]) -> set[str]:
        """Of the transactions in two phases that occur."""

    def ends(self, statement: str) -> bool:
        """Is it the last of a transaction in two phases?"""

    def left(self, connection: Any, identifiers: set[str]) -> list[str]:
        """Those that are prepared and not ended: they outlive their session, with their locks."""

    def undone(self, identifier: str) -> Statements:
        """Statements that end a two-phase transaction in any state; some of them may fail."""
