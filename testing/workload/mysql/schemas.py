"""Random tables of MySQL and MariaDB."""

from __future__ import annotations

from dataclasses import dataclass, replace

from testing.workload import kinds as kinds_of_all
from testing.workload import schemas
from testing.workload.keys import KeyModel
from testing.workload.mysql import kinds
from testing.workload.mysql.keys import numbered
from testing.workload.mysql.kind_choice import any_kind
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.mysql.rng_literals import names, numbers, quoted
from testing.workload.rng_literals import spells
from testing.workload.schemas import ColumnModel, Statements

UUID_LENGTH = 36
BOUNDS = (40, 200, 1000, 100_000)
DEFAULT_CHARSETS = ("utf8mb4", "utf8mb4", "utf8mb4", "latin1", "cp1251", "utf16", "sjis")


@dataclass(frozen=True, slots=True)
class TableModel(schemas.TableModel):
    """`bounds`: of its partitions by range."""

    @staticmethod
    def quoted(name: str) -> str:
        return quoted(name)

    @staticmethod
    def numbered(style: str, number: str, kind: kinds_of_all.ValueKind) -> str:
        return numbered(style, number, kind)

    @staticmethod
    def digest(expression: str) -> str:
        return f"CRC32(CONCAT({expression}))"

    def created(self) -> Statements:
        lines = [f"{quoted(column.name)} {column.declared()}" for column in self.columns]
        if self.key.columns:
            lines.append(f"{self.key.declared} ({self._key_parts()})")
        lines += self.constraints
        body = ",\n  ".join(lines)
        return (f"CREATE TABLE {quoted(self.name)} (\n  {body}\n){self.options}{self.partitions}",)

    def _key_parts(self) -> str:
        longs = {column.name for column in self.columns if column.kind.name in kinds.LONG_TEXTS}
        return ", ".join(quoted(name) + ("(20)" if name in longs else "") for name in self.key.columns)


