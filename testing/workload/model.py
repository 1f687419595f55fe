"""What is known while a history is being written: its tables as they will be, and what has been used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from testing.workload.keys import KeyModel, KeyPart
from testing.workload.kinds import ValueKind
from testing.workload.rng_literals import Pen
from testing.workload.schemas import ColumnModel, SchemaMaker, Statements, TableModel
from testing.workload.workload import AnySession


class Whole(Statements):
    """Statements that make sense in one transaction only; where DDL ends a transaction there are none."""

    __slots__ = ()


class Alone(Statements):
    """Statements that no transaction may hold."""

    __slots__ = ()


class SchemaDraft:
    """`tables` by name; `used` counts operations ("update one") and types ("type bigint unsigned").

    `left`: names of transactions in two phases that are prepared and not decided.
    """

    def __init__(self, pen: Pen, grammar: Grammar, *, zero: bool = False) -> None:
        self.pen, self.grammar, self.dialect = pen, grammar, grammar.dialect
        self.maker = grammar.maker(pen, zero)
        self.tables: dict[str, TableModel] = {}
        self.used: Counter[str] = Counter()
        self.sequences: list[str] = []
        self.left: list[str] = []
        self.unkilled = False  # the server is never killed while the history is played

    def keep(self, table: TableModel, old: str | None = None) -> None:
        """The table is now like this; `old`: its name so far, if another."""
        if old is not None and old != table.name:
            self.tables.pop(old, None)
        self.tables[table.name] = table
        for column in table.columns:
            self.used[f"type {column.kind.label}"] += 1
            if column.invisible:
                self.used["invisible column"] += 1
            if column.generated:
                self.used[f"generated {column.generated.rsplit(' ', 1)[-1].lower()}"] += 1
        self.used[f"key {table.key.style.strip()}"] += 1
        self.used.update(table.features)

    def grown(self, table: TableModel, rows: int) -> int:
        """The number before the first of `rows` new ones."""
        top = table.top
        self.tables[table.name] = replace(table, top=top + rows)
        return top

    def number(self, table: TableModel) -> str:
        """A row that is probably there; the first ones are hot."""
        top = max(1, table.top)
        return str(self.pen.randint(1, min(4, top)) if self.pen.chance(0.25) else self.pen.randint(1, top))

    def key(self) -> tuple[KeyModel, tuple[ColumnModel, ...]]:
        """A key of any style and its columns."""
        style, parts = self.pen.choice(list(self.grammar.styles.items()))
        columns = tuple(
            ColumnModel(self.maker.name("k", odd=0.25), part.kind, False, number=part.number, extra=part.extra)  # noqa: FBT003
            for part in parts
        )
        declared = self.grammar.unique if self.pen.chance(0.2) else "PRIMARY KEY"
        return KeyModel(style, tuple(column.name for column in columns), declared), columns

    def table(self, *, most: int = 8) -> TableModel:
        """A new table; `keep` it when it is made."""
        return self.maker.table(*self.key(), most=most)


Operation = Callable[[SchemaDraft, TableModel], Statements | None]
Operations = Mapping[str, tuple[int, Operation]]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A dialect: its operations in groups, each with its weight, and what it spells differently from other dialects.

    maker        draws tables; its arguments: the pen, and whether invalid dates may occur
    unique       how a table declares a key other than a primary key
    integer, word, wide   a plain integer type; a short text type; the charsets that spell every name, the usual first
    sessions     the writers' sessions; their number is drawn between a minimum and a maximum
    prelude      statements that run before the first table is created
    refused      a table that a replicator must refuse, and its rows
    prepared     statements as a two-phase transaction of this name
    decided      the late end of a two-phase transaction that was left undecided (`SchemaDraft.left` has the names)
    transactional   DDL is part of its transaction, and is rolled back with it
    releases, two_phases   the dialect has RELEASE SAVEPOINT; it has two-phase transactions
    update_rule  of a foreign key, after ON DELETE
    """

    dialect: str
    maker: Callable[[Pen, bool], SchemaMaker]
    styles: Mapping[str, tuple[KeyPart, ...]]
    unique: str
    integer: ValueKind
    word: ValueKind
    wide: tuple[str, ...]
    sessions: Callable[[Pen, tuple[int, int]], tuple[AnySession, ...]]
    refused: Callable[[SchemaDraft], Statements]
    prepared: Callable[[SchemaDraft, Statements, str], Statements]
    changes: Operations
    rare: Operations
    sequences: Operations
    alterations: Operations
    soft: Operations
    tables: Operations
    partitions: Operations
    surroundings: Operations
    prelude: Callable[[SchemaDraft], Statements] = field(default=lambda _: ())
    decided: Callable[[SchemaDraft, str], Statements] = field(default=lambda _, __: ())
    transactional: bool = False
    releases: bool = True
    two_phases: bool = True
    update_rule: str = " ON UPDATE CASCADE"


def pick(draft: SchemaDraft, operations: Operations, table: TableModel) -> Statements:
    """One that suits the table, by weight; it is counted as used.  Empty if twenty did not suit."""
    for _ in range(20):
        name = draft.pen.choices(list(operations), [weight for weight, _ in operations.values()])[0]
        statements = operations[name][1](draft, draft.tables[table.name])
        if statements:
            draft.used[name] += 1
            return statements
    return ()
