"""The one mapping of SQL Server's column types; catalog, snapshot and log all use it.

Its part of docs/types.md is `type_document()`.  Sources:
learn.microsoft.com/sql/t-sql/data-types/data-types-transact-sql
learn.microsoft.com/sql/t-sql/data-types/sql-variant-transact-sql
learn.microsoft.com/sql/t-sql/functions/sql-variant-property-transact-sql
learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replicator.errors import UnsupportedType
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, RESERVED, Column
from replicator.model.types import DataType

MICROSECONDS, MAX_IN_ROW = 6, 4000  # digits after the second; characters of an nvarchar that is none of max
TEXTS = frozenset({"char", "varchar", "text", "nchar", "nvarchar", "ntext"})
SINGLE_BYTE = frozenset({"char", "varchar", "text"})  # in the code page of their collation, or in UTF-8
BYTES = frozenset({"binary", "varbinary", "image", "timestamp"})
USER_DEFINED = frozenset({"geometry", "geography", "assembly"})
TEMPORAL = frozenset({"date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset"})
VARIANT = "sql_variant"
OLD_LARGE = frozenset({"text", "ntext", "image"})  # the log has no old values of them
_AS_PRINTED = "CONVERT(varchar(40), {}, 121)"  # ODBC canonical: all digits
# Of a sql_variant, by the type that each value has (SQL_VARIANT_PROPERTY): a style names the type that it converts, so
# the value is cast to that first.  Style 3 is lossless for float, and 2 has all of money's digits ("CAST and CONVERT").
_VARIANT = """CASE CAST(SQL_VARIANT_PROPERTY({0}, 'BaseType') AS nvarchar(128))
    WHEN 'binary' THEN CONVERT(varchar(max), CAST({0} AS varbinary(8000)), 1)
    WHEN 'varbinary' THEN CONVERT(varchar(max), CAST({0} AS varbinary(8000)), 1)
    WHEN 'float' THEN CONVERT(varchar(40), CAST({0} AS float), 3)
    WHEN 'real' THEN CONVERT(varchar(40), CAST({0} AS float), 3)
    WHEN 'money' THEN CONVERT(varchar(40), CAST({0} AS money), 2)
    WHEN 'smallmoney' THEN CONVERT(varchar(40), CAST({0} AS money), 2)
    WHEN 'date' THEN CONVERT(varchar(40), CAST({0} AS date), 121)
    WHEN 'time' THEN CONVERT(varchar(40), CAST({0} AS time(7)), 121)
    WHEN 'datetime' THEN CONVERT(varchar(40), CAST({0} AS datetime), 121)
    WHEN 'smalldatetime' THEN CONVERT(varchar(40), CAST({0} AS datetime), 121)
    WHEN 'datetime2' THEN CONVERT(varchar(40), CAST({0} AS datetime2(7)), 121)
    WHEN 'datetimeoffset' THEN CONVERT(varchar(40), CAST({0} AS datetimeoffset(7)), 121)
    ELSE CAST({0} AS nvarchar(max)) END"""
_SELECTED = {
    "datetime": "CAST({} AS datetime2(3))",
    "smalldatetime": "CAST({} AS datetime2(0))",
    "datetimeoffset": _AS_PRINTED,
    "time": _AS_PRINTED,
    "hierarchyid": "CAST({} AS nvarchar(4000))",
    VARIANT: _VARIANT,
    "uniqueidentifier": "CONVERT(char(36), {})",
    "timestamp": "CAST({} AS binary(8))",
    **dict.fromkeys(("char", "varchar", "text", "ntext", "xml"), "CAST({} AS nvarchar(max))"),
    **dict.fromkeys(("image", *sorted(USER_DEFINED)), "CAST({} AS varbinary(max))"),
}


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as sys.columns describes it; `base` is the system type behind an alias type ("assembly" for a CLR type).

    `length`: bytes, -1 for max.  `absent`: why change data capture has no values of it, empty for most.
    """

    name: str
    base: str
    number: int = 0
    length: int = 0
    precision: int = 0
    scale: int = 0
    collation: str = ""
    nullable: bool = True
    absent: str = ""
    encrypted: bool = False
    masked: bool = False
    filled: bool = False  # it has a default, which rows that were there may have got with it
    type_name: str = field(default="", compare=False)
    comment: str = field(default="", compare=False)

    @property
    def large(self) -> bool:
        """Of which an old row in the log may lack the value (cdc.<capture_instance>_CT, "Large object data types")."""
        return self.length == -1 or self.base in OLD_LARGE | {"xml"} | USER_DEFINED

    @property
    def text(self) -> str:
        """As it is declared: `decimal(10,2)`, `varchar(max)`."""
        return self._declared("rowversion" if self.base == "timestamp" else self.type_name or self.base)

    @property
    def text_of_base(self) -> str:
        """The same of the system type."""
        return self._declared(self.base)

    def _declared(self, name: str) -> str:
        if name not in {self.base, "rowversion"}:
            return name  # an alias type says all by its name
        if self.base in {"decimal", "numeric"}:
            return f"{name}({self.precision},{self.scale})"
        if self.base in {"time", "datetime2", "datetimeoffset"}:
            return f"{name}({self.scale})"
        if self.base in {"char", "varchar", "binary", "varbinary", "nchar", "nvarchar"}:
            size = self.length // 2 if self.base.startswith("n") else self.length
            return f"{name}({'max' if self.length == -1 else size})"
        return name


