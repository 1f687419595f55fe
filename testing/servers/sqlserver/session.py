"""One client's session: it runs batches, statement by statement, and writes the reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testing.servers.sqlserver.database.connection import Cancelled, Connection, rows_of
from testing.servers.sqlserver.language import batch
from testing.servers.sqlserver.language.batch import Block, If, Node, Statement, Try, While
from testing.servers.sqlserver.language.dialect import postgres_type
from testing.servers.sqlserver.language.names import Names, TableName
from testing.servers.sqlserver.language.translation import Translated, Translator
from testing.servers.sqlserver.refusals import CONTINUED, ENDS_TRANSACTION, Refusal, read_only
from testing.servers.sqlserver.wire import tokens
from testing.servers.sqlserver.wire.packets import Channel
from testing.servers.sqlserver.wire.parameters import Parameter, Value
from testing.servers.sqlserver.wire.rows import rows
from testing.servers.sqlserver.wire.types import Column, column

ISOLATION = {
    "READ UNCOMMITTED": "READ COMMITTED", "READ COMMITTED": "READ COMMITTED", "REPEATABLE READ": "SERIALIZABLE",
    "SNAPSHOT": "REPEATABLE READ", "SERIALIZABLE": "SERIALIZABLE",
}  # fmt: skip
_CODE_PAGES = {"CYRILLIC": "cp1251", "JAPANESE": "cp932"}
_STATEMENT = "tidemark_statement"
_CACHED = 2000


class Returned(Exception):
    """RETURN."""


@dataclass
class State:
    """Of a session.  `depth`: @@TRANCOUNT."""

    isolation: str = "READ COMMITTED"
    depth: int = 0
    row_count: int = 0
    identity_insert: str = ""
    implicit: bool = False
    abort: bool = False
    error: Refusal | None = None
    no_count: bool = False
    transaction: int = 0
    defined: bool = False
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What a session needs of its server: a new connection to a database, and what the database is set to."""

    connect: Callable[[str], Connection]
    flags: Callable[[Connection], Mapping[str, Any]]
    version: Callable[[Connection], int]
    changed: Callable[[str], None]
    secondary: bool = False


Native = Callable[["Session", Statement], bool]


