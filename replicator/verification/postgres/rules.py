"""What every Postgres type must become, and the canonical cell of its values.

Written from the Postgres manual ("Data Types", "System Catalogs") and the documented mapping of types, not from the
pipeline.  A type that no Iceberg type holds exactly becomes the text that the server prints (`SESSION` of the reader).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replicator.verification.cells import MAX_DECIMAL_DIGITS, Cell, CellRule, Cells

Texts = Sequence[str | None]

DATE_LENGTH = len("2026-01-02")
SECOND_LENGTH = len("2026-01-02 03:04:05")
MICROSECOND_LENGTH = len("2026-01-02 03:04:05.000006")
NUMERIC_HEADER = 4  # pg_attribute.atttypmod of numeric(p, s) is ((p << 16) | s) + 4, s in eleven bits, signed
SCALE_BITS = 0x7FF
SCALE_SIGN = 0x400
BASE, PSEUDO = "b", "p"  # pg_type.typtype
EXACT = {
    "bool": CellRule("boolean", "{}::int::text"),
    "int2": CellRule("int", "{}::text"),
    "int4": CellRule("int", "{}::text"),
    "int8": CellRule("long", "{}::text"),
    "oid": CellRule("long", "{}::text"),
    "float4": CellRule("float", "encode(float4send({}), 'hex')", "float4"),
    "float8": CellRule("double", "encode(float8send({}), 'hex')", "float8"),
    "bytea": CellRule("binary", "encode({}, 'hex')", "hex"),
}
TEMPORAL = {
    "date": CellRule("date", "{}::text", "date"),
    "timestamp": CellRule("timestamp", "{}::text", "moment"),
    "timestamptz": CellRule("timestamptz", "{}::text", "moment_utc"),
}
GENERATED_LOGGED = 180000  # CREATE PUBLICATION … WITH (publish_generated_columns) came with 18


@dataclass(frozen=True)
class PostgresColumn:
    """A row of pg_attribute, with its type in words.

    `plain`: pg_type.typname of the type below all domains, "" where it is not a built-in type; `kind`: its typtype;
    `modifier`: its effective typmod; `generated`: "", "s" (stored) or "v" (virtual).
    """

    name: str
    column_type: str
    plain: str
    kind: str = "b"
    modifier: int = -1
    generated: str = ""


def left_out(column: PostgresColumn, version: int) -> str:
    """Why a column is not replicated; empty for one that is.  `version`: server_version_num.

    The log has no generated columns before Postgres 18, and virtual ones never: so no copy of them could follow, and
    the target must not have them.
    """
    if column.generated == "v":
        return "it is generated on reading (virtual), so the log never has it"
    if column.generated == "s" and version < GENERATED_LOGGED:
        return f"it is generated (stored), and Postgres {version // 10_000} does not log such columns"
    return ""


def rule(column: PostgresColumn, zero_dates: str) -> CellRule | None:
    """The rule for a column; None for a type that no table can hold values of."""
    if column.plain in EXACT:
        return EXACT[column.plain]
    if column.plain in TEMPORAL and zero_dates != "text":
        return TEMPORAL[column.plain]
    if column.plain == "numeric" and (size := precision_and_scale(column.modifier)):
        precision, scale = size
        return CellRule(f"decimal({precision}, {scale})", "{}::text", "unscaled")
    if column.kind == BASE and not column.plain:  # an extension's own `=` is not in the search path
        return CellRule("string", compare="{}::text")
    return None if column.kind == PSEUDO else CellRule("string")


def precision_and_scale(modifier: int) -> tuple[int, int] | None:
    """Of a numeric whose every value a decimal holds (NaN apart); None for any other."""
    if modifier < NUMERIC_HEADER:
        return None
    packed = modifier - NUMERIC_HEADER
    precision, scale = packed >> 16, ((packed & SCALE_BITS) ^ SCALE_SIGN) - SCALE_SIGN
    return (precision, scale) if 0 <= scale <= precision <= MAX_DECIMAL_DIGITS else None


def encoded(texts: Texts) -> Cells:
    """UTF-8."""
    return [None if text is None else text.encode() for text in texts]


def unhexed(texts: Texts) -> Cells:
    """Bytes from hexadecimal digits."""
    return [None if text is None else bytes.fromhex(text) for text in texts]


def unscaled(texts: Texts) -> Cells:
    """`-12.30` → `-1230`: the scale is the column's.  NaN stays, so that it equals nothing a decimal can hold."""
    return [None if t is None else b"NaN" if t == "NaN" else b"%d" % int(t.replace(".", "")) for t in texts]


def floats(code: str) -> Callable[[Texts], Cells]:
    """The IEEE bits, from the big-endian ones in hexadecimal that float4send and float8send give."""
    network, own = struct.Struct(">" + code), struct.Struct("<" + code)

    def cell(text: str | None) -> Cell:
        if text is None:
            return None
        (value,) = network.unpack(bytes.fromhex(text))
        return own.pack(value if value == value else float("nan"))  # noqa: PLR0124 - every NaN is the same

    return lambda texts: [cell(text) for text in texts]


def dates(texts: Texts) -> Cells:
    """What has no year from 0001 to 9999 becomes null: infinity, 0044-03-15 BC, 10000-01-01."""
    return [None if text is None or len(text) != DATE_LENGTH else text.encode() for text in texts]


def moment(text: str | None) -> Cell:
    """As `dates`; the fraction padded to six digits."""
    if text is None or not SECOND_LENGTH <= len(text) <= MICROSECOND_LENGTH or text[4] != "-" or text.endswith("BC"):
        return None
    return (text if "." in text else text + ".").ljust(MICROSECOND_LENGTH, "0").encode()


def moments(texts: Texts) -> Cells:
    """Of timestamp."""
    return [moment(text) for text in texts]


def utc_moments(texts: Texts) -> Cells:
    """Of timestamptz, printed in UTC."""
    return [moment(None if text is None else text.removesuffix("+00")) for text in texts]


CONVERT: dict[str, Callable[[Texts], Cells]] = {
    "": encoded,
    "hex": unhexed,
    "unscaled": unscaled,
    "float4": floats("f"),
    "float8": floats("d"),
    "date": dates,
    "moment": moments,
    "moment_utc": utc_moments,
}
