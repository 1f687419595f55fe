"""Temporary tables, which hide a table of the same name from their session.

With binlog_format=ROW the log has no statements on them, except MariaDB's RENAME TABLE. In the other formats it has all
of them, flagged as using session state.  The flag alone proves nothing: CONNECTION_ID() sets it too, and MySQL keeps it
on for the rest of a procedure.  So temporary tables whose creation was seen are remembered, and a flagged statement on
any other table causes a resnapshot of that table.
"""

from __future__ import annotations

from dataclasses import replace

from replicator.model.identifiers import TableId
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.ddl.alter_clauses import ClauseKind
from replicator.sources.mysql.wire.events import Query

Session = tuple[int, int]


class HiddenTables:
    """What sessions hide, as far as the log has shown it made."""

    def __init__(self) -> None:
        self._hidden: set[tuple[Session, TableId]] = set()

    def forget(self) -> None:
        """The server may have been started again: sessions have other numbers."""
        self._hidden.clear()

    def seen(self, statement: parser.Statement, query: Query, *, mariadb: bool) -> parser.Statement:  # noqa: PLR0911 - one each
        """What is left of the statement for tables that are not temporary; UnseenRows of those which it may have
        changed.
        """
        match statement:
            case parser.TemporaryTables(tables, dropped):
                named = {(query.session, table) for table in tables}
                self._hidden = self._hidden - named if dropped else self._hidden | named
            case parser.RenameTables(pairs) if mariadb:  # MySQL's is of tables that are not temporary
                return parser.RenameTables(tuple(pair for pair in pairs if not self._renamed(query, *pair)))
            case parser.AlterTable(table, clauses, options) if query.own:
                names = {clause.table for clause in clauses if clause.kind is ClauseKind.RENAME_TABLE and clause.table}
                if any(self._renamed(query, table, name) for name in names) or self._hides(query, table):
                    return parser.Irrelevant()
                return parser.UnseenRows(
                    frozenset({table, *options.union, *(one.table for one in clauses if one.table)})
                )
            case parser.TruncateTable(table) if query.own:
                return parser.Irrelevant() if self._hides(query, table) else parser.UnseenRows(frozenset({table}))
            case parser.Dml(_, tables) if query.own:
                return parser.UnseenRows(frozenset(table for table in tables if not self._hides(query, table)))
            case parser.CreateTable() if query.own:
                return replace(statement, like=None)  # LIKE a temporary one
        return statement

    def _hides(self, query: Query, table: TableId) -> bool:
        return (query.session, table) in self._hidden

    def _renamed(self, query: Query, old: TableId, new: TableId) -> bool:
        if not self._hides(query, old):
            return False
        self._hidden -= {(query.session, old)}
        self._hidden |= {(query.session, new)}
        return True
