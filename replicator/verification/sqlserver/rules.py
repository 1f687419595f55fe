"""What every SQL Server type must become, and the canonical cell of its values.

Written from Microsoft's reference (Data types; CAST and CONVERT, styles) and the documented mapping of types, not from
the pipeline.  Every value is read as the text that the server prints.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replicator.verification.cells import CellRule, Cells

Texts = Sequence[str | None]
MICROSECONDS = 6
MOMENT_LENGTH = len("2026-01-02 03:04:05.000006")
PRINTED = "CONVERT(varchar(40), {}, 121)"
HEX = "CONVERT(varchar(max), CAST({} AS varbinary(max)), 2)"
BASE = "CAST(SQL_VARIANT_PROPERTY({}, 'BaseType') AS nvarchar(128))"
VARIANT = f"""CASE WHEN {BASE} IN (N'binary', N'varbinary')
        THEN '0x' + CONVERT(varchar(max), CAST({{}} AS varbinary(8000)), 2)
    WHEN {BASE} IN (N'float', N'real') THEN CONVERT(varchar(40), CAST({{}} AS float), 3)
    WHEN {BASE} IN (N'money', N'smallmoney') THEN CONVERT(varchar(40), CAST({{}} AS money), 2)
    WHEN {BASE} = N'date' THEN CONVERT(varchar(10), CAST({{}} AS date), 23)
    WHEN {BASE} = N'time' THEN CONVERT(varchar(40), CAST({{}} AS time(7)), 121)
    WHEN {BASE} IN (N'datetime', N'smalldatetime') THEN CONVERT(varchar(40), CAST({{}} AS datetime), 121)
    WHEN {BASE} = N'datetime2' THEN CONVERT(varchar(40), CAST({{}} AS datetime2(7)), 121)
    WHEN {BASE} = N'datetimeoffset' THEN CONVERT(varchar(40), CAST({{}} AS datetimeoffset(7)), 121)
    ELSE CAST({{}} AS nvarchar(max)) END"""
_RULES = {
    "bit": CellRule("boolean", "CONVERT(varchar(1), {})"),
    "tinyint": CellRule("int", "CONVERT(varchar(20), {})"),
    "smallint": CellRule("int", "CONVERT(varchar(20), {})"),
    "int": CellRule("int", "CONVERT(varchar(20), {})"),
    "bigint": CellRule("long", "CONVERT(varchar(20), {})"),
    "money": CellRule("decimal(19, 4)", "CONVERT(varchar(40), {}, 2)", "unscaled"),
    "smallmoney": CellRule("decimal(10, 4)", "CONVERT(varchar(40), {}, 2)", "unscaled"),
    "float": CellRule("double", "CONVERT(varchar(40), {}, 3)", "double"),
    "real": CellRule("float", "CONVERT(varchar(40), CAST({} AS float), 3)", "float"),
    "date": CellRule("date", "CONVERT(varchar(10), {}, 23)"),
    "datetime": CellRule("timestamp", PRINTED, "moment"),
    "smalldatetime": CellRule("timestamp", PRINTED, "moment"),
    "time": CellRule("string", PRINTED),
    "datetimeoffset": CellRule("string", PRINTED),
    "uniqueidentifier": CellRule("string", "CONVERT(char(36), {})"),
    "hierarchyid": CellRule("string", "CAST({} AS nvarchar(4000))"),
    "sql_variant": CellRule("string", VARIANT),
    "nvarchar": CellRule("string"),
    "nchar": CellRule("string"),
    **dict.fromkeys(("char", "varchar", "text", "ntext", "xml"), CellRule("string", "CAST({} AS nvarchar(max))")),
    **dict.fromkeys(
        ("binary", "varbinary", "image", "timestamp", "geometry", "geography", "assembly"),
        CellRule("binary", HEX, "hex"),
    ),
}


@dataclass(frozen=True)
class SqlServerColumn:
    """A row of sys.columns; `base`: the system type, "assembly" for a CLR type."""

    name: str
    column_type: str
    base: str
    precision: int = 0
    scale: int = 0
    length: int = 0
    collation: str = ""
    reason: str = ""

    @property
    def sql_type(self) -> str:
        """The system type in full, for literals."""
        if self.base in {"decimal", "numeric"}:
            return f"{self.base}({self.precision},{self.scale})"
        if self.base in {"time", "datetime2", "datetimeoffset"}:
            return f"{self.base}({self.scale})"
        if self.base in {"char", "varchar", "binary", "varbinary"}:
            return f"{self.base}({self.length if self.length > 0 else 'max'})"
        if self.base in {"nchar", "nvarchar"}:
            return f"{self.base}({self.length // 2 if self.length > 0 else 'max'})"
        return "binary(8)" if self.base == "timestamp" else self.base


def rule(column: SqlServerColumn) -> CellRule | None:
    """The rule for a column; None for a type that this module does not know."""
    if column.base in {"decimal", "numeric"}:
        return CellRule(f"decimal({column.precision}, {column.scale})", "CONVERT(varchar(60), {})", "unscaled")
    if column.base == "datetime2":
        return CellRule("string", PRINTED) if column.scale > MICROSECONDS else CellRule("timestamp", PRINTED, "moment")
    return _RULES.get(column.base)


def encoded(texts: Texts) -> Cells:
    """UTF-8."""
    return [None if text is None else text.encode() for text in texts]


def unhexed(texts: Texts) -> Cells:
    """Bytes from hexadecimal digits."""
    return [None if text is None else bytes.fromhex(text) for text in texts]


def unscaled(texts: Texts) -> Cells:
    """`-12.30` → `-1230`: the scale is the column's."""
    return [None if text is None else b"%d" % int(text.replace(".", "")) for text in texts]


def moments(texts: Texts) -> Cells:
    """The fraction padded to six digits."""
    return [
        None if text is None else (text if "." in text else text + ".").ljust(MOMENT_LENGTH, "0").encode()
        for text in texts
    ]


def floats(code: str) -> Callable[[Texts], Cells]:
    """The IEEE bits of the number that 17 digits name."""
    return lambda texts: [None if text is None else struct.pack(code, float(text)) for text in texts]


CONVERT: dict[str, Callable[[Texts], Cells]] = {
    "": encoded,
    "hex": unhexed,
    "unscaled": unscaled,
    "moment": moments,
    "float": floats("<f"),
    "double": floats("<d"),
}
