"""Column types of MySQL and MariaDB, each with values worth trying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testing.workload import kinds
from testing.workload.mysql.rng_literals import binary, text
from testing.workload.rng_literals import Pen, plain

NUL = "\x00nul"  # a text that not every target has
INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
CHARACTERS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
LONG_TEXTS = CHARACTERS[2:]
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
LONG_BYTES = BYTES[2:]
SHAPES = {
    "point": ("POINT(1.5 -2)", "POINT(0 0)", "POINT(-179.25 89.5)"),
    "linestring": ("LINESTRING(0 0,1 1,2 3)", "LINESTRING(5 5,6 7)"),
    "polygon": ("POLYGON((0 0,10 0,10 10,0 10,0 0))", "POLYGON((0 0,9 0,9 9,0 9,0 0),(2 2,4 2,4 4,2 4,2 2))"),
    "multipoint": ("MULTIPOINT(0 0,1 1)",),
    "multilinestring": ("MULTILINESTRING((0 0,1 1),(2 2,3 3))",),
    "multipolygon": ("MULTIPOLYGON(((0 0,3 0,3 3,0 3,0 0)),((5 5,7 5,7 7,5 7,5 5)))",),
    "geometrycollection": ("GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))",),
}
GEOMETRIES = ("geometry", *SHAPES)
# Collations by what is worth trying of them: case-insensitive, pad-space, binary, no pad; wide, Cyrillic, double-byte
# sets.
COLLATIONS = {
    "both": (
        "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_german2_ci", "latin1_swedish_ci",
        "latin1_bin",
        "latin1_general_cs", "utf16_general_ci", "utf16_bin", "utf16le_general_ci", "utf32_unicode_ci",
        "ucs2_general_ci",
        "cp1251_general_ci", "cp1251_bin", "sjis_japanese_ci", "cp932_japanese_ci", "ujis_japanese_ci",
        "gbk_chinese_ci",
        "big5_chinese_ci", "euckr_korean_ci", "koi8r_general_ci", "latin2_general_ci", "greek_general_ci",
        "hebrew_general_ci", "cp1250_general_ci", "ascii_general_ci", "tis620_thai_ci", "latin5_turkish_ci",
        "cp850_general_ci", "cp866_general_ci", "cp1256_general_ci", "cp1257_general_ci", "gb2312_chinese_ci",
        "latin7_general_ci", "macce_general_ci", "macroman_general_ci", "swe7_swedish_ci", "dec8_swedish_ci",
        "hp8_english_ci", "keybcs2_general_ci", "koi8u_general_ci", "armscii8_general_ci", "geostd8_general_ci",
        "cp852_general_ci",
    ),
    "mariadb": ("utf8mb4_nopad_bin", "utf8mb4_uca1400_ai_ci", "utf8mb3_general_ci", "latin1_swedish_nopad_ci"),
    "mysql": ("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8_general_ci"),
}  # fmt: skip
COMMON = ("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "latin1_swedish_ci")
_LETTERS = {
    "utf8mb4": "aZé ßñЖ表🎈\u0301İ", "utf8mb3": "aZéßЖ表İ", "utf8": "aZéßЖ表İ", "utf16": "aZЖ表🎈",
    "utf16le": "aZЖ表🎈",
    "utf32": "aZЖ表🎈é", "ucs2": "aZЖ表é", "latin1": "aZéßü€", "cp1251": "aZЖяЮ", "koi8r": "aZЖяЮ", "koi8u": "aZЖяЮ",
    "cp866": "aZЖяЮ", "sjis": "aZ表ソ日ｱ", "cp932": "aZ表ソ日ｱ", "ujis": "aZ表日ア", "gbk": "aZ表中文",
    "gb2312": "aZ中文",
    "big5": "aZ中文功", "euckr": "aZ한국", "latin2": "aZłőč", "cp1250": "aZłőč", "cp852": "aZłőč", "greek": "aZαΩ",
    "hebrew": "aZאש", "tis620": "aZกข", "latin5": "aZışğ", "cp850": "aZéñ", "cp1256": "aZب€", "cp1257": "aZąž",
    "latin7": "aZąž", "macce": "aZčž", "macroman": "aZéñ", "dec8": "aZéñ", "hp8": "aZéñ", "keybcs2": "aZčž",
    "swe7": "aZåö",
}  # fmt: skip


def letters(charset: str) -> tuple[str, ...]:
    """Some that are not ASCII's."""
    return tuple(letter for letter in _LETTERS.get(charset, "") if not letter.isascii())