def column_of(definition: ColumnDefinition, table: TableId, *, key: bool = False) -> Column:
    """The column as Tidemark keeps it.  Raises UnsupportedType."""
    name = definition.name.lower()
    if name in RESERVED or name.startswith(BEFORE):
        message = f"Column {definition.name} of {table} has a name that is reserved by Tidemark."
        raise UnsupportedType(message, table=str(table), column=definition.name)
    if key and definition.base == VARIANT:
        message = (
            f"Column {definition.name} in the key of {table} is a sql_variant, which is supported only outside of keys:"
            " its text may stand for several of its values."
        )
        raise UnsupportedType(message, table=str(table), remedy="Exclude the table.")
    kind = data_type_of(definition, table)
    return Column(
        definition.name, kind, definition.nullable and not key, definition.text, warning_of(definition),
        definition.number, comment=definition.comment,
    )  # fmt: skip


def data_type_of(definition: ColumnDefinition, table: TableId) -> DataType:
    """The type that holds every value of the column.  Raises UnsupportedType."""
    if definition.encrypted:
        message = f"Column {definition.name} of {table} is encrypted by its clients (Always Encrypted)."
        raise UnsupportedType(message, table=str(table), column=definition.name)
    rule = _RULES.get(definition.base)
    if rule is None:
        message = (
            f"Column {definition.name} of {table} has the type {definition.text}, which Tidemark does not support."
        )
        raise UnsupportedType(message, table=str(table), column=definition.name)
    return rule(definition) if callable(rule) else rule


def warning_of(definition: ColumnDefinition) -> str:
    """What the target's column is less than the source's; empty for most."""
    if definition.base == "datetime2" and definition.scale > MICROSECONDS:
        return f"{definition.text} has more than {MICROSECONDS} digits after the second: it becomes text."
    if definition.base == VARIANT:
        return "Each sql_variant value has its own type: the column becomes text, without that type."
    if definition.base == "datetimeoffset":
        return "Each datetimeoffset value has its own offset: the column becomes text."
    return ""


def _decimal(definition: ColumnDefinition) -> DataType:
    return types.decimal(definition.precision, definition.scale)


def _datetime2(definition: ColumnDefinition) -> DataType:
    return types.STRING if definition.scale > MICROSECONDS else types.TIMESTAMP_NTZ


_RULES: Mapping[str, DataType | Callable[[ColumnDefinition], DataType]] = {
    "bit": types.BOOLEAN,
    "tinyint": types.INT,
    "smallint": types.INT,
    "int": types.INT,
    "bigint": types.BIGINT,
    "decimal": _decimal,
    "numeric": _decimal,
    "money": types.decimal(19, 4),
    "smallmoney": types.decimal(10, 4),
    "float": types.DOUBLE,
    "real": types.FLOAT,
    "date": types.DATE,
    "datetime": types.TIMESTAMP_NTZ,
    "smalldatetime": types.TIMESTAMP_NTZ,
    "datetime2": _datetime2,
    "datetimeoffset": types.STRING,
    "time": types.STRING,
    "uniqueidentifier": types.STRING,
    "xml": types.STRING,
    "hierarchyid": types.STRING,
    VARIANT: types.STRING,
    **dict.fromkeys(TEXTS, types.STRING),
    **dict.fromkeys(BYTES | USER_DEFINED, types.BINARY),
}