class SchemaMaker(schemas.SchemaMaker):
    """Draws tables of either."""

    def kind(self) -> MySQLKind:
        return any_kind(self.pen, self.dialect, zero=self.zero)

    def column(self) -> ColumnModel:
        pen, kind = self.pen, self.kind()
        name, nullable = self.name("c", odd=0.2), pen.chance(0.75)
        default, extra = self._default(kind)
        comment = "'a comment; it''s `é`'" if pen.chance(0.05) and spells(pen.charset, "é") else ""
        invisible = self.dialect == "mariadb" and (nullable or bool(default)) and pen.chance(0.06)
        return ColumnModel(name, kind, nullable, default, extra=extra, comment=comment, invisible=invisible)

    def _default(self, kind: MySQLKind) -> tuple[str, str]:
        """DEFAULT and ON UPDATE, each often empty."""
        pen = self.pen
        if kind.name in ("timestamp", "datetime") and pen.chance(0.25):
            now = f"CURRENT_TIMESTAMP({kind.size})" if kind.size else "CURRENT_TIMESTAMP"
            return now, f"ON UPDATE {now}" if pen.chance(0.5) else ""
        if (
            kind.name in ("char", "varchar")
            and (kind.size or 0) > UUID_LENGTH
            and self.dialect == "mariadb"
            and pen.chance(0.4)
        ):
            return "(UUID())", ""  # an added column is filled with values that the log does not show
        return (self.default(kind) if kind.has_default and pen.chance(0.35) else ""), ""

    def default(self, kind: kinds_of_all.ValueKind) -> str:
        """A literal that both servers take."""
        drawn = (kind.value(self.pen) for _ in range(5))
        return next((value for value in drawn if not value.startswith(("_", "ST_", "FROM_"))), "")

    def generated(self, columns: tuple[ColumnModel, ...]) -> ColumnModel | None:
        pen = self.pen
        names = (*kinds.INTEGERS, "varchar", "datetime")
        bases = [c for c in columns if c.kind.name in names and c.extra != "AUTO_INCREMENT" and not c.generated]
        if not bases:
            return None
        base, stored = pen.choice(bases), pen.choice(("STORED", "VIRTUAL", "VIRTUAL"))
        if base.kind.name == "varchar":
            kind, expression = MySQLKind("int"), f"CHAR_LENGTH({quoted(base.name)})"
        elif base.kind.name == "datetime":
            kind, expression = MySQLKind("date"), f"CAST({quoted(base.name)} AS DATE)"
        else:
            kind, expression = MySQLKind("decimal", 30, 1), f"{quoted(base.name)} * 1.5"
        return ColumnModel(self.name("g"), kind, generated=f"AS ({expression}) {stored}")

    def _signed_around_a_year(self) -> list[ColumnModel]:
        """Servers differ in what the log says of YEAR, and so in where the signs of the columns behind it stand."""
        integers = [
            MySQLKind(self.pen.choice(list(kinds.INTEGERS)), unsigned=unsigned) for unsigned in (True, True, False)
        ]
        found = [ColumnModel(self.name("n"), kind) for kind in (integers[0], MySQLKind("year"), *integers[1:])]
        return (
            found
            if self.pen.chance(0.7)
            else [*found, *(ColumnModel(self.name("n"), MySQLKind("int")) for _ in range(5))]
        )

    def model(self, name: str, columns: tuple[ColumnModel, ...], key: KeyModel) -> TableModel:
        return TableModel(name, columns, key)

    def numbers(self, count: int) -> str:
        return numbers(count, self.pen, self.dialect)

    def table(self, key: KeyModel, key_columns: tuple[ColumnModel, ...], *, most: int = 8) -> TableModel:
        pen = self.pen
        columns = [*key_columns, *(self.column() for _ in range(pen.randint(2, most)))]
        if not key.columns:  # something to find rows by, and rows that are equal
            columns = [ColumnModel(self.name("v"), MySQLKind("int"), number="few"), *columns[: pen.randint(1, 4)]]
        if pen.chance(0.2):
            columns += self._signed_around_a_year()
        if pen.chance(0.3):
            pen.shuffle(columns)
        if pen.chance(0.25) and (generated := self.generated(tuple(columns))) is not None:
            columns.insert(pen.randint(0, len(columns)), generated)
        charset = pen.choice(DEFAULT_CHARSETS)
        options = pen.choice(
            ("", f" DEFAULT CHARACTER SET {charset}", " ROW_FORMAT=DYNAMIC", " COMMENT='a table; it''s'")
        )
        unique = () if pen.chance(0.85) else (ColumnModel(self.name("u"), MySQLKind("int"), unique=True),)
        table = TableModel(self.name("t", odd=0.4), (*columns, *unique), key, options)
        if unique:
            return table
        by_range = any(column.number == "plain" for column in key_columns)
        return self.partitioned(table) if pen.chance(0.5 if by_range else 0.2) else table

    def partitioned(self, table: TableModel, *, ranged: bool = True) -> TableModel:
        """By ranges or a hash of the key, where the servers allow it."""
        columns = [table.column(name) for name in table.key.columns]
        kinds_used = {column.kind.name for column in table.columns}
        if not columns or kinds_used & set(kinds.GEOMETRIES) or {c.kind.name for c in columns} & set(kinds.LONG_TEXTS):
            return table
        integers = [column.name for column in columns if column.number == "plain" and "int" in column.kind.name]
        if ranged and integers and self.pen.chance(0.7):
            parts = ", ".join(f"PARTITION p{bound} VALUES LESS THAN ({bound})" for bound in BOUNDS)
            clause = f" PARTITION BY RANGE ({quoted(integers[0])}) ({parts})"
            return replace(table, partitions=clause, bounds=BOUNDS)
        return replace(table, partitions=f" PARTITION BY KEY ({names(table.key.columns)}) PARTITIONS 3")
