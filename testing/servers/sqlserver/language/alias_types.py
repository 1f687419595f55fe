"""Alias types ("CREATE TYPE (Transact-SQL)", FROM): a column of one is a column of its base type that names the alias,
as is one of `sysname`, which is the system's own ("sys.types (Transact-SQL)": system_type_id 231, user_type_id 256).
"""

from __future__ import annotations

from testing.servers.sqlserver.language.cursor import ColumnDraft, Cursor
from testing.servers.sqlserver.language.names import Names
from testing.servers.sqlserver.refusals import Refusal, unknown

SYSNAME = 256
FLAG = "user_type"


def column_type(cursor: Cursor, names: Names, draft: ColumnDraft) -> None:
    """The type that comes next, of the column `draft`."""
    first = cursor.at
    _, schema, name = ["", "", *cursor.names()][-3:]
    found = names.aliases.get(((schema or names.default).lower(), name.lower()))
    if found is not None:
        draft.type, draft.nullable = found.type, False if found.required else None
        draft.flags[FLAG] = found.number
        return
    cursor.at = first
    draft.type = cursor.type()
    if name.lower() == "sysname":
        draft.flags[FLAG] = SYSNAME


def create(cursor: Cursor, names: Names) -> list[str]:
    """CREATE TYPE [schema.]name FROM base [NULL | NOT NULL]."""
    _, schema, name = ["", "", *cursor.names()][-3:]
    schema = names.schema(schema)
    if (schema.lower(), name.lower()) in names.aliases:
        raise Refusal(219, f"The type '{schema}.{name}' already exists, or you do not have permission to create it.")
    if not cursor.take("FROM"):
        raise unknown("CREATE TYPE without FROM")
    kind = cursor.type()
    required = cursor.take("NOT", "NULL")
    cursor.take("NULL")
    text = f"{_literal(schema)}, {_literal(name)}, {_literal(kind)}, {str(required).upper()}"
    return [
        f"CREATE TEMP TABLE alias_base (c {kind})",
        (
            f"INSERT INTO ss.alias_types (schema, name, type, required, base, modifier) SELECT {text}, atttypid,"
            " atttypmod FROM pg_attribute WHERE attrelid = 'pg_temp.alias_base'::regclass AND attnum = 1"
        ),
        "DROP TABLE pg_temp.alias_base",
    ]


def drop(cursor: Cursor, names: Names) -> list[str]:
    """DROP TYPE [IF EXISTS] [schema.]name; the emulator does not ask who uses it."""
    exists = cursor.take("IF", "EXISTS")
    _, schema, name = ["", "", *cursor.names()][-3:]
    found = names.aliases.get(((schema or names.default).lower(), name.lower()))
    if found is None:
        if exists:
            return []
        raise Refusal(218, f"Could not find the type '{name}'. Either it does not exist or you do not have permission.")
    return [f"DELETE FROM ss.alias_types WHERE number = {found.number}"]


def altered(table: str, draft: ColumnDraft) -> str:
    """What a column that is altered says of its type from now on."""
    number = draft.flags.get(FLAG)
    column, told = _literal(draft.name), "NULL" if number is None else str(number)
    return f"SELECT ss.set_user_type({_literal(table)}::regclass, {column}, {told})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
