"""A table's columns, constraints and log groups, as CREATE TABLE and ALTER TABLE write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from testing.servers.oracle.engine.catalog import Column, Constraint, Index, LogGroup, Table
from testing.servers.oracle.engine.ddl.definition import Definition
from testing.servers.oracle.engine.ddl.types import kind_of
from testing.servers.oracle.engine.ddl.words import Words
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import LOBS, LONGS, Kind
from testing.servers.oracle.engine.log.changes import created, fitted, triggers
from testing.servers.oracle.engine.sql.dialect import parsed
from testing.servers.oracle.engine.sql.expressions import Relation, Scope

CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
GROUPS = {"ALL": "ALL COLUMN LOGGING", "PRIMARY KEY": "PRIMARY KEY LOGGING", "UNIQUE": "UNIQUE KEY LOGGING",
          "FOREIGN KEY": "FOREIGN KEY LOGGING"}  # fmt: skip
STATES = ("ENABLE", "DISABLE", "VALIDATE", "NOVALIDATE", "NOT DEFERRABLE", "DEFERRABLE", "RELY")
NO_KEY = (*LOBS, *LONGS, "TIMESTAMP WITH TIME ZONE", "XMLTYPE")
TO_TEXT = "VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR"


class Columns:
    """Of one table that is made or altered.  What is to be done in Postgres is gathered, and done by `create` or at the
    end of `alter`.
    """

    def __init__(self, definition: Definition, table: Table) -> None:
        self._all, self.table = definition, table
        self._words, self._catalog = definition.words, definition.catalog
        self._waiting: list[str] = []
        self._making = not table.columns

    def change(self, **changes: Any) -> None:
        self.table = replace(self.table, **changes)

    # CREATE TABLE

    def definition(self) -> None:
        """What stands in the parentheses."""
        words = self._words
        words.need("(")
        while True:
            if words.peek() in CONSTRAINTS:
                self._table_constraint()
            elif words.take("SUPPLEMENTAL", "LOG"):
                self._add_log_group()
            else:
                self._column()
            if not words.take(","):
                break
        words.need(")")

    def of_query(self, tree: exp.Expr) -> Table:
        raise unsupported(f"CREATE TABLE AS SELECT: {tree.sql('oracle')[:60]}")

    def create(self) -> None:
        for statement in (*created(self.table), *self._waiting):
            self._all.behind.execute(statement)

    def _column(self) -> Column:
        words = self._words
        name = words.name()
        if self.table.find(name):
            raise OracleError(957 if self._making else 1430)
        kind = kind_of(words, self._catalog.types, self._all.session.schema)
        at = self.table.last_column + 1
        self.change(columns=(*self.table.columns, Column(at, name, kind)), last_column=at)
        self._column_options(name)
        return self.table.column(name)

    def _put(self, old: str, **changes: Any) -> Column:
        made = replace(self.table.column(old), **changes)
        self.change(columns=tuple(made if one.name == old else one for one in self.table.columns))
        return made

    def _column_options(self, name: str) -> None:
        """DEFAULT and inline constraints."""
        words = self._words
        while words.peek() not in (",", ")", ""):
            column = self.table.column(name)
            if words.take("DEFAULT"):
                words.take("ON", "NULL")
                text = words.until(
                    ",", "NOT", "NULL", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "ENABLE"
                )
                text = text or words.until(",") or "NULL"
                if text == "NULL" and words.peek() == "NULL":
                    words.at += 1
                self._put(name, default=text)
                self._later(f"ALTER COLUMN c{column.id} SET DEFAULT {self._constant(text, column.kind)}")
                continue
            given = words.name() if words.take("CONSTRAINT") else ""
            if words.take("NOT", "NULL"):
                self._put(name, nullable=False)
                self._constraint(given, "C", (column.id,), condition=f'"{name}" IS NOT NULL', physical="")
                self._later(f"ALTER COLUMN c{column.id} SET NOT NULL")
            elif words.take("NULL"):
                self._nullable(column)
            elif words.take("PRIMARY", "KEY"):
                self._key(given, "P", (column.id,))
            elif words.take("UNIQUE"):
                self._key(given, "U", (column.id,))
            elif words.take("CHECK"):
                self._check(given)
            elif words.take("REFERENCES"):
                self._reference(given, (column.id,))
            elif words.take("INVISIBLE") or words.take("VISIBLE"):
                self._put(name, hidden=words.peek(-1) == "INVISIBLE")
            elif words.peek() in STATES:
                words.at += 1
            else:
                raise unsupported(f"{words.peek()} of a column")

    def _later(self, clause: str) -> None:
        self._waiting.append(f"ALTER TABLE {self.table.rows} {clause}")

    def _nullable(self, column: Column) -> None:
        if not column.nullable:
            key = self.table.key
            if key and column.id in key.columns:
                raise OracleError(1451)
            self._put(column.name, nullable=True)
            gone = f'"{column.name}" IS NOT NULL'
            self.change(constraints=tuple(one for one in self.table.constraints if one.condition != gone))
            self._later(f"ALTER COLUMN c{column.id} DROP NOT NULL")

    def _constant(self, text: str, kind: Kind) -> str:
        tree, _ = parsed(f"SELECT {text} FROM dual")
        return fitted(self._all.queries().expressions.assigned(tree.expressions[0], Scope(), kind), kind)

    # Constraints

    def _table_constraint(self) -> None:
        words = self._words
        given = words.name() if words.take("CONSTRAINT") else ""
        if words.take("PRIMARY", "KEY"):
            self._key(given, "P", self._ids(words.names()))
        elif words.take("UNIQUE"):
            self._key(given, "U", self._ids(words.names()))
        elif words.take("FOREIGN", "KEY"):
            ids = self._ids(words.names())
            words.need("REFERENCES")
            self._reference(given, ids)
        elif words.take("CHECK"):
            self._check(given)
        else:
            raise OracleError(922)
        while words.peek() in STATES or words.peek() == "USING":
            words.at += 1
            words.take("INDEX")

    def _ids(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.table.column(one).id for one in names)

    def _constraint(
        self, given: str, kind: str, ids: tuple[int, ...], physical: str | None = None, **more: Any
    ) -> Constraint:
        number = self._catalog.number()
        name = given or f"SYS_C{number:07}"
        if any(one.name == name for table, one in self._catalog.constraints() if table.owner == self.table.owner):
            raise OracleError(2264)
        made = Constraint(name, kind, ids, f"k{number}" if physical is None else physical, not given, **more)
        self.change(constraints=(*self.table.constraints, made))
        return made

    def _key(self, given: str, kind: str, ids: tuple[int, ...]) -> None:
        if kind == "P" and self.table.key:
            raise OracleError(2260)
        if any(one.kind in "PU" and one.columns == ids for one in self.table.constraints):
            raise OracleError(2261)
        columns = self.table.named(ids)
        if any(one.kind.name in NO_KEY for one in columns):
            raise OracleError(2329)
        made = self._constraint(given, kind, ids)
        word = "PRIMARY KEY" if kind == "P" else "UNIQUE"
        self._later(f"ADD CONSTRAINT {made.physical} {word} ({', '.join(f'c{one}' for one in ids)})")
        if kind == "P":
            for one in columns:
                self._put(one.name, nullable=False)
        if not any(one.columns == ids for one in self.table.indexes):
            self.change(indexes=(*self.table.indexes, Index(made.name, ids, "", unique=True)))

    def _check(self, given: str) -> None:
        text = self._words.in_parentheses()
        table = self.table
        tree, _ = parsed(f"SELECT 1 FROM dual WHERE {text}")
        columns = {one.name: (f"c{one.id}", one.kind) for one in table.columns}
        scope = Scope([Relation(f"t{table.obj}", table.name, columns)])
        condition = self._all.queries().expressions.condition(tree.args["where"].this, scope)
        made = self._constraint(given, "C", (), condition=text)
        self._later(f"ADD CONSTRAINT {made.physical} CHECK ({condition})".replace(f"t{table.obj}.c", "c"))

    def _reference(self, given: str, ids: tuple[int, ...]) -> None:
        words = self._words
        owner, name = words.qualified(self._all.session.schema)
        parent = (
            self.table if (owner, name) == (self.table.owner, self.table.name) else self._catalog.table(owner, name)
        )
        target = parent.key.columns if parent.key else ()
        if words.peek() == "(":
            target = tuple(parent.column(one).id for one in words.names())
        key = next((one for one in parent.constraints if one.kind in "PU" and one.columns == target), None)
        if key is None:
            raise OracleError(2270)
        rule = "NO ACTION"
        if words.take("ON", "DELETE"):
            rule = "CASCADE" if words.take("CASCADE") else "SET NULL"
            if rule == "SET NULL":
                words.need("SET", "NULL")
        made = self._constraint(given, "R", ids, target=(parent.owner, key.name), delete_rule=rule)
        own, theirs = (", ".join(f"c{one}" for one in columns) for columns in (ids, target))
        self._later(
            f"ADD CONSTRAINT {made.physical} FOREIGN KEY ({own}) REFERENCES {parent.rows} ({theirs}) ON DELETE {rule}"
        )

    def drop_constraint(self, one: Constraint) -> None:
        if one.kind in "PU" and any(
            other.kind == "R" and other.target == (self.table.owner, one.name)
            for _, other in self._catalog.constraints()
        ):
            raise OracleError(2273)
        rest = tuple(other for other in self.table.constraints if other != one)
        indexes = tuple(index for index in self.table.indexes if index.name != one.name)
        self.change(constraints=rest, indexes=indexes)
        if one.physical:
            self._all.behind.execute(f"ALTER TABLE {self.table.rows} DROP CONSTRAINT {one.physical}")
        if one.kind == "P":
            for column in self.table.named(one.columns):
                named = f'"{column.name}" IS NOT NULL'
                if not any(other.condition == named for other in rest):
                    self._put(column.name, nullable=True)
                    self._all.behind.execute(f"ALTER TABLE {self.table.rows} ALTER COLUMN c{column.id} DROP NOT NULL")
        elif one.condition.endswith("IS NOT NULL") and not one.physical:
            self._nullable(self.table.named(one.columns)[0])
        self._catalog.put(self._catalog.table(self.table.owner, self.table.name), **vars(self.table))

    # Supplemental logging

    def _add_log_group(self) -> None:
        words = self._words
        if words.take("DATA"):
            for kind in log_kinds(words):
                if not any(one.kind == kind for one in self.table.log_groups):
                    name = f"SYS_C{self._catalog.number():07}"
                    self.change(log_groups=(*self.table.log_groups, LogGroup(name, kind)))
            return
        words.need("GROUP")
        name = words.name()
        if any(one.name == name for one in self.table.log_groups):
            raise OracleError(32588, name)
        ids = self._ids(words.names())
        made = LogGroup(name, "USER LOG GROUP", ids, always=words.take("ALWAYS"))
        self.change(log_groups=(*self.table.log_groups, made))

    def _drop_log_group(self) -> None:
        words = self._words
        if words.take("DATA"):
            kinds = log_kinds(words)
            rest = tuple(one for one in self.table.log_groups if one.kind not in kinds)
        else:
            words.need("GROUP")
            name = words.name()
            rest = tuple(one for one in self.table.log_groups if one.name != name)
        if len(rest) == len(self.table.log_groups):
            raise OracleError(32587)
        self.change(log_groups=rest)

    # ALTER TABLE

    def alter(self) -> None:
        old = self.table
        while not self._words.ended:
            self._clause()
        if self._all.catalog.tables.get((old.owner, old.name)) is None:
            return  # it was renamed
        layout = [(one.id, one.name, one.kind) for one in self.table.columns]
        if layout != [(one.id, one.name, one.kind) for one in old.columns]:
            self.change(version=old.version + 1)
        self._all.changed = self._catalog.put(old, **vars(self.table))
        for statement in self._waiting:
            self._all.behind.execute(statement)
        if layout != [(one.id, one.name, one.kind) for one in old.columns]:
            for statement in triggers(self.table):
                self._all.behind.execute(statement)

    def _clause(self) -> None:
        words = self._words
        if words.take("ADD"):
            self._add()
        elif words.take("MODIFY"):
            self._several(self._modify)
        elif words.take("DROP"):
            self._drop()
        elif words.take("RENAME", "TO"):
            self._all.rename(self.table, words.name())
        elif words.take("RENAME", "COLUMN"):
            old = words.name()
            words.need("TO")
            new = words.name()
            if self.table.find(new):
                raise OracleError(957)
            self._put(old, name=new)
        elif words.take("SET", "UNUSED"):
            words.take("COLUMN")
            for name in words.names() if words.peek() == "(" else [words.name()]:
                self._drop_column(name)
        elif words.take("ENABLE", "ROW", "MOVEMENT") or words.take("DISABLE", "ROW", "MOVEMENT") or words.take("CACHE"):
            return
        else:
            raise unsupported(f"ALTER TABLE … {words.peek()}")

    def _several(self, one: Any) -> None:
        """In parentheses, or a single one without."""
        if not self._words.take("("):
            one()
            return
        one()
        while self._words.take(","):
            one()
        self._words.need(")")

    def _add(self) -> None:
        words = self._words
        if words.take("SUPPLEMENTAL", "LOG"):
            self._add_log_group()
        elif words.peek() in CONSTRAINTS:
            self._table_constraint()
        else:
            self._several(self._add_column)

    def _add_column(self) -> None:
        if self._words.peek() in CONSTRAINTS:
            self._table_constraint()
            return
        at = len(self._waiting)
        column = self._column()
        for place, name in enumerate((self.table.rows, self.table.history)):
            default = ""
            if column.default is not None:
                default = f" DEFAULT {self._constant(column.default, column.kind)}"
            statement = f"ALTER TABLE {name} ADD COLUMN c{column.id} {column.kind.postgres}{default}"
            self._waiting.insert(at + place, statement)

    def _modify(self) -> None:
        words = self._words
        name = words.name()
        column = self.table.column(name)
        if words.peek() not in ("NOT", "NULL", "DEFAULT", "CONSTRAINT", "INVISIBLE", "VISIBLE", ",", ")", ""):
            kind = kind_of(words, self._catalog.types, self._all.session.schema)
            self._retype(column, kind)
        self._column_options(name)

    def _retype(self, column: Column, kind: Kind) -> None:
        old = column.kind
        rows = self._all.behind.execute(f"SELECT count(c{column.id}) FROM {self.table.rows}").fetchone()
        filled = bool(rows and rows[0])
        if kind.name != old.name:
            if (
                filled
                and not {kind.name, old.name} <= {"VARCHAR2", "CHAR"}
                and (old.name, kind.name) != ("DATE", "TIMESTAMP")
            ):
                raise OracleError(1439)
            if (old.name, kind.name) == ("DATE", "TIMESTAMP"):
                raise unsupported("DATE to TIMESTAMP")
            for name in (self.table.rows, self.table.history):
                using = f"c{column.id}::text::{kind.postgres}"
                self._waiting.append(f"ALTER TABLE {name} ALTER COLUMN c{column.id} TYPE {kind.postgres} USING {using}")
        elif kind.name in (*TO_TEXT, "RAW") and kind.length < old.length and filled:
            longest = self._all.behind.execute(
                f"SELECT max(length(c{column.id}::text)) FROM {self.table.rows}"
            ).fetchone()
            if longest and longest[0] > kind.length:
                raise OracleError(1441)
        elif kind.name == "NUMBER" and filled and _narrower(kind, old):
            raise OracleError(1440)
        elif kind.name not in (*TO_TEXT, "RAW", "NUMBER", "FLOAT") and filled and _shorter(kind, old):
            raise OracleError(30082 if kind.name.startswith("TIMESTAMP") else 30088)
        self._put(column.name, kind=kind)

    def _drop(self) -> None:
        words = self._words
        if words.take("SUPPLEMENTAL", "LOG"):
            self._drop_log_group()
        elif words.take("CONSTRAINT"):
            name = words.name()
            found = next((one for one in self.table.constraints if one.name == name), None)
            if found is None:
                raise OracleError(2443)
            words.take("CASCADE")
            self.drop_constraint(found)
        elif words.take("PRIMARY", "KEY"):
            words.take("CASCADE")
            if self.table.key is None:
                raise OracleError(2441)
            self.drop_constraint(self.table.key)
        elif words.take("COLUMN"):
            self._drop_column(words.name())
            words.take("CASCADE", "CONSTRAINTS")
        else:
            for name in words.names():
                self._drop_column(name)

    def _drop_column(self, name: str) -> None:
        column = self.table.column(name)
        if len(self.table.columns) == 1:
            raise OracleError(12983)
        if any(column.id in one.columns and len(one.columns) > 1 for one in self.table.constraints):
            raise OracleError(12991)
        self.change(
            columns=tuple(one for one in self.table.columns if one.name != name),
            constraints=tuple(one for one in self.table.constraints if column.id not in one.columns),
            indexes=tuple(one for one in self.table.indexes if column.id not in one.columns),
            log_groups=tuple(one for one in self.table.log_groups if column.id not in one.columns),
        )
        for one in (self.table.rows, self.table.history):
            self._waiting.append(f"ALTER TABLE {one} DROP COLUMN c{column.id} CASCADE")


def _narrower(kind: Kind, old: Kind) -> bool:
    if kind.precision is None:
        return False
    if old.precision is None:
        return True
    return (kind.scale or 0) < (old.scale or 0) or kind.precision - (kind.scale or 0) < old.precision - (old.scale or 0)


def _shorter(kind: Kind, old: Kind) -> bool:
    return (kind.scale or 0) < (old.scale or 0) or (kind.precision or 0) < (old.precision or 0)


def log_kinds(words: Words) -> list[str]:
    """(ALL, PRIMARY KEY …) COLUMNS."""
    words.need("(")
    found = []
    while True:
        text = words.until(",", ")").upper()
        if text not in GROUPS:
            raise OracleError(922)
        found.append(GROUPS[text])
        if not words.take(","):
            break
    words.need(")")
    words.take("COLUMNS") or words.take("COLUMN")
    return found
