"""Statements other than queries: variables, transactions, settings, definitions, procedures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType

from testing.servers.sqlserver import security, tracking
from testing.servers.sqlserver.cdc import procedures as cdc
from testing.servers.sqlserver.language import alias_types
from testing.servers.sqlserver.language.batch import Statement
from testing.servers.sqlserver.language.cursor import Cursor
from testing.servers.sqlserver.language.definitions import Definer
from testing.servers.sqlserver.language.dialect import quoted
from testing.servers.sqlserver.language.names import TableName
from testing.servers.sqlserver.procedures import call
from testing.servers.sqlserver.refusals import Refusal, unknown
from testing.servers.sqlserver.session import ISOLATION, Returned, Session
from testing.servers.sqlserver.wire import tokens
from testing.servers.sqlserver.wire.parameters import Value

IGNORED = frozenset({
    "ANSI_NULLS", "ANSI_PADDING", "ANSI_WARNINGS", "ANSI_NULL_DFLT_ON", "ANSI_DEFAULTS", "ARITHABORT",
    "CONCAT_NULL_YIELDS_NULL", "QUOTED_IDENTIFIER",
    "NUMERIC_ROUNDABORT", "TEXTSIZE", "LANGUAGE", "DATEFORMAT", "DATEFIRST", "CURSOR_CLOSE_ON_COMMIT", "ROWCOUNT",
    "DEADLOCK_PRIORITY", "FMTONLY", "NOEXEC", "ARITHIGNORE",
    "CONTEXT_INFO", "STATISTICS",
})  # fmt: skip
_PROBE = re.compile("\0(.*?) (?:COLLATE .*? )?GENERATED ALWAYS AS", re.DOTALL)
_QUERIES = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "("})


def native(session: Session, statement: Statement) -> bool:
    """Run it, if it is none of the queries that are translated.  Refusal."""
    first = statement.words[0] if statement.words else ""
    if first in _QUERIES or statement.tokens[0].text == "(":
        return False
    run = _COMMANDS.get(first)
    if run is None:
        if statement.tokens[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER):  # a procedure's name begins a batch
            call(session, statement, 0)
            return True
        raise unknown(statement.sql[:80])
    cursor = Cursor(statement.sql, statement.tokens)
    cursor.at = 1
    run(session, statement, cursor)
    return True


# Variables


def _declare(session: Session, statement: Statement, cursor: Cursor) -> None:
    while cursor.more:
        cursor.at += 1  # @
        name = "@" + cursor.name()
        cursor.take("AS")
        parts, arguments = cursor.names(), []
        if cursor.more and cursor.tokens[cursor.at].token_type == TokenType.L_PAREN:
            arguments = [one.strip() for one in cursor.wrapped().split(",")]
        kind = session.declare(name, parts[-1], arguments)
        if cursor.more and cursor.tokens[cursor.at].token_type == TokenType.EQ:
            cursor.at += 1
            session.variables[name.lower()] = Value(kind, session.scalar(_until_comma(cursor), kind))
        if cursor.more:
            cursor.at += 1
    del statement


def _until_comma(cursor: Cursor) -> str:
    first, depth = cursor.at, 0
    while cursor.more:
        token = cursor.tokens[cursor.at]
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.COMMA:
            break
        cursor.at += 1
    return cursor.text(first, cursor.at)


def _set(session: Session, statement: Statement, cursor: Cursor) -> None:
    if cursor.tokens[1].token_type == TokenType.PARAMETER:
        cursor.at = 2
        name = "@" + cursor.name().lower()
        known = session.variables.get(name)
        if known is None:
            raise Refusal(137, f'Must declare the scalar variable "{name}".', 15)
        cursor.at += 1
        session.variables[name] = Value(
            known.type, session.scalar(cursor.text(cursor.at, len(cursor.tokens)), known.type)
        )
        return
    option, value = cursor.word(), cursor.word(1)
    if option == "TRANSACTION":
        cursor.expect("TRANSACTION", "ISOLATION", "LEVEL")
        level = " ".join(one.text.upper() for one in cursor.tokens[cursor.at :])
        if level not in ISOLATION:
            raise unknown(statement.sql)
        if session.state.depth and level != session.state.isolation and "SNAPSHOT" in (level, session.state.isolation):
            raise Refusal(
                3951,
                "Transaction failed in database because the statement was run under snapshot isolation but the"
                " transaction did not start in snapshot isolation.",
            )
        session.state.isolation = level
    elif option == "LOCK_TIMEOUT":
        text = "".join(one.text for one in cursor.tokens[cursor.at + 1 :])
        session.state.options["lock_timeout"] = text
        session.connection.execute(f"SET lock_timeout = {max(1, int(text)) if int(text) >= 0 else 0}")
    elif option == "IDENTITY_INSERT":
        cursor.at += 1
        table = session.names.table(*["", "", *cursor.names()][-3:])
        session.state.identity_insert = table.sql if cursor.word() == "ON" else ""
    elif option == "NOCOUNT":
        session.state.no_count = value == "ON"
    elif option == "XACT_ABORT":
        session.state.abort = value == "ON"
    elif option == "IMPLICIT_TRANSACTIONS":
        session.state.implicit = value == "ON"
    elif option not in IGNORED:
        raise unknown(statement.sql)


# Transactions


def _begin(session: Session, _: Statement, __: Cursor) -> None:
    session.begin()
    session.quiet()


def _commit(session: Session, _: Statement, __: Cursor) -> None:
    session.commit()
    session.quiet()


def _rollback(session: Session, _: Statement, cursor: Cursor) -> None:
    _ = cursor.take("TRANSACTION") or cursor.take("TRAN") or cursor.take("WORK")  # type: ignore[assignment]
    session.rollback(cursor.name() if cursor.more else "")
    session.quiet()


def _save(session: Session, _: Statement, cursor: Cursor) -> None:
    cursor.at += 1
    session.save(cursor.name())
    session.quiet()


# Control


def _use(session: Session, _: Statement, cursor: Cursor) -> None:
    name = cursor.name()
    if session.names.azure and name.lower() != session.connection.database.lower():
        raise Refusal(
            40508,
            "USE statement is not supported to switch between databases. Use a new connection to connect to a different"
            " database.",
        )
    session.use(name)


def _print(session: Session, statement: Statement, cursor: Cursor) -> None:
    text = session.scalar(cursor.text(1, len(cursor.tokens)), "ss.nvarchar")
    session.flush()
    session.channel.add(tokens.message(0, text or " ", level=0))
    del statement


def _waitfor(session: Session, _: Statement, cursor: Cursor) -> None:
    cursor.expect("DELAY")
    hours, minutes, seconds = cursor.tokens[cursor.at].text.split(":")
    session.connection.query(
        "SELECT pg_sleep($1::float8)", [str(int(hours) * 3600 + int(minutes) * 60 + float(seconds))]
    )


def _return(_: Session, __: Statement, ___: Cursor) -> None:
    raise Returned


def _throw(session: Session, _: Statement, cursor: Cursor) -> None:
    if not cursor.more:
        raise session.state.error or Refusal(
            10704, "To rethrow an error, a THROW statement must be used inside a CATCH block."
        )
    number = int(cursor.tokens[cursor.at].text)
    cursor.at += 2
    raise Refusal(number, session.scalar(_until_comma(cursor), "ss.nvarchar") or "")


def _raiserror(session: Session, _: Statement, cursor: Cursor) -> None:
    inner = Cursor(cursor.sql, cursor.tokens[2:-1])
    inner.base = cursor.base
    message = session.scalar(_until_comma(inner), "ss.nvarchar") or ""
    inner.at += 1
    level = int(inner.tokens[inner.at].text)
    if level > 10:
        session.told(Refusal(50000, message, level))
        return
    session.flush()
    session.channel.add(tokens.message(50000, message, level=level))


# Definitions


def _create(session: Session, statement: Statement, cursor: Cursor) -> None:
    if cursor.take("TABLE"):
        if (cursor.word() == "" and cursor.tokens[cursor.at].text.startswith("#")) or cursor.tokens[
            cursor.at
        ].token_type == TokenType.HASH:
            raise unknown("temporary tables")
        _run(session, Definer(session.names).create_table(cursor), None)
    elif cursor.word() in ("UNIQUE", "INDEX", "CLUSTERED", "NONCLUSTERED"):
        _run(session, Definer(session.names).create_index(cursor), None)
    elif cursor.take("SCHEMA"):
        name = quoted(cursor.name())
        owner = f" AUTHORIZATION {quoted(cursor.name().lower())}" if cursor.take("AUTHORIZATION") else ""
        _run(session, [f"CREATE SCHEMA {name}{owner}; GRANT USAGE ON SCHEMA {name} TO PUBLIC"], None)
    elif cursor.take("DATABASE"):
        session.around.changed("+" + cursor.name())
    elif cursor.take("TYPE"):
        _run(session, alias_types.create(cursor, session.names), None)
    elif cursor.take("LOGIN"):
        security.create_login(session, cursor)
    elif cursor.take("USER"):
        security.create_user(session, cursor)
    elif cursor.take("ROLE"):
        security.make_role(session, cursor.name())
    elif cursor.take("VIEW"):
        _view(session, statement, cursor)
    else:
        raise unknown(statement.sql[:80])
    session.quiet()


def _view(session: Session, statement: Statement, cursor: Cursor) -> None:
    from testing.servers.sqlserver.language.translation import Translator

    _, schema, name = ["", "", *cursor.names()][-3:]
    cursor.expect("AS")
    made = Translator(session.names, {}).statement(cursor.text(cursor.at, len(cursor.tokens)))
    _run(session, [f"CREATE VIEW {quoted(session.names.schema(schema))}.{quoted(name)} AS {made.sql}"], None)
    del statement


def _run(
    session: Session, statements: list[str], table: TableName | None, told: dict[str, object] | None = None
) -> None:
    """Run definitions in one transaction; a message in the log (`told`) reports them to the capture job."""
    if session.state.implicit and not session.state.depth:
        session.begin()

    def run() -> None:
        with cdc.whole(session):
            for one in statements:
                if not one.startswith("\0"):
                    session.connection.execute(_typed(session, one, statements, table))
            if told is not None:
                session.connection.query("SELECT pg_logical_emit_message(true, 'ddl', $1::text)", [json.dumps(told)])

    session.atomic(run, writes=False)
    session.defined()


def _typed(session: Session, sql: str, statements: list[str], table: TableName | None) -> str:
    """Computed columns get the types of their expressions."""
    if "\0" not in sql:
        return sql
    connection, source = session.connection, table.sql if table is not None else "pg_temp.probe"
    if table is None:
        connection.execute(f"DROP TABLE IF EXISTS pg_temp.probe CASCADE; CREATE TEMP TABLE probe ({statements[0][1:]})")

    def type_of(match: re.Match[str]) -> str:
        connection.execute(f"CREATE TEMP VIEW probed AS SELECT {match[1]} AS x FROM {source}")
        rows = connection.query(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'pg_temp.probed'::regclass AND"
            " attnum = 1"
        )
        connection.execute("DROP VIEW pg_temp.probed")
        kind = "ss.nvarchar" if rows[0][0] == "text" else rows[0][0]
        kind = kind if "." in kind or kind[0] != '"' else f"ss.{kind}"
        return match[0].replace("\0" + match[1], kind, 1)

    return _PROBE.sub(type_of, sql)


def _captured(session: Session, table: TableName) -> bool:
    return bool(session.connection.query(f"SELECT FROM ss.captures WHERE source = {table.oid}"))


def _alter(session: Session, statement: Statement, cursor: Cursor) -> None:
    if tracking.altered(session, statement.sql):
        pass
    elif cursor.take("TABLE"):
        table, kind, made = Definer(session.names).alter_table(cursor)
        if kind == "constraint":
            made = _dropped_constraint(session, table, made[0])
        told = None
        if _captured(session, table):
            told = _told(session, table, kind, made, statement.sql)
            made = cdc.unseen(session, table, made) if kind == "switch" else made
        _run(session, made, table, told)
    elif cursor.take("DATABASE"):
        _alter_database(session, statement, cursor)
    elif cursor.take("ROLE"):
        security.alter_role(session, cursor)
    elif cursor.take("LOGIN"):
        security.alter_login(session, cursor)
    elif cursor.take("INDEX"):
        pass
    else:
        raise unknown(statement.sql[:80])
    session.quiet()


def _told(session: Session, table: TableName, kind: str, made: list[str], command: str) -> dict[str, object] | None:
    """What the capture job must know; None for what it does not see."""
    told: dict[str, object] = {"oid": table.oid, "command": command}
    if kind == "drop":
        told["drop"] = [
            one.name for one in table.columns.values() if any(f"DROP COLUMN {quoted(one.name)} " in sql for sql in made)
        ]
    elif kind == "alter" and len(made) > 1:
        for one in table.columns.values():
            start = f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(one.name)} TYPE "
            if made[0].startswith(start):
                told["retype"] = {one.name: made[0].removeprefix(start).partition(" USING ")[0]}
    elif kind not in ("add", "alter", "switch"):
        return None
    del session
    return told


def _dropped_constraint(session: Session, table: TableName, name: str) -> list[str]:
    rows = session.connection.query(
        f"SELECT conname, contype FROM pg_constraint WHERE conrelid = {table.oid} AND lower(conname) = lower($1::text)",
        [name],
    )
    if rows:
        if rows[0][1] == "p" and tracking.tracked(session, table):
            raise Refusal(
                3726,
                f"The primary key constraint on table '{table.name}' cannot be dropped because change tracking is"
                " enabled on the table. Change tracking requires a primary key constraint on the table. Disable change"
                " tracking before dropping the constraint.",
            )
        if rows[0][1] == "p" and session.connection.query(
            f"SELECT FROM ss.captures WHERE source = {table.oid} AND net"
        ):
            raise Refusal(
                3725,
                f"The constraint '{name}' is being referenced by Change Data Capture's net changes of table"
                f" '{table.name}'.",
            )
        return [f"ALTER TABLE {table.sql} DROP CONSTRAINT {quoted(rows[0][0])}"]
    rows = session.connection.query(
        f"SELECT c.name::text FROM ss.all_columns c WHERE c.class = {table.oid} AND lower(c.flags ->> 'default_name')"
        " = lower($1::text)",
        [name],
    )
    if not rows:
        raise Refusal(3728, f"'{name}' is not a constraint.")
    return [f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(rows[0][0])} DROP DEFAULT"]


def _alter_database(session: Session, statement: Statement, cursor: Cursor) -> None:
    name = cursor.name()
    if name.upper() != "CURRENT" and name.lower() != session.connection.database.lower():
        raise unknown("ALTER DATABASE of another database than the current one")
    cursor.expect("SET")
    option, value = cursor.word(), cursor.word(1)
    flags = {"ALLOW_SNAPSHOT_ISOLATION": "snapshot", "READ_COMMITTED_SNAPSHOT": "rcsi"}
    if option in flags:
        cdc.set_flags(session, **{flags[option]: value == "ON"})
    elif option not in ("RECOVERY", "COMPATIBILITY_LEVEL", "AUTO_CLOSE", "MULTI_USER", "SINGLE_USER"):
        raise unknown(statement.sql[:80])


def _drop(session: Session, statement: Statement, cursor: Cursor) -> None:
    if cursor.take("TABLE"):
        _drop_tables(session, cursor)
    elif cursor.take("VIEW"):
        exists = "IF EXISTS " if cursor.take("IF", "EXISTS") else ""
        found = session.names.table(*["", "", *cursor.names()][-3:])
        _run(session, [f"DROP VIEW {exists}{found.sql}"], None)
    elif cursor.take("INDEX"):
        cursor.take("IF", "EXISTS")
        name = cursor.name()
        cursor.expect("ON")
        table = session.names.table(*["", "", *cursor.names()][-3:])
        rows = session.connection.query(
            f"SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = {table.oid}"
            " AND lower(c.relname) = lower($1::text)",
            [name],
        )
        if not rows:
            raise Refusal(
                3701,
                f"Cannot drop the index '{table.name}.{name}', because it does not exist or you do not have"
                " permission.",
                11,
            )
        _run(session, [f"DROP INDEX {quoted(table.schema)}.{quoted(rows[0][0])}"], None)
    elif cursor.take("SCHEMA"):
        cursor.take("IF", "EXISTS")
        _run(session, [f"DROP SCHEMA {quoted(session.names.schema(cursor.name()))}"], None)
    elif cursor.take("DATABASE"):
        cursor.take("IF", "EXISTS")
        session.around.changed("-" + cursor.name())
    elif cursor.take("TYPE"):
        _run(session, alias_types.drop(cursor, session.names), None)
    elif cursor.take("LOGIN"):
        security.drop_login(session, cursor)
    elif cursor.take("USER"):
        security.drop_user(session, cursor)
    else:
        raise unknown(statement.sql[:80])
    session.quiet()


def _drop_tables(session: Session, cursor: Cursor) -> None:
    exists = cursor.take("IF", "EXISTS")
    while True:
        parts = cursor.names()
        try:
            table = session.names.table(*["", "", *parts][-3:])
        except Refusal:
            if not exists:
                raise Refusal(
                    3701,
                    f"Cannot drop the table '{'.'.join(parts)}', because it does not exist or you do not have"
                    " permission.",
                    11,
                ) from None
        else:
            captured = session.connection.query(f"SELECT instance FROM ss.captures WHERE source = {table.oid}")
            _run(
                session,
                [
                    *(f"SELECT ss.drop_instance('{name.replace(chr(39), chr(39) * 2)}')" for (name,) in captured),
                    f"SELECT ss.ct_untrack({table.oid})",
                    f"DROP TABLE {table.sql}",
                ],
                table,
            )
        if not cursor.more:
            return
        cursor.at += 1


def _truncate(session: Session, _: Statement, cursor: Cursor) -> None:
    cursor.expect("TABLE")
    table = session.names.table(*["", "", *cursor.names()][-3:])
    if cursor.more:
        raise unknown("TRUNCATE TABLE … WITH")
    if _captured(session, table):
        raise Refusal(
            4711,
            f"Cannot truncate table '{table.schema}.{table.name}' because it is published for replication or enabled"
            " for Change Data Capture.",
        )
    session.atomic(lambda: session.connection.run(f"TRUNCATE {table.sql} RESTART IDENTITY"))
    session.quiet()


def _grant(verb: str) -> Callable[[Session, Statement, Cursor], None]:
    def run(session: Session, _: Statement, cursor: Cursor) -> None:
        security.grant(session, verb, cursor)
        session.quiet()

    return run


def _exec(session: Session, statement: Statement, _: Cursor) -> None:
    call(session, statement, 1)


def _kill(session: Session, _: Statement, cursor: Cursor) -> None:
    session.around.changed("!" + cursor.tokens[cursor.at].text)


def _checkpoint(_: Session, __: Statement, ___: Cursor) -> None:
    time.sleep(0)


_COMMANDS: dict[str, Callable[[Session, Statement, Cursor], None]] = {
    "DECLARE": _declare, "SET": _set, "BEGIN": _begin, "COMMIT": _commit, "ROLLBACK": _rollback, "SAVE": _save,
    "USE": _use, "PRINT": _print, "WAITFOR": _waitfor, "RETURN": _return,
    "THROW": _throw, "RAISERROR": _raiserror, "CREATE": _create, "ALTER": _alter, "DROP": _drop, "TRUNCATE": _truncate,
    "GRANT": _grant("GRANT"), "REVOKE": _grant("REVOKE"),
    "DENY": _grant("DENY"), "EXEC": _exec, "EXECUTE": _exec, "KILL": _kill, "CHECKPOINT": _checkpoint,
}  # fmt: skip
