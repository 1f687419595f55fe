"""The static data dictionary views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from testing.servers.oracle.engine.catalog import ADMINISTRATORS, Column, Table
from testing.servers.oracle.engine.kinds import NUMBERS
from testing.servers.oracle.engine.session import Session
from testing.servers.oracle.engine.views.times import day

Rows = Iterator[Sequence[Any]]
ADMINISTRATORS_HAVE = (
    "CREATE SESSION", "CREATE TABLE", "ALTER SYSTEM", "ALTER DATABASE", "SELECT ANY TABLE", "FLASHBACK ANY TABLE",
    "SELECT ANY TRANSACTION", "LOGMINING", "SELECT ANY DICTIONARY", "LOCK ANY TABLE", "ALTER ANY TABLE",
)  # fmt: skip


def _tables(session: Session, prefix: str) -> Iterator[Table]:
    for table in session.database.catalog.tables.values():
        listed = prefix == "DBA_" or session.database.catalog.sees(session.account, table)
        if listed and not session.in_root:
            yield table


def _all_tables(session: Session, prefix: str) -> Rows:
    for one in _tables(session, prefix):
        kind = "IOT" if one.organized else None
        yield (
            one.owner, one.name, None if one.temporary or one.partitions else "USERS", "VALID", None, None,
            "YES" if one.partitions else "NO", kind, "Y" if one.temporary else "N", "N", "NO", "NO", "YES", "DISABLED",
            "NO", "NO",
        )  # fmt: skip


def _columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        visible = at = 0
        for column in table.columns:
            visible, at = visible + (not column.hidden), at + 1
            documents = column.kind.name == "XMLTYPE"
            yield (
                table.owner, table.name, *_column(column), None if column.hidden else visible, column.default,
                len(column.default) if column.default else None, "YES" if column.hidden else "NO",
                "YES" if documents else "NO", at, at, "YES",
            )  # fmt: skip
            if documents:  # the column is a virtual one of a hidden column, which follows it
                at += 1
                yield (
                    table.owner, table.name, f"SYS_NC{at:05}$", "CLOB" if column.kind.storage == "CLOB" else "BLOB",
                    None, 4000, None, None, "Y", 0, None, None, visible, None, None, "YES", "NO", at, at, "NO",
                )  # fmt: skip


def _column(column: Column) -> Sequence[Any]:
    kind = column.kind
    text = kind.name in ("VARCHAR2", "CHAR", "NVARCHAR2", "NCHAR")
    precision = kind.precision if kind.name in (*NUMBERS, "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND") else None
    scale = kind.scale if kind.name != "FLOAT" else None
    charset = (
        "NCHAR_CS" if kind.name.startswith("N") and (text or kind.name == "NCLOB") else "CHAR_CS" if text else None
    )
    owner = kind.owner or ("SYS" if kind.name == "XMLTYPE" else None)
    length = kind.length if text else 0
    used = ("C" if kind.by_char else "B") if text else None
    null = "Y" if column.nullable else "N"
    return column.name, kind.shown, owner, kind.bytes, precision, scale, null, length, used, charset


def _visible(session: Session, prefix: str) -> Rows:
    return (row[:-1] for row in _columns(session, prefix) if row[-1] == "YES")


def _documents(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for column in table.columns:
            if column.kind.name == "XMLTYPE":
                yield table.owner, table.name, column.name, column.kind.storage


def _constraints(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.constraints:
            target = one.target or (None, None)
            index = next(
                (index.name for index in table.indexes if one.kind in "PU" and index.columns == one.columns), None
            )
            yield (
                table.owner, one.name, one.kind, table.name, one.condition or None, *target,
                one.delete_rule if one.kind == "R" else None, "ENABLED", "NOT DEFERRABLE", "IMMEDIATE", "VALIDATED",
                "GENERATED NAME" if one.generated else "USER NAME", table.owner if index else None, index,
            )  # fmt: skip


def _constraint_columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.constraints:
            for at, column in enumerate(table.named(one.columns), 1):
                yield table.owner, one.name, table.name, column.name, at if one.kind != "C" else None


def _indexes(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.indexes:
            unique = "UNIQUE" if one.unique else "NONUNIQUE"
            kind = "IOT - TOP" if table.organized and table.key and table.key.columns == one.columns else "NORMAL"
            yield table.owner, one.name, kind, table.owner, table.name, "TABLE", unique, "VALID", "NO", "VISIBLE"


def _index_columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.indexes:
            for at, column in enumerate(table.named(one.columns), 1):
                yield table.owner, one.name, table.owner, table.name, column.name, at, "ASC"


def _log_groups(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.log_groups:
            kind = "GENERATED NAME" if one.name.startswith("SYS_C") else "USER NAME"
            yield table.owner, one.name, table.name, one.kind, "ALWAYS" if one.always else "CONDITIONAL", kind


def _group_columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.log_groups:
            for at, column in enumerate(table.named(one.columns), 1):
                yield table.owner, one.name, table.name, column.name, at, "LOG"


def _objects(session: Session, prefix: str) -> Rows:
    since = day(session.database.started)
    for table in _tables(session, prefix):
        yield (table.owner, table.name, None, table.obj, table.data_obj, "TABLE", since, since, "VALID",
               "Y" if table.temporary else "N", "N", "N")  # fmt: skip
        for index in table.indexes:
            yield (
                table.owner,
                index.name,
                None,
                table.obj + 1,
                table.obj + 1,
                "INDEX",
                since,
                since,
                "VALID",
                "N",
                "N",
                "N",
            )
    for owner, name in session.database.catalog.types:
        yield owner, name, None, 1, None, "TYPE", since, since, "VALID", "N", "N", "N"


def _partitions(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for at, one in enumerate(table.partitions, 1):
            yield table.owner, table.name, "NO", one, 0, at


def _comments(session: Session, prefix: str) -> Rows:
    return ((one.owner, one.name, "TABLE", one.comment) for one in _tables(session, prefix))


def _column_comments(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        known = dict(table.comments)
        for column in table.columns:
            yield table.owner, table.name, column.name, known.get(column.id)


def _users(session: Session, prefix: str) -> Rows:
    del prefix
    for one in session.database.catalog.users.values():
        ours = "Y" if one.name in ADMINISTRATORS else "N"
        yield one.name, one.id, day(session.database.started), "YES" if one.common else "NO", ours, "NO"


def _privileges(session: Session, prefix: str) -> Rows:
    del prefix
    account = session.account
    more = ADMINISTRATORS_HAVE if account.administrator else ()
    return ((one,) for one in sorted({*account.all_privileges, *more}))


def _roles(session: Session, prefix: str) -> Rows:
    del prefix
    account = session.account
    more = {"SELECT_CATALOG_ROLE", "EXECUTE_CATALOG_ROLE"} if account.administrator else set()
    return ((one,) for one in sorted({*account.roles, *more}))


def _grants(session: Session, prefix: str) -> Rows:
    del prefix
    for user in session.database.catalog.users.values():
        for owner, name, privilege in sorted(user.grants):
            if session.user in (user.name, owner):
                yield user.name, owner, name, owner, privilege, "NO", "NO", "NO", "TABLE", "NO"


def _none(session: Session, prefix: str) -> Rows:
    del session, prefix
    return iter(())


DICTIONARY_VIEWS: dict[str, Callable[[Session, str], Rows]] = {
    "ALL_TABLES": _all_tables,
    "ALL_TAB_COLS": _columns,
    "ALL_TAB_COLUMNS": _visible,
    "ALL_XML_TAB_COLS": _documents,
    "ALL_CONSTRAINTS": _constraints,
    "ALL_CONS_COLUMNS": _constraint_columns,
    "ALL_INDEXES": _indexes,
    "ALL_IND_COLUMNS": _index_columns,
    "ALL_LOG_GROUPS": _log_groups,
    "ALL_LOG_GROUP_COLUMNS": _group_columns,
    "ALL_OBJECTS": _objects,
    "ALL_TAB_PARTITIONS": _partitions,
    "ALL_TAB_COMMENTS": _comments,
    "ALL_COL_COMMENTS": _column_comments,
    "ALL_USERS": _users,
    "ALL_TAB_PRIVS": _grants,
    "ALL_VIEWS": _none,
    "ALL_MVIEWS": _none,
    "ALL_EXTERNAL_TABLES": _none,
    "ALL_ENCRYPTED_COLUMNS": _none,
    "ALL_PDBS": _none,
    "SESSION_PRIVS": _privileges,
    "SESSION_ROLES": _roles,
}
