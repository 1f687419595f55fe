"""CREATE, ALTER and DROP of tables.  Each is atomic and commits on its own, outside of transactions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import duckdb
from sqlglot import exp

from testing.servers.bigquery.refusals import Refusal
from testing.servers.bigquery.results import field_of_arrow
from testing.servers.bigquery.tables import (
    Place,
    Table,
    Tables,
    check_columns,
    check_digits,
    duck_type,
    quoted,
    shown_field,
)
from testing.servers.bigquery.translation import OPTIONS, field_of, parsed, place_of

DEFINITION = re.compile(r"\s*(CREATE|ALTER|DROP|TRUNCATE)\b", re.IGNORECASE)
WIDER = {("INTEGER", "NUMERIC"), ("INTEGER", "BIGNUMERIC"), ("INTEGER", "FLOAT"), ("NUMERIC", "BIGNUMERIC"),
    ("NUMERIC", "FLOAT"), ("BIGNUMERIC", "FLOAT")}  # fmt: skip


class Definitions:
    """One at a time."""

    def __init__(
        self, tables: Tables, cursor: duckdb.DuckDBPyConnection, translated: Callable[[exp.Expr], str]
    ) -> None:
        self._tables, self._cursor, self._translated = tables, cursor, translated

    @staticmethod
    def makes(sql: str) -> bool:
        return DEFINITION.match(sql) is not None

    def make(self, sql: str) -> None:
        labels = {}
        if match := OPTIONS.search(sql):
            labels, sql = {match[1]: match[2]}, sql[: match.start()]
        tree = parsed(sql)
        with self._tables.lock:
            match tree:
                case exp.Create() if tree.kind == "TABLE":
                    self._create(tree, labels)
                case exp.Drop() if tree.kind == "TABLE":
                    self._drop(tree)
                case exp.Drop() if tree.kind == "SCHEMA":
                    self._drop_dataset(tree)
                case exp.Alter() if tree.args["kind"] == "TABLE":
                    self._alter(tree)
                case _:
                    raise Refusal("invalidQuery", f"Statement is not supported: {sql[:60]}")

    def _place(self, table: exp.Table) -> Place:
        return place_of(table, self._tables.project)

    def _create(self, tree: exp.Create, labels: dict[str, str]) -> None:
        name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        place, over = self._place(name), bool(tree.args.get("replace"))
        if place in self._tables.tables and not over:
            if tree.args.get("exists"):
                return
            raise Refusal("duplicate", f"Already Exists: Table {self._tables.named(place)}")
        by = [column.name for one in tree.find_all(exp.ClusterProperty) for column in one.expressions]
        if clone := tree.args.get("clone"):
            self._copy(self._place(clone.this), place, labels)
            return
        if over and place in self._tables.tables:
            if self._tables.tables[place].clustering != by:
                raise Refusal("invalidQuery", "Cannot replace a table with a different clustering spec.")
            self._tables.drop(place)
        if tree.expression is None or not isinstance(tree.expression, exp.Query):
            self._tables.make(place, [field_of(one) for one in tree.this.expressions], clustering=by, labels=labels)
            return
        rows = self._cursor.execute(self._translated(tree.expression)).to_arrow_table()
        made = self._tables.make(place, [field_of_arrow(one) for one in rows.schema], clustering=by, labels=labels)
        self._cursor.register("made_rows", rows)
        self._cursor.execute(f"INSERT INTO {made.physical} SELECT * FROM made_rows")
        self._cursor.unregister("made_rows")

    def _copy(self, old: Place, new: Place, labels: dict[str, str]) -> None:
        one = self._tables.find(old)
        made = self._tables.make(new, one.fields, clustering=list(one.clustering), labels=labels)
        self._cursor.execute(f"INSERT INTO {made.physical} SELECT * FROM {one.physical}")

    def _drop(self, tree: exp.Drop) -> None:
        place = self._place(tree.args["tables"][0])
        if place not in self._tables.tables:
            self._tables.dataset(place[0])
            if tree.args.get("exists"):
                return
        self._tables.find(place)
        self._tables.drop(place)

    def _drop_dataset(self, tree: exp.Drop) -> None:
        name = tree.args["tables"][0].db
        if name in self._tables.datasets or not tree.args.get("exists"):
            self._tables.drop_dataset(name, contents=bool(tree.args.get("cascade")))

    def _alter(self, tree: exp.Alter) -> None:
        place = self._place(tree.this)
        table = self._tables.find(place)
        for action in tree.args["actions"]:
            match action:
                case exp.AlterRename():
                    self._rename(place, action.this)
                case exp.ColumnDef():
                    self._add(table, action)
                case exp.Drop():
                    self._remove(table, action)
                case exp.RenameColumn():
                    self._rename_column(table, action.this.name, action.args["to"].name)
                case exp.AlterColumn():
                    self._retype(table, action)
                case _:
                    raise Refusal("invalidQuery", f"ALTER TABLE is not supported with {action.sql('bigquery')}")
        table.touch()

    def _rename(self, place: Place, to: exp.Table) -> None:
        if to.db:
            raise Refusal("invalidQuery", "The new table name must not be qualified")
        new = (place[0], to.name)
        if new in self._tables.tables:
            raise Refusal("duplicate", f"Already Exists: Table {self._tables.named(new)}")
        self._tables.tables[new] = self._tables.tables.pop(place)

    def _add(self, table: Table, action: exp.ColumnDef) -> None:
        made = field_of(action)
        if self._index(table, made["name"]) is not None:
            if action.args.get("exists"):
                return
            raise Refusal("invalidQuery", f"Column already exists: {made['name']}")
        one = shown_field(made)
        check_columns([*table.fields, one])
        self._cursor.execute(f"ALTER TABLE {table.physical} ADD COLUMN {quoted(one['name'])} {duck_type(one)}")
        table.fields.append(one)

    def _remove(self, table: Table, action: exp.Drop) -> None:
        name = action.args["tables"][0].name
        index = self._index(table, name)
        if index is None:
            if action.args.get("exists"):
                return
            raise Refusal("invalidQuery", f"Column not found: {name}")
        self._unclustered(table, name)
        if len(table.fields) == 1:
            raise Refusal("invalidQuery", "Cannot drop the only column of a table")
        self._cursor.execute(f"ALTER TABLE {table.physical} DROP COLUMN {quoted(table.fields[index]['name'])}")
        del table.fields[index]

    def _rename_column(self, table: Table, name: str, new: str) -> None:
        index = self._index(table, name)
        if index is None:
            raise Refusal("invalidQuery", f"Column not found: {name}")
        self._unclustered(table, name)
        there = self._index(table, new)
        if there is not None and there != index:
            raise Refusal("invalidQuery", f"Column already exists: {new}")
        check_columns([{"name": new}])
        self._cursor.execute(f"ALTER TABLE {table.physical} RENAME COLUMN {quoted(name)} TO {quoted(new)}")
        table.fields[index] = table.fields[index] | {"name": new}

    def _retype(self, table: Table, action: exp.AlterColumn) -> None:
        name = action.this.name
        index = self._index(table, name)
        if index is None:
            raise Refusal("invalidQuery", f"Column not found: {name}")
        self._unclustered(table, name)
        old = table.fields[index]
        new = shown_field(field_of(exp.ColumnDef(this=exp.to_identifier(name), kind=action.args["dtype"])))
        if not _widens(old, new):
            raise Refusal("invalidQuery", f"The existing column type {old} is not assignable to the new type {new}")
        self._cursor.execute(f"ALTER TABLE {table.physical} ALTER COLUMN {quoted(name)} SET DATA TYPE {duck_type(new)}")
        table.fields[index] = new | {"name": old["name"]}

    def _index(self, table: Table, name: str) -> int | None:
        return next((number for number, one in enumerate(table.fields) if one["name"].lower() == name.lower()), None)

    def _unclustered(self, table: Table, name: str) -> None:
        if name.lower() in (one.lower() for one in table.clustering):
            raise Refusal("invalidQuery", f"Column {name} is a clustering column and cannot be changed")


def _widens(old: dict[str, Any], new: dict[str, Any]) -> bool:
    if (old["type"], new["type"]) in WIDER:
        return True
    if old["type"] != new["type"]:
        return False
    if not new.get("precision"):
        return True
    digits = [int(one.get("precision") or 0) for one in (old, new)]
    after = [int(one.get("scale") or 0) for one in (old, new)]
    check_digits(new["type"], digits[1], after[1])
    return after[0] <= after[1] and digits[0] - after[0] <= digits[1] - after[1]
