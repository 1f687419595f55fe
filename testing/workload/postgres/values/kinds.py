"""Column types of Postgres, each with values worth trying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from testing.workload import kinds
from testing.workload.postgres import shapes
from testing.workload.postgres.values import temporal_values
from testing.workload.postgres.values.rng_literals import text
from testing.workload.rng_literals import Pen

INTEGERS = {"smallint": 16, "integer": 32, "bigint": 64}
CHARACTERS = ("text", "varchar", "char", "bpchar", "name", '"char"', "citext")
NUMBERS = ("numeric", "real", "double precision", "money", "oid")
BITS = ("bit", "bit varying")
MULTIRANGES = {name.replace("range", "multirange"): name for name in shapes.RANGES}
# Types without an order.
UNORDERED = ("json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle", "jsonpath", "composite")
USER = ("enum", "domain", "composite", "custom range", "label range", "label multirange")
LARGE = ("text", "bytea", "jsonb", "varchar", "citext")
LEAST, FEW, MOST = 100, 300, 6_000  # of 32 bytes each
_LETTERS = "aZé ßñЖ表🎈\u0301İ"


@dataclass(frozen=True, slots=True)
class PostgresKind(kinds.ValueKind):
    """A type; with `zero`, its dates may be infinite or BC.

    element   of an array or a multirange; the type under a domain; the enum of a range of labels
    fields    of a composite type
    user      the name of a user's type, quoted
    version   of the server: newer types and values do not occur
    """

    element: PostgresKind | None = None
    fields: tuple[PostgresKind, ...] = ()
    user: str = ""
    dimensions: int = 1
    large: bool = False
    version: int = 13

    @property
    def label(self) -> str:
        if self.element is not None and self.name in ("array", "domain"):
            return f"{self.name} of {'array' if self.element.name == 'array' else 'others'}"
        if self.name == "numeric":
            return "numeric" if self.size is None else "numeric with precision"
        return f"large {self.name}" if self.large else self.name

    @property
    def has_default(self) -> bool:
        return not self.large

    @property
    def is_simple(self) -> bool:
        if self.name in ("array", "domain") and self.element is not None:
            return self.element.is_simple
        return self.name not in UNORDERED

    @property
    def has_cases(self) -> bool:
        return True

    @property
    def sql(self) -> str:
        """The type's name with its modifiers, as in a cast."""
        if self.name == "array" and self.element is not None:
            return self.element.sql + "[]" * self.dimensions
        if self.user:
            return self.user
        size = "" if self.size is None else f"({self.size}{'' if self.scale is None else f',{self.scale}'})"
        return f"{self.name}{size}"

    def declared(self) -> str:
        return f"{self.sql} COLLATE {self.collation}" if self.collation else self.sql

    def value(self, pen: Pen) -> str:
        if self.large and pen.chance(0.6):
            return f"{_large(self.name, pen)}::{self.sql}"
        return f"{text(self.raw(pen), pen)}::{self.sql}"

    def repeated(self, pen: Pen) -> str:
        if self.large and pen.chance(0.3):
            return f"{_large(self.name, pen, FEW)}::{self.sql}"
        return replace(self, large=False).value(pen)

    def raw(self, pen: Pen) -> str:
        """What the type's input takes."""
        if self.name in INTEGERS:
            return _integer(self, pen)
        if self.name in CHARACTERS:
            return _characters(self, pen)
        if self.name in BITS:
            return _bits(self, pen)
        if self.name in shapes.VALUES:
            return shapes.VALUES[self.name](pen)
        if self.name in temporal_values.VALUES:
            return temporal_values.VALUES[self.name](temporal_values.Extent(self.size, self.zero, self.version), pen)
        return _VALUES[self.name](self, pen)


def _large(name: str, pen: Pen, most: int = MOST) -> str:
    """3 to 200 kB that do not compress, or some that do: stored out of line."""
    parts, seed = pen.randint(LEAST, pen.choice((FEW, FEW, most))), pen.randrange(10**6)
    source = f"(SELECT string_agg(md5((i + {seed})::text), '') FROM generate_series(1, {parts}) AS i)"
    if name == "bytea":
        return f"decode({source}, 'hex')"
    if name == "jsonb":
        return f"jsonb_build_object('k', {source}, 'n', {seed})"
    return f"repeat('{seed}', {parts * 4})" if pen.chance(0.15) else source


def _integer(kind: PostgresKind, pen: Pen) -> str:
    low, high = -(2 ** (INTEGERS[kind.name] - 1)), 2 ** (INTEGERS[kind.name] - 1) - 1
    return str(pen.choice((low, high, 0, 1, pen.randint(0, 9), pen.randint(0, 9), pen.randint(low, high))))


def _numeric(kind: PostgresKind, pen: Pen) -> str:
    if kind.size is None:
        infinite: tuple[str, ...] = ("Infinity", "-Infinity") if kind.version >= 14 else ()  # noqa: PLR2004
        odd = ("NaN", "1.50", "1.500", "1e40", "-1e-40", "0", "0.00", "-0.1", "9" * 60, "1e-300", *infinite)
        return pen.choice(
            (*odd, str(pen.randint(-(10**6), 10**6)), f"{pen.randint(0, 10**9)}.{pen.randint(0, 999):03d}")
        )
    size, scale = kind.size, kind.scale or 0
    number = pen.choice((0, 1, 10**size - 1, pen.randrange(10**size), pen.randrange(10 ** min(size, 6))))
    return f"{'-' if number and pen.chance(0.4) else ''}{number}e{-scale}"


