"""The log: a table that triggers write, and what keeps the triggers right.  The "server" of this source.

A row's values are a JSON object by column: null, a number, `T` and hexadecimal UTF-8, `B` and hexadecimal bytes; so
nothing is lost between SQLite and Python.  SQLite has one writer at a time: rows are in commit order, and who sees one
row of a transaction sees all.
"""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from typing import Any

from tests.plugins.sqlite_log.dialect import SQLITE, literal, name_of

LOG, ABOUT = "tidemark_log", "tidemark_log_about"
OWN = (LOG, ABOUT)
INSERT, UPDATE, DELETE, STATEMENT, MARK = "INSERT", "UPDATE", "DELETE", "STATEMENT", "MARK"
_TABLES = (
    "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT"
    f" IN {OWN}"
)
_DEFINES = re.compile(
    r'\s*(CREATE|ALTER|DROP|TRUNCATE)\s+TABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:main\.)?"?(\w+)', re.IGNORECASE
)


def install(connection: sqlite3.Connection) -> None:
    """The log, and a trigger for each kind of change of every table."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {LOG} (row INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL, name TEXT NOT"
        " NULL, at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), before TEXT, after TEXT)"
    )
    connection.execute(f"CREATE TABLE IF NOT EXISTS {ABOUT} (identity TEXT NOT NULL, purged INTEGER NOT NULL)")
    if not connection.execute(f"SELECT 1 FROM {ABOUT}").fetchone():
        connection.execute(f"INSERT INTO {ABOUT} VALUES ('{uuid.uuid4()}', 0)")
    for table in tables(connection):
        _watch(connection, table)


def purge(connection: sqlite3.Connection, row: int) -> None:
    """Forget the log up to this row."""
    connection.execute(f"DELETE FROM {LOG} WHERE row <= {row}")
    connection.execute(f"UPDATE {ABOUT} SET purged = {row}")


def tables(connection: sqlite3.Connection) -> list[str]:
    """The user's, by name."""
    return sorted(name for (name,) in connection.execute(_TABLES))


def columns(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """As they are declared: name, type, notnull, default, place in the key (0: none).  Empty for no table."""
    rows = connection.execute(f"PRAGMA main.table_info({SQLITE.quoted(table)})")
    names = ("name", "type", "notnull", "default", "key")
    return [dict(zip(names, row[1:], strict=True)) for row in rows]


def execute(connection: sqlite3.Connection, statement: str) -> None:
    """A statement of the user's; one that defines tables is written into the log with what it has made of them."""
    found = _DEFINES.match(statement)
    if found is None:
        connection.execute(statement)
        return
    verb, table = found[1].upper(), found[2]
    before, names = columns(connection, table), set(tables(connection))
    _unwatch(connection, table)  # SQLite refuses to drop a column that a trigger names
    connection.execute(f"DELETE FROM {name_of(table)}" if verb == "TRUNCATE" else statement)
    renamed = next(iter(set(tables(connection)) - names), None) if verb == "ALTER" else None
    operation = "RENAME_TABLE" if renamed else f"{verb}_TABLE"
    present = renamed or table
    after = columns(connection, present)
    told = {"operation": operation, "statement": statement, "columns": after, "new_name": renamed}
    told |= _changes(before, after) if verb == "ALTER" else {}
    connection.execute(f"INSERT INTO {LOG} (what, name, after) VALUES (?, ?, ?)", (STATEMENT, table, json.dumps(told)))
    if verb != "DROP":
        _watch(connection, present)


def _changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, Any]:
    """Renamed columns, and whether rows that are there have got other values."""
    old, new = ({one["name"]: one for one in some} for some in (before, after))
    gone, come = [name for name in old if name not in new], [name for name in new if name not in old]
    renamed = dict(zip(gone, come, strict=True)) if len(before) == len(after) else {}
    filled = any(new[name]["default"] is not None for name in come) and not renamed
    return {"renamed": renamed, "reload": filled}


def _watch(connection: sqlite3.Connection, table: str) -> None:
    names = [one["name"] for one in columns(connection, table)]
    for what in (INSERT, UPDATE, DELETE):
        before, after = (
            _values(side, names) if what in whens else "NULL"
            for side, whens in (("OLD", (UPDATE, DELETE)), ("NEW", (INSERT, UPDATE)))
        )
        connection.execute(
            f"CREATE TRIGGER IF NOT EXISTS {_trigger(table, what)} AFTER {what} ON {SQLITE.quoted(table)} BEGIN "
            f"INSERT INTO {LOG} (what, name, before, after) VALUES ('{what}', {literal(table)}, {before}, {after}); END"
        )


def _unwatch(connection: sqlite3.Connection, table: str) -> None:
    for what in (INSERT, UPDATE, DELETE):
        connection.execute(f"DROP TRIGGER IF EXISTS {_trigger(table, what)}")


def _trigger(table: str, what: str) -> str:
    return SQLITE.quoted("main", f"tidemark_{what}_{table}")


def _values(side: str, names: list[str]) -> str:
    pairs = (f"{literal(name)}, {_value(f'{side}.{SQLITE.quoted(name)}')}" for name in names)
    return f"json_object({', '.join(pairs)})"


def _value(column: str) -> str:
    return (
        f"CASE typeof({column}) WHEN 'text' THEN 'T' || hex({column}) WHEN 'blob' THEN 'B' || hex({column}) "
        f"WHEN 'null' THEN NULL ELSE quote({column}) END"
    )


def value_of(text: str | None) -> Any:
    """What SQLite held."""
    if text is None:
        return None
    if text[:1] in {"T", "B"}:
        data = bytes.fromhex(text[1:])
        return data.decode() if text[0] == "T" else data
    return float(text) if set(text) & set(".eEIn") else int(text)
