"""Drawing a column type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from testing.workload.postgres import shapes
from testing.workload.postgres.values import kinds, temporal_values
from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.postgres.values.user_types import UserTypes
from testing.workload.rng_literals import Pen

_PRECISIONS = ((5, 2), (10, 0), (18, 6), (20, 0), (38, 10), (38, 30), (60, 30), (40, 5), (1, 1))
_ODD_PRECISIONS = ((3, -2), (2, 5))  # from 15
COLLATIONS = ("", "", "", "", '"C"', '"und-x-icu"', '"de-x-icu"')


def any_kind(pen: Pen, types: UserTypes, version: int, *, zero: bool) -> PostgresKind:
    """Draw any type of the server; `zero`: infinite dates and dates BC may occur."""
    kind = pen.choice(types.kinds) if pen.chance(0.15) else pen.choice(_FAMILIES)(pen, version)
    kind = replace(kind, zero=zero or kind.zero, version=version)
    if pen.chance(0.12):
        inner = replace(kind, collation="", large=False)
        return PostgresKind("array", element=inner, dimensions=pen.choice((1, 1, 1, 2, 3)), version=version)
    return kind


def _integer(pen: Pen, _version: int) -> PostgresKind:
    return PostgresKind(pen.choice(("boolean", *kinds.INTEGERS, *kinds.INTEGERS)))


def _number(pen: Pen, version: int) -> PostgresKind:
    name = pen.choice(("numeric", "numeric", "numeric", *kinds.NUMBERS))
    if name != "numeric" or pen.chance(0.35):
        return PostgresKind(name)
    choices = _PRECISIONS if version < 15 else (*_PRECISIONS, *_ODD_PRECISIONS)  # noqa: PLR2004
    size, scale = pen.choice(choices)
    return PostgresKind("numeric", size, scale)


def _text(pen: Pen, _version: int) -> PostgresKind:
    name = pen.choice(("text", "text", "varchar", "varchar", *kinds.CHARACTERS))
    size = pen.choice((1, 4, 20, 60)) if name in ("varchar", "char") and pen.chance(0.8) else None
    if name in ("name", '"char"'):
        return PostgresKind(name)
    collation = pen.choice(COLLATIONS) if name != "citext" else ""
    return PostgresKind(name, 300 if name == "varchar" and pen.chance(0.1) else size, collation=collation)


def _large(pen: Pen, _version: int) -> PostgresKind:
    return PostgresKind(pen.choice(kinds.LARGE), large=True)


def _bytes(pen: Pen, _version: int) -> PostgresKind:
    name = pen.choice(("bytea", "bytea", *kinds.BITS))
    return (
        PostgresKind(name)
        if name == "bytea" or pen.chance(0.2)
        else PostgresKind(name, pen.choice((1, 7, 33, 64, 100)))
    )


def _temporal(pen: Pen, _version: int) -> PostgresKind:
    name = pen.choice(("timestamp", "timestamptz", *temporal_values.VALUES))
    sized = name != "date" and pen.chance(0.4)
    return PostgresKind(name, pen.randint(0, 6) if sized else None)


def _shape(pen: Pen, _version: int) -> PostgresKind:
    return PostgresKind(pen.choice(list(shapes.VALUES)))


def _range(pen: Pen, version: int) -> PostgresKind:
    return PostgresKind(pen.choice(list(kinds.MULTIRANGES if version >= 14 else shapes.RANGES)))  # noqa: PLR2004


_FAMILIES: tuple[Callable[[Pen, int], PostgresKind], ...] = (
    _integer, _integer, _number, _number, _text, _text, _text, _large, _bytes, _temporal, _temporal, _shape, _shape,
    _range,
)  # fmt: skip
