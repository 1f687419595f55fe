"""What every Oracle type must become, and the canonical cell of its values.

Written from Oracle's manual ("Data Types", "Format Models") and the documented mapping of types, not from the pipeline.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from replicator.verification.cells import MAX_DECIMAL_DIGITS, Cell, CellRule, Cells

Texts = Sequence[str | None]

INT_DIGITS, LONG_DIGITS, MICRO_DIGITS, NANO_DIGITS = 9, 18, 6, 9
SECONDS = "'SYYYY-MM-DD HH24:MI:SS'"
FRACTIONS = "'SYYYY-MM-DD HH24:MI:SS.FF9'"
TIMESTAMP = re.compile(r"TIMESTAMP\((\d)\)(| WITH TIME ZONE| WITH LOCAL TIME ZONE)")
INTERVAL = re.compile(r"([+-]?)(\d+) (\d\d:\d\d:\d\d)(?:\.(\d+))?")
EXACT = Context(prec=200)  # digits: Python's own context rounds to 28
MONTHS = re.compile(r"([+-]?)(\d+)-(\d+)")


@dataclass(frozen=True)
class OracleColumn:
    """A row of ALL_TAB_COLS."""

    name: str
    column_type: str
    precision: int | None = None
    scale: int | None = None


def rule(column: OracleColumn, zero_dates: str) -> CellRule | None:
    """The rule for a column; None for a type that no table can hold values of."""
    kind = column.column_type
    plain = {
        "NUMBER": number(column),
        "FLOAT": CellRule("string", "TO_CHAR({}, 'TM9')", "digits"),
        "BINARY_FLOAT": CellRule("float", "{}", "float"),
        "BINARY_DOUBLE": CellRule("double", "{}", "double"),
        "RAW": CellRule("binary", "RAWTOHEX({})", "hex", "HEXTORAW({})"),
        "ROWID": CellRule("string", "ROWIDTOCHAR({})"),
        "CLOB": CellRule("string"),
        "NCLOB": CellRule("string"),
        "BLOB": CellRule("binary", convert="bytes"),
        "XMLTYPE": CellRule("string", "XMLSERIALIZE(CONTENT {} AS CLOB NO INDENT)"),
        "DATE": moment("TO_CHAR({}, " + SECONDS + ")", 0, zero_dates),
    }
    if kind in plain:
        return plain[kind]
    if kind in {"CHAR", "NCHAR", "VARCHAR2", "NVARCHAR2"}:
        return CellRule("string", compare="N{}" if kind[0] == "N" else "{}")
    if found := TIMESTAMP.fullmatch(kind):
        zoned = "" if not found[2] else "TO_CHAR(SYS_EXTRACT_UTC({}), " + FRACTIONS + ")"
        select = zoned or "TO_CHAR({}, " + FRACTIONS + ")"
        if (int(found[1]) > MICRO_DIGITS or zero_dates == "text") and found[2] == " WITH TIME ZONE":
            select = "TO_CHAR({}, 'SYYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM')"
        return moment(select, int(found[1]), zero_dates, zoned=bool(found[2]))
    if kind.startswith("INTERVAL DAY"):
        return CellRule("string", "TO_CHAR({})", f"days{kind.rstrip(')')[-1]}")
    if kind.startswith("INTERVAL YEAR"):
        return CellRule("string", "TO_CHAR({})", "months")
    return None


def number(column: OracleColumn) -> CellRule:
    """NUMBER(p, s), NUMBER(*, 0), NUMBER."""
    precision, scale = column.precision, column.scale or 0
    if precision is None and column.scale != 0:
        return CellRule("string", "TO_CHAR({}, 'TM9')", "digits")
    precision = precision or MAX_DECIMAL_DIGITS
    digits, places = max(precision - min(scale, 0), scale), max(scale, 0)
    if digits > MAX_DECIMAL_DIGITS:
        return CellRule("string", "TO_CHAR({}, 'TM9')", "digits")
    if not places and digits <= LONG_DIGITS:
        return CellRule("int" if digits <= INT_DIGITS else "long", "TO_CHAR({}, 'TM9')", "digits")
    return CellRule(f"decimal({digits}, {places})", "TO_CHAR({}, 'TM9')", f"unscaled{places}")


def moment(select: str, digits: int, zero_dates: str, *, zoned: bool = False) -> CellRule:
    """A date with its time; as text where it is finer than a microsecond, or the policy says so."""
    if digits > MICRO_DIGITS or zero_dates == "text":
        return CellRule("string", select, f"written{digits}")
    compare = "TO_DATE({}, " + SECONDS + ")" if not digits else "TO_TIMESTAMP({}, " + FRACTIONS + ")"
    return CellRule("timestamptz" if zoned else "timestamp", select, "moment", compare)


def encoded(texts: Texts) -> Cells:
    """UTF-8."""
    return [None if text is None else text.encode() for text in texts]


def digits(texts: Texts) -> Cells:
    """Without exponent, without zeros that say nothing."""
    return [None if text is None else plain(Decimal(text)) for text in texts]


def plain(number_: Decimal) -> bytes:
    """A number's digits."""
    text = format(number_, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.encode() if number_ else b"0"


def unscaled(places: int) -> Callable[[Texts], Cells]:
    """`-12.3` of scale 2 → `-1230`."""
    return lambda texts: [None if text is None else b"%d" % int(EXACT.scaleb(Decimal(text), places)) for text in texts]


def floats(form: str) -> Callable[[Sequence[float | None]], Cells]:
    """IEEE bits, every NaN being the same."""
    nan = struct.pack(f"<{form}", float("nan"))
    return lambda values: [
        None if one is None else nan if one != one else struct.pack(f"<{form}", one)  # noqa: PLR0124
        for one in values
    ]


def moments(texts: Texts) -> Cells:
    """Years before 1 become null."""
    return [_moment(text) for text in texts]


def _moment(text: str | None) -> Cell:
    if text is None or text.lstrip()[:1] == "-":
        return None
    second, _, fraction = text.strip().partition(".")
    return f"{second}.{fraction[:MICRO_DIGITS].ljust(MICRO_DIGITS, '0')}".encode()


def written(places: int) -> Callable[[Texts], Cells]:
    """Format the text of a moment with `places` digits of a second."""

    def one(text: str) -> bytes:
        clock, _, zone = text.strip().partition(" ")[2].partition(" ")
        second, _, fraction = clock.partition(".")
        shown = f".{fraction.ljust(NANO_DIGITS, '0')[:places]}" if places else ""
        return f"{text.split(maxsplit=1)[0]} {second}{shown}{f' {zone}' if zone else ''}".encode()

    return lambda texts: [None if text is None else one(text) for text in texts]


def days(places: int) -> Callable[[Texts], Cells]:
    """`+01 02:03:04.500000`."""

    def one(text: str) -> bytes:
        found = INTERVAL.fullmatch(text.strip())
        if found is None:
            raise ValueError(text)
        shown = f".{(found[4] or '').ljust(NANO_DIGITS, '0')[:places]}" if places else ""
        return f"{found[1] or '+'}{int(found[2]):02} {found[3]}{shown}".encode()

    return lambda texts: [None if text is None else one(text) for text in texts]


def months(texts: Texts) -> Cells:
    """`+01-06`."""
    cells: list[Cell] = []
    for text in texts:
        found = None if text is None else MONTHS.fullmatch(text.strip())
        cells.append(None if found is None else f"{found[1] or '+'}{int(found[2]):02}-{int(found[3]):02}".encode())
    return cells


CONVERT: dict[str, Callable[..., Cells]] = {
    "": encoded,
    "bytes": list,
    "digits": digits,
    "hex": lambda texts: [None if text is None else bytes.fromhex(text) for text in texts],
    "float": floats("f"),
    "double": floats("d"),
    "moment": moments,
    "months": months,
    **{f"unscaled{places}": unscaled(places) for places in range(MAX_DECIMAL_DIGITS + 1)},
    **{f"written{places}": written(places) for places in range(NANO_DIGITS + 1)},
    **{f"days{places}": days(places) for places in range(NANO_DIGITS + 1)},
}
