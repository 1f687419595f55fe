"""Random tables of SQL Server."""

from __future__ import annotations

from dataclasses import dataclass

from testing.workload import kinds as kinds_of_all
from testing.workload import schemas
from testing.workload.keys import KeyModel
from testing.workload.rng_literals import Pen
from testing.workload.schemas import ColumnModel, Statements
from testing.workload.sqlserver.keys import numbered
from testing.workload.sqlserver.kinds import MAX, SqlServerKind, any_kind
from testing.workload.sqlserver.spelling import quoted

ODD_NAMES = (
    "order", "select", "Table", "group", "a b", "dot.ted", 'quote"d', "quo'te", "back`tick", "per%s", "semi;colon",
    "--dash", "/*x*/", "MixedCase", "1st", "$dollar",
    "slash/ed", "back\\slash", "com,ma", "(paren", "a=b", "user", "values", "x" * 30, "ünïcode", "größe", "имя", "表",
    "名前", "brack]et", "[open",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableModel(schemas.TableModel):
    """A table of the session's default schema."""

    @staticmethod
    def quoted(name: str) -> str:
        return quoted(name)

    @staticmethod
    def numbered(style: str, number: str, kind: kinds_of_all.ValueKind) -> str:
        return numbered(style, number, kind)

    @staticmethod
    def digest(expression: str) -> str:
        return f"ABS(CHECKSUM({expression}) % 1000)"

    def found(self, number: str) -> str:
        condition = super(TableModel, self).found(number)
        return "1 = 1" if condition == "TRUE" else condition

    def created(self) -> Statements:
        lines = [f"{quoted(column.name)} {declared(column)}" for column in self.columns]
        if self.key.columns:
            lines.append(f"{self.key.declared} ({self.names(self.key.columns)})")
        lines += self.constraints
        body = ",\n  ".join(lines)
        return (f"CREATE TABLE {self.sql} (\n  {body}\n)",)


def declared(column: ColumnModel) -> str:
    """A column's definition, after the name."""
    if column.generated:
        return column.generated
    words = [column.kind.declared(), "NULL" if column.nullable else "NOT NULL"]
    if column.default:
        words.append(f"DEFAULT {column.default}")
    return " ".join(words)


class SchemaMaker(schemas.SchemaMaker):
    """Draws tables."""

    odd_names = ODD_NAMES

    def __init__(self, pen: Pen, *, zero: bool = False) -> None:
        super().__init__(pen, "sqlserver", zero=zero)

    def kind(self) -> SqlServerKind:
        return any_kind(self.pen)

    def column(self) -> ColumnModel:
        pen, kind = self.pen, self.kind()
        default = self.default(kind) if kind.has_default and pen.chance(0.3) else ""
        return ColumnModel(self.name("c", odd=0.2), kind, pen.chance(0.75), default)

    def default(self, kind: kinds_of_all.ValueKind) -> str:
        return f"({kind.value(self.pen)})"

    def generated(self, columns: tuple[ColumnModel, ...]) -> ColumnModel | None:
        pen = self.pen
        bases = [c for c in columns if c.kind.name in ("int", "smallint") and not c.generated]
        if not bases:
            return None
        base = quoted(pen.choice(bases).name)
        return ColumnModel(
            self.name("g", odd=0.2),
            SqlServerKind("bigint"),
            generated=f"AS (CAST({base} AS bigint) + 7){pen.choice(('', ' PERSISTED'))}",
        )

    def model(self, name: str, columns: tuple[ColumnModel, ...], key: KeyModel) -> TableModel:
        return TableModel(name, columns, key)

    def numbers(self, count: int) -> str:
        return f"(SELECT value AS n FROM GENERATE_SERIES(0, {count - 1})) AS numbers"

    def table(self, key: KeyModel, key_columns: tuple[ColumnModel, ...], *, most: int = 8) -> TableModel:
        pen = self.pen
        columns = [*key_columns, *(self.column() for _ in range(pen.randint(2, most)))]
        if pen.chance(0.15) and (made := self.generated(tuple(columns))):
            columns.append(made)
        pen.shuffle(columns)
        return self.model(self.name("t", odd=0.3), tuple(columns), key)


def changeable(column: ColumnModel) -> bool:
    """May ALTER COLUMN and DROP COLUMN be said of it?  A default is a constraint, which has to go first."""
    return column.plain and not column.default


__all__ = ["MAX", "SchemaMaker", "TableModel", "changeable", "declared"]
