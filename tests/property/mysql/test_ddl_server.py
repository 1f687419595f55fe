"""Random DDL on a live MariaDB: what is read from the log's text is what the server did."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pymysql
import pytest

from replicator.model.identifiers import TableId
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect, quoted
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.ddl.alter_clauses import ClauseKind
from replicator.sources.mysql.ddl.alter_table import alter
from replicator.sources.mysql.stream.file_reader import read_events
from replicator.sources.mysql.stream.query_events import _readings
from replicator.sources.mysql.wire import events as e
from tests.property.budget import examples, seed
from tests.property.ddl_grammar import Grammar, Statement
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
DATABASE = "ddl_fuzz"
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
Rows = list[tuple[Any, ...]]


@dataclass
class State:
    """What the server holds."""

    tables: dict[TableId, TableDescription]
    rows: dict[TableId, Rows]


@dataclass
class Step:
    made: Statement
    before: State
    after: State
    ends: int


class Server:
    def __init__(self, server: EmbeddedMariaDB) -> None:
        address = server.address
        self.control = connect(MySqlConfig(address["host"], address["port"], address["user"], address["password"]))
        self.folder = server.folder / "data"
        self.run(
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
            f"USE {DATABASE}",
        )
        self.run("FLUSH BINARY LOGS", "SET innodb_strict_mode = OFF")

    def run(self, *statements: str) -> None:
        with self.control.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, sql: str) -> Rows:
        with self.control.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def place(self) -> tuple[str, int]:
        file, position, *_ = self.rows("SHOW MASTER STATUS")[0]
        return str(file), int(position)

    def state(self) -> State:
        catalog = MySqlCatalog(self.control)
        found = catalog.details(catalog.names(DATABASE))
        tables = {table: one for table, one in found.items() if isinstance(one, TableDescription)}
        assert tables.keys() == found.keys()
        return State(tables, {table: self._values(one) for table, one in tables.items()})

    def _values(self, found: TableDescription) -> Rows:
        table = found.schema.table
        names = ", ".join(f"HEX({quoted(name)}), {quoted(name)} IS NULL" for name in found.schema.names)
        return sorted(self.rows(f"SELECT {names} FROM {quoted(table.database)}.{quoted(table.name)}"), key=repr)

    def fill(self, state: State) -> None:
        """Two rows in every table: most columns by themselves."""
        for table, found in state.tables.items():
            if state.rows[table] or "pk" not in found.schema.names:
                continue
            for number in (1, 2):
                columns = [name for name in found.schema.names if name != "pk"]
                names = ", ".join(quoted(name) for name in ("pk", *columns))
                texts = ", ".join(["'1'"] * len(columns) if number == 1 else ["DEFAULT"] * len(columns))
                sql = (
                    f"INSERT IGNORE INTO {quoted(table.name)} ({names}) VALUES"
                    f" ({number}{', ' + texts if texts else ''})"
                )
                try:
                    self.run("SET sql_mode = ''", sql)
                except pymysql.err.MySQLError:
                    with suppress(pymysql.err.MySQLError):  # a CHECK that no row fulfils
                        self.run(f"INSERT IGNORE INTO {quoted(table.name)} (pk) VALUES ({number})")


def _steps(server: Server, count: int, rng: random.Random) -> list[Step]:
    grammar, steps = Grammar(rng), list[Step]()
    state = server.state()
    while len(steps) < count:
        made = grammar.statement({table.name: list(found.schema.names) for table, found in state.tables.items()})
        server.fill(state)
        server.run(f"SET sql_mode = '{made.sql_mode}'")
        before = server.state()
        try:
            server.run(made.sql)
        except pymysql.err.MySQLError:
            assert server.state() == before, made.sql
            continue
        state = server.state()
        steps.append(Step(made, before, state, server.place()[1]))
    return steps


def test_what_the_log_says_of_a_statement_is_what_the_server_did(mariadb: EmbeddedMariaDB) -> None:
    start = seed()
    print(f"seed {start}")
    server = Server(mariadb)
    file, began = server.place()
    steps = _steps(server, examples(100, 2000), random.Random(start))
    assert server.place()[0] == file
    queries = [
        event
        for event in read_events(server.folder / file)
        if event.type in (e.QUERY, e.QUERY_COMPRESSED) and event.start >= began
    ]
    at, wrong, seen = 0, list[str](), set[type]()
    for step in steps:
        statements = []
        while at < len(queries) and queries[at].end <= step.ends:
            query = e.parse_query(queries[at])
            at += 1
            found = parser.parse(next(_readings(query)), query.database, query.sql_mode)
            if query.database == DATABASE and not isinstance(found, parser.TransactionStatement):
                statements.append((found, next(_readings(query))))
        seen |= {type(found) for found, _ in statements}
        if what := _fault(step, [found for found, _ in statements]):
            wrong.append(f"{what}\n    {step.made.sql!r} ({step.made.sql_mode})\n    {statements}")
    server.run(f"DROP DATABASE {DATABASE}", "SET sql_mode = ''")
    server.control.close()
    assert not wrong, f"seed {start}, {len(wrong)} of {len(steps)}:\n" + "\n".join(wrong[:5])
    assert {parser.CreateTable, parser.AlterTable, parser.RenameTables, parser.DropTables, parser.TruncateTable} <= seen


def _fault(step: Step, statements: list[parser.Statement]) -> str:
    """The difference between what the statement is read as and what happened; empty: none."""
    before, after = step.before, step.after
    if unread := [found for found in statements if isinstance(found, parser.Unparsable)]:
        return f"not understood: {unread}"
    gone, new = before.tables.keys() - after.tables.keys(), after.tables.keys() - before.tables.keys()
    expected = (
        {found.table for found in statements if isinstance(found, parser.CreateTable)}
        | {table for found in statements if isinstance(found, parser.DropTables) for table in found.tables}
        | {
            table
            for found in statements
            if isinstance(found, parser.RenameTables)
            for pair in found.pairs
            for table in pair
        }
        | {t for found in statements if isinstance(found, parser.AlterTable) for t in (found.table, *_targets(found))}
    )
    if not gone | new <= expected:
        return f"tables {gone | new} came or went, and {expected} are named"
    emptied = {t for t in before.rows.keys() & after.rows.keys() if before.rows[t] and not after.rows[t]}
    emptying = {found.table for found in statements if isinstance(found, parser.TruncateTable | parser.CreateTable)}
    if not emptied <= emptying | {
        found.table for found in statements if isinstance(found, parser.AlterTable) and _rows(found)
    }:
        return f"{emptied} were emptied"
    altered = [found for found in statements if isinstance(found, parser.AlterTable)]
    untouched = before.tables.keys() & after.tables.keys() - expected
    if changed := [table for table in untouched if before.tables[table].schema != after.tables[table].schema]:
        return f"{changed} changed, and {expected} are named"
    return next((what for found in altered if (what := _alteration(step, found))), "")


def _rows(found: parser.AlterTable) -> bool:
    return any(clause.kind is ClauseKind.ROWS for clause in found.clauses)


def _targets(found: parser.AlterTable) -> list[TableId]:
    return [clause.table for clause in found.clauses if clause.kind is ClauseKind.RENAME_TABLE and clause.table]


def _alteration(step: Step, found: parser.AlterTable) -> str:
    name = next(iter(_targets(found)), found.table)
    if found.table not in step.before.tables or name not in step.after.tables:
        return "" if not found.clauses or found.table not in step.before.tables else f"{found.table} no longer exists"
    old, new = step.before.tables[found.table], step.after.tables[name]
    charsets = {d.name: d.charset for d in old.definitions if d.charset}
    result = alter(old.schema, found.clauses, new, charsets)
    if replace(result.schema, table=name) != new.schema:
        return f"the schema is read as {result.schema}\n    and is {new.schema}"
    if result.renamed != step.made.renamed:
        return f"renamed columns are read as {result.renamed} and are {step.made.renamed}"
    without = alter(old.schema, found.clauses, None, charsets)  # the catalog has gone on: names must hold all the same
    known = set(without.schema.names)
    added = {clause.to for clause in found.clauses if clause.kind is ClauseKind.ADD}
    if not known <= set(new.schema.names) or not set(new.schema.names) - known <= added:
        return f"without the catalog the columns are read as {sorted(known)} and are {new.schema.names}"
    if not result.reload and (what := _values_changed(step, found.table, name, result.renamed)):
        return f"no reload is asked for, and {what}"
    return ""


def _values_changed(step: Step, old: TableId, new: TableId, renamed: dict[str, str]) -> str:
    """Rows that exist have other values afterwards, and the log does not tell."""
    before, after = step.before.tables[old].schema, step.after.tables[new].schema
    came_from = {
        renamed.get(name, name): at for at, name in enumerate(before.names) if renamed.get(name, name) in after.names
    }
    for row in step.after.rows[new]:
        for at, name in enumerate(after.names):
            if name not in came_from and not row[2 * at + 1]:
                return f"the new column {name} is not NULL"
    kept = [(came_from[name], at) for at, name in enumerate(after.names) if name in came_from]
    same = [
        before.columns[was].type == after.columns[now].type and _alike(step, old, new, was, now) for was, now in kept
    ]
    chosen = [pair for pair, alike in zip(kept, same, strict=True) if alike]
    was_rows = sorted(([row[2 * a : 2 * a + 2] for a, _ in chosen] for row in step.before.rows[old]), key=repr)
    now_rows = sorted(([row[2 * b : 2 * b + 2] for _, b in chosen] for row in step.after.rows[new]), key=repr)
    return "" if was_rows == now_rows else f"rows {was_rows} became {now_rows}"


def _alike(step: Step, old: TableId, new: TableId, was: int, now: int) -> bool:
    """HEX shows the same for equal values: of numbers, and of texts in one character set."""
    before, after = step.before.tables[old].definitions[was], step.after.tables[new].definitions[now]
    if before.charset is not None or after.charset is not None:
        return before.charset == after.charset
    return before.column_type == after.column_type or {before.data_type, after.data_type} <= _INTEGERS
