"""Random tables of Postgres."""

from __future__ import annotations

from dataclasses import dataclass, replace

from testing.workload import kinds as kinds_of_all
from testing.workload import schemas
from testing.workload.keys import KeyModel
from testing.workload.postgres.keys import numbered
from testing.workload.postgres.values import kinds
from testing.workload.postgres.values.kind_choice import any_kind
from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.postgres.values.rng_literals import names, quoted
from testing.workload.postgres.values.user_types import UserTypes
from testing.workload.rng_literals import Pen
from testing.workload.schemas import ColumnModel, Statements

BOUNDS = (40, 200, 1000)
UNLIKE = "DEFERRABLE INITIALLY DEFERRED"
VIRTUAL = 18
ODD_NAMES = (
    "order", "select", "Table", "group", "a b", "dot.ted", 'quote"d', "quo'te", "back`tick", "per%s", "semi;colon",
    "--dash",
    "/*x*/", "#hash", "MixedCase", "1st", "$dollar", "{brace}", "slash/ed", "back\\slash", "com,ma", "(paren", "a=b",
    "user",
    "values", "x" * 63, "ünïcode", "größe", "имя", "表", "名前", " leading", "trailing ", "tab\tbed", "emoji🎈",
    "z" * 61 + "é",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableModel(schemas.TableModel):
    """A table, or the parent of partitions.

    identity     "" (the primary key), "full", or the name of an index
    constraint   the name of the key's constraint; "" where the server gave it one
    deferrable   the key is checked at the end of a transaction
    parts        names of the partitions; `partitions` is the clause of the parent, `bounds` those of its ranges
    unlogged     is another of what a replicator refuses
    """

    identity: str = ""
    constraint: str = ""
    deferrable: bool = False
    parts: tuple[str, ...] = ()
    unlogged: bool = False

    @property
    def has_parts(self) -> bool:
        return bool(self.parts)

    @property
    def features(self) -> tuple[str, ...]:
        by = self.partitions.split("BY ")[1].split(" ")[0].lower() if self.partitions else ""
        found = {
            f"partitioned by {by}": bool(by),
            f"identity {'index' if self.identity not in ('', 'full') else self.identity or 'default'}": True,
            "deferrable key": self.deferrable,
        }
        return tuple(name for name, is_so in found.items() if is_so)

    @staticmethod
    def quoted(name: str) -> str:
        return quoted(name)

    @staticmethod
    def numbered(style: str, number: str, kind: kinds_of_all.ValueKind) -> str:
        return numbered(style, number, kind)

    @staticmethod
    def digest(expression: str) -> str:
        return f"(hashtext({expression}::text) & 65535)"

    def created(self) -> Statements:
        lines = [f"{quoted(column.name)} {column.declared()}" for column in self.columns]
        if self.key.columns:
            name = f"CONSTRAINT {quoted(self.constraint)} " if self.constraint else ""
            lines.append(f"{name}{self.key.declared} ({names(self.key.columns)}){f' {UNLIKE}' * self.deferrable}")
        lines += self.constraints
        body = ",\n  ".join(lines)
        unlogged = "UNLOGGED " * self.unlogged
        made = f"CREATE {unlogged}TABLE {self.sql} (\n  {body}\n){self.options}{self.partitions}"
        return (made, *self.divided(), *self.identified())

    def divided(self) -> Statements:
        """CREATE TABLE of each partition."""
        return tuple(
            f"CREATE TABLE {quoted(part)} PARTITION OF {self.sql} {values}"
            for part, values in zip(self.parts, self._bounds(), strict=True)
        )

    def _bounds(self) -> Statements:
        """In the order of `parts`."""
        if "BY RANGE" in self.partitions:
            edges = ("MINVALUE", *self.bounds)
            ranges = (f"FOR VALUES FROM ({low}) TO ({high})" for low, high in zip(edges, self.bounds, strict=False))
            return (*ranges, "DEFAULT")
        if "BY LIST" in self.partitions:
            return ("FOR VALUES IN (0, 1, 2, NULL)", "FOR VALUES IN (3, 4)", "DEFAULT")
        count = len(self.parts)
        return tuple(f"FOR VALUES WITH (MODULUS {count}, REMAINDER {at})" for at in range(count))

    def identified(self) -> Statements:
        """ALTER TABLE … REPLICA IDENTITY, where it is not the primary key."""
        if not self.identity:
            return ()
        how = "FULL" if self.identity == "full" else f"USING INDEX {quoted(self.identity)}"
        return tuple(f"ALTER TABLE {quoted(name)} REPLICA IDENTITY {how}" for name in (self.name, *self.parts))


class SchemaMaker(schemas.SchemaMaker):
    """Draws tables for one version of the server."""

    odd_names = ODD_NAMES

    def __init__(self, pen: Pen, version: int, *, zero: bool = False) -> None:
        super().__init__(pen, "postgres", zero=zero)
        self.version = version
        self.types = UserTypes(pen, lambda stem: self.name(stem, odd=0.3), version, zero=zero)

    def kind(self) -> PostgresKind:
        return any_kind(self.pen, self.types, self.version, zero=self.zero)

    def column(self) -> ColumnModel:
        pen, kind = self.pen, self.kind()
        name = self.name("c", odd=0.2)
        if kind.name in ("integer", "bigint") and pen.chance(0.06):
            return ColumnModel(name, kind, nullable=False, generated="GENERATED ALWAYS AS IDENTITY")
        return ColumnModel(name, kind, pen.chance(0.75), self._default(kind))

    def _default(self, kind: PostgresKind) -> str:
        pen = self.pen
        volatile = {
            "uuid": "gen_random_uuid()", "timestamptz": "clock_timestamp()", "double precision": "random()",
            "text": "md5(random()::text)",
        }.get(kind.name)  # fmt: skip
        if volatile and pen.chance(0.3):
            return volatile  # an added column is filled with values that the log does not show
        return self.default(kind) if kind.has_default and pen.chance(0.35) else ""

    def default(self, kind: kinds_of_all.ValueKind) -> str:
        return kind.value(self.pen)

    def generated(self, columns: tuple[ColumnModel, ...]) -> ColumnModel | None:
        pen = self.pen
        bases = [c for c in columns if c.kind.name in (*kinds.INTEGERS, "varchar", "timestamp") and not c.generated]
        if not bases:
            return None
        base = pen.choice(bases)
        kind, expression = {
            "varchar": (PostgresKind("integer"), f"char_length({quoted(base.name)})"),
            "timestamp": (PostgresKind("date"), f"{quoted(base.name)}::date"),
        }.get(base.kind.name, (PostgresKind("numeric", 30, 1), f"{quoted(base.name)} * 1.5"))
        how = "VIRTUAL" if self.version >= VIRTUAL and pen.chance(0.3) else "STORED"
        return ColumnModel(self.name("g"), kind, generated=f"GENERATED ALWAYS AS ({expression}) {how}")

    def model(self, name: str, columns: tuple[ColumnModel, ...], key: KeyModel) -> TableModel:
        return TableModel(name, columns, key, identity="" if key.columns else "full")

    def numbers(self, count: int) -> str:
        return f"generate_series(0, {count - 1}) AS n"

    def table(self, key: KeyModel, key_columns: tuple[ColumnModel, ...], *, most: int = 8) -> TableModel:
        pen = self.pen
        columns = [*key_columns, *(self.column() for _ in range(pen.randint(2, most)))]
        if not key.columns:  # something to find rows by, and rows that are equal
            columns = [
                ColumnModel(self.name("v"), PostgresKind("integer"), number="few"),
                *columns[: pen.randint(1, 4)],
            ]
        if pen.chance(0.3):
            pen.shuffle(columns)
        if pen.chance(0.25) and (generated := self.generated(tuple(columns))) is not None:
            columns.insert(pen.randint(0, len(columns)), generated)
        if pen.chance(0.15):
            columns.append(ColumnModel(self.name("u"), PostgresKind("integer"), unique=True))
        options = pen.choice(("", "", "", " WITH (fillfactor = 70)", " WITH (toast_tuple_target = 200)"))
        table = replace(self.model(self.name("t", odd=0.4), tuple(columns), key), options=options)
        table = self._keyed(table) if key.columns else table
        by_range = any(column.number == "plain" for column in key_columns)
        return self.partitioned(table) if pen.chance(0.75 if by_range else 0.2) and not columns[-1].unique else table

    def _keyed(self, table: TableModel) -> TableModel:
        """With a name for the key's constraint, a replica identity that goes with it, and now and then a deferrable
        key.
        """
        pen = self.pen
        table = replace(table, constraint=self.name("key", odd=0.2))
        if pen.chance(0.12):
            return replace(table, deferrable=True, identity="full")
        if table.key.declared != "PRIMARY KEY":
            return replace(table, identity=pen.choice((table.constraint, table.constraint, "full")))
        return replace(table, identity=pen.choice(("", "", "", "", "full", table.constraint)))

    def partitioned(self, table: TableModel) -> TableModel:
        """By ranges, a list or a hash of the key; one without key by a list."""
        columns = [table.column(name) for name in table.key.columns]
        integers = [c.name for c in columns if c.number == "plain" and c.kind.name in kinds.INTEGERS]
        few = [c.name for c in (columns or table.columns) if c.number in ("few", "repeat")]
        caseless = any(c.kind.collation or c.kind.name in ("citext", "bit") for c in columns)
        hashed = [] if caseless else [names([c.name]) for c in columns]
        shapes: list[tuple[str, int, tuple[int, ...]]] = [
            *((f" PARTITION BY RANGE ({quoted(name)})", len(BOUNDS) + 1, BOUNDS) for name in integers * 3),
            *((f" PARTITION BY LIST ({quoted(name)})", 3, ()) for name in few * 2),
            *((f" PARTITION BY HASH ({name})", 3, ()) for name in hashed),
        ]
        if not shapes or any(c.extra or "IDENTITY" in c.generated for c in table.columns):
            return table
        if table.identity not in ("", "full"):  # the identity names one index, but each partition has its own
            table = replace(table, identity="full")
        clause, count, bounds = self.pen.choice(shapes)
        parts = tuple(self.name("part", odd=0.2) for _ in range(count))
        return replace(table, partitions=clause, parts=parts, bounds=bounds, options="")
