"""A session: its settings and its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psycopg

from testing.servers.oracle.engine.catalog import PLUGGABLE, ROOT, User
from testing.servers.oracle.engine.database import Database, Transaction
from testing.servers.oracle.engine.errors import OracleError
from testing.servers.oracle.engine.kinds import Kind
from testing.servers.oracle.engine.log.logminer import LogMiner
from testing.servers.oracle.engine.refusals import refused
from testing.servers.oracle.engine.sql.expressions import Typed
from testing.servers.oracle.wire.calls import Bind

FORMATS = {
    "NLS_DATE_FORMAT": "DD-MON-RR", "NLS_TIMESTAMP_FORMAT": "DD-MON-RR HH.MI.SSXFF AM",
    "NLS_TIMESTAMP_TZ_FORMAT": "DD-MON-RR HH.MI.SSXFF AM TZR",
}  # fmt: skip


class Session:
    """One connection's; `Interpreter` runs its statements."""

    def __init__(
        self, database: Database, user: User, service: str, time_zone: str, number: int, program: str = ""
    ) -> None:
        self.database, self.service, self.number, self._program = database, service, number, program
        self.container = ROOT if service != PLUGGABLE else PLUGGABLE
        self.user, self.schema, self.time_zone = user.name, user.name, time_zone
        self.nls = {**FORMATS, "NLS_NUMERIC_CHARACTERS": ".,"}
        self.miner = LogMiner(self)
        self._behind = database.connect()
        self._transaction: Transaction | None = None
        self._isolation = ""
        self._binds: Sequence[Bind] = ()
        self._parameters: list[str | bytes | None] = []
        self._places: dict[int, str] = {}

    # What calls and expressions ask

    @property
    def account(self) -> User:
        found = self.database.catalog.users.get(self.user)
        if found is None:
            raise OracleError(1012)
        return found

    @property
    def in_container_database(self) -> bool:
        return self.service != PLUGGABLE

    @property
    def in_root(self) -> bool:
        """In the root of a container database, which holds no users' tables."""
        return self.in_container_database and self.container == ROOT

    @property
    def in_pluggable(self) -> bool:
        """In the pluggable database of a container database, where LogMiner is not available before 21c."""
        return self.in_container_database and self.container != ROOT

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    def scn(self) -> int:
        return self.database.scn

    def types(self) -> dict[tuple[str, str], str]:
        return self.database.catalog.types

    def sequence(self, owner: str, name: str) -> str:
        found = self.database.catalog.sequences.get((owner, name))
        if found is None:
            raise OracleError(2289)
        return found

    def context(self, name: str) -> str | None:
        """Of SYS_CONTEXT('USERENV', name)."""
        return {
            "CURRENT_SCHEMA": self.schema, "SESSION_USER": self.user, "CURRENT_USER": self.user, "CON_ID": "0",
            "SID": str(self.number), "SESSIONID": str(self.number), "CON_NAME": self.container, "DB_NAME": "ORCL",
            "SERVICE_NAME": self.service,
        }.get(name)  # fmt: skip

    def bound(self, place: int) -> Typed:
        """A bound value, as a parameter of Postgres' statement."""
        if place >= len(self._binds):
            raise OracleError(1008)
        bind = self._binds[place]
        if bind.value is None or bind.value == "":
            return Typed("NULL", None)
        if place not in self._places:
            self._places[place] = self.parameter(bind.value)
        kind = bind.kind if bind.kind.name != "RAW" else Kind("RAW", 2000)
        literal = bind.value if isinstance(bind.value, str) else None
        return Typed(f"{self._places[place]}::{kind.postgres}", kind, literal)

    def parameter(self, value: str | bytes) -> str:
        """One more of Postgres' statement; returns how it is called there."""
        self._parameters.append(value)
        return f"${len(self._parameters)}"

    # Its transaction

    def commit(self) -> None:
        if self._transaction is not None:
            try:
                self.database.commit(self._behind, self._transaction)
            except psycopg.Error as error:
                self.rollback()
                raise refused(error, self.database.catalog) from error
            self._transaction, self._isolation = None, ""

    def rollback(self) -> None:
        if self._transaction is not None:
            with suppress(psycopg.OperationalError):
                self.database.rollback(self._behind, self._transaction)
            self._transaction, self._isolation = None, ""

    def _begin(self) -> None:
        if self._transaction is None:
            self._behind.execute(f"BEGIN {self._isolation}")
            self._transaction = Transaction(self.database.new_xid(), self.user)

    def cancel(self) -> None:
        """What runs, from another thread."""
        with suppress(psycopg.Error):
            self._behind.cancel_safe(timeout=5)

    def set_schema(self, name: str) -> None:
        if name not in self.database.catalog.users:
            raise OracleError(1435)
        self.schema = name

    def close(self) -> None:
        """An open transaction is rolled back."""
        self.rollback()
        self._behind.close()
