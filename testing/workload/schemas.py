"""Random tables: what the generator knows of a table while it writes statements for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from testing.workload.keys import KeyModel
from testing.workload.kinds import ValueKind
from testing.workload.rng_literals import Pen, spells

Statements = tuple[str, ...]


ODD_NAMES = (
    "order", "select", "Table", "group", "a b", "dot.ted", "back`tick", "quo'te", 'dou"ble', "per%s", "semi;colon",
    "--dash",
    "/*x*/", "#hash", "MixedCase", "1st", "$dollar", "{brace}", "slash/ed", "back\\slash", "com,ma", "(paren", "a=b",
    "key",
    "values", "x" * 64, "ünïcode", "größe", "имя", "表", "名前", " leading",
)  # fmt: skip
MIN_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class ColumnModel:
    """`number`: how the n-th row's value is computed, for key columns; `generated`: the expression of a generated
    column.
    """

    name: str
    kind: ValueKind
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

    @property
    def automatic(self) -> bool:
        """The server numbers it where an INSERT does not."""
        return self.extra.startswith(("AUTO_INCREMENT", "GENERATED"))

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
class TableModel(ABC):
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
        return self.quoted(self.name)

    @property
    def has_parts(self) -> bool:
        """Partitions that have names."""
        return bool(self.bounds)

    @property
    def plain(self) -> tuple[ColumnModel, ...]:
        return tuple(column for column in self.columns if column.plain)

    @property
    def writable(self) -> tuple[ColumnModel, ...]:
        return tuple(column for column in self.columns if column.writable)

    def column(self, name: str) -> ColumnModel:
        """Raises StopIteration for a name that is not there."""
        return next(column for column in self.columns if column.name == name)

    def with_column(self, name: str, changed: ColumnModel) -> Self:
        """`changed` in the place of `name`; the key follows a new name."""
        key = replace(self.key, columns=tuple(changed.name if key == name else key for key in self.key.columns))
        columns = tuple(changed if column.name == name else column for column in self.columns)
        return replace(self, columns=columns, key=key)

    def found(self, number: str) -> str:
        """A condition that is true for row `number` (an SQL expression); only for a table with numbered columns."""
        conditions = [
            f"{self.quoted(c.name)} = {self.numbered(c.number, number, c.kind)}" for c in self.columns if c.number
        ]
        return " AND ".join(conditions) or "TRUE"

    def names(self, items: Sequence[str]) -> str:
        """Identifiers in a list."""
        return ", ".join(self.quoted(item) for item in items)

    # What the columns that stand in expressions allow

    @property
    def expressions(self) -> str:
        """SQL in which the names occur that generated columns, constraints and partitions need."""
        return " ".join((*(column.generated for column in self.columns), *self.constraints, self.partitions))

    @property
    def droppable(self) -> list[ColumnModel]:
        """Columns on which nothing depends."""
        if len(self.plain) <= MIN_COLUMNS:
            return []
        return [column for column in self.columns if not column.number and not self._needed(column)]

    @property
    def free(self) -> list[ColumnModel]:
        """Plain columns on which nothing depends."""
        return [column for column in self.plain if not self._needed(column)]

    @property
    def renamable(self) -> list[ColumnModel]:
        expressions = self.expressions
        return [column for column in self.columns if self.quoted(column.name) not in expressions]

    def _needed(self, column: ColumnModel) -> bool:
        """By a generated column, a constraint or the key."""
        return self.quoted(column.name) in f"{self.expressions} {self.names(self.key.columns)}"

    # What the dialect says

    @property
    def features(self) -> tuple[str, ...]:
        """For counting what occurred, beyond its columns and key."""
        return ()

    @staticmethod
    @abstractmethod
    def quoted(name: str) -> str:
        """An identifier."""

    @staticmethod
    @abstractmethod
    def numbered(style: str, number: str, kind: ValueKind) -> str:
        """Row `number`'s value in a column of this style, as SQL; `number` is an SQL expression."""

    @staticmethod
    @abstractmethod
    def digest(expression: str) -> str:
        """A number that is the same for equal values."""

    @staticmethod
    def remainder(number: str, by: int) -> str:
        """Of a division of whole numbers."""
        return f"{number} % {by}"

    def insertion(self, verb: str, listed: str, rows: Sequence[str]) -> str:
        """A statement that puts in these rows, each in parentheses; `listed`: the columns."""
        return f"{verb} {self.sql} ({listed}) VALUES {', '.join(rows)}"

    @abstractmethod
    def created(self) -> Statements:
        """Statements that make it."""


class SchemaMaker(ABC):
    """Draws tables.  `zero`: invalid dates may occur."""

    odd_names: tuple[str, ...] = ODD_NAMES

    def __init__(self, pen: Pen, dialect: str, *, zero: bool = False) -> None:
        self.pen, self.dialect, self.zero = pen, dialect, zero
        self.taken: set[str] = set()
        self._last = 0

    def name(self, stem: str, *, odd: float = 0.35) -> str:
        """Return a name that no other table or column of the history has, regardless of case."""
        if self.pen.chance(odd):
            name = self.pen.choice(self.odd_names)
            if spells(self.pen.charset, name.replace("\\", "")):
                return name if self._claim(name) else self._numbered(name[:60])
        return self._numbered(stem)

    def _numbered(self, stem: str) -> str:
        while not self._claim(f"{stem}{self._last}"):
            self._last += 1
        return f"{stem}{self._last}"

    def _claim(self, name: str) -> bool:
        if name.lower() in self.taken:
            return False
        self.taken.add(name.lower())
        return True

    @abstractmethod
    def kind(self) -> ValueKind:
        """Any type of the dialect."""

    @abstractmethod
    def column(self) -> ColumnModel:
        """Draw a column outside of the key."""

    @abstractmethod
    def default(self, kind: ValueKind) -> str:
        """A literal for DEFAULT; empty if none was found."""

    @abstractmethod
    def generated(self, columns: tuple[ColumnModel, ...]) -> ColumnModel | None:
        """A generated column over one of these, or None if none will do."""

    @abstractmethod
    def model(self, name: str, columns: tuple[ColumnModel, ...], key: KeyModel) -> TableModel:
        """A table as given."""

    @abstractmethod
    def numbers(self, count: int) -> str:
        """A FROM clause whose column `n` runs from 0 to `count` - 1."""

    @abstractmethod
    def table(self, key: KeyModel, key_columns: tuple[ColumnModel, ...], *, most: int = 8) -> TableModel:
        """A table with this key, columns in any order, options, and partitions now and then."""
