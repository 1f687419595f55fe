"""A definition: the statement, and what is known while it is done."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from testing.servers.oracle.engine.catalog import Catalog, Table
from testing.servers.oracle.engine.ddl.words import Words
from testing.servers.oracle.engine.errors import OracleError
from testing.servers.oracle.engine.session import Session
from testing.servers.oracle.engine.sql.queries import Queries


class Definition:
    """One statement.  queries: makes what translates a part of it that is a query's."""

    def __init__(self, session: Session, behind: psycopg.Connection, text: str, queries: Callable[[], Queries]) -> None:
        self.session, self.behind, self.queries = session, behind, queries
        self.text = text.strip().rstrip(";").strip()
        self.words = Words(text)
        self.catalog = Catalog()
        self.changed: Table | None = None  # for the redo log: the table that the statement is about

    def table(self, privilege: str) -> Table:
        """Parse a table's name and return the table; ORA-00942 or ORA-01031 without the privilege."""
        found = self.catalog.table(*self.words.qualified(self.session.schema))
        account = self.session.account
        if found.owner != account.name and not account.has(privilege):
            self.catalog.check(account, found, privilege.split(maxsplit=1)[0])
        self.changed = found
        return found

    def owner_for(self, privilege: str) -> tuple[str, str]:
        """Owner and name of what is to be made."""
        owner, name = self.words.qualified(self.session.schema)
        account = self.session.account
        wanted = (f"CREATE {privilege}",) if owner == account.name else ()
        if not account.has(*wanted, f"CREATE ANY {privilege}"):
            raise OracleError(1031)
        if owner not in self.catalog.users:
            raise OracleError(1918, owner)
        taken = (owner, name) in self.catalog.tables or (owner, name) in self.catalog.sequences
        if taken or (owner, name) in self.catalog.types:
            raise OracleError(955)
        return owner, name

    def rename(self, table: Table, name: str) -> None:
        if (table.owner, name) in self.catalog.tables:
            raise OracleError(955)
        self.catalog.put(table, name=name)
        self.changed = table
        with_new = self.catalog.table(table.owner, name)
        self.catalog.put(with_new, defined=self.session.database.scn)
