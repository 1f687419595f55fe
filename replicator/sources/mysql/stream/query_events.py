"""Statements of the log: transactions by name, changes that should have been rows, and DDL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from replicator.errors import RowImageIncomplete, TableError
from replicator.model.change import CascadesAdded
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.mysql.charsets import charset_name, decoder
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.ddl.alter_clauses import ClauseKind
from replicator.sources.mysql.ddl.temporary_tables import HiddenTables
from replicator.sources.mysql.ddl.tokenizer import tokenize
from replicator.sources.mysql.names import folded
from replicator.sources.mysql.stream.assembly import Assembly
from replicator.sources.mysql.stream.ddl_applier import DdlEffects
from replicator.sources.mysql.stream.table_registry import LogTables
from replicator.sources.mysql.types import CHARSETS
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent

FORMAT_REMEDY = "SET GLOBAL binlog_format = 'ROW'; then reconnect the writing sessions and resnapshot the table."


class Statements:
    """Part of the assembler: QUERY events."""

    def __init__(self, assembly: Assembly, registry: LogTables, tables: TableSet, effects: DdlEffects) -> None:
        self._assembly, self._registry, self._tables, self._effects = assembly, registry, tables, effects
        self.hidden = HiddenTables()
        self._further: dict[tuple[frozenset[TableId], frozenset[str]], bool] = {}

    def apply(self, event: BinlogEvent) -> None:
        """One QUERY event."""
        query = e.parse_query(event)
        if query.sql == b"BEGIN":
            self._assembly.begin(event)
        elif query.sql == b"COMMIT":
            self._assembly.end(event)
        else:
            self._statement(event, query)

    def _statement(self, event: BinlogEvent, query: e.Query) -> None:
        assembly, text = self._assembly, self._text(query)
        parsed = parser.parse(text, query.database, query.sql_mode, mariadb=assembly.mariadb)
        statement = self.hidden.seen(folded(parsed, assembly.names), query, mariadb=assembly.mariadb)
        if assembly.idle:
            statement = parser.Irrelevant()
        if isinstance(statement, parser.TransactionStatement):
            self._transaction(event, statement)
            return
        if isinstance(statement, parser.Dml):
            self._statement_rows(statement, event, text)
        else:
            self._further.clear()
            assembly.stamp(event)
            if assembly.mariadb and isinstance(statement, parser.CreateTable | parser.AlterTable):
                assembly.schemas.declare(statement.table, parser.opaque_columns(text, query.sql_mode))
            assembly.xa.altered(statement)
            self._effects.apply(statement, event, text)
            self._cascades(statement, text, query.sql_mode)
        if not assembly.in_transaction:
            assembly.end(event)

    def _text(self, query: e.Query) -> str:
        """The reading that names a table which is known, or else the first."""
        readings = _readings(query)
        text = next(readings)
        if query.sql.isascii() or self._names_known(text, query):
            return text
        return next((other for other in readings if self._names_known(other, query)), text)

    def _names_known(self, text: str, query: e.Query) -> bool:
        tokens = tokenize(text, query.sql_mode, mariadb=self._assembly.mariadb)
        named = folded(parser.mentioned(tokens, query.database), self._assembly.names)
        return not self._assembly.schemas.current.keys().isdisjoint(named)

    def _statement_rows(self, statement: parser.Dml, event: BinlogEvent, text: str) -> None:
        known, wanted = self._assembly.schemas.current, self._registry
        for table in statement.tables:
            if wanted.wants(table) and (table in known or table in self._tables.tables):
                message = f"{statement.verb} of {table} is in the log as a statement, not as rows."
                wanted.fail(table, RowImageIncomplete(message, remedy=FORMAT_REMEDY))
        asked = statement.tables, statement.calls
        if asked not in self._further:
            self._further[asked] = self._assembly.schemas.further(*asked)
        if self._further[asked]:  # into which tables is in no text
            self._assembly.stamp(event)
            self._effects.apply(parser.UnseenRows(), event, text)

    def _cascades(self, statement: parser.Statement, text: str, sql_mode: int) -> None:
        """Of a table under the name that it has now."""
        if not isinstance(statement, parser.CreateTable | parser.AlterTable) or statement.table not in self._tables:
            return
        rules = folded(parser.cascades(text, statement.table, sql_mode), self._assembly.names)
        if isinstance(statement, parser.AlterTable):
            name = next((c.table for c in statement.clauses if c.kind is ClauseKind.RENAME_TABLE), None)
            rules = tuple(replace(rule, child=name) if name else rule for rule in rules)
        if rules:
            self._assembly.out.append(CascadesAdded(rules))

    def _transaction(self, event: BinlogEvent, statement: parser.TransactionStatement) -> None:
        assembly, verb = self._assembly, statement.verb
        if verb == "BEGIN":
            assembly.begin(event)
        elif verb == "COMMIT":
            assembly.end(event)
        elif verb == "ROLLBACK":
            assembly.rollback(event)
        elif verb == "SAVEPOINT":
            assembly.pending.savepoint(statement.name)
        elif verb == "ROLLBACK TO":
            assembly.xa.let_go()
            for table in assembly.pending.rollback(statement.name):
                self._effects.reload(table, event, "ROLLBACK TO SAVEPOINT")
        elif verb == "XA START":
            assembly.begin(event)
            assembly.begin_xa(event)
        elif verb == "XA COMMIT":
            assembly.decide(event, assembly.xa.commit(statement.name))
        elif verb == "XA ROLLBACK":
            assembly.xa.rollback(statement.name)
            assembly.end(event)


def _readings(query: e.Query) -> Iterator[str]:
    """In the client's character set, then in the others that it may have had when it prepared the statement."""
    try:
        yield decoder(charset_name(query.charset))(query.sql)
        others: tuple[str, ...] = ("utf8mb4",)  # which is hardly ever by chance what means something in another one
    except (TableError, UnicodeDecodeError):
        others = ("utf8mb4", *CHARSETS)
    for name in others if not query.sql.isascii() else ():
        with suppress(TableError, UnicodeDecodeError):
            yield decoder(name)(query.sql)
    yield query.sql.decode("utf-8", "replace")
