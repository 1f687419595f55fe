"""Drawing a column type."""

from __future__ import annotations

from collections.abc import Callable

from testing.workload.mysql import kinds
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.rng_literals import Pen, spells

_DECIMALS = ((5, 2), (10, 0), (18, 6), (20, 0), (38, 10), (38, 30), (65, 30), (40, 5), (1, 1))


def any_kind(pen: Pen, dialect: str, *, zero: bool) -> MySQLKind:
    """Any type of the dialect; `zero`: zero dates may occur."""
    family = pen.choice(_FAMILIES if dialect == "mysql" else (*_FAMILIES, _mariadb))
    return family(pen, dialect, zero)


def any_collation(pen: Pen, dialect: str) -> str:
    """Any of the dialect."""
    return pen.choice((*kinds.COLLATIONS["both"], *kinds.COLLATIONS[dialect]))


def _integer(pen: Pen, _dialect: str, _zero: bool) -> MySQLKind:  # noqa: FBT001
    name = pen.choice(("bool", *kinds.INTEGERS))
    unsigned = name != "bool" and pen.chance(0.5)
    return MySQLKind(name, unsigned=unsigned, zerofill=unsigned and pen.chance(0.1))


def _number(pen: Pen, _dialect: str, _zero: bool) -> MySQLKind:  # noqa: FBT001
    match pen.choice(("decimal", "decimal", "float", "double", "bit", "bit")):
        case "decimal":
            size, scale = pen.choice(_DECIMALS)
            return MySQLKind("decimal", size, scale, unsigned=pen.chance(0.15))
        case "bit":
            return MySQLKind("bit", pen.choice((1, 7, 33, 63, 64)))
        case name:
            sized = pen.chance(0.2)
            return MySQLKind(name, 9 if sized else None, 3 if sized else None)


def _bytes(pen: Pen, dialect: str, _zero: bool) -> MySQLKind:  # noqa: FBT001
    name = pen.choice(kinds.BYTES)
    size = pen.choice((1, 7, 16, 255)) if name in ("binary", "varbinary") else None
    return MySQLKind(name, size, compressed=_compressed(pen, dialect, name))


def _temporal(pen: Pen, _dialect: str, zero: bool) -> MySQLKind:  # noqa: FBT001
    name = pen.choice(("date", "datetime", "datetime", "timestamp", "timestamp", "time", "time", "year"))
    size = pen.randint(0, 6) if name in ("datetime", "timestamp", "time") and pen.chance(0.7) else None
    return MySQLKind(name, size, zero=zero and name in ("date", "datetime", "timestamp"))


def _text(pen: Pen, dialect: str, _zero: bool) -> MySQLKind:  # noqa: FBT001
    collation = pen.choice(kinds.COMMON) if pen.chance(0.4) else any_collation(pen, dialect)
    name = pen.choice((*kinds.CHARACTERS, "char", "varchar", "varchar", "enum", "set", "json"))
    if name == "json":
        return MySQLKind("json")
    if name in ("enum", "set"):
        labels = ("a", "b", "Long label", "x y", "it's", *kinds.letters(collation.split("_")[0])[:2])
        shown = tuple(label for label in labels if spells(pen.charset, label))
        return MySQLKind(name, collation=collation, labels=shown[: pen.randint(3, len(shown))])
    size = pen.choice((1, 4, 20, 60)) if name in ("char", "varchar") else None
    size = 300 if name == "varchar" and pen.chance(0.1) else size
    return MySQLKind(name, size, collation=collation, compressed=_compressed(pen, dialect, name))


def _compressed(pen: Pen, dialect: str, name: str) -> bool:
    return dialect == "mariadb" and name not in ("char", "binary") and pen.chance(0.06)


def _geometry(pen: Pen, _dialect: str, _zero: bool) -> MySQLKind:  # noqa: FBT001
    return MySQLKind(pen.choice(kinds.GEOMETRIES))


def _mariadb(pen: Pen, _dialect: str, _zero: bool) -> MySQLKind:  # noqa: FBT001
    return MySQLKind(pen.choice(("uuid", "inet6", "inet4")))


_FAMILIES: tuple[Callable[[Pen, str, bool], MySQLKind], ...] = (
    _integer, _integer, _integer, _number, _number, _number, _bytes, _temporal, _temporal, _text, _text, _text,
    _geometry,
)  # fmt: skip