class Session:
    """`variables`: types and values of the batch."""

    def __init__(
        self, channel: Channel, connection: Connection, around: Surroundings, spid: int, native: Native
    ) -> None:
        self.channel, self.connection, self.around, self.spid = channel, connection, around, spid
        self.state = State()
        self.variables: dict[str, Value] = {}
        self._native = native
        self._names: tuple[int, Names] | None = None
        self._translated: dict[tuple[Any, ...], Translated] = {}
        self._kinds = {int(oid): name for oid, name in connection.query("SELECT type, name FROM ss.kinds")}
        self._kinds |= {int(oid): "rowversion" for oid, name in self._kinds.items() if name == "timestamp"}
        self.done = tokens.DONE
        self._pending: bytes = b""

    # Names

    @property
    def names(self) -> Names:
        """As the database is now."""
        version = self.around.version(self.connection)
        if self._names is None or self._names[0] != version:
            self._names = (version, Names(self.connection.query, self.connection.database))
            self._translated.clear()
        return self._names[1]

    def defined(self) -> None:
        """A definition has changed: names are asked for again, here and, once it is committed, elsewhere."""
        self.around.changed(self.connection.database)
        self.state.defined = True

    # Batches

    def run(self, sql: str, variables: Mapping[str, Value] | None = None, *, done: int = tokens.DONE) -> None:
        """Run a batch, or a call's statement; errors go to the client, Cancelled and ConnectionError are raised."""
        before, self.variables, self.done = self.variables, dict(variables or {}), done
        try:
            self._node(batch.parsed(sql))
        except Returned:
            pass
        except Refusal as refusal:
            self.told(refusal)
        finally:
            if variables is None:
                self.variables = before

    def told(self, refusal: Refusal) -> None:
        """Report an error to the client and in @@ERROR."""
        self.state.error = refusal
        self.flush()
        self.channel.add(tokens.message(refusal.number, refusal.message, level=refusal.level, state=refusal.state))
        self._pending = tokens.done(tokens.FAILED, kind=self.done)

    def flush(self, *, more: bool = True) -> None:
        """Send the end of the statement before."""
        if self._pending:
            pending = bytearray(self._pending)
            if more:
                pending[1] |= tokens.MORE
            self.channel.add(pending)
            self._pending = b""

    def finish(self) -> None:
        """The reply to a batch."""
        self._pending = self._pending or tokens.done(0)
        self.flush(more=False)
        self.channel.end()

    def _node(self, node: Node) -> None:
        if isinstance(node, Block):
            for one in node.nodes:
                self._node(one)
        elif isinstance(node, If):
            if self.true(node.condition):
                self._node(node.yes)
            elif node.no is not None:
                self._node(node.no)
        elif isinstance(node, While):
            while self.true(node.condition):
                self._node(node.body)
        elif isinstance(node, Try):
            self._try(node)
        else:
            self._statement(node)

    def _try(self, node: Try) -> None:
        before = self.state.abort
        self.state.abort = True
        try:
            self._node(node.body)
        except Refusal as refusal:
            self.state.error = refusal
            self.state.abort = before
            self._node(node.catch)
        finally:
            self.state.abort = before

    def _statement(self, statement: Statement) -> None:
        try:
            if not self._native(self, statement):
                self._translate_and_run(statement)
        except Refusal as refusal:
            if refusal.number in ENDS_TRANSACTION and self.state.depth:
                self.rollback()
            if self.state.abort or refusal.number not in CONTINUED:
                raise
            self.told(refusal)

    # Expressions

    def true(self, condition: str) -> bool:
        """Of IF and WHILE."""
        return self.scalar(f"CASE WHEN {condition} THEN 1 ELSE 0 END") == "1"

    def scalar(self, expression: str, kind: str = "") -> str | None:
        """A value, as Postgres' text."""
        translator = Translator(self.names, self.types())
        sql = translator.statement(f"SELECT {expression}")
        text = sql.sql if not kind else f'SELECT CAST(x."?column?" AS {kind}) FROM ({sql.sql}) AS x'
        rows: list[list[Any]] = []
        self.atomic(lambda: rows.extend(self.connection.query(text, self.values(sql.variables))), writes=False)
        return rows[0][0] if rows else None

    def types(self) -> dict[str, str]:
        """Of the variables there are, the server's own among them."""
        own = {
            "@@rowcount": "int4", "@@trancount": "int4", "@@spid": "int2", "@@error": "int4",
            "@@version": "ss.nvarchar(300)",
            "@@servername": "ss.nvarchar(128)", "@@microsoftversion": "int4", "@@language": "ss.nvarchar(128)",
            "@@dbts": "ss.binary(8)", "@@lock_timeout": "int4", "@@max_precision": "ss.tinyint",
            "@@fetch_status": "int4", "@@options": "int4",
        }  # fmt: skip
        return {name: value.type for name, value in self.variables.items()} | own

    def values(self, wanted: Sequence[str]) -> list[str | None]:
        """Of these variables."""
        return [self.variables[name].text if name in self.variables else self._own(name) for name in wanted]

    def _own(self, name: str) -> str:
        if name == "@@dbts":
            return str(self.connection.query("SELECT '\\x' || encode(int8send(last_value), 'hex') FROM ss.dbts")[0][0])
        return {
            "@@rowcount": str(self.state.row_count), "@@trancount": str(self.state.depth), "@@spid": str(self.spid),
            "@@error": str(self.state.error.number if self.state.error else 0), "@@servername": tokens.SERVER,
            "@@version": "Microsoft SQL Server 2022 (RTM-CU14) (KB5038325) - 16.0.4135.4 (X64) \n\tDeveloper Edition"
                " (64-bit)"
            " on Linux <X64>", "@@microsoftversion": str(0x10001027), "@@language": "us_english",
            "@@max_precision": "38",
            "@@lock_timeout": self.state.options.get("lock_timeout", "-1"), "@@fetch_status": "-1", "@@options": "5496",
        }[name]  # fmt: skip

    def declare(self, name: str, type_name: str, arguments: list[str]) -> str:
        """A variable; its type."""
        kind = postgres_type(type_name, arguments, declared=True)
        self.variables[name.lower()] = Value(kind, None)
        return kind

    # Statements

    def _translate_and_run(self, statement: Statement) -> None:
        if self.state.implicit and not self.state.depth:
            self.begin()
        names, types = self.names, self.types()
        key = (
            statement.sql,
            self.state.identity_insert,
            *sorted((name, kind) for name, kind in types.items() if name in statement.sql.lower()),
        )
        if (made := self._translated.get(key)) is None:
            made = Translator(names, types).statement(statement.sql, identity_insert=self.state.identity_insert)
            if len(self._translated) < _CACHED and len(statement.sql) < 4000:
                self._translated[key] = made
        if made.writes is not None and made.writes.schema in ("sys", "INFORMATION_SCHEMA"):
            raise Refusal(259, "Ad hoc updates to system catalogs are not allowed.")
        self.atomic(lambda: self._run(made), writes=made.writes is not None, locks=self._locks(made))

    def _run(self, made: Translated) -> None:
        values = self.values(made.variables)
        if made.assigned:
            rows = self.connection.query(made.sql, values)
            for name, value in zip(made.assigned, rows[-1] if rows else (), strict=False):
                self.variables[name] = Value(self.variables[name].type, value)
            self.counted(len(rows))
            return
        self.send(made.sql, values)

    def send(self, sql: str, values: Sequence[str | None] = ()) -> None:
        """Run Postgres' SQL; its rows go to the client."""
        self.flush()
        columns: list[Column] | None = None
        count, collations = 0, self.names.collations  # asked before the connection is busy
        for result in self.connection.stream(sql, values):
            if not rows_of(result) or not result.nfields:
                count = result.command_tuples or 0
                continue
            if columns is None:
                columns = self._described(result, collations)
                self.channel.add(tokens.described(columns))
            for some in rows(result, columns):
                self.channel.add(some)
            count += int(result.ntuples)
        self.counted(count, rows=columns is not None)

    def counted(self, count: int, *, rows: bool = False) -> None:
        """The end of a statement."""
        self.flush()
        self.state.row_count = count
        self.state.error = None
        told = None if self.state.no_count and not rows else count
        self._pending = tokens.done(0, told, kind=self.done, command=0xC1 if rows else 0)

    def quiet(self) -> None:
        """The end of a statement that counts no rows."""
        self.flush()
        self._pending = tokens.done(0, kind=self.done)

    def _described(self, result: Any, collations: Mapping[tuple[int, int], str]) -> list[Column]:
        found = []
        for at in range(result.nfields):
            name = (result.fname(at) or b"").decode()
            kind = self._kinds.get(result.ftype(at))
            if kind is None:
                raise Refusal(50000, f"The emulator does not know the type {result.ftype(at)} of column {name}.")
            page = code_page(collations.get((result.ftable(at), result.ftablecol(at)), ""))
            kind = {"timestamp": "rowversion"}.get(kind, kind)
            modifier = result.fmod(at) if result.ftype(at) != 25 else -1
            found.append(
                column(
                    "" if name == "?column?" else name,
                    kind,
                    modifier,
                    code_page=page,
                    database=self.connection.database,
                )
            )
        return found

    # Transactions

    def begin(self) -> None:
        """BEGIN TRANSACTION; only the outermost counts."""
        if not self.state.depth:
            isolation = self.state.isolation
            if self.around.secondary:  # "all queries … are automatically mapped to snapshot isolation"
                isolation = "SNAPSHOT"
            elif isolation == "SNAPSHOT" and "snapshot" not in self.around.flags(self.connection):
                raise Refusal(
                    3952, "Snapshot isolation transaction failed accessing database because snapshot isolation is not"
                        " allowed in"
                    f" this database '{self.connection.database}'. Use ALTER DATABASE to allow snapshot isolation.",
                )  # fmt: skip
            self.connection.execute(f"BEGIN ISOLATION LEVEL {ISOLATION[isolation]}")
            self.state.transaction += 1
            self._told(tokens.BEGIN, self.state.transaction.to_bytes(8, "little"), b"")
        self.state.depth += 1

    def commit(self) -> None:
        """COMMIT; Refusal 3902 without a transaction."""
        if not self.state.depth:
            raise Refusal(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        self.state.depth -= 1
        if not self.state.depth:
            try:
                self.connection.execute("COMMIT")
            except Refusal:
                self._told(tokens.ROLLBACK, b"", self.state.transaction.to_bytes(8, "little"))
                raise
            self._told(tokens.COMMIT, b"", self.state.transaction.to_bytes(8, "little"))
            self._ended()

    def rollback(self, name: str = "") -> None:
        """ROLLBACK, or to a savepoint; Refusal 3903 without a transaction."""
        if not self.state.depth:
            raise Refusal(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if name:
            try:
                self.connection.execute(f'ROLLBACK TO SAVEPOINT "s_{name.lower()}"')
            except Refusal:
                self.rollback()
                raise Refusal(
                    6401, f"Cannot roll back {name}. No transaction or savepoint of that name was found."
                ) from None
            self._names = None
            return
        self.state.depth = 0
        self.connection.execute("ROLLBACK")
        self._told(tokens.ROLLBACK, b"", self.state.transaction.to_bytes(8, "little"))
        self._ended()

    def save(self, name: str) -> None:
        """SAVE TRANSACTION."""
        if not self.state.depth:
            raise Refusal(628, "Cannot issue SAVE TRANSACTION when there is no active transaction.")
        self.connection.execute(f'SAVEPOINT "s_{name.lower()}"')

    def _ended(self) -> None:
        if self.state.defined:
            self.state.defined = False
            self.around.changed(self.connection.database)

    def _told(self, kind: int, new: bytes, old: bytes) -> None:
        self.flush()
        self.channel.add(tokens.changed(kind, new, old))

    def atomic(self, run: Callable[[], None], *, writes: bool = True, locks: Sequence[str] = ()) -> None:
        """Run a statement atomically: if it fails, only the statement is rolled back, also within a transaction.

        locks: statements that lock what it reads, until its end or, if marked as held, until the transaction's end.
        """
        if self.around.secondary and writes:
            raise read_only(self.connection.database)
        if not self.state.depth:
            self._alone(run, locks)
            return
        statement = "SELECT pg_catalog.pg_logical_emit_message(true, 'statement', '');" if writes else ""
        self.connection.execute(f"SAVEPOINT {_STATEMENT}; {statement}")
        try:
            for lock in locks:
                self.connection.execute(lock)
            run()
        except (Refusal, Cancelled):
            self.connection.execute(f"ROLLBACK TO SAVEPOINT {_STATEMENT}; RELEASE SAVEPOINT {_STATEMENT}")
            self._names = None if self.state.defined else self._names
            raise
        held = not any("/* held */" in lock for lock in locks)
        back = f"ROLLBACK TO SAVEPOINT {_STATEMENT}; " if locks and held and not writes else ""
        self.connection.execute(f"{back}RELEASE SAVEPOINT {_STATEMENT}")

    def _alone(self, run: Callable[[], None], locks: Sequence[str]) -> None:
        if not locks:
            run()
            if self.state.defined:
                self._ended()
            return
        self.connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            for lock in locks:
                self.connection.execute(lock)
            run()
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def _locks(self, made: Translated) -> list[str]:
        """Locks of tables, for what SQL Server locks of rows: readers of committed rows wait for those who write."""
        found: list[str] = []
        if self.around.secondary:  # "all locking hints are ignored"
            return found
        versions = self.state.isolation == "SNAPSHOT" or "rcsi" in self.around.flags(self.connection)
        for table, hints in made.tables:
            if table.schema in ("sys", "cdc", "msdb", "INFORMATION_SCHEMA"):
                continue
            if hints & {"TABLOCKX"}:
                found.append(_lock(table, "EXCLUSIVE", held=True))
            elif "TABLOCK" in hints and hints & {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD"}:
                found.append(_lock(table, "SHARE", held=True))
            elif made.verb in ("select", "union") and not hints & {"NOLOCK", "READUNCOMMITTED", "SNAPSHOT"}:
                waits = "READCOMMITTEDLOCK" in hints or (not versions and self.state.isolation == "READ COMMITTED")
                if waits and not self.writing(table):
                    found.append(_lock(table, "SHARE"))
        return found

    def writing(self, table: TableName) -> bool:
        """Has this transaction a lock of the table that a reader's would go beyond?"""
        if not self.state.depth:
            return False
        rows = self.connection.query(
            f"SELECT FROM pg_locks WHERE relation = {table.oid} AND pid = pg_backend_pid() AND mode IN"
            " ('RowExclusiveLock', 'ShareLock', 'ExclusiveLock', 'AccessExclusiveLock')"
        )
        return bool(rows)

    def returned(self, outputs: Sequence[tuple[Parameter, Value]]) -> None:
        """The end of a remote call."""
        failed = bool(self._pending) and self._pending[1] & tokens.FAILED
        self.flush()
        self.channel.add(tokens.returned(-6 if failed else 0))
        for at, (parameter, value) in enumerate(outputs):
            number = column("", "int", -1)
            raw = None if value.text is None else int(value.text).to_bytes(4, "big", signed=True)
            self.channel.add(tokens.output(at, parameter.name, number, raw))
        self._pending = tokens.done(tokens.FAILED if failed else 0, kind=tokens.DONE_PROC)
        self.done = tokens.DONE

    def cancelled(self) -> None:
        """Report to the client that its statement was cancelled."""
        self._pending = b""
        self.connection.restore(self.channel.attention)
        self.channel.add(tokens.done(tokens.CANCELLED))
        self.channel.end()

    def reset(self) -> None:
        """A connection of a pool is taken again."""
        if self.state.depth:
            self.rollback()
            self._pending = b""
        self.state = State(transaction=self.state.transaction)
        self.connection.execute("SET lock_timeout = 0")

    def use(self, database: str) -> None:
        """Another database; Refusal 911."""
        if self.state.depth:
            raise Refusal(226, "USE statement not allowed within multi-statement transaction by the emulator.")
        old, connection = self.connection, self.around.connect(database)
        connection.named(self.spid, encrypted=self.channel.encrypted)
        self.connection = connection
        self._names = None
        old.close()
        self.flush()
        self.channel.add(tokens.changed(tokens.DATABASE, connection.database, old.database))
        self.channel.add(
            tokens.message(5701, f"Changed database context to '{connection.database}'.", level=0, state=2)
        )


def code_page(collation: str) -> str:
    """Of a collation's varchar."""
    if collation.upper().endswith("_UTF8"):
        return "utf-8"
    return _CODE_PAGES.get(re.split("_", collation.upper())[0], "cp1252")


def _lock(table: TableName, mode: str, *, held: bool = False) -> str:
    """held: until the transaction ends."""
    name = table.sql.replace("'", "''")
    return f"SELECT ss.lock_table('{name}', '{mode}'){' /* held */' if held else ''}"
