"""Users, roles and rights, and what ALTER DATABASE and ALTER SYSTEM change."""

from __future__ import annotations

import re
from dataclasses import replace

from testing.servers.oracle.engine.catalog import DBA, PLUGGABLE, ROLES, ROOT, User
from testing.servers.oracle.engine.ddl.columns import log_kinds
from testing.servers.oracle.engine.ddl.definition import Definition
from testing.servers.oracle.engine.errors import AnsweredErrors, OracleError, unsupported

_PASSWORD = re.compile(r"(IDENTIFIED\s+BY\s+)(\"[^\"]*\"|\S+)", re.IGNORECASE)
ON_OBJECTS = (
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "FLASHBACK",
    "READ",
    "ALTER",
    "INDEX",
    "REFERENCES",
    "EXECUTE",
    "ALL",
)


class Accounts:
    """One statement's."""

    def __init__(self, definition: Definition) -> None:
        self._all, self._words = definition, definition.words
        self._session = definition.session

    @staticmethod
    def hidden(text: str) -> str:
        """A password is not in the redo log as it is written."""
        return _PASSWORD.sub(r"\1VALUES 'S:*'", text)

    def statement(self) -> None:
        words = self._words
        if words.take("ALTER", "DATABASE"):
            self._database()
        elif words.take("CREATE", "USER"):
            self._create()
        elif words.take("ALTER", "USER"):
            self._alter()
        elif words.take("DROP", "USER"):
            self._drop()
        elif words.take("GRANT"):
            self._grant()
        elif words.take("REVOKE"):
            self._grant(gives=False)
        else:
            raise unsupported(words.sql)

    def _must(self, *privileges: str) -> None:
        if not self._session.account.has(*privileges):
            raise OracleError(1031)

    def _user(self) -> User:
        name = self._words.name()
        found = self._all.catalog.users.get(name)
        if found is None:
            raise OracleError(1918, name)
        return found

    def _password(self) -> str:
        self._words.need("IDENTIFIED", "BY")
        kind, _, start, end = self._words.tokens[self._words.at]
        self._words.at += 1
        text = self._words.sql[start:end]
        return text[1:-1] if kind == "quoted" else text

    def _create(self) -> None:
        self._must("CREATE USER")
        name = self._words.name()
        if name in self._all.catalog.users:
            raise OracleError(1920, name)
        if self._session.in_root and not name.startswith("C##"):
            raise OracleError(65096)
        self._all.catalog.users[name] = User(name, self._password(), self._all.catalog.number())
        self._words.until()

    def _alter(self) -> None:
        user = self._user()
        if user.name != self._session.user:
            self._must("ALTER USER")
        if self._words.peek() == "IDENTIFIED":
            self._all.catalog.users[user.name] = replace(user, password=self._password())
        elif self._words.take("SET", "CONTAINER_DATA", "="):
            self._all.catalog.users[user.name] = replace(user, container_data=self._containers())

    def _containers(self) -> frozenset[str]:
        """SQL Language Reference, "ALTER USER", container_data_clause: in the root, of a common user."""
        words = self._words
        if not self._session.in_container_database:
            raise OracleError(65090)
        if not self._session.in_root:
            raise OracleError(65040)
        named = words.names() if words.peek() == "(" else [words.name()]
        words.take("CONTAINER", "=", "CURRENT")
        words.end()
        if named in (["ALL"], ["DEFAULT"]):
            return frozenset(named) - {"DEFAULT"}
        if ROOT not in named:
            raise OracleError(65057)
        return frozenset(named)

    def _drop(self) -> None:
        self._must("DROP USER")
        user = self._user()
        cascade = self._words.take("CASCADE")
        own = [one for one in self._all.catalog.tables.values() if one.owner == user.name]
        if own and not cascade:
            raise OracleError(1922, user.name)
        for table in own:
            self._all.behind.execute(f"DROP TABLE {table.rows}, {table.history} CASCADE")
            self._all.behind.execute(f"DROP FUNCTION o.b{table.obj}, o.h{table.obj}")
            del self._all.catalog.tables[table.owner, table.name]
        del self._all.catalog.users[user.name]

    def _grant(self, *, gives: bool = True) -> None:
        words = self._words
        privileges = [words.until(",", "ON", "TO", "FROM").upper()]
        while words.take(","):
            privileges.append(words.until(",", "ON", "TO", "FROM").upper())
        place = None
        if words.take("ON"):
            place = words.qualified(self._session.schema)
        words.need("TO" if gives else "FROM")
        names = [words.name()]
        while words.take(","):
            names.append(words.name())
        words.until()
        for name in names:
            user = self._all.catalog.users.get(name)
            if user is None:
                raise OracleError(1917, name)
            self._all.catalog.users[name] = self._changed(user, privileges, place, gives=gives)

    def _changed(self, user: User, privileges: list[str], place: tuple[str, str] | None, *, gives: bool) -> User:
        change = frozenset.union if gives else frozenset.difference
        if place is not None:
            if any(one not in ON_OBJECTS for one in privileges):
                raise OracleError(990)
            if place not in self._all.catalog.tables and not place[1].startswith(("V_$", "GV_$", "DBMS_", "DBA_")):
                raise OracleError(942)
            if place[0] != self._session.user:
                self._must("GRANT ANY OBJECT PRIVILEGE", DBA)
            wanted = ("SELECT", "INSERT", "UPDATE", "DELETE", "FLASHBACK") if "ALL" in privileges else privileges
            return replace(user, grants=change(user.grants, {(*place, one) for one in wanted}))
        self._must("GRANT ANY PRIVILEGE", DBA)
        roles = {one for one in privileges if one in ROLES}
        rights = {one for one in privileges if one not in ROLES}
        if any(not re.fullmatch(r"[A-Z][A-Z ]+", one) for one in rights):
            raise OracleError(990)
        return replace(user, privileges=change(user.privileges, rights), roles=change(user.roles, roles))

    def _database(self) -> None:
        self._must("ALTER DATABASE")
        words, kinds = self._words, ["MIN"]
        gives = words.take("ADD")
        if not gives:
            words.need("DROP")
        words.need("SUPPLEMENTAL", "LOG", "DATA")
        if words.peek() == "(":
            kinds = [one.removesuffix(" LOGGING") for one in log_kinds(words)]
        words.end()
        logging = self._all.catalog.database_logging
        if not gives and not logging.intersection(kinds):
            raise OracleError(32587)
        logging.update(kinds) if gives else logging.difference_update(kinds)

    def pluggable(self) -> None:
        """ALTER PLUGGABLE DATABASE name OPEN or CLOSE, in the root."""
        self._must("ALTER DATABASE")
        if not self._session.in_root:
            raise OracleError(65040)
        name = self._words.name()
        if name not in (PLUGGABLE, "ALL"):
            raise OracleError(65011, name)
        opens = self._words.take("OPEN")
        if not opens:
            self._words.need("CLOSE")
        if opens == self._session.database.pluggable_open and name != "ALL":
            raise OracleError(*(65019, PLUGGABLE) if opens else (65020, PLUGGABLE))
        self._session.database.pluggable_open = opens

    def system(self) -> None:
        """ALTER SYSTEM."""
        self._must("ALTER SYSTEM")
        words, database = self._words, self._session.database
        if words.take("SWITCH", "LOGFILE") or words.take("ARCHIVE", "LOG", "CURRENT"):
            with database.lock:
                database.redo.switch(database.next_scn())
        elif words.take("SET"):
            name = words.name().lower()
            words.need("=")
            value = words.until("SCOPE")
            if name == "answer_errors":
                database.errors = AnsweredErrors(value.strip("'"))
                return
            with database.defining, database.lock:
                database.catalog.parameters[name] = value.strip("'")
        elif not (words.take("CHECKPOINT") or words.take("FLUSH", "SHARED_POOL")):
            raise unsupported(words.sql)
