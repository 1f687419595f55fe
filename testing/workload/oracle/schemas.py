"""Random tables of Oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testing.workload import kinds, schemas
from testing.workload.keys import KeyModel
from testing.workload.oracle.keys import numbered
from testing.workload.oracle.kinds import XML, OracleKind, any_but_lobs, any_kind
from testing.workload.schemas import ColumnModel, Statements

# A double quote stands in no name (SQL Language Reference, "Database Object Naming Rules").
ODD_NAMES = (
    "order", "SELECT", "Table", "GROUP", "a b", "dot.ted", "quo'te", "back`tick", "per%s", "semi;colon", "--dash",
    "/*x*/", "#hash", "MixedCase", "1st", "$dollar", "{brace}", "slash/ed", "com,ma", "(paren", "a=b", "USER",
    "values", "x" * 128, "ünïcode", "größe", "имя", "表", "名前", " leading", "trailing ", "ROWID_", "COL 1",
)  # fmt: skip


def quoted(name: str) -> str:
    return f'"{name}"'


def declared(column: ColumnModel) -> str:
    """As in CREATE TABLE, after the name: a default stands before constraints."""
    words = [
        column.kind.declared(),
        "INVISIBLE" if column.invisible else "",
        column.extra,
        "" if column.nullable else "NOT NULL",
        "UNIQUE" if column.unique else "",
    ]
    return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class TableModel(schemas.TableModel):
    """A table.  key_name: of its key's constraint."""

    key_name: str = ""

    @staticmethod
    def quoted(name: str) -> str:
        return quoted(name)

    @staticmethod
    def numbered(style: str, number: str, kind: kinds.ValueKind) -> str:
        return numbered(style, number, kind)

    @staticmethod
    def digest(expression: str) -> str:
        return f"NVL(LENGTH({expression}), 0)"

    @staticmethod
    def remainder(number: str, by: int) -> str:
        return f"MOD({number}, {by})"

    def insertion(self, verb: str, listed: str, rows: Sequence[str]) -> str:
        if len(rows) == 1:
            return f"{verb} {self.sql} ({listed}) VALUES {rows[0]}"
        return f"INSERT ALL {' '.join(f'INTO {self.sql} ({listed}) VALUES {row}' for row in rows)} SELECT * FROM dual"

    def created(self) -> Statements:
        lines = [f"{quoted(column.name)} {declared(column)}" for column in self.columns]
        if self.key.columns:
            name = f"CONSTRAINT {quoted(self.key_name)} " if self.key_name else ""
            lines.append(f"{name}{self.key.declared} ({self.names(self.key.columns)})")
        lines += self.constraints
        body = ",\n  ".join(lines)
        return (f"CREATE TABLE {self.sql} (\n  {body}\n){self.options}",)


class SchemaMaker(schemas.SchemaMaker):
    """Draws tables."""

    odd_names = ODD_NAMES

    def kind(self) -> OracleKind:
        return any_kind(self.pen)

    def column(self, *, keyed: bool = True) -> ColumnModel:
        pen, kind = self.pen, self.kind() if keyed else any_but_lobs(self.pen)
        default = f"DEFAULT {kind.value(pen)}" if kind.has_default and pen.chance(0.25) else ""
        nullable = pen.chance(0.75)
        invisible = (nullable or bool(default)) and pen.chance(0.06)
        return ColumnModel(self.name("c", odd=0.2), kind, nullable, extra=default, invisible=invisible)

    def default(self, kind: kinds.ValueKind) -> str:
        return kind.value(self.pen)

    def generated(self, columns: tuple[ColumnModel, ...]) -> ColumnModel | None:
        del columns
        return None

    def model(self, name: str, columns: tuple[ColumnModel, ...], key: KeyModel) -> TableModel:
        return TableModel(name, columns, key)

    def numbers(self, count: int) -> str:
        return f"(SELECT LEVEL - 1 AS n FROM dual CONNECT BY LEVEL <= {count})"

    def table(self, key: KeyModel, key_columns: tuple[ColumnModel, ...], *, most: int = 8) -> TableModel:
        pen = self.pen
        columns = [*key_columns, *(self.column(keyed=bool(key.columns)) for _ in range(pen.randint(2, most)))]
        if not key.columns:  # something to find rows by, and rows that are equal
            number = ColumnModel(self.name("v"), OracleKind("NUMBER", 9, 0), number="few")
            columns = [number, *columns[: pen.randint(1, 4)]]
        if pen.chance(0.3):
            pen.shuffle(columns)
        if pen.chance(0.15):
            columns.append(ColumnModel(self.name("u"), OracleKind("NUMBER", 9, 0), unique=True))
        options = pen.choice(("", "", "", " PCTFREE 20", " NOLOGGING", " ENABLE ROW MOVEMENT"))
        stored = [
            f" {XML} COLUMN {quoted(column.name)} STORE AS {pen.choice(('CLOB', 'BINARY XML'))}"
            for column in columns
            if column.kind.name == XML
        ]
        options = "".join((*stored, options) if "MOVEMENT" in options else (options, *stored))
        name = self.name("k", odd=0.2) if key.columns and pen.chance(0.5) else ""
        return TableModel(self.name("t", odd=0.4), tuple(columns), key, options, key_name=name)