_SINGLE = (
    "-0",
    "3.40282e38",
    "-3.40282e38",
    "1.17549435e-38",
    "1e-45",
    "16777217",
    "0.1",
    "NaN",
    "Infinity",
    "-Infinity",
)
_DOUBLE = (
    "-0", "1.7976931348623157e308", "-1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "0.1", "1e16",
    "1e-7",
    "NaN", "Infinity", "-Infinity",
)  # fmt: skip


def _float(kind: PostgresKind, pen: Pen) -> str:
    odd: tuple[str, ...] = _SINGLE if kind.name == "real" else _DOUBLE
    return pen.choice((*odd, repr(pen.uniform(-1e6, 1e6)), str(pen.randint(0, 9))))


def _money(_kind: PostgresKind, pen: Pen) -> str:
    return pen.choice(
        ("-92233720368547758.08", "92233720368547758.07", "0", f"{pen.randint(-(10**7), 10**7) / 100:.2f}")
    )


def _characters(kind: PostgresKind, pen: Pen) -> str:
    if kind.name == '"char"':
        return pen.choice(("a", "Z", "", "'", "\\", " "))
    most = kind.size or (60 if kind.name == "name" else 300)
    odd = ("", " ", "a", "A", "a ", "NULL", "null", "0", "it's", "tab\tline\r\nend", "back\\slash", "%s %", '"x"', "{}",
        "\\N",
           "\\.", "{a,NULL}", "\x01\x7f")  # fmt: skip
    if pen.chance(0.4):
        return pen.choice([value for value in odd if len(value) <= most])
    count = pen.randint(0, min(most, 12)) if pen.chance(0.9) else most
    letters = _LETTERS if kind.name != "name" else "aZ é"
    return "".join(pen.choices(letters, k=count if kind.name != "name" else min(count, 30)))


def _bits(kind: PostgresKind, pen: Pen) -> str:
    most = kind.size or (1 if kind.name == "bit" else 70)
    size = most if kind.name == "bit" else pen.choice((0, 1, most, pen.randint(0, most)))
    number = pen.choice((0, 2**size - 1, pen.getrandbits(size) if size else 0))
    return f"{number:0{size}b}" if size else ""


def _bytes(_kind: PostgresKind, pen: Pen) -> str:
    size = pen.choice((0, 1, 8, pen.randint(0, 600)))
    return "\\x" + pen.choice((pen.randbytes(size), bytes(size), b"\xff" * size, b"\\x41'\n\0")).hex()


def quoted_part(value: str, also: str) -> str:
    """An element of an array, or a field of a row, in double quotes where it may need them."""
    if value and value.isalnum() and value.isascii() and value.lower() != "null" and also not in value:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _array(kind: PostgresKind, pen: Pen) -> str:
    assert kind.element is not None
    delimiter = ";" if kind.element.name == "box" else ","
    if pen.chance(0.12):
        return "{}"
    sizes = [pen.randint(1, 3) for _ in range(kind.dimensions if pen.chance(0.8) else 1)]
    return _bounded(_nested(kind.element, pen, sizes, delimiter), sizes, pen)


def _bounded(body: str, sizes: list[int], pen: Pen) -> str:
    """Now and then with lower bounds other than 1."""
    if pen.chance(0.85):
        return body
    low = pen.choice((0, -3, 5))
    return "".join(f"[{low}:{low + size - 1}]" for size in sizes) + "=" + body


def _nested(element: PostgresKind, pen: Pen, sizes: list[int], delimiter: str) -> str:
    if not sizes:
        return "NULL" if pen.chance(0.15) else quoted_part(element.raw(pen), delimiter)
    return "{" + delimiter.join(_nested(element, pen, sizes[1:], delimiter) for _ in range(sizes[0])) + "}"


def _composite(kind: PostgresKind, pen: Pen) -> str:
    return "(" + ",".join("" if pen.chance(0.2) else quoted_part(field.raw(pen), ",") for field in kind.fields) + ")"


def _multirange(kind: PostgresKind, pen: Pen) -> str:
    name = MULTIRANGES[kind.name]
    return "{" + ",".join(shapes.VALUES[name](pen) for _ in range(pen.randint(0, 3))) + "}"


def _label_range(kind: PostgresKind, pen: Pen) -> str:
    """Of one label: which of two comes first, a label that is added later decides."""
    assert kind.element is not None
    label = quoted_part(kind.element.raw(pen), ",")
    return "empty" if pen.chance(0.1) else f"[{label},{label}]"


def _label_multirange(kind: PostgresKind, pen: Pen) -> str:
    return "{" + ",".join(_label_range(kind, pen) for _ in range(pen.randint(0, 2))) + "}"


def _domain(kind: PostgresKind, pen: Pen) -> str:
    assert kind.element is not None
    return kind.element.raw(pen)


_VALUES: dict[str, Callable[[PostgresKind, Pen], str]] = {
    "boolean": lambda _kind, pen: pen.choice(("t", "f", "yes", "off")),
    "oid": lambda _kind, pen: str(pen.choice((0, 1, 4294967295, pen.randrange(2**32)))),
    "numeric": _numeric, "real": _float, "double precision": _float, "money": _money, "bytea": _bytes, "array": _array,
    "composite": _composite, "domain": _domain, "enum": lambda kind, pen: pen.choice(kind.labels),
    "custom range": lambda _kind, pen: shapes.VALUES["numrange"](pen), **dict.fromkeys(MULTIRANGES, _multirange),
    "label range": _label_range, "label multirange": _label_multirange,
}  # fmt: skip
