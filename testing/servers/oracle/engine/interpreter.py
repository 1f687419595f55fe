"""What becomes of a statement that a session is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import psycopg
from sqlglot import exp

from testing.servers.oracle.engine.blocks import Block
from testing.servers.oracle.engine.catalog import PLUGGABLE, ROOT, Table
from testing.servers.oracle.engine.ddl.definitions import Definitions
from testing.servers.oracle.engine.ddl.words import Words
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import TEXT, Kind
from testing.servers.oracle.engine.log.changes import changes
from testing.servers.oracle.engine.log.redo import Record
from testing.servers.oracle.engine.refusals import STALE, refused
from testing.servers.oracle.engine.session import FORMATS, Session
from testing.servers.oracle.engine.sql.dialect import parsed
from testing.servers.oracle.engine.sql.expressions import Expressions, Scope
from testing.servers.oracle.engine.sql.queries import Queries, Translated
from testing.servers.oracle.engine.views.view import View, view
from testing.servers.oracle.wire.calls import Bind, Outcome
from testing.servers.oracle.wire.rows import Column

DEFINITIONS = ("CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "COMMENT", "GRANT", "REVOKE", "PURGE", "ANALYZE")
KINDS = {1700: "NUMBER", 20: "NUMBER", 23: "NUMBER", 700: "BINARY_FLOAT", 701: "BINARY_DOUBLE", 17: "RAW", 1114: "DATE"}
TRIES = 5
_COMMENT = re.compile(r"^(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)


class Interpreter(Session):
    """A session that runs statements."""

    def answered_error(self) -> tuple[OracleError, bool] | None:
        """That the next statement is answered with, and whether it is done before."""
        return self.database.errors.choose(self._program)

    def execute(self, sql: str, binds: Sequence[Bind]) -> Outcome:
        text = _COMMENT.sub("", sql)
        verb = re.match(r"\(*\s*(\w*)", text)
        word = verb[1].upper() if verb else ""
        if self.in_pluggable and not self.database.pluggable_open and word != "ALTER":
            raise OracleError(1109)
        try:
            if word in ("SELECT", "WITH"):
                return self._selected(text, binds)
            if word in ("INSERT", "UPDATE", "DELETE", "MERGE"):
                return self._changed(text, binds)
            if word in ("BEGIN", "DECLARE", "CALL"):
                return Block(self, text, binds, self.execute).run()
            if word in DEFINITIONS:
                return self._defined(text)
            return self._controlled(text, word)
        except psycopg.Error as error:
            if self._behind.closed:
                raise OracleError(3113) from error
            raise refused(error, self.database.catalog) from error

    def describe(self, sql: str) -> tuple[Column, ...] | None:
        """Of a query, which is not run."""
        text = _COMMENT.sub("", sql)
        if not re.match(r"\(*\s*(SELECT|WITH)\b", text, re.IGNORECASE):
            return None
        tree, names = parsed(text)
        made = self._translate(tree, [Bind(TEXT, None) for _ in names])
        found = self._behind.execute(f"SELECT * FROM ({made.sql}) AS described LIMIT 0")
        return _columns(made, found)

    def _translate(self, tree: exp.Expr, binds: Sequence[Bind]) -> Translated:
        self._binds, self._parameters, self._places = binds, [], {}
        return self.queries().translated(tree)

    def queries(self) -> Queries:
        return Queries(self.database.catalog, self.account, self, self._view, self._flashback)

    def _view(self, name: str) -> View | None:
        return view(self, name)

    def _flashback(self, version: exp.Version, table: Table, expressions: Expressions) -> int:
        """ORA-08181 of an SCN that is to come, ORA-01466 before a definition, ORA-01555 of one that is too old."""
        granted = (table.owner, table.name, "FLASHBACK") in self.account.grants
        if table.owner != self.user and not granted and not self.account.has("FLASHBACK ANY TABLE"):
            raise OracleError(1031)
        if version.name.upper() != "SCN":
            raise unsupported("AS OF TIMESTAMP")
        value = expressions.of(version.expression, Scope())
        if value.literal is None or not value.literal.isdigit():
            raise unsupported("AS OF SCN of an expression")
        scn = int(value.literal)
        if scn > self.database.scn:
            raise OracleError(8181)
        if scn < table.defined:
            raise OracleError(1466)
        seconds = self.database.catalog.parameters.get("undo_retention")
        if seconds is not None:
            late = "scn > $1 AND at < clock_timestamp() - $2 * interval '1 second'"
            if self._behind.execute(f"SELECT 1 FROM ora.commits WHERE {late} LIMIT 1", (scn, int(seconds))).fetchone():
                raise OracleError(1555)
        return scn

    def _selected(self, text: str, binds: Sequence[Bind]) -> Outcome:
        tree, names = parsed(text)
        ordered = self._ordered(names, binds)
        for _ in range(TRIES):
            made = self._translate(tree, ordered)
            if isinstance(tree, exp.Select) and tree.args.get("locks"):
                self._begin()
            try:
                found = self._run(made.sql)
                break
            except psycopg.Error as error:
                if error.sqlstate not in STALE or not made.tables:
                    raise
        else:
            raise OracleError(8103)
        result = found.pgresult
        assert result is not None

        def rows() -> Iterator[Sequence[bytes | None]]:
            for row in range(result.ntuples):
                yield [result.get_value(row, column) for column in range(result.nfields)]

        return Outcome(_columns(made, found), rows())

    def _run(self, sql: str) -> psycopg.Cursor:
        """In the transaction, where there is one: a failure undoes this statement alone."""
        if self._transaction is None:
            return self._behind.execute(sql, self._parameters)
        self._behind.execute("SAVEPOINT statement")
        try:
            found = self._behind.execute(sql, self._parameters)
        except psycopg.Error:
            self._behind.execute("ROLLBACK TO statement")
            raise
        self._behind.execute("RELEASE statement")
        return found

    @staticmethod
    def _ordered(names: Sequence[str], binds: Sequence[Bind]) -> list[Bind]:
        """For each placeholder; the client sends one for each place, or one for each name."""
        if len(names) == len(binds):
            return list(binds)
        distinct = list(dict.fromkeys(names))
        if len(distinct) != len(binds):
            raise OracleError(1008)
        return [binds[distinct.index(one)] for one in names]

    def _changed(self, text: str, binds: Sequence[Bind]) -> Outcome:
        tree, names = parsed(text)
        ordered = self._ordered(names, binds)
        alone = self._transaction is None
        self._begin()
        assert self._transaction is not None
        try:
            self._behind.execute("SAVEPOINT statement")
            for _ in range(TRIES):
                made = self._translate(tree, ordered)
                assert made.target is not None
                try:
                    if count := self._tried(made):
                        return Outcome(count=count[0])
                except psycopg.Error as error:
                    self._behind.execute("ROLLBACK TO statement")
                    if error.sqlstate not in STALE:
                        raise
        except (OracleError, psycopg.Error):
            if alone:
                self.rollback()
            raise
        raise OracleError(8103)

    def _tried(self, made: Translated) -> tuple[int] | None:
        """Rows changed, with their redo; None where the table is another one by now."""
        target, transaction = made.target, self._transaction
        assert target is not None
        assert transaction is not None
        self._behind.execute(f"LOCK TABLE {target.rows} IN ROW EXCLUSIVE MODE")
        with self.database.lock:
            known = self.database.catalog.of_object(target.obj)
        if known is None or known.version != target.version:
            return None
        last = self._behind.execute("SELECT last_value FROM ora.n").fetchone()
        assert last is not None
        count = self._behind.execute(made.sql, self._parameters).rowcount
        blank = Record(0, 0.0, transaction.xid, 0, self.user)
        self.database.write(transaction, changes(self._behind, self.database.catalog, target, last[0], blank))
        self._behind.execute("RELEASE statement")
        return (count,)

    def _defined(self, text: str) -> Outcome:
        words = Words(text)
        if words.take("ALTER", "SESSION"):
            self._settings(words)
            return Outcome()
        self.commit()
        Definitions(self, self._behind, text, self.queries).run()
        return Outcome()

    def _settings(self, words: Words) -> None:
        """ALTER SESSION SET a = b c = d."""
        words.need("SET")
        while not words.ended:
            name = words.name()
            words.need("=")
            quoted_value = words.tokens[words.at][0] == "string" if not words.ended else False
            value = (
                words.string() if quoted_value else words.name() if not words.peek().isdigit() else str(words.integer())
            )
            if name in FORMATS or name == "NLS_NUMERIC_CHARACTERS":
                self.nls[name] = value
            elif name == "TIME_ZONE":
                self.time_zone = "+00:00" if value.upper() in ("UTC", "DBTIMEZONE", "LOCAL") else value
            elif name == "CURRENT_SCHEMA":
                self.set_schema(value)
            elif name == "ISOLATION_LEVEL":
                self._isolation = "ISOLATION LEVEL REPEATABLE READ" if value == "SERIALIZABLE" else ""
            elif name == "CONTAINER":
                if value not in (ROOT, PLUGGABLE):
                    raise OracleError(65011, value)
                if value == PLUGGABLE and not self.database.pluggable_open:
                    raise OracleError(1109)
                self.container = value
            elif name not in ("NLS_LANGUAGE", "NLS_TERRITORY", "NLS_SORT", "NLS_COMP", "DDL_LOCK_TIMEOUT", "SQL_TRACE"):
                raise OracleError(2248)

    def _controlled(self, text: str, word: str) -> Outcome:
        words = Words(text)
        words.name() if not words.ended else ""
        if word == "COMMIT":
            self.commit()
        elif word == "ROLLBACK":
            words.take("WORK")
            if words.take("TO"):
                words.take("SAVEPOINT")
                self._rollback_to(words.name())
            else:
                self.rollback()
        elif word == "SAVEPOINT":
            self._begin()
            assert self._transaction is not None
            name = words.name()
            self._behind.execute(f'SAVEPOINT "s{name}"')
            self._transaction.savepoints[name] = len(self._transaction.records)
        elif word == "SET" and words.take("TRANSACTION"):
            if words.take("READ", "ONLY"):
                self._isolation = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
            elif words.take("ISOLATION", "LEVEL", "SERIALIZABLE"):
                self._isolation = "ISOLATION LEVEL REPEATABLE READ"
            self._begin()
        elif word == "LOCK" and words.take("TABLE"):
            self._lock(words)
        else:
            raise OracleError(900)
        return Outcome()

    def _rollback_to(self, name: str) -> None:
        transaction = self._transaction
        if transaction is None or name not in transaction.savepoints:
            raise OracleError(1086, name)
        keep = transaction.savepoints[name]
        self.database.compensate(transaction, keep)
        self._behind.execute(f'ROLLBACK TO "s{name}"')
        order = list(transaction.savepoints)
        for later in order[order.index(name) + 1 :]:
            del transaction.savepoints[later]

    def _lock(self, words: Words) -> None:
        owner, name = words.qualified(self.schema)
        table = self.database.catalog.table(owner, name)
        words.need("IN")
        exclusive = words.until("MODE").upper() == "EXCLUSIVE"
        words.need("MODE")
        self._begin()
        mode = "EXCLUSIVE" if exclusive else "ROW EXCLUSIVE"
        self._run(f"LOCK TABLE {table.rows} IN {mode} MODE{' NOWAIT' if words.take('NOWAIT') else ''}")


def _columns(made: Translated, found: psycopg.Cursor) -> tuple[Column, ...]:
    """Types that the translation does not know are Postgres'."""
    result = found.pgresult
    assert result is not None
    columns = []
    for at, (name, known) in enumerate(made.columns):
        kind = known or Kind(KINDS.get(result.ftype(at), "VARCHAR2"), 4000)
        unsized = kind.name in ("VARCHAR2", "NVARCHAR2", "RAW", "CHAR", "NCHAR") and not kind.length
        columns.append(Column(name, Kind(kind.name, 4000) if unsized else kind))
    return tuple(columns)