@dataclass(frozen=True, slots=True)
class MySQLKind(kinds.ValueKind):
    """A type; the zero dates are 0000-00-00 and its like."""

    unsigned: bool = False
    zerofill: bool = False
    compressed: bool = False

    @property
    def charset(self) -> str:
        return self.collation.split("_")[0]

    @property
    def label(self) -> str:
        """For counting which types occurred."""
        return f"{self.name}{' unsigned' if self.unsigned else ''}"

    @property
    def has_default(self) -> bool:
        """A literal DEFAULT is possible on both servers."""
        return self.name not in (*LONG_TEXTS, *LONG_BYTES, *GEOMETRIES, "json")

    @property
    def is_simple(self) -> bool:
        """Its values can be compared and hashed by any function."""
        return self.name not in (*GEOMETRIES, "json", *LONG_BYTES)

    @property
    def has_cases(self) -> bool:
        return self.name not in (*GEOMETRIES, "bit", "json")

    def declared(self) -> str:
        """As it stands in CREATE TABLE."""
        words = [self.name.upper()]
        if self.labels:
            words[0] += f"({', '.join(plain(label) for label in self.labels)})"
        elif self.size is not None:
            words[0] += f"({self.size}{'' if self.scale is None else f',{self.scale}'})"
        if self.unsigned:
            words.append("UNSIGNED")
        if self.zerofill:
            words.append("ZEROFILL")
        if self.collation:
            words.append(f"CHARACTER SET {self.charset} COLLATE {self.collation}")
        if self.compressed:
            words.append("COMPRESSED")
        return " ".join(words)

    def value(self, pen: Pen) -> str:
        """A literal of the type, never NULL."""
        if self.name in INTEGERS:
            return _integer(self, pen)
        if self.name in CHARACTERS:
            return _characters(self, pen)
        if self.name in BYTES:
            return _bytes(self, pen)
        if self.name in GEOMETRIES:
            return _geometry(self, pen)
        return _VALUES[self.name](self, pen)


def _integer(kind: MySQLKind, pen: Pen) -> str:
    bits = INTEGERS[kind.name]
    low, high = (0, 2**bits - 1) if kind.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return str(pen.choice((low, high, 0, 1, pen.randint(0, 9), pen.randint(0, 9), pen.randint(low, high))))


def _decimal(kind: MySQLKind, pen: Pen) -> str:
    size, scale = kind.size or 10, kind.scale or 0
    number = pen.choice((0, 1, 10**size - 1, pen.randrange(10**size), pen.randrange(10 ** min(size, 6))))
    if not number:
        return "0"
    digits = f"{number:0{scale + 1}d}"
    sign = "-" if not kind.unsigned and pen.chance(0.4) else ""
    return f"{sign}{digits[: len(digits) - scale]}{'.' if scale else ''}{digits[len(digits) - scale :]}"


_SINGLE = ("-0e0", "3.40282e38", "-3.40282e38", "1.17549435e-38", "1e-45", "16777217", "0.1", "1.5e10")
_DOUBLE = (
    "-0e0", "1.7976931348623157e308", "-1.7976931348623157e308", "2.2250738585072014e-308", "0.1", "1e16", "1e-7",
)  # fmt: skip


def _float(kind: MySQLKind, pen: Pen) -> str:
    if kind.size is not None:
        return f"{pen.choice((-1, 1)) * pen.randint(0, 10**4 - 1) / 10:.1f}"
    values: tuple[str, ...] = _SINGLE if kind.name == "float" else _DOUBLE
    return pen.choice((*values, repr(pen.uniform(-1e6, 1e6)), str(pen.randint(0, 9))))


def _bit(kind: MySQLKind, pen: Pen) -> str:
    size = kind.size or 1
    return f"b'{pen.choice((0, 1, 2**size - 1, pen.getrandbits(size))):0{size}b}'"


def _characters(kind: MySQLKind, pen: Pen) -> str:
    most = kind.size or (60 if kind.name == "tinytext" else 300)
    letters = _LETTERS.get(kind.charset, "aZ")
    odd = (
        "",
        " ",
        "a",
        "A",
        "a ",
        "NULL",
        "0",
        "it's",
        "tab\tline\nend",
        "back\\slash",
        "%s %",
        NUL,
        '"x"',
        "{}",
    )
    if pen.chance(0.4):
        return text(pen.choice([value for value in odd if len(value) <= most]), pen)
    length = pen.randint(0, min(most, 12)) if pen.chance(0.9) else most
    return text("".join(pen.choices(letters, k=length)), pen)


