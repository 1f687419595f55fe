"""Stored procedures, by EXEC and by remote calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from testing.servers.sqlserver import security, tracking
from testing.servers.sqlserver.cdc import procedures as cdc
from testing.servers.sqlserver.language.batch import Statement
from testing.servers.sqlserver.language.cursor import Cursor
from testing.servers.sqlserver.language.dialect import postgres_type, quoted
from testing.servers.sqlserver.refusals import Refusal
from testing.servers.sqlserver.wire import tokens
from testing.servers.sqlserver.wire.parameters import Call, Parameter, Value

if TYPE_CHECKING:
    from testing.servers.sqlserver.session import Session


@dataclass(frozen=True)
class Argument:
    name: str
    value: Value
    output: str = ""  # the variable that gets it


def call(session: Session, statement: Statement, first: int) -> None:
    """EXEC [@r =] name arguments.  Refusal 2812 for a procedure that is not known."""
    cursor = Cursor(statement.sql, statement.tokens)
    cursor.at = first
    if cursor.tokens[cursor.at].token_type == TokenType.L_PAREN:  # EXEC (@sql)
        session.run(session.scalar(cursor.wrapped(), "ss.nvarchar") or "", {}, done=tokens.DONE_IN_PROC)
        return
    if cursor.tokens[cursor.at].token_type == TokenType.PARAMETER:
        cursor.at += 3
    name = cursor.names()[-1].lower()
    arguments = []
    while cursor.more:
        arguments.append(_argument(session, cursor))
        if cursor.more:
            cursor.at += 1
    run(session, name, arguments)


def _argument(session: Session, cursor: Cursor) -> Argument:
    name = ""
    if (
        cursor.tokens[cursor.at].token_type == TokenType.PARAMETER
        and cursor.at + 2 < len(cursor.tokens)
        and cursor.tokens[cursor.at + 2].token_type == TokenType.EQ
    ):
        name = cursor.tokens[cursor.at + 1].text.lower()
        cursor.at += 3
    first = cursor.at
    while (
        cursor.more
        and cursor.tokens[cursor.at].token_type != TokenType.COMMA
        and cursor.word() not in ("OUTPUT", "OUT")
    ):
        cursor.at += 1
    text = cursor.text(first, cursor.at)
    output = ""
    if cursor.take("OUTPUT") or cursor.take("OUT"):
        output = text.lower()
    if text.startswith("@") and text.lower() in session.variables:
        return Argument(name, session.variables[text.lower()], output)
    if text.upper() in ("NULL", "DEFAULT"):
        return Argument(name, Value("ss.nvarchar", None), output)
    if text.replace("_", "").isalnum() and not text[0].isdigit():
        return Argument(name, Value("ss.nvarchar", text), output)
    kind = 'ss."varbinary"' if text.lower().startswith("0x") else "ss.nvarchar" if text[0] in "'Nn" else "numeric"
    return Argument(name, Value(kind, session.scalar(text, kind)), output)


def run(session: Session, name: str, arguments: Sequence[Argument]) -> None:
    """By name, without schema."""
    if name == "sp_executesql":
        execute_sql(session, arguments)
        return
    procedure = PROCEDURES.get(name) or cdc.PROCEDURES.get(name)
    if procedure is None:
        raise Refusal(2812, f"Could not find stored procedure '{name}'.", 16, 62)
    order = ORDER.get(name) or cdc.ORDER.get(name, ())
    given: dict[str, str | None] = {}
    for at, one in enumerate(arguments):
        if not one.name and at >= len(order):
            raise Refusal(8144, f"Procedure or function {name} has too many arguments specified.")
        given[one.name or order[at]] = one.value.text
    if unknown_ := [one for one in given if order and one not in order]:
        raise Refusal(8145, f"@{unknown_[0]} is not a parameter for procedure {name}.")
    procedure(session, given)
    session.quiet()


def declared(text: str) -> list[tuple[str, str, bool]]:
    """Names, types and directions of "@a int, @b nvarchar(10) OUTPUT"."""
    from testing.servers.sqlserver.language.dialect import tokens as split

    cursor = Cursor(text, split(text))
    found = []
    while cursor.more:
        cursor.at += 1
        name = "@" + cursor.name().lower()
        cursor.take("AS")
        parts, arguments = cursor.names(), []
        if cursor.more and cursor.tokens[cursor.at].token_type == TokenType.L_PAREN:
            arguments = [one.strip() for one in cursor.wrapped().split(",")]
        output = cursor.take("OUTPUT") or cursor.take("OUT")
        found.append((name, postgres_type(parts[-1], arguments, declared=True), output))
        cursor.at += 1
    return found


def execute_sql(session: Session, arguments: Sequence[Argument]) -> None:
    """sp_executesql @stmt, @params, values."""
    sql = arguments[0].value.text or ""
    wanted = declared(arguments[1].value.text or "") if len(arguments) > 1 else []
    variables = {}
    for at, (name, kind, _) in enumerate(wanted):
        found = next((one for one in arguments[2:] if f"@{one.name}" == name), None) or (
            arguments[2 + at] if 2 + at < len(arguments) else None
        )
        if found is None:
            raise Refusal(8178, f"The parameterized query expects the parameter '{name}', which was not supplied.")
        variables[name] = converted(session, found.value, kind)
    outer = session.variables
    session.run(sql, variables, done=tokens.DONE_IN_PROC)
    inner, session.variables = session.variables, outer
    for at, (name, _, output) in enumerate(wanted):
        target = arguments[2 + at].output if 2 + at < len(arguments) else ""
        if output and target in session.variables:
            session.variables[target] = Value(session.variables[target].type, inner[name].text)


def converted(session: Session, value: Value, kind: str) -> Value:
    """To another type, as an assignment does."""
    if value.type == kind or value.text is None:
        return Value(kind, value.text)
    rows = session.connection.query(f"SELECT CAST($1::{value.type} AS {kind})", [value.text])
    return Value(kind, rows[0][0])


class Prepared:
    """Statements that a client has prepared, by handle."""

    def __init__(self) -> None:
        self._statements: dict[int, tuple[str, list[tuple[str, str, bool]]]] = {}
        self._last = 0

    def rpc(self, session: Session, given: Call) -> None:
        """A remote call: RETURNSTATUS, RETURNVALUEs, DONEPROC."""
        name, parameters = given.procedure.lower().rpartition(".")[2].strip("[]"), given.parameters
        outputs: list[tuple[Parameter, Value]] = []
        try:
            if name in ("sp_prepexec", "sp_prepare"):
                outputs.append((parameters[0], self._prepare(parameters)))
                if name == "sp_prepexec":
                    self._execute(session, int(outputs[0][1].text or 0), parameters[3:])
            elif name == "sp_execute":
                self._execute(session, int(parameters[0].value.text or 0), parameters[1:])
            elif name == "sp_unprepare":
                self._statements.pop(int(parameters[0].value.text or 0), None)
            elif name == "sp_executesql":
                execute_sql(session, [Argument(one.name.lstrip("@").lower(), one.value) for one in parameters])
            else:
                run(session, name, [Argument(one.name.lstrip("@").lower(), one.value) for one in parameters])
        except Refusal as refusal:
            session.told(refusal)
        session.returned(outputs)

    def _prepare(self, parameters: Sequence[Parameter]) -> Value:
        self._last += 1
        self._statements[self._last] = (parameters[2].value.text or "", declared(parameters[1].value.text or ""))
        return Value("int4", str(self._last))

    def _execute(self, session: Session, handle: int, values: Sequence[Parameter]) -> None:
        if handle not in self._statements:
            raise Refusal(8179, f"Could not find prepared statement with handle {handle}.")
        sql, wanted = self._statements[handle]
        if len(values) < len(wanted):
            raise Refusal(
                8178,
                f"The parameterized query expects the parameter '{wanted[len(values)][0]}', which was not supplied.",
            )
        variables = {
            name: converted(session, one.value, kind) for (name, kind, _), one in zip(wanted, values, strict=False)
        }
        session.run(sql, variables, done=tokens.DONE_IN_PROC)


# Procedures of the system


Arguments = Mapping[str, str | None]


def _rename(session: Session, arguments: Arguments) -> None:
    """sp_rename of a table or a column ("sp_rename (Transact-SQL)")."""
    old, new, kind = (
        arguments.get("objname") or "",
        arguments.get("newname") or "",
        (arguments.get("objtype") or "OBJECT").upper(),
    )
    parts = [one[0] for one in session.connection.query("SELECT unnest(ss.name_parts($1::text))", [old])]
    column = parts.pop() if kind == "COLUMN" else ""
    table = session.names.table(*["", "", *parts][-3:])
    if kind == "COLUMN":
        known = table.columns.get(column.lower())
        if known is None:
            raise Refusal(
                15248, "Either the parameter @objname is ambiguous or the claimed @objtype (COLUMN) is wrong.", 11
            )
        if session.connection.query(
            f"SELECT FROM ss.captures c JOIN ss.captured_columns USING (instance) WHERE source = {table.oid} AND name"
            " = $1::text",
            [known.name],
        ):
            raise Refusal(4928, f"Cannot alter column '{known.name}' because it is 'REPLICATED'.")
        if new.lower() in table.columns:
            raise Refusal(
                15335,
                f"Error: The new name '{new}' is already in use as a COLUMN name and would cause a duplicate that is"
                " not permitted.",
                11,
            )
        sql = f"ALTER TABLE {table.sql} RENAME COLUMN {quoted(known.name)} TO {quoted(new)}"
    elif kind in ("OBJECT", "TABLE"):
        if (table.schema.lower(), new.lower()) in session.names.tables:
            raise Refusal(
                15335,
                f"Error: The new name '{new}' is already in use as a OBJECT name and would cause a duplicate that is"
                " not permitted.",
                11,
            )
        sql = f"ALTER TABLE {table.sql} RENAME TO {quoted(new)}"
    else:
        raise Refusal(50000, f"The emulator does not rename a {kind}.")
    if len(new.encode()) > 63:
        raise Refusal(103, "The identifier is too long for the emulator, which keeps 63 bytes.", 15)

    def run() -> None:
        with cdc.whole(session):
            session.connection.run(sql)
            tracking.renamed(session, table)

    session.atomic(run, writes=False)
    session.defined()
    session.flush()
    session.channel.add(
        tokens.message(
            15477, "Caution: Changing any part of an object name could break scripts and stored procedures.", level=0
        )
    )


def _describe(session: Session, arguments: Arguments) -> None:
    """sp_addextendedproperty: MS_Description of a table or a column."""
    if arguments.get("name") != "MS_Description" or (arguments.get("level2type") or "COLUMN").upper() != "COLUMN":
        raise Refusal(50000, "The emulator keeps descriptions of tables and columns only.")
    table = session.names.table("", arguments.get("level0name") or "", arguments.get("level1name") or "")
    given = arguments.get("level2name")
    flag(
        session,
        table.sql,
        table.columns[given.lower()].name if given else "",
        "description",
        arguments.get("value") or "",
    )


def flag(session: Session, table: str, column: str, name: str, value: object) -> None:
    """In the comment of a table, or of a column of it."""
    place = f"'{table.replace(chr(39), chr(39) * 2)}'::regclass"
    number = (
        f"(SELECT attnum FROM pg_attribute WHERE attrelid = {place} AND attname ="
        f" '{column.replace(chr(39), chr(39) * 2)}')"
        if column
        else "0"
    )
    rows = session.connection.query(
        f"SELECT description FROM pg_description WHERE objoid = {place} AND objsubid = {number}"
    )
    flags = json.loads(rows[0][0]) if rows else {}
    flags[name] = value
    text = json.dumps(flags).replace("'", "''")
    what = f"COLUMN {table}.{quoted(column)}" if column else f"TABLE {table}"
    session.connection.execute(f"COMMENT ON {what} IS '{text}'")
    session.defined()


def _emulator(session: Session, arguments: Arguments) -> None:
    """sp_emulator: what no SQL Server has: habits on and off, the Agent stopped, flags of tables.

    name: "edition", with "azure" as value and on: the database is one of Azure SQL Database; "habit",
    with value and on;
    "tracking_age", with minutes as value: changes are so much older; "agent", with on; "error", with text as value and
    number as on: the statement fails so; "flag", with table, column, value and on.
    """
    name, value, on = arguments.get("name"), arguments.get("value") or "", (arguments.get("on") or "1") == "1"
    if name == "habit":
        session.connection.query(
            "INSERT INTO ss.habits VALUES ($1::text) ON CONFLICT DO NOTHING"
            if on
            else "DELETE FROM ss.habits WHERE name = $1::text",
            [value],
        )
    elif name == "edition" and value == "azure":
        cdc.set_flags(session, azure=on)
    elif name == "error":
        raise Refusal(int(arguments.get("on") or "50000"), value)
    elif name == "tracking_age":
        session.connection.query("UPDATE ss.ct_commits SET at = at - make_interval(mins => $1::int4)", [value])
    elif name == "agent":
        session.connection.execute(
            f"COMMENT ON DATABASE master IS '{json.dumps({} if on else {'agent_stopped': True})}'"
        )
    elif name == "flag":
        table = session.names.table(
            *[
                "",
                "",
                *(
                    one[0]
                    for one in session.connection.query(
                        "SELECT unnest(ss.name_parts($1::text))", [arguments.get("table") or ""]
                    )
                ),
            ][-3:]
        )
        flag(session, table.sql, arguments.get("column") or "", value, int(arguments.get("on") or "1"))
    else:
        raise Refusal(50000, f"The emulator has no setting {name}.")


def _role_member(*, added: bool) -> Callable[[Session, Arguments], None]:
    def change(session: Session, arguments: Arguments) -> None:
        security.member(session, arguments.get("rolename") or "", arguments.get("membername") or "", added=added)

    return change


PROCEDURES: dict[str, Callable[[Session, Arguments], None]] = {
    "sp_rename": _rename, "sp_addextendedproperty": _describe, "sp_updateextendedproperty": _describe,
    "sp_emulator": _emulator, "sp_addrolemember": _role_member(added=True),
    "sp_droprolemember": _role_member(added=False),
    "sp_flush_ct_internal_table_on_demand": tracking.cleanup,
    "sp_reset_connection": lambda _session, _arguments: None,
}  # fmt: skip
_PROPERTY = ("name", "value", "level0type", "level0name", "level1type", "level1name", "level2type", "level2name")
ORDER = {
    "sp_rename": ("objname", "newname", "objtype"), "sp_addextendedproperty": _PROPERTY,
    "sp_updateextendedproperty": _PROPERTY, "sp_emulator": ("name", "value", "on", "table", "column"),
    "sp_addrolemember": ("rolename", "membername"), "sp_droprolemember": ("rolename", "membername"),
}  # fmt: skip
