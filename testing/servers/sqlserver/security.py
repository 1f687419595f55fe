"""Logins, users, roles and rights, as roles of Postgres.

A login is a role that may log in; a user of a database is a login that may connect to it; a role of a database is a
role `<database>.<role>`; a right on the server or the database that no object has is a role of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testing.servers.sqlserver.language.dialect import quoted
from testing.servers.sqlserver.refusals import Refusal, unknown

if TYPE_CHECKING:
    from testing.servers.sqlserver.language.cursor import Cursor
    from testing.servers.sqlserver.session import Session

SYSADMIN = "sa"
FIXED = ("db_owner", "db_datareader", "db_datawriter", "db_ddladmin")


def postgres_name(login: str) -> str:
    """The role of a login."""
    from webapp.embedded.postgres_family import USER

    return USER if login.lower() == SYSADMIN else login.lower()


def make_role(session: Session, role: str) -> str:
    """A role of the database, if it is not there; its quoted name."""
    name = f"{session.connection.database}.{role.lower()}"
    if not session.connection.query("SELECT FROM pg_roles WHERE rolname = $1::text", [name]):
        session.connection.execute(f"CREATE ROLE {quoted(name)}")
    return quoted(name)


def create_login(session: Session, cursor: Cursor) -> None:
    """CREATE LOGIN name WITH PASSWORD = '…' [, …]."""
    name = cursor.name()
    cursor.expect("WITH", "PASSWORD")
    cursor.at += 1
    password = cursor.tokens[cursor.at].text.replace("'", "''")
    if session.connection.query("SELECT FROM pg_roles WHERE rolname = $1::text", [postgres_name(name)]):
        raise Refusal(15025, f"The server principal '{name}' already exists.")
    session.connection.execute(f"CREATE ROLE {quoted(postgres_name(name))} LOGIN PASSWORD '{password}'")


def alter_login(session: Session, cursor: Cursor) -> None:
    """ALTER LOGIN name WITH PASSWORD = '…' | ENABLE | DISABLE."""
    name = quoted(postgres_name(cursor.name()))
    if cursor.take("DISABLE"):
        session.connection.execute(f"ALTER ROLE {name} NOLOGIN")
    elif cursor.take("ENABLE"):
        session.connection.execute(f"ALTER ROLE {name} LOGIN")
    else:
        cursor.expect("WITH", "PASSWORD")
        cursor.at += 1
        password = cursor.tokens[cursor.at].text.replace("'", "''")
        session.connection.execute(f"ALTER ROLE {name} PASSWORD '{password}'")


def drop_login(session: Session, cursor: Cursor) -> None:
    """DROP LOGIN name."""
    name = quoted(postgres_name(cursor.name()))
    session.connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def create_user(session: Session, cursor: Cursor) -> None:
    """CREATE USER name [FOR LOGIN login] [WITH DEFAULT_SCHEMA = schema]; the user has the login's name here."""
    name = cursor.name()
    if cursor.take("FOR", "LOGIN") and cursor.name().lower() != name.lower():
        raise unknown("CREATE USER with another name than its login's")
    database = session.connection.database
    session.connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {quoted(database)} TO {quoted(name.lower())}")
    if cursor.take("WITH", "DEFAULT_SCHEMA"):
        cursor.at += 1
        schema = cursor.name().replace("'", "''")
        session.connection.execute(
            f"ALTER ROLE {quoted(name.lower())} IN DATABASE {quoted(database)} SET tidemark.default_schema = '{schema}'"
        )


def drop_user(session: Session, cursor: Cursor) -> None:
    """DROP USER [IF EXISTS] name."""
    cursor.take("IF", "EXISTS")
    name, database = quoted(cursor.name().lower()), quoted(session.connection.database)
    session.connection.execute(f"DROP OWNED BY {name}; REVOKE ALL ON DATABASE {database} FROM {name}")


def alter_role(session: Session, cursor: Cursor) -> None:
    """ALTER ROLE role ADD | DROP MEMBER user."""
    role = cursor.name()
    added = cursor.take("ADD", "MEMBER")
    if not added:
        cursor.expect("DROP", "MEMBER")
    member(session, role, cursor.name(), added=added)


