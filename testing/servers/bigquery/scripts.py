"""What a query job does: one statement, or a script with variables, conditions and a transaction."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from testing.servers.bigquery.definitions import Definitions
from testing.servers.bigquery.refusals import Refusal, conflict
from testing.servers.bigquery.tables import Table, Tables
from testing.servers.bigquery.translation import parsed, place_of, translated

DECLARE = re.compile(r"DECLARE ([\w, ]+) INT64")
SET = re.compile(r"SET (\w+) = (.+)", re.DOTALL)
CONDITION = re.compile(r"IF (.+) THEN\s+RAISE USING MESSAGE = (.+);\s*END IF", re.DOTALL)
CHANGES = (exp.Update, exp.Delete, exp.Merge)
WAIT_SECONDS = 60.0  # a statement outside of transactions waits for one that changes its table


@dataclass
class Outcome:
    """rows: of the last SELECT; changed: rows, of a single DML statement."""

    rows: pa.Table | None = None
    changed: int | None = None
    kind: str = "SCRIPT"


@dataclass
class Run:
    """Of one job.  trouble: aborts the transaction at its end, where a test wants it."""

    tables: Tables
    job: str
    abort: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._cursor = self.tables.cursor()
        self._variables: dict[str, Any] = {}
        self._open = False
        self._seen: dict[str, int] = {}  # changes of each table when the transaction began
        self._changed: set[str] = set()

    def interrupt(self) -> None:
        self.stopped.set()
        self._cursor.interrupt()

    def run(self, sql: str) -> Outcome:
        statements = list(split(sql))
        outcome = Outcome()
        try:
            for one in statements:
                if self.stopped.is_set():
                    raise Refusal("stopped", "Job execution was cancelled: User requested cancellation")
                outcome = self._one(one)
        except duckdb.InterruptException:
            raise Refusal("stopped", "Job execution was cancelled: User requested cancellation") from None
        except duckdb.TransactionException:
            raise conflict("of this project") from None
        except duckdb.Error as error:
            raise Refusal("invalidQuery", f"{' '.join(str(error).split())[:300]}") from None
        finally:
            if self._open:
                self._end("ROLLBACK")
            self._cursor.close()
        if len(statements) > 1:
            outcome.kind, outcome.changed = "SCRIPT", None
        return outcome

    def _one(self, sql: str) -> Outcome:
        if match := DECLARE.fullmatch(sql):
            self._variables |= {name.strip(): None for name in match[1].split(",")}
        elif match := SET.fullmatch(sql):
            if match[1] not in self._variables:
                raise Refusal("invalidQuery", f"Undeclared variable: {match[1]}")
            if match[2] != "@@row_count":
                self._variables[match[1]] = self._value(match[2])
            else:
                self._variables[match[1]] = self._row_count
        elif match := CONDITION.fullmatch(sql):
            if self._value(match[1]) is True:
                raise Refusal("invalidQuery", f"Query error: {self._value(match[2])} at [1:1]")
        elif sql == "BEGIN TRANSACTION":
            self._begin()
        elif sql in ("COMMIT TRANSACTION", "ROLLBACK TRANSACTION"):
            if not self._open:
                raise Refusal("invalidQuery", "There is no active transaction")
            self._commit() if sql.startswith("COMMIT") else self._end("ROLLBACK")
        else:
            return self._statement(sql)
        return Outcome()

    def _value(self, expression: str) -> Any:
        ((found,),) = self._cursor.execute(self._translated(parsed(f"SELECT {expression}"))).fetchall()
        return found

    def _translated(self, tree: exp.Expr) -> str:
        return translated(tree, self._find, self._variables)

    def _find(self, table: exp.Table) -> Table:
        return self.tables.find(place_of(table, self.tables.project))

    def _statement(self, sql: str) -> Outcome:
        definition = Definitions(self.tables, self._cursor, self._translated)
        if definition.makes(sql):
            if self._open:
                raise Refusal("invalidQuery", "DDL of permanent entities is not supported in a transaction")
            definition.make(sql)
            return Outcome(kind="DDL")
        tree = parsed(sql)
        if isinstance(tree, exp.Query):
            result = self._cursor.execute(self._translated(tree)).to_arrow_table()
            return Outcome(result, kind="SELECT")
        if not isinstance(tree, (*CHANGES, exp.Insert)):
            raise Refusal("invalidQuery", f"Statement is not supported: {sql[:60]}")
        if isinstance(tree, CHANGES):
            self._take(tree.this)
        try:
            ((self._row_count,),) = self._cursor.execute(self._translated(tree)).fetchall()
        finally:
            if not self._open:
                self._release(changed=True)
        with self.tables.lock:
            self._find(next(tree.find_all(exp.Table))).touch()
        return Outcome(changed=int(self._row_count), kind=type(tree).__name__.upper())

    def _begin(self) -> None:
        if self._open:
            raise Refusal("invalidQuery", "Transaction is already in progress")
        with self.tables.lock:
            self._cursor.execute("BEGIN")
            self._cursor.execute("SELECT COUNT(*) FROM duckdb_tables()").fetchall()  # its snapshot begins
            self._seen = {table.physical: table.changes for table in self.tables.tables.values()}
        self._open = True

    def _take(self, name: exp.Table) -> None:
        """Rows of a table are about to change: two transactions that do so conflict."""
        table = self._find(name)
        place = self.tables.named(place_of(name, self.tables.project))
        with self.tables.lock:
            if not self._open:
                if not self.tables.ended.wait_for(lambda: table.changed_by in ("", self.job), WAIT_SECONDS):
                    text = f"Could not serialize access to table {place} due to concurrent update"
                    raise Refusal("invalidQuery", text)
            elif table.changed_by not in ("", self.job) or self._seen.get(table.physical, -1) != table.changes:
                raise conflict(place)
            table.changed_by = self.job
            self._changed.add(table.physical)

    def _commit(self) -> None:
        if self.abort:
            raise conflict("of this project")
        self._end("COMMIT")

    def _end(self, how: str) -> None:
        self._open = False
        done = False
        try:
            self._cursor.execute(how)
            done = how == "COMMIT"
        finally:
            self._release(changed=done)

    def _release(self, *, changed: bool) -> None:
        with self.tables.lock:
            for table in self.tables.tables.values():
                if table.physical in self._changed and table.changed_by == self.job:
                    table.changed_by = ""
                    table.changes += changed
            self._changed.clear()
            self.tables.ended.notify_all()


def split(sql: str) -> Iterator[str]:
    """Statements of a script; a condition is one."""
    try:
        tokens = sqlglot.tokenize(sql, read="bigquery")
    except SqlglotError as error:
        raise Refusal("invalidQuery", f"Syntax error: {error}") from None
    start: int | None = None
    words: list[str] = []
    for token in tokens:
        text = token.text.upper()
        if text == ";" and not (words[:1] == ["IF"] and words[-2:] != ["END", "IF"]):
            if start is not None:
                yield sql[start : token.start].strip()
            start, words = None, []
            continue
        start = token.start if start is None else start
        words = [*words[:1], *words[-1:], text] if words else [text]
    if start is not None:
        yield sql[start:].strip()