def select_expression(definition: ColumnDefinition, name: str) -> str:
    """What to SELECT to get the value in full; `name` is the column in SQL.  The driver gives the rest exactly."""
    base = definition.base
    if base == "datetime2":
        return _AS_PRINTED.format(name) if definition.scale > MICROSECONDS else name
    if base in {"char", "varchar"} and 0 < definition.length <= MAX_IN_ROW:
        return f"CAST({name} AS nvarchar({definition.length}))"  # the server knows its code pages
    return _SELECTED.get(base, "{}").format(name)


_SAMPLES: tuple[tuple[str, ColumnDefinition, str], ...] = (
    ("bit", ColumnDefinition("", "bit"), ""),
    ("tinyint, smallint, int", ColumnDefinition("", "int"), ""),
    ("bigint", ColumnDefinition("", "bigint"), ""),
    ("decimal(p,s), numeric(p,s), such as decimal(38,10)", ColumnDefinition("", "decimal", precision=38, scale=10), ""),
    ("money", ColumnDefinition("", "money"), ""),
    ("smallmoney", ColumnDefinition("", "smallmoney"), ""),
    ("float(25) to float(53)", ColumnDefinition("", "float"), ""),
    ("real, float(1) to float(24)", ColumnDefinition("", "real"), ""),
    ("date", ColumnDefinition("", "date"), ""),
    ("datetime", ColumnDefinition("", "datetime"), "as the server prints it: .003, .007"),
    ("smalldatetime", ColumnDefinition("", "smalldatetime"), ""),
    ("datetime2(0) to datetime2(6)", ColumnDefinition("", "datetime2", scale=6), ""),
    ("datetime2(7), which is datetime2", ColumnDefinition("", "datetime2", scale=7), "the server's text, 7 digits"),
    ("datetimeoffset(n)", ColumnDefinition("", "datetimeoffset"), "the server's text, with its offset"),
    ("time(n)", ColumnDefinition("", "time"), "the server's text"),
    (
        "char, varchar, nchar, nvarchar, text, ntext",
        ColumnDefinition("", "varchar"),
        "in Unicode, as the server converts it",
    ),
    ("binary, varbinary, image", ColumnDefinition("", "varbinary"), ""),
    ("rowversion (timestamp)", ColumnDefinition("", "timestamp"), "8 bytes"),
    ("uniqueidentifier", ColumnDefinition("", "uniqueidentifier"), "upper-case text with hyphens"),
    ("xml", ColumnDefinition("", "xml"), "the server's text"),
    ("hierarchyid", ColumnDefinition("", "hierarchyid"), "the server's text: /1/2/"),
    (
        "sql_variant",
        ColumnDefinition("", "sql_variant"),
        "text of each value, without its type ([forms](../replicator/sources/sqlserver/README.md)); refused in a key",
    ),
    ("geometry, geography, CLR types", ColumnDefinition("", "geometry"), "the server's own bytes (MS-SSCLRT)"),
    ("alias types", ColumnDefinition("", "int"), "as the type behind it, such as int; sysname is an nvarchar(128)"),
)


def type_document() -> str:
    """The part of docs/types.md that is SQL Server."""
    head = "## SQL Server\n\n| source | Tidemark, Spark, Iceberg | note |\n|---|---|---|\n"
    table = TableId("", "")
    rows = "".join(f"| {name} | `{data_type_of(sample, table)}` | {note} |\n" for name, sample, note in _SAMPLES)
    return (
        f"{head}{rows}| anything else: json, vector, columns of Always Encrypted | `refused` | the table"
        " stops with a message that names the column |\n\nChange data capture has no values of computed columns and of"
        " column sets: schemas leave them out.\n"
    )
