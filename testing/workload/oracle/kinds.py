"""Column types of Oracle, each with values worth trying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testing.workload import kinds
from testing.workload.rng_literals import Pen, plain, spells

XML = "XMLTYPE"
LOBS = ("CLOB", "NCLOB", "BLOB", XML)
CHARACTERS = ("VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR")
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH LOCAL TIME ZONE")
ZONES = ("+00:00", "-03:30", "+14:00", "-12:00", "+05:45")
_LETTERS = "aZé ßñЖ表🎈\u0301İ'"
_MIXED = (
    "x", "O''Brien", " leading", "trailing ", "a;b", "NULL", "--", "&amp", "tab", "line", '"', "%s", ":1", "{}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OracleKind(kinds.ValueKind):
    """A type.

    by_char   `size` counts characters
    size      of a number its digits, of an interval its first field's
    scale     of a number, of fractions of a second
    """

    by_char: bool = False

    @property
    def label(self) -> str:
        if self.name == "NUMBER":
            return "NUMBER" if self.size is None and self.scale is None else "NUMBER with precision"
        return f"large {self.name}" if self.name == "VARCHAR2" and (self.size or 0) > 1000 else self.name  # noqa: PLR2004

    @property
    def has_default(self) -> bool:
        return self.name not in LOBS

    @property
    def is_simple(self) -> bool:
        return self.name in ("NUMBER", "VARCHAR2", "NVARCHAR2")

    @property
    def has_cases(self) -> bool:
        return True

    def declared(self) -> str:
        match self.name:
            case "VARCHAR2" | "CHAR":
                made = f"{self.name}({self.size} {'CHAR' if self.by_char else 'BYTE'})"
            case "NUMBER" if self.size is None and self.scale is not None:
                made = f"NUMBER(*, {self.scale})"
            case "NUMBER" | "FLOAT" | "NVARCHAR2" | "NCHAR" | "RAW" if self.size is not None:
                made = f"{self.name}({self.size}{'' if self.scale is None else f', {self.scale}'})"
            case "INTERVAL YEAR TO MONTH":
                made = f"INTERVAL YEAR({self.size}) TO MONTH"
            case "INTERVAL DAY TO SECOND":
                made = f"INTERVAL DAY({self.size}) TO SECOND({self.scale})"
            case name if name.startswith("TIMESTAMP"):
                made = name.replace("TIMESTAMP", f"TIMESTAMP({self.scale})", 1)
            case name:
                made = name
        return made

    def value(self, pen: Pen) -> str:
        return _VALUES[self.name](pen, self)

    def repeated(self, pen: Pen) -> str:
        if self.name in LOBS:
            return {"BLOB": "HEXTORAW('5a')", "NCLOB": "N'same'", XML: "XMLTYPE('<same/>')"}.get(self.name, "'same'")
        return "'same'" if (self.size or 0) > 1000 else self.value(pen)  # noqa: PLR2004


def _number(pen: Pen, kind: OracleKind) -> str:
    if kind.size is None and kind.scale is None:
        return pen.choice((
            "0", "1", "-1", "0.5", "-.001", "123456789012345678901234567890.12345678", "1e-20", "-9.99e30",
            str(pen.randint(-(10**18), 10**18)), f"{pen.random():.12f}", "100", "1200000",
        ))  # fmt: skip
    scale = kind.scale or 0
    digits = 10 ** (kind.size or 38) - 1
    whole = pen.choice((0, 1, -1, digits, -digits, pen.randint(-digits, digits), pen.randint(-99, 99) % (digits + 1)))
    if scale <= 0:
        return f"{whole}{'0' * -scale}"
    sign, text = "-" if whole < 0 else "", f"{abs(whole):0{scale + 1}}"
    return f"{sign}{text[:-scale]}.{text[-scale:]}"


def _binary(pen: Pen, kind: OracleKind) -> str:
    letter = "f" if kind.name == "BINARY_FLOAT" else "d"
    return (
        pen.choice(("0", "1.5", "-2.25", "3.4e30", "-1e-30", f"{pen.uniform(-1e6, 1e6):.6g}")).replace("+", "") + letter
    )


def _float(pen: Pen, kind: OracleKind) -> str:
    del kind
    return pen.choice(("0", "1.25", "-12345.678", "1e20", "-5e-10", f"{pen.uniform(-1000, 1000):.9f}"))


def _text(pen: Pen, kind: OracleKind) -> str:
    """An empty string is NULL to Oracle, and is not written."""
    room, national = kind.size or 1, kind.name.startswith("N")
    words = pen.choice(_MIXED) if pen.chance(0.4) else "".join(pen.choice(_LETTERS) for _ in range(pen.randint(1, 12)))
    if not kind.by_char and not national:
        words = words if words.isascii() else words.encode("ascii", "ignore").decode() or "x"
    if national:
        words = "".join(one for one in words if ord(one) <= 0xFFFF) or "x"  # noqa: PLR2004
    if room > 1000 and pen.chance(0.5):  # noqa: PLR2004
        words = words * (pen.randint(900, room) // len(words))
    words = words.replace("''", "'")[:room] or "x"
    if not spells(pen.charset, words):
        words = "x"
    return ("N" if national else "") + plain(words)


def _lob(pen: Pen, kind: OracleKind) -> str:
    """A literal has 4,000 bytes at most, a large object more; an empty one is not NULL."""
    if pen.chance(0.15):
        return "EMPTY_BLOB()" if kind.name == "BLOB" else "EMPTY_CLOB()"
    if kind.name == "BLOB":
        return f"HEXTORAW('{pen.randbytes(pen.choice((1, 30, 1500))).hex()}')"
    words = _text(pen, OracleKind("NVARCHAR2" if kind.name == "NCLOB" else "VARCHAR2", 100, by_char=True))
    if not pen.chance(0.2):
        return words
    make = "TO_NCLOB" if kind.name == "NCLOB" else "TO_CLOB"
    return f"{make}(RPAD({words}, 900, {words})) || {make}(RPAD({words}, {pen.randint(1, 900)}, {words}))"


def _document(pen: Pen, kind: OracleKind) -> str:
    """White space between elements is insignificant, within a text it is not."""
    del kind
    number = pen.randint(0, 999)
    text = pen.choice((
        "<a/>", f"<a> <b>{number}</b> </a>", "<a b=\"it''s\">ñ表 &amp; &lt;</a>", f"<r><n>{number}</n><n> x </n></r>",
        "<a><b/>\n  <c>two</c>\n</a>", f'<x:a xmlns:x="urn:{number}"><x:b/></x:a>',
    ))  # fmt: skip
    if not spells(pen.charset, text):
        text = "<a/>"
    if not pen.chance(0.15):
        return f"{XML}('{text}')"
    filler = f"TO_CLOB(RPAD('{number}', {pen.randint(900, 3900)}, 'long '))"
    return f"{XML}(TO_CLOB('<r>{text}<l>') || {filler} || {filler} || TO_CLOB('</l></r>'))"


def _long(pen: Pen, kind: OracleKind) -> str:
    del kind
    return plain(f"long {pen.randint(1, 99)}")


def _raw(pen: Pen, kind: OracleKind) -> str:
    return f"HEXTORAW('{pen.randbytes(pen.randint(1, kind.size or 1)).hex()}')"


def _clock(pen: Pen) -> str:
    return pen.choice(("00:00:00", "23:59:59", f"{pen.randrange(24):02}:{pen.randrange(60):02}:{pen.randrange(60):02}"))


def _day(pen: Pen) -> str:
    year = pen.choice((1, 1581, 1900, 1969, 1970, 2024, 2024, 9998))
    return f"{year:04}-{pen.randint(1, 12):02}-{pen.randint(1, 28):02}"


def _date(pen: Pen, kind: OracleKind) -> str:
    del kind
    return f"TO_DATE('{_day(pen)} {_clock(pen)}', 'YYYY-MM-DD HH24:MI:SS')"


def _moment(pen: Pen, kind: OracleKind) -> str:
    fraction = pen.choice(("", ".5", ".123456789", f".{pen.randrange(10**9):09}", ".000000001", ".999999999"))
    zone = ""
    if kind.name.endswith("WITH TIME ZONE"):
        zone = f" {pen.choice(ZONES)}"
    return f"TIMESTAMP '{_day(pen)} {_clock(pen)}{fraction}{zone}'"


def _months(pen: Pen, kind: OracleKind) -> str:
    most = 10 ** (kind.size or 2) - 1
    return f"INTERVAL '{pen.choice(('', '-'))}{pen.randint(0, most)}-{pen.randint(0, 11)}' YEAR({kind.size}) TO MONTH"


def _seconds(pen: Pen, kind: OracleKind) -> str:
    days, fraction = pen.randint(0, 10 ** (kind.size or 2) - 2), pen.choice(("", ".5", ".123456789"))
    sign = pen.choice(("", "-"))
    return f"INTERVAL '{sign}{days} {_clock(pen)}{fraction}' DAY({kind.size}) TO SECOND(9)"


_VALUES: dict[str, Callable[[Pen, OracleKind], str]] = {
    "NUMBER": _number, "FLOAT": _float, "BINARY_FLOAT": _binary, "BINARY_DOUBLE": _binary, "VARCHAR2": _text,
    "NVARCHAR2": _text, "CHAR": _text, "NCHAR": _text, "RAW": _raw, "DATE": _date,
    **dict.fromkeys(TIMES[1:], _moment), "INTERVAL YEAR TO MONTH": _months, "INTERVAL DAY TO SECOND": _seconds,
    **dict.fromkeys(LOBS, _lob), XML: _document, "LONG": _long,
}  # fmt: skip


def any_kind(pen: Pen) -> OracleKind:
    """Any that a replicator follows; large objects in tables with a key only."""
    return KINDS[pen.choice((*KINDS, "NUMBER", "NUMBER", "VARCHAR2", "VARCHAR2", "DATE"))](pen)


def any_but_lobs(pen: Pen) -> OracleKind:
    """Any that a replicator follows in a table without key."""
    while (found := any_kind(pen)).name in LOBS:
        pass
    return found


def _any_number(pen: Pen) -> OracleKind:
    if pen.chance(0.25):
        return OracleKind("NUMBER", None, pen.choice((None, None, 0)))
    size, narrow = pen.randint(1, 38), 30
    return OracleKind("NUMBER", size, pen.choice((0, 0, None, min(2, size), -1 if size < narrow else 0)))


KINDS: dict[str, Callable[[Pen], OracleKind]] = {
    "NUMBER": _any_number,
    "FLOAT": lambda pen: OracleKind("FLOAT", pen.choice((None, 126, 63))),
    "VARCHAR2": lambda pen: OracleKind("VARCHAR2", pen.choice((1, 20, 20, 40, 3900)), by_char=pen.chance(0.6)),
    "NVARCHAR2": lambda pen: OracleKind("NVARCHAR2", pen.choice((1, 20, 100))),
    "CHAR": lambda pen: OracleKind("CHAR", pen.choice((1, 5, 20)), by_char=pen.chance(0.5)),
    "NCHAR": lambda pen: OracleKind("NCHAR", pen.choice((1, 8))),
    "RAW": lambda pen: OracleKind("RAW", pen.choice((1, 16, 300))),
    "INTERVAL YEAR TO MONTH": lambda pen: OracleKind("INTERVAL YEAR TO MONTH", pen.randint(1, 4)),
    "INTERVAL DAY TO SECOND": lambda pen: OracleKind(
        "INTERVAL DAY TO SECOND", pen.randint(1, 4), pen.choice((0, 3, 6, 9))
    ),
    **{
        name: lambda pen, name=name: OracleKind(name, None, pen.choice((0, 3, 6, 6, 9)))  # type: ignore[misc]
        for name in TIMES[1:]
    },
    **{name: lambda _, name=name: OracleKind(name) for name in ("DATE", "BINARY_FLOAT", "BINARY_DOUBLE", *LOBS)},  # type: ignore[misc]
}
