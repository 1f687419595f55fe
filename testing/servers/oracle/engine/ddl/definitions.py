"""Definitions (CREATE, ALTER, DROP, TRUNCATE, COMMENT): each is one transaction, with a row in the redo log."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from testing.servers.oracle.engine.catalog import Index, Table
from testing.servers.oracle.engine.ddl.accounts import Accounts
from testing.servers.oracle.engine.ddl.columns import Columns
from testing.servers.oracle.engine.ddl.definition import Definition
from testing.servers.oracle.engine.ddl.words import Words
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.log.redo import COMMIT, DDL, START, Record
from testing.servers.oracle.engine.sql.dialect import parsed

LOCK_MILLISECONDS = 1000
PHYSICAL = ("TABLESPACE", "PCTFREE", "PCTUSED", "INITRANS", "MAXTRANS", "STORAGE", "LOGGING", "NOLOGGING", "ENABLE",
            "DISABLE", "SEGMENT", "NOCOMPRESS", "COMPRESS", "CACHE", "NOCACHE", "NOPARALLEL", "PARALLEL", "MONITORING",
            "ROW", "LOB", "NOROWDEPENDENCIES", "ROWDEPENDENCIES")  # fmt: skip


class Definitions(Definition):
    """Does what the statement says."""

    def run(self) -> None:
        database = self.session.database
        words = self.words
        if words.take("ALTER", "SYSTEM"):
            Accounts(self).system()
            return
        if words.take("ALTER", "PLUGGABLE", "DATABASE"):
            Accounts(self).pluggable()
            return
        with database.defining:
            self.catalog = copy.copy(database.catalog)
            for name in ("users", "tables", "types", "sequences", "database_logging", "parameters", "shapes"):
                setattr(self.catalog, name, copy.copy(getattr(database.catalog, name)))
            self.behind.execute("BEGIN")
            try:
                self.behind.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
                self._statement()
                self._commit()
            except BaseException:
                if not self.behind.closed:
                    self.behind.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        database, table = self.session.database, self.changed
        with database.lock:
            now, xid = time.time(), database.new_xid()
            first, last = database.next_scn(), database.next_scn()
            if table and (table.owner, table.name) in self.catalog.tables:
                self.catalog.put(self.catalog.tables[table.owner, table.name], defined=last)
            database.save(self.behind, self.catalog)
            self.behind.execute("COMMIT")
            database.catalog = self.catalog
            user = self.session.user
            named = {"obj": table.obj, "owner": table.owner, "table": table.name} if table else {}
            text = Accounts.hidden(self.text)
            database.redo.append(
                Record(first, now, xid, START, user), Record(first, now, xid, DDL, user, text=text, **named),  # type: ignore[arg-type]
                Record(last, now, xid, COMMIT, user),
            )  # fmt: skip

    def _statement(self) -> None:
        words = self.words
        handlers: dict[tuple[str, ...], Callable[[], None]] = {
            ("CREATE", "TABLE"): self._create_table, ("CREATE", "GLOBAL", "TEMPORARY", "TABLE"): self._create_temporary,
            ("ALTER", "TABLE"): self._alter_table, ("DROP", "TABLE"): self._drop_table,
            ("TRUNCATE", "TABLE"): self._truncate, ("RENAME",): self._rename,
            ("CREATE", "INDEX"): self._create_index, ("CREATE", "UNIQUE", "INDEX"): self._create_unique,
            ("DROP", "INDEX"): self._drop_index, ("COMMENT", "ON"): self._comment,
            ("CREATE", "SEQUENCE"): self._create_sequence, ("DROP", "SEQUENCE"): self._drop_sequence,
            ("CREATE", "TYPE"): self._create_type, ("CREATE", "OR", "REPLACE", "TYPE"): self._create_type,
        }  # fmt: skip
        for start, handler in handlers.items():
            if words.take(*start):
                handler()
                return
        Accounts(self).statement()

    def _create_temporary(self) -> None:
        self._create_table(temporary=True)

    def _create_table(self, *, temporary: bool = False) -> None:
        words = self.words
        owner, name = self.owner_for("TABLE")
        obj = self.catalog.number()
        table = Table(obj, obj, owner, name, (), temporary=temporary)
        columns = Columns(self, table)
        query = ""
        if words.peek() == "(":
            columns.definition()
        while not words.ended:
            if words.take("AS"):
                query = words.sql[words.tokens[words.at][2] :]
                break
            table = self._option(columns)
        table = columns.table
        tree = parsed(query)[0] if query else None
        if tree is not None:
            table = columns.of_query(tree)
        if not table.columns:
            raise OracleError(922)
        self.changed = self.catalog.put(table)
        columns.create()
        if tree is not None:
            self._fill(tree)

    def _option(self, columns: Columns) -> Table:
        """One clause after the columns; physical ones say nothing here."""
        words = self.words
        if words.take("PARTITION", "BY"):
            words.until("(")
            words.in_parentheses()
            names = []
            body = Words(words.until()) if words.peek() != "(" else Words(words.in_parentheses())
            words.until()
            while not body.ended:
                if body.take("PARTITION"):
                    names.append(body.name())
                else:
                    body.at += 1
            columns.change(partitions=tuple(names))
        elif words.take("ORGANIZATION", "INDEX"):
            columns.change(organized=True)
        elif words.take("ON", "COMMIT"):
            words.until("AS")
        elif words.take("XMLTYPE"):
            _store_documents(columns, words)
        elif words.peek() in PHYSICAL or words.take("ORGANIZATION", "HEAP"):
            words.at += 1
            if words.peek() == "(":
                words.in_parentheses()
            elif words.peek() not in (*PHYSICAL, "PARTITION", "ORGANIZATION", "ON", "AS", ""):
                words.at += 1
                if words.take("CREATION"):
                    words.at += 1
        else:
            raise unsupported(f"{words.peek()} in CREATE TABLE")
        return columns.table

    def _fill(self, tree: exp.Expr) -> None:
        """Refuse CREATE TABLE AS SELECT: its rows are not in the log (direct path, NOLOGGING or not mined)."""
        raise unsupported(f"CREATE TABLE AS {tree.sql('oracle')[:60]}")

    def _alter_table(self) -> None:
        Columns(self, self.table("ALTER ANY TABLE")).alter()

    def _drop_table(self) -> None:
        table = self.table("DROP ANY TABLE")
        cascade = self.words.take("CASCADE", "CONSTRAINTS")
        self.words.take("PURGE")
        self.words.end()
        own = {(table.owner, one.name) for one in table.constraints}
        for child, one in list(self.catalog.constraints()):
            if one.kind == "R" and one.target in own and child.obj != table.obj:
                if not cascade:
                    raise OracleError(2449)
                Columns(self, self.catalog.table(child.owner, child.name)).drop_constraint(one)
        self.behind.execute(f"DROP TABLE {table.rows}, {table.history}")
        self.behind.execute(f"DROP FUNCTION o.b{table.obj}, o.h{table.obj}")
        del self.catalog.tables[table.owner, table.name]

    def _truncate(self) -> None:
        table = self.table("DROP ANY TABLE")
        self.words.until()
        own = {(table.owner, one.name) for one in table.constraints}
        if any(
            one.kind == "R" and one.target in own and child.obj != table.obj
            for child, one in self.catalog.constraints()
        ):
            raise OracleError(2266)
        self.behind.execute(f"TRUNCATE {table.rows}")
        self.behind.execute(f"TRUNCATE {table.history}")
        self.changed = self.catalog.put(table, data_obj=self.catalog.number())

    def _rename(self) -> None:
        table = self.catalog.table(self.session.schema, self.words.name())
        self.words.need("TO")
        self.rename(table, self.words.name())

    def _create_unique(self) -> None:
        self._create_index(unique=True)

    def _create_index(self, *, unique: bool = False) -> None:
        words = self.words
        owner, name = words.qualified(self.session.schema)
        words.need("ON")
        table = self.table("INDEX ANY TABLE")
        if any(
            one.name == name for known in self.catalog.tables.values() if known.owner == owner for one in known.indexes
        ):
            raise OracleError(955)
        words.need("(")
        columns = []
        while True:
            columns.append(table.column(words.name()))
            words.take("ASC") or words.take("DESC")
            if not words.take(","):
                break
        words.need(")")
        words.until()
        ids = tuple(one.id for one in columns)
        if any(one.columns == ids for one in table.indexes):
            raise OracleError(1408)
        physical = f"i{self.catalog.number()}"
        listed = ", ".join(f"c{one}" for one in ids)
        self.behind.execute(f"CREATE {'UNIQUE ' if unique else ''}INDEX {physical} ON {table.rows} ({listed})")
        self.changed = self.catalog.put(table, indexes=(*table.indexes, Index(name, ids, physical, unique)))

    def _drop_index(self) -> None:
        owner, name = self.words.qualified(self.session.schema)
        for table in list(self.catalog.tables.values()):
            for one in table.indexes:
                if (table.owner, one.name) == (owner, name):
                    self.behind.execute(f"DROP INDEX o.{one.physical}")
                    rest = tuple(other for other in table.indexes if other != one)
                    self.changed = self.catalog.put(table, indexes=rest)
                    return
        raise OracleError(1418)

    def _comment(self) -> None:
        words = self.words
        if words.take("TABLE"):
            table = self.table("COMMENT ANY TABLE")
            words.need("IS")
            self.changed = self.catalog.put(table, comment=words.string() or None)
            return
        words.need("COLUMN")
        names = [self.session.schema, words.name()]
        while words.take("."):
            names.append(words.name())
        table = self.catalog.table(*names[-3:-1])
        words.need("IS")
        column, text = table.column(names[-1]), words.string()
        rest = [one for one in table.comments if one[0] != column.id]
        self.changed = self.catalog.put(table, comments=tuple([*rest, (column.id, text)] if text else rest))

    def _create_sequence(self) -> None:
        owner, name = self.owner_for("SEQUENCE")
        physical = f"o.s{self.catalog.number()}"
        start, step = 1, 1
        while not self.words.ended:
            if self.words.take("START", "WITH"):
                start = self.words.integer()
            elif self.words.take("INCREMENT", "BY"):
                step = self.words.integer()
            else:
                self.words.at += 1
        self.behind.execute(f"CREATE SEQUENCE {physical} START {start} INCREMENT {step}")
        self.catalog.sequences[owner, name] = physical

    def _drop_sequence(self) -> None:
        owner, name = self.words.qualified(self.session.schema)
        if (owner, name) not in self.catalog.sequences:
            raise OracleError(2289)
        self.behind.execute(f"DROP SEQUENCE {self.catalog.sequences.pop((owner, name))}")

    def _create_type(self) -> None:
        owner, name = self.owner_for("TYPE")
        self.catalog.types[owner, name] = self.words.until()


def _store_documents(columns: Columns, words: Words) -> None:
    """XMLTYPE [COLUMN] name STORE AS …"""
    words.take("COLUMN")
    name = words.name()
    words.need("STORE", "AS")
    storage = "OBJECT-RELATIONAL" if words.take("OBJECT", "RELATIONAL") else ""
    if not storage:
        if words.peek() in ("SECUREFILE", "BASICFILE"):
            words.at += 1
        storage = "CLOB" if words.take("CLOB") else "BINARY"
        if storage == "BINARY":
            words.need("BINARY", "XML")
    if name not in {one.name for one in columns.table.columns if one.kind.name == "XMLTYPE"}:
        raise OracleError(904, name)
    columns.change(
        columns=tuple(
            replace(one, kind=replace(one.kind, storage=storage)) if one.name == name else one
            for one in columns.table.columns
        )
    )
