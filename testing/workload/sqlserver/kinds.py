"""Column types of SQL Server, each with values worth trying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from testing.workload import kinds
from testing.workload.rng_literals import Pen
from testing.workload.sqlserver.spelling import text

INTEGERS = {
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
CHARACTERS = ("char", "varchar", "nchar", "nvarchar", "text", "ntext")
BINARIES = ("binary", "varbinary", "image")
OLD_LOBS = ("text", "ntext", "image")
VARIANT = "sql_variant"
UNORDERED = (*OLD_LOBS, "xml", "geography", "geometry", VARIANT)
NO_VARIANT = (*OLD_LOBS, "xml", "geography", "geometry", "hierarchyid", VARIANT)
MAX = -1
COLLATIONS = (
    "", "", "", "Latin1_General_CS_AS", "Latin1_General_BIN2", "Latin1_General_100_CI_AS_SC_UTF8",
    "Cyrillic_General_CI_AS",
)  # fmt: skip
_LATIN, _CYRILLIC, _WIDE = "aZé ß€", "aZ жЯ", "aZé ЖЯ表\U0001f388İ"
_ODD = (
    "",
    " ",
    "a",
    "A",
    "a ",
    "NULL",
    "0",
    "it's",
    "tab\tline\r\nend",
    "back\\slash",
    "%s %",
    '"x"',
    "[x]",
    "--",
    "\x01\x7f",
)
_FLOATS = (
    "0",
    "-0.0",
    "1.7976931348623157e308",
    "-1.7976931348623157e308",
    "2.2250738585072014e-308",
    "0.1",
    "1e16",
    "1e-7",
)
_REALS = ("0", "3.40282e38", "-3.40282e38", "1.17549435e-38", "16777217", "0.1e0")


@dataclass(frozen=True, slots=True)
class SqlServerKind(kinds.ValueKind):
    """`size` -1: max."""

    @property
    def label(self) -> str:
        return f"{self.name}(max)" if self.size == MAX else self.name

    @property
    def has_default(self) -> bool:
        return self.name not in UNORDERED and self.size != MAX

    @property
    def is_simple(self) -> bool:
        return self.name not in UNORDERED

    @property
    def has_cases(self) -> bool:
        return True

    def declared(self) -> str:
        size = ""
        if self.size is not None:
            scale = "" if self.scale is None else f",{self.scale}"
            size = f"({'max' if self.size == MAX else self.size}{scale})"
        return f"{self.name}{size}{f' COLLATE {self.collation}' if self.collation else ''}"

    def value(self, pen: Pen) -> str:
        if self.name in INTEGERS:
            low, high = INTEGERS[self.name]
            return str(pen.choice((low, high, 0, 1, pen.randint(0, 9), pen.randint(low, high))))
        if self.name in CHARACTERS:
            return _characters(self, pen)
        if self.name in BINARIES:
            return _bytes(self, pen)
        return _VALUES[self.name](self, pen)

    def repeated(self, pen: Pen) -> str:
        if self.size == MAX and pen.chance(0.7):
            return text("r" * pen.randint(0, 300)) if self.name != "varbinary" else "0x" + "ab" * pen.randint(0, 300)
        return self.value(pen)


def _characters(kind: SqlServerKind, pen: Pen) -> str:
    if kind.size == MAX and pen.chance(0.15):  # past a page, so that it lies elsewhere
        return f"CAST(REPLICATE({text(pen.choice('aZ9'))}, {pen.randint(3000, 7900)}) AS {kind.name}(max))"
    most = kind.size if kind.size and kind.size > 0 else 100
    if pen.chance(0.4):
        return text(pen.choice([one for one in _ODD if len(one) <= most]))
    if kind.name == "nchar":  # padded to `size` UTF-16 code units, by the emulator to as many characters
        return text("".join(pen.choices(_WIDE.replace("\U0001f388", ""), k=pen.randint(0, most // 2))))
    wide = kind.name.startswith("n") or kind.collation.endswith("UTF8")
    letters = _WIDE if wide else _CYRILLIC if kind.collation.startswith("Cyrillic") else _LATIN
    room = most // 4 if kind.collation.endswith("UTF8") else most // 2  # bytes of UTF-8, halves of UTF-16
    return text("".join(pen.choices(letters, k=pen.randint(0, min(room, 12)))))


def _bytes(kind: SqlServerKind, pen: Pen) -> str:
    if kind.size == MAX and pen.chance(0.1):
        return "0x" + pen.randbytes(pen.randint(2000, 7000)).hex()
    most = kind.size if kind.size and kind.size > 0 else 200
    size = pen.choice((0, 1, most, pen.randint(0, most)))
    return "0x" + pen.choice((pen.randbytes(size), bytes(size), b"\xff" * size)).hex()


def _decimal(kind: SqlServerKind, pen: Pen) -> str:
    size, scale = kind.size or 18, kind.scale or 0
    number = pen.choice((0, 1, 10**size - 1, pen.randrange(10**size), pen.randrange(10 ** min(size, 6))))
    digits = str(number).rjust(scale + 1, "0")
    spelled = digits[: len(digits) - scale] + (f".{digits[len(digits) - scale :]}" if scale else "")
    return f"{'-' if number and pen.chance(0.4) else ''}{spelled}"


def _date(_: SqlServerKind, pen: Pen) -> str:
    return text(
        pen.choice(
            (
                "0001-01-01",
                "9999-12-31",
                "1582-10-10",
                "1900-01-01",
                f"20{pen.randint(10, 29)}-02-{pen.randint(1, 28):02d}",
            )
        )
    )


def _clock(pen: Pen, digits: int) -> str:
    fraction = f".{pen.choice(('0000000', '9999999', f'{pen.randrange(10**7):07d}'))[:digits]}" if digits else ""
    return f"{pen.choice((0, 23, pen.randrange(24))):02d}:{pen.randrange(60):02d}:{pen.randrange(60):02d}{fraction}"


def _time(kind: SqlServerKind, pen: Pen) -> str:
    return text(_clock(pen, kind.size if kind.size is not None else 7))


def _datetime2(kind: SqlServerKind, pen: Pen) -> str:
    day = pen.choice(("0001-01-01", "9999-12-31", "1969-12-31", f"20{pen.randint(10, 29)}-06-{pen.randint(1, 30):02d}"))
    return text(f"{day} {_clock(pen, kind.size if kind.size is not None else 7)}")


def _datetime(_: SqlServerKind, pen: Pen) -> str:
    day = pen.choice(("1753-01-01", "9999-12-31", "1900-01-01", f"20{pen.randint(10, 29)}-06-{pen.randint(1, 30):02d}"))
    return text(f"{day} {_clock(pen, 0)}{pen.choice(('', '.000', '.003', '.007', '.123', '.997'))}")


def _small(_: SqlServerKind, pen: Pen) -> str:
    return text(
        f"{pen.choice(('1900-01-01', '2079-06-06', '2024-02-29'))} {pen.randrange(23):02d}:{pen.randrange(60):02d}"
    )


def _offset(kind: SqlServerKind, pen: Pen) -> str:
    day = pen.choice(("0001-01-02", "9999-12-30", f"20{pen.randint(10, 29)}-06-{pen.randint(1, 30):02d}"))
    zone = pen.choice(("+00:00", "+05:30", "-11:00", "+14:00", "-03:30"))
    return text(f"{day} {_clock(pen, kind.size if kind.size is not None else 7)} {zone}")


def _guid(_: SqlServerKind, pen: Pen) -> str:
    h = pen.choice(("0" * 32, "f" * 32, pen.randbytes(16).hex()))
    return f"'{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}'"


def _money(low: int) -> Callable[[SqlServerKind, Pen], str]:
    def value(_: SqlServerKind, pen: Pen) -> str:
        number = pen.choice((low, -low - 1, 0, 1, pen.randint(low, -low - 1), pen.randint(-(10**6), 10**6)))
        return f"{'-' if number < 0 else ''}{abs(number) // 10000}.{abs(number) % 10000:04d}"

    return value


def _variant(pen: Pen) -> str:
    """A value of sql_variant, of any type that it can hold."""
    while (kind := any_kind(pen)).name in NO_VARIANT or kind.size == MAX:
        pass
    declared = replace(kind, collation="").declared()
    return f"CAST(CAST({kind.value(pen)} AS {declared}) AS {VARIANT})"


_VALUES: dict[str, Callable[[SqlServerKind, Pen], str]] = {
    "bit": lambda _, pen: pen.choice("01"), "decimal": _decimal, "money": _money(-(2**63)),
    "smallmoney": _money(-(2**31)),
    "float": lambda _, pen: pen.choice((*_FLOATS, repr(pen.uniform(-1e6, 1e6)))), "real": lambda _,
    pen: pen.choice((*_REALS, str(pen.randint(-99, 99)))),
    "date": _date, "time": _time, "datetime2": _datetime2, "datetime": _datetime, "smalldatetime": _small,
    "datetimeoffset": _offset, "uniqueidentifier": _guid,
    "xml": lambda _, pen: text(pen.choice(("<a/>", "<a>b</a>", '<a b="1">ж</a>', f"<r>{pen.randint(0, 999)}</r>"))),
    "hierarchyid": lambda _, pen: f"CAST('/{pen.randint(0, 15)}/{pen.randint(0, 7)}/' AS hierarchyid)",
    "geography": lambda _, pen: f"geography::Point({pen.randint(-80, 80)}.5, {pen.randint(-170, 170)}.25, 4326)",
    "geometry": lambda _, pen: f"geometry::Point({pen.randint(-80, 80)}, {pen.randint(-170, 170)}.25, 0)",
    VARIANT: lambda _, pen: _variant(pen),
}  # fmt: skip


def any_kind(pen: Pen) -> SqlServerKind:
    """Any type, with any size."""
    name = pen.choice((*INTEGERS, "int", "bit", "decimal", "decimal", "money", "smallmoney", "float", "real", "date",
    "time", "datetime2", "datetime2", "datetime",
        "smalldatetime", "datetimeoffset", "uniqueidentifier", "xml", "hierarchyid", "geography", "geometry", "char",
        "nchar", "varchar", "varchar", "nvarchar", "nvarchar",
        "binary", "varbinary", VARIANT, *OLD_LOBS))  # fmt: skip
    if name == "decimal":
        size = pen.choice((1, 9, 10, 18, 19, 28, 38, pen.randint(1, 38)))
        return SqlServerKind(name, size, pen.choice((0, size, pen.randint(0, size))))
    if name in ("time", "datetime2", "datetimeoffset"):
        return SqlServerKind(name, pen.choice((0, 3, 6, 7, 7)))
    collation = pen.choice(COLLATIONS) if name in CHARACTERS else ""
    if name in ("text", "ntext", "char") and collation.endswith("UTF8"):  # two cannot have it; char is filled up
        collation = ""
    if name in ("varchar", "nvarchar", "varbinary") and pen.chance(0.25):
        return SqlServerKind(name, MAX, collation=collation)
    if name in ("char", "nchar", "varchar", "nvarchar", "binary", "varbinary"):
        return SqlServerKind(name, pen.choice((8, 20, 40, 200)), collation=collation)
    return SqlServerKind(name, collation=collation)
