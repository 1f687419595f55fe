"""Random tables: what the generator knows of a table while it writes statements for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replicator.testing import kinds
from replicator.testing.keys import KeyModel, numbered
from replicator.testing.kind_choice import any_kind
from replicator.testing.kinds import Kind
from replicator.testing.literals import Pen, names, quoted, spells

ODD_NAMES = (
    "order", "select", "Table", "group", "a b", "dot.ted", "back`tick", "quo'te", 'dou"ble', "per%s", "semi;colon", "--dash",
    "/*x*/", "#hash", "MixedCase", "1st", "$dollar", "{brace}", "slash/ed", "back\\slash", "com,ma", "(paren", "a=b", "key",
    "values", "x" * 64, "ünïcode", "größe", "имя", "表", "名前", " leading",
)  # fmt: skip
UUID_LENGTH = 36
BOUNDS = (40, 200, 1000, 100_000)
DEFAULT_CHARSETS = ("utf8mb4", "utf8mb4", "utf8mb4", "latin1", "cp1251", "utf16", "sjis")


@dataclass(frozen=True, slots=True)
class ColumnModel:
    """`number`: how the n-th row's value is computed, for key columns; `generated`: the expression of a generated column."""

    name: str
    kind: Kind
    nullable: bool = True
    default: str = ""
    generated: str = ""
    number: str = ""
    extra: str = ""
    comment: str = ""
    invisible: bool = False
    unique: bool = False

    @property
    def writable(self) -> bool:
        return not self.generated

    @property
    def plain(self) -> bool:
        """Neither key nor generated: may be changed at will."""
        return not self.generated and not self.number

    def declared(self) -> str:
        """As it stands in CREATE TABLE, after the name."""
        words = [self.kind.declared()]
        if self.generated:
            words.append(self.generated)
        elif not self.nullable:
            words.append("NOT NULL")
        elif self.kind.name == "timestamp":
            words.append("NULL")
        if self.default:
            words.append(f"DEFAULT {self.default}")
        if self.extra:
            words.append(self.extra)
        if self.invisible:
            words.append("INVISIBLE")
        if self.unique:
            words.append("UNIQUE")
        if self.comment:
            words.append(f"COMMENT {self.comment}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class TableModel:
    """`top`: the number of the highest row that was ever put in.  `fixed`: leave its shape as it is."""

    name: str
    columns: tuple[ColumnModel, ...]
    key: KeyModel
    options: str = ""
    partitions: str = ""
    bounds: tuple[int, ...] = ()
    indexes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    top: int = 0
    fixed: bool = False
    refused: bool = False

    @property
    def sql(self) -> str:
        return quoted(self.name)

    @property
    def plain(self) -> tuple[ColumnModel, ...]:
        return tuple(column for column in self.columns if column.plain)

    @property
    def writable(self) -> tuple[ColumnModel, ...]:
        return tuple(column for column in self.columns if column.writable)

    def column(self, name: str) -> ColumnModel:
        """Raises StopIteration for a name that is not there."""
        return next(column for column in self.columns if column.name == name)

    def with_column(self, name: str, changed: ColumnModel) -> TableModel:
        """`changed` in the place of `name`; the key follows a new name."""
        key = replace(self.key, columns=tuple(changed.name if key == name else key for key in self.key.columns))
        columns = tuple(changed if column.name == name else column for column in self.columns)
        return replace(self, columns=columns, key=key)

    def created(self, name: str = "") -> str:
        """CREATE TABLE."""
        lines = [f"{quoted(column.name)} {column.declared()}" for column in self.columns]
        if self.key.columns:
            lines.append(f"{self.key.declared} ({self._key_parts()})")
        lines += self.constraints
        body = ",\n  ".join(lines)
        return f"CREATE TABLE {quoted(name or self.name)} (\n  {body}\n){self.options}{self.partitions}"

    def _key_parts(self) -> str:
        longs = {column.name for column in self.columns if column.kind.name in kinds.LONG_TEXTS}
        return ", ".join(quoted(name) + ("(20)" if name in longs else "") for name in self.key.columns)

    def found(self, number: str) -> str:
        """A condition that is true for row `number` (an SQL expression); only for a table with numbered columns."""
        conditions = [f"{quoted(c.name)} = {numbered(c.number, number, c.kind)}" for c in self.columns if c.number]
        return " AND ".join(conditions) or "TRUE"


class SchemaMaker:
    """Draws tables.  `zero`: zero dates may occur."""

    def __init__(self, pen: Pen, dialect: str, *, zero: bool = False) -> None:
        self.pen, self.dialect, self.zero = pen, dialect, zero
        self._taken: set[str] = set()
        self._last = 0

    def name(self, stem: str, *, odd: float = 0.35) -> str:
        """A name that no two tables or columns of the history share, whatever the case."""
        if self.pen.chance(odd):
            name = self.pen.choice(ODD_NAMES)
            if spells(self.pen.charset, name.replace("\\", "")):
                return name if self._claim(name) else self._numbered(name[:60])
        return self._numbered(stem)

    def _numbered(self, stem: str) -> str:
        while not self._claim(f"{stem}{self._last}"):
            self._last += 1
        return f"{stem}{self._last}"

    def _claim(self, name: str) -> bool:
        if name.lower() in self._taken:
            return False
        self._taken.add(name.lower())
        return True

    def kind(self) -> Kind:
        """Any type of the dialect."""
        return any_kind(self.pen, self.dialect, zero=self.zero)

    def column(self) -> ColumnModel:
        """A column that is no part of the key."""
        pen, kind = self.pen, self.kind()
        name, nullable = self.name("c", odd=0.2), pen.chance(0.75)
        default, extra = self._default(kind)
        comment = "'a comment; it''s `é`'" if pen.chance(0.05) and spells(pen.charset, "é") else ""
        invisible = self.dialect == "mariadb" and (nullable or bool(default)) and pen.chance(0.06)
        return ColumnModel(name, kind, nullable, default, extra=extra, comment=comment, invisible=invisible)

    def _default(self, kind: Kind) -> tuple[str, str]:
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

    def default(self, kind: Kind) -> str:
        """A literal that both servers take as DEFAULT; empty if none was found."""
        drawn = (kind.value(self.pen) for _ in range(5))
        return next((value for value in drawn if not value.startswith(("_", "ST_", "FROM_"))), "")

    def generated(self, columns: tuple[ColumnModel, ...]) -> ColumnModel | None:
        """A generated column over one of these, or None if none will do."""
        pen = self.pen
        names = (*kinds.INTEGERS, "varchar", "datetime")
        bases = [c for c in columns if c.kind.name in names and c.extra != "AUTO_INCREMENT" and not c.generated]
        if not bases:
            return None
        base, stored = pen.choice(bases), pen.choice(("STORED", "VIRTUAL", "VIRTUAL"))
        if base.kind.name == "varchar":
            kind, expression = Kind("int"), f"CHAR_LENGTH({quoted(base.name)})"
        elif base.kind.name == "datetime":
            kind, expression = Kind("date"), f"CAST({quoted(base.name)} AS DATE)"
        else:
            kind, expression = Kind("decimal", 30, 1), f"{quoted(base.name)} * 1.5"
        return ColumnModel(self.name("g"), kind, generated=f"AS ({expression}) {stored}")

    def table(self, key: KeyModel, key_columns: tuple[ColumnModel, ...], *, most: int = 8) -> TableModel:
        """A table with this key, columns in any order, options, and partitions now and then."""
        pen = self.pen
        columns = [*key_columns, *(self.column() for _ in range(pen.randint(2, most)))]
        if not key.columns:  # something to find rows by, and rows that are equal
            columns = [ColumnModel(self.name("v"), Kind("int"), number="few"), *columns[: pen.randint(1, 4)]]
        if pen.chance(0.3):
            pen.shuffle(columns)
        if pen.chance(0.25) and (generated := self.generated(tuple(columns))) is not None:
            columns.insert(pen.randint(0, len(columns)), generated)
        charset = pen.choice(DEFAULT_CHARSETS)
        options = pen.choice(
            ("", f" DEFAULT CHARACTER SET {charset}", " ROW_FORMAT=DYNAMIC", " COMMENT='a table; it''s'")
        )
        unique = () if pen.chance(0.85) else (ColumnModel(self.name("u"), Kind("int"), unique=True),)
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
