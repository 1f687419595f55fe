"""What every MySQL and MariaDB type must become, and the canonical cell of its values.

Written from the MySQL and MariaDB manuals ("Data Types"), not the pipeline.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass

import numpy as np

from replicator.verification.cells import MAX_DECIMAL_DIGITS, CellRule, Cells, Convert

BIT_LONG = 63
LAST_SURE_DAY = b"28"
SMALL_INTEGERS = {"tinyint", "smallint", "mediumint", "int"}
TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "time"}
TEXTS |= {"uuid", "inet4", "inet6", "xmltype"}
BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"}
BYTES |= {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
BYTES |= {"geometrycollection", "geomcollection"}


@dataclass(frozen=True)
class SourceColumn:
    """A row of information_schema.COLUMNS."""

    name: str
    data_type: str
    column_type: str
    precision: int = 0
    scale: int = 0
    fraction: int = 0
    charset: str = ""
    collation: str = ""


def rule(column: SourceColumn, zero_dates: str) -> CellRule | None:
    """The rule for a column; None for a type this module does not know."""
    kind = column.data_type.lower()
    if kind in TEXTS:
        return CellRule("string", compare=_own_collation(column))
    if kind in BYTES:
        return CellRule("binary")
    if kind in SMALL_INTEGERS or kind == "bigint":
        return _integer(kind, column)
    if kind in {"float", "double", "real"}:
        # a bare FLOAT is printed with six digits only; a product has all digits, and keeps the sign of zero
        return CellRule("float" if kind == "float" else "double", "{} * 1e0", "float" if kind == "float" else "double")
    if kind in {"date", "datetime", "timestamp"}:
        return _temporal(kind, column, zero_dates)
    return _other(kind, column)


def _own_collation(column: SourceColumn) -> str:
    """Beside a literal of another one the server refuses to compare, or (UTF-16 and the like in MariaDB 11.4) finds
    nothing.
    """
    return f"CONVERT({{}} USING {column.charset}) COLLATE {column.collation}" if column.collation else "{}"


def _integer(kind: str, column: SourceColumn) -> CellRule:
    unsigned = "unsigned" in column.column_type.lower()
    convert = "digits" if "zerofill" in column.column_type.lower() else ""
    if kind == "bigint":
        return CellRule("decimal(20, 0)" if unsigned else "long", convert=convert)
    return CellRule("long" if kind == "int" and unsigned else "int", convert=convert)


def _temporal(kind: str, column: SourceColumn, zero_dates: str) -> CellRule:
    if zero_dates == "text":
        return CellRule("string")
    if kind == "date":
        return CellRule("date", convert="date")
    return CellRule("timestamp" if kind == "datetime" else "timestamptz", convert=f"moment{column.fraction}")


def _other(kind: str, column: SourceColumn) -> CellRule | None:
    if kind == "decimal":
        if column.precision > MAX_DECIMAL_DIGITS:
            return CellRule("string", convert="")
        return CellRule(f"decimal({column.precision}, {column.scale})", convert="unscaled")
    if kind == "bit":
        if column.precision == 1:
            return CellRule("boolean", convert="bits")
        return CellRule("long" if column.precision <= BIT_LONG else "decimal(20, 0)", convert="bits")
    if kind == "year":
        return CellRule("int", convert="digits")
    return None


def digits(cells: Cells) -> Cells:
    """Integers without leading zeros."""
    return [None if c is None else b"%d" % int(c) for c in cells]


def unscaled(cells: Cells) -> Cells:
    """`-12.30` → `-1230`: the scale is the column's."""
    return [None if c is None else b"%d" % int(c.replace(b".", b"")) for c in cells]


def bits(cells: Cells) -> Cells:
    """BIT values come as big-endian bytes."""
    return [None if c is None else b"%d" % int.from_bytes(c, "big") for c in cells]


def float_bits(cells: Cells) -> Cells:
    """The text of a double that is exactly a float32."""
    return _ieee(cells, np.float32)


def double_bits(cells: Cells) -> Cells:
    """Shortest text of a double, which reads back exactly."""
    return _ieee(cells, np.float64)


def _ieee(cells: Cells, kind: type[np.float32 | np.float64]) -> Cells:
    return [None if c is None else kind(float(c)).tobytes() for c in cells]


def real(text: bytes) -> bool:
    """False for what MySQL stores as a date and no calendar has: zero year, month or day, 31 February."""
    if text[:4] == b"0000" or text[5:7] == b"00" or text[8:10] == b"00":
        return False
    return text[8:10] <= LAST_SURE_DAY or int(text[8:10]) <= monthrange(int(text[:4]), int(text[5:7]))[1]


def dates(cells: Cells) -> Cells:
    """Dates that are none become null."""
    return [c if c is not None and real(c) else None for c in cells]


def moments(fraction: int) -> Convert:
    """Date and time with `fraction` digits of a second, padded to six."""
    pad = b"" if fraction == 6 else (b"." if fraction == 0 else b"") + b"0" * (6 - fraction)  # noqa: PLR2004

    def convert(cells: Cells) -> Cells:
        return [c + pad if c is not None and real(c) else None for c in cells]

    return convert


CONVERT: dict[str, Convert] = {
    "digits": digits,
    "unscaled": unscaled,
    "bits": bits,
    "float": float_bits,
    "double": double_bits,
    "date": dates,
    **{f"moment{fraction}": moments(fraction) for fraction in range(7)},
}
