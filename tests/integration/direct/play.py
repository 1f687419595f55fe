"""A source table with random transactions, and values of every type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from tests.staged import Change, Row, delete, insert, schema_of, update

UTC = dt.UTC
KEYS: dict[str, Callable[[int], Any]] = {
    "int": lambda n: n - 7,
    "bigint": lambda n: n * 2**40 - 3,
    "decimal(12,2)": lambda n: (Decimal(n - 7) / 4).quantize(Decimal("0.01")),
    "decimal(30,0)": lambda n: Decimal(n) * 10**25 - 3,
    "string": lambda n: ("naïve " * (n % 4)) + str(n // 4),
    "binary": lambda n: b"\0" * (n % 4) + bytes([n // 4]),
    "date": lambda n: dt.date(1582, 10, 1) + dt.timedelta(days=n),
    "timestamp": lambda n: dt.datetime(1969, 12, 31, 23, 59, tzinfo=UTC) + dt.timedelta(microseconds=n * 10**7),
    "timestamp_ntz": lambda n: dt.datetime(1969, 12, 31, 23, 59) + dt.timedelta(microseconds=n * 10**7),  # noqa: DTZ001
}
VALUES: dict[str, Callable[[Random], Any]] = {
    "boolean": lambda r: r.random() < 0.5,
    "int": lambda r: r.randint(-(2**31), 2**31 - 1),
    "bigint": lambda r: r.randint(-(2**63), 2**63 - 1),
    "decimal(9,2)": lambda r: Decimal(r.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2),
    "decimal(18,4)": lambda r: Decimal(r.randint(-(10**18) + 1, 10**18 - 1)).scaleb(-4),
    "decimal(38,20)": lambda r: Decimal(r.randint(0, 10**27)).scaleb(-20),
    "float": lambda r: float(r.randint(-(2**20), 2**20)) / 8,
    "double": lambda r: r.uniform(-1e300, 1e300),
    "string": lambda r: "😀é\0 x"[: r.randint(0, 5)] * r.randint(1, 300),
    "binary": lambda r: r.randbytes(r.randint(0, 40)),
    "date": lambda r: dt.date(1, 1, 1) + dt.timedelta(days=r.randint(0, 3_000_000)),
    "timestamp_ntz": lambda r: dt.datetime(1, 1, 1) + dt.timedelta(microseconds=r.randint(0, 10**17)),  # noqa: DTZ001
    "timestamp": lambda r: dt.datetime(1, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=r.randint(0, 10**17)),
}
SHAPES = [("int",), ("string",), ("bigint", "string"), ("decimal(12,2)", "date"), ("binary",), ("decimal(30,0)",)]
SHAPES += [("timestamp", "int"), ("timestamp_ntz",), ("date",)]


class Play:
    """A source table with random transactions: inserts, updates, moves, swaps, deletes and inserts again."""

    def __init__(self, random: Random, keys: tuple[str, ...], keyspace: int = 60) -> None:
        self.random, self.keyspace = random, keyspace
        columns = {f"v.{n}": kind for n, kind in enumerate(VALUES)}
        self.keys = {f"k {n}": kind for n, kind in enumerate(keys)}
        first = dict(list(columns.items())[:5])
        self.schema = schema_of({**first, **self.keys, **columns}, list(self.keys))
        self.before = len(first)
        self.rows: dict[int, Row] = {}
        self.seq = 0

    def batch(self, count: int) -> list[Change]:
        return [change for _ in range(count) for change in self.step()]

    def step(self) -> list[Change]:
        r, n = self.random, self.random.randrange(self.keyspace)
        if n not in self.rows:
            return [self.put(n)]
        kind = r.choice(["update", "update", "delete", "move", "swap", "again"])
        other = r.randrange(self.keyspace)
        if kind == "delete":
            return [self.take(n)]
        if kind == "again":
            return [self.take(n), self.put(n)]
        if kind == "move" and other not in self.rows:
            return [self.change(n, other)]
        free = next(k for k in range(self.keyspace + 1) if k not in self.rows)
        if kind == "swap" and other in self.rows and other != n:
            return [self.change(n, free), self.change(other, n), self.change(free, other)]
        return [self.change(n, n)]

    def put(self, n: int) -> Change:
        self.rows[n] = self.row(n)
        return insert(self.next(), *self.rows[n])

    def take(self, n: int) -> Change:
        return delete(self.next(), *self.rows.pop(n))

    def change(self, old: int, new: int) -> Change:
        before = self.rows.pop(old)
        self.rows[new] = self.row(new)
        return update(self.next(), before, self.rows[new])

    def column(self, name: str) -> list[Any]:
        return [row[self.schema.names.index(name)] for row in self.rows.values()]

    def next(self) -> int:
        self.seq += self.random.randint(1, 3)
        return self.seq

    def row(self, n: int) -> Row:
        values = [None if self.random.random() < 0.15 else make(self.random) for make in VALUES.values()]
        keys = [KEYS[kind](n if place == 0 else n % 5) for place, kind in enumerate(self.keys.values())]
        return (*values[: self.before], *keys, *values[self.before :])
