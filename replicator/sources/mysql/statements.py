"""Statements of the log: transactions by name, changes that should have been rows, and DDL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator.errors import RowImageIncomplete, TableError
from replicator.model.identifiers import TableSet
from replicator.sources.mysql import ddl
from replicator.sources.mysql import events as e
from replicator.sources.mysql.charsets import charset_name, decoder
from replicator.sources.mysql.ddl_effects import DdlEffects
from replicator.sources.mysql.events import Event
from replicator.sources.mysql.names import folded
from replicator.sources.mysql.temporary_tables import HiddenTables

if TYPE_CHECKING:
    from replicator.sources.mysql.interpreter import Interpreter

FORMAT_REMEDY = "SET GLOBAL binlog_format = 'ROW'; then reconnect the writing sessions and resnapshot the table."


class Statements:
    """Part of the interpreter: QUERY events."""

    def __init__(self, interpreter: Interpreter, tables: TableSet, effects: DdlEffects) -> None:
        self._interpreter, self._tables, self._effects = interpreter, tables, effects
        self.hidden = HiddenTables()

    def apply(self, event: Event) -> None:
        """One QUERY event."""
        query = e.parse_query(event)
        if query.sql == b"BEGIN":
            self._interpreter.begin(event)
        elif query.sql == b"COMMIT":
            self._interpreter.end(event)
        else:
            self._statement(event, query)

    def _statement(self, event: Event, query: e.Query) -> None:
        interpreter, text = self._interpreter, _text(query)
        parsed = ddl.parse(text, query.database, query.sql_mode, mariadb=interpreter.mariadb)
        statement = self.hidden.seen(folded(parsed, interpreter.names), query, mariadb=interpreter.mariadb)
        if isinstance(statement, ddl.Transaction):
            self._transaction(event, statement)
            return
        if isinstance(statement, ddl.Dml):
            self._statement_rows(statement)
        else:
            interpreter.stamp(event)
            if interpreter.mariadb and isinstance(statement, ddl.CreateTable | ddl.AlterTable):
                interpreter.schemas.declare(statement.table, ddl.opaque_columns(text, query.sql_mode))
            self._effects.apply(statement, event, text)
        if not interpreter.in_transaction:
            interpreter.end(event)

    def _statement_rows(self, statement: ddl.Dml) -> None:
        known, wanted = self._interpreter.schemas.current, self._interpreter.tables
        for table in statement.tables:
            if wanted.wants(table) and (table in known or table in self._tables.tables):
                message = f"{statement.verb} of {table} is in the log as a statement, not as rows."
                wanted.fail(table, RowImageIncomplete(message, remedy=FORMAT_REMEDY))

    def _transaction(self, event: Event, statement: ddl.Transaction) -> None:
        interpreter, verb = self._interpreter, statement.verb
        if verb == "BEGIN":
            interpreter.begin(event)
        elif verb == "COMMIT":
            interpreter.end(event)
        elif verb == "ROLLBACK":
            interpreter.rollback(event)
        elif verb == "SAVEPOINT":
            interpreter.pending.savepoint(statement.name)
        elif verb == "ROLLBACK TO":
            interpreter.xa.let_go()
            for table in interpreter.pending.rollback(statement.name):
                self._effects.reload(table, event, "ROLLBACK TO SAVEPOINT")
        elif verb == "XA START":
            interpreter.begin(event)
            interpreter.begin_xa(event)
        elif verb == "XA COMMIT":
            interpreter.decide(event, interpreter.xa.commit(statement.name))
        elif verb == "XA ROLLBACK":
            interpreter.xa.rollback(statement.name)
            interpreter.end(event)


def _text(query: e.Query) -> str:
    try:
        return decoder(charset_name(query.charset))(query.sql)
    except (TableError, UnicodeDecodeError):
        return query.sql.decode("utf-8", "replace")