def _bytes(kind: MySQLKind, pen: Pen) -> str:
    most = kind.size or (100 if kind.name == "tinyblob" else 600)
    length = pen.choice((0, 1, min(most, 8), pen.randint(0, most)))
    trailing = pen.randbytes(length // 2) + bytes(min(1, length - length // 2))
    return binary(pen.choice((pen.randbytes(length), bytes(length), b"\xff" * length, trailing)))


def _geometry(kind: MySQLKind, pen: Pen) -> str:
    shapes = SHAPES.get(kind.name) or pen.choice(list(SHAPES.values()))
    shape = pen.choice(shapes)
    system = ", 4326" if kind.name == "point" and "89.5" not in shape and pen.chance(0.3) else ""
    return f"ST_GeomFromText('{shape}'{system})"


def _label(kind: MySQLKind, pen: Pen) -> str:
    return plain(pen.choice(kind.labels))


def _labels(kind: MySQLKind, pen: Pen) -> str:
    return plain(",".join(label for label in kind.labels if pen.chance(0.4)))


def _fraction(kind: MySQLKind, pen: Pen) -> str:
    digits = kind.size or 0
    return f".{pen.choice((0, 10**digits - 1, pen.randrange(10**digits))):0{digits}d}" if digits else ""


def _day(pen: Pen) -> str:
    return pen.choice(
        ("1000-01-01", "9999-12-31", "1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01", "2000-02-29", "1900-03-01",
         f"{pen.randint(1950, 2090):04d}-{pen.randint(1, 12):02d}-{pen.randint(1, 28):02d}",
         f"{pen.randint(1950, 2090):04d}-{pen.randint(1, 12):02d}-{pen.randint(1, 28):02d}", "0001-01-01")
    )  # fmt: skip


def _clock(pen: Pen) -> str:
    return pen.choice(
        ("00:00:00", "23:59:59", f"{pen.randrange(24):02d}:{pen.randrange(60):02d}:{pen.randrange(60):02d}")
    )


def _date(kind: MySQLKind, pen: Pen) -> str:
    if kind.zero and pen.chance(0.2):
        return plain(pen.choice(("0000-00-00", "2020-00-10", "2020-05-00")))
    return plain(_day(pen))


def _datetime(kind: MySQLKind, pen: Pen) -> str:
    if kind.zero and pen.chance(0.2):
        return plain(pen.choice(("0000-00-00 00:00:00", "2020-00-10 12:00:00", "0000-05-00 01:02:03")))
    return plain(f"{_day(pen)} {_clock(pen)}{_fraction(kind, pen)}")


def _timestamp(kind: MySQLKind, pen: Pen) -> str:
    if kind.zero and pen.chance(0.2):
        return "'0000-00-00 00:00:00'"
    if pen.chance(0.1):
        return pen.choice(("FROM_UNIXTIME(2147483647)", "FROM_UNIXTIME(1)"))  # first and last, in any time zone
    day = pen.choice(("1970-01-02", "2038-01-17", "2024-03-31", "2024-10-27",
                      f"{pen.randint(1971, 2037)}-{pen.randint(1, 12):02d}-{pen.randint(1, 28):02d}"))  # fmt: skip
    return plain(f"{day} {_clock(pen)}{_fraction(kind, pen)}")


def _time(kind: MySQLKind, pen: Pen) -> str:
    if pen.chance(0.3):
        return plain(pen.choice(("838:59:59", "-838:59:59", "00:00:00", "-00:00:01")))
    hours = pen.choice((0, 23, pen.randrange(838)))
    return plain(
        f"{pen.choice(('', '-'))}{hours:02d}:{pen.randrange(60):02d}:{pen.randrange(60):02d}{_fraction(kind, pen)}"
    )


def _year(_kind: MySQLKind, pen: Pen) -> str:
    return str(pen.choice((0, 1901, 2155, pen.randint(1970, 2030))))


def _json(_kind: MySQLKind, pen: Pen) -> str:
    return text(
        pen.choice(
            (
                "{}", "[]", "null", "1", "-0.5", '"text"', "true", '{"a": 1, "b": [1, 2, {"c": null}]}',
                '{"é": "表🎈", "n": 12345678901234567890, "f": 1.5e300}', '[1, "two", 3.0, false]',
                '{"k": "' + "x" * pen.randint(0, 300) + '"}', '{"q": "it\'s \\"quoted\\" \\\\"}',
            )
        ),
        pen,
    )  # fmt: skip


def _uuid(_kind: MySQLKind, pen: Pen) -> str:
    digits = f"{pen.getrandbits(128):032x}"  # MariaDB keeps versions 1 to 5 in another order of bytes than 6 and above
    digits = f"{digits[:12]}{pen.choice('1467')}{digits[13:16]}{pen.choice('89ab')}{digits[17:]}"
    return plain("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def _inet4(_kind: MySQLKind, pen: Pen) -> str:
    return plain(".".join(str(pen.randrange(256)) for _ in range(4)))


def _inet6(_kind: MySQLKind, pen: Pen) -> str:
    return plain(
        pen.choice(
            ("::", "::1", "::ffff:1.2.3.4", "fe80::1", f"2001:db8::{pen.getrandbits(16):x}:{pen.getrandbits(16):x}")
        )
    )


_VALUES: dict[str, Callable[[MySQLKind, Pen], str]] = {
    "bool": lambda _kind, pen: pen.choice(("0", "1", "1", "2", "-1")),
    "decimal": _decimal, "float": _float, "double": _float, "bit": _bit, "enum": _label, "set": _labels, "date": _date,
    "datetime": _datetime, "timestamp": _timestamp, "time": _time, "year": _year, "json": _json, "uuid": _uuid,
    "inet4": _inet4, "inet6": _inet6,
}  # fmt: skip