def member(session: Session, role: str, user: str, *, added: bool) -> None:
    """Of a role of the database: db_owner may all, db_datareader reads all, db_datawriter writes all."""
    name, user = make_role(session, role), quoted(user.lower())
    more = {"db_datareader": "pg_read_all_data", "db_datawriter": "pg_write_all_data"}.get(role.lower())
    names = [name, *([more] if more else [])]
    if role.lower() == "db_owner":
        names += ["pg_read_all_data", "pg_write_all_data"]
    verb, to = ("GRANT", "TO") if added else ("REVOKE", "FROM")
    for one in names:
        session.connection.execute(f"{verb} {one} {to} {user}")
    if role.lower() in ("db_owner", "db_ddladmin"):
        session.connection.execute(f"{verb} CREATE ON DATABASE {quoted(session.connection.database)} {to} {user}")


def grant(session: Session, verb: str, cursor: Cursor) -> None:
    """GRANT | REVOKE | DENY rights [ON [class::]object] TO | FROM user."""
    rights = [[]]  # type: list[list[str]]
    while cursor.more and cursor.word() not in ("ON", "TO", "FROM"):
        if cursor.tokens[cursor.at].text == ",":
            rights.append([])
        elif cursor.tokens[cursor.at].text == "(":
            rights[-1].append(f"({cursor.wrapped()})")
            continue
        else:
            rights[-1].append(cursor.tokens[cursor.at].text.upper())
        cursor.at += 1
    target = _target(session, cursor) if cursor.take("ON") else None
    if not (cursor.take("TO") or cursor.take("FROM")):
        raise unknown(f"{verb} without TO")
    user = quoted(cursor.name().lower())
    word, to = ("GRANT", "TO") if verb == "GRANT" else ("REVOKE", "FROM")
    for right in rights:
        name = " ".join(right)
        if target is None:
            _general(session, name, user, word, to)
            continue
        if right[0] in ("VIEW", "EXECUTE", "CONTROL", "ALTER"):
            continue  # nothing of Postgres
        schema, on = target
        if schema:
            session.connection.execute(
                f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {user}" if word == "GRANT" else "SELECT 1"
            )
        session.connection.execute(f"{word} {name} ON {on} {to} {user}")
        if on.startswith("ALL TABLES"):  # a right on a schema is one on what is made in it later, too
            within = f"IN SCHEMA {quoted(schema)} {word} {name} ON TABLES {to} {user}"
            session.connection.execute(f"ALTER DEFAULT PRIVILEGES {within}")


def _general(session: Session, name: str, user: str, word: str, to: str) -> None:
    server = name in ("VIEW SERVER STATE", "VIEW SERVER PERFORMANCE STATE", "VIEW ANY DEFINITION", "VIEW ANY DATABASE")
    if name == "CONNECT":
        return
    if name == "SELECT":
        session.connection.execute(f"{word} pg_read_all_data {to} {user}")
        return
    role = f"{'server' if server else session.connection.database}.{name.lower()}"
    if not session.connection.query("SELECT FROM pg_roles WHERE rolname = $1::text", [role]):
        session.connection.execute(f"CREATE ROLE {quoted(role)}")
    session.connection.execute(f"{word} {quoted(role)} {to} {user}")


def _target(session: Session, cursor: Cursor) -> tuple[str, str]:
    """A schema, or "" and then what GRANT names."""
    kind = "OBJECT"
    if cursor.word() in ("SCHEMA", "OBJECT", "DATABASE") and cursor.tokens[cursor.at + 1].text in (":", "::"):
        kind = cursor.word()
        cursor.at += 1
        while cursor.tokens[cursor.at].text in (":", "::"):
            cursor.at += 1
    if kind == "SCHEMA":
        schema = session.names.schema(cursor.name())
        return schema, f"ALL TABLES IN SCHEMA {quoted(schema)}"
    parts = ["", "", *cursor.names()][-3:]
    table = session.names.table(*parts)
    if cursor.more and cursor.tokens[cursor.at].text == "(":
        raise unknown("rights on columns after the object")
    return table.schema, table.sql
