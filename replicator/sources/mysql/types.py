"""The one mapping of MySQL and MariaDB column types; catalog, snapshot and log all use it.

Its part of docs/types.md is `type_document()`: see replicator/targets/type_table.py.  Sources: MySQL 8.4 reference
manual chapter 13, MariaDB knowledge base "Data Types".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from replicator.errors import UnsupportedCharset, UnsupportedType
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.model.types import DataType
from replicator.sources.mysql.charsets import decoder

# Those of MySQL and MariaDB that the log's decoder can turn into Unicode exactly as the server does.
CHARSETS = (
    "armscii8", "ascii", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932", "dec8",
    "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u",
    "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis", "utf16",
    "utf16le", "utf32", "utf8mb3", "utf8mb4",
)  # fmt: skip

_MAX_BITS = 64
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geometrycollection", "geomcollection"}
)
# Types whose values can be a date that does not exist: what becomes of it is a policy.
DATES = frozenset({"date", "datetime", "timestamp"})
LABELS = frozenset({"enum", "set"})
ZERO_DATE_REMEDY = (
    "Correct the row on the source, or choose another policy for zero dates (for a key column only 'text' is left); "
    "then resnapshot the table."
)
UNICODE_REMEDY = (
    "Correct the row on the source (the value has half of a surrogate pair, or invalid bytes), or exclude "
    "the column from the replicator; then resnapshot the table."
)
TEMPORAL_REMEDY = (
    "SET GLOBAL mysql56_temporal_format = ON; then ALTER TABLE … FORCE rewrites the table; resnapshot it afterwards."
)
_OLD_FORMAT = "/* mariadb-5.3 */"  # ends MariaDB's COLUMN_TYPE, regardless of mysql56_temporal_format now


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as the server describes it, in information_schema or in the log's TABLE_MAP.

    `data_type` is information_schema's DATA_TYPE in lower case ("int", "varchar", "json"), `column_type` its
    COLUMN_TYPE. `precision` counts decimal digits, or bits of a BIT; `length` counts bytes of BINARY(n); `fsp` digits
    after the second.
    `virtual`: generated and not stored.  `primary`: in the primary key, or in the unique index that the server takes
    for it.
    """

    name: str
    data_type: str
    column_type: str
    charset: str | None = None
    collation: str | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int = 0
    length: int | None = None
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    nullable: bool = True
    is_generated: bool = False
    virtual: bool = False
    invisible: bool = False
    primary: bool = False
    comment: str = field(default="", compare=False)


def column_of(definition: ColumnDefinition, table: TableId, *, zero_dates: str = "null", key: bool = False) -> Column:
    """The column as Tidemark keeps it.  Raises UnsupportedType, UnsupportedCharset.

    With zero_dates "null", a NOT NULL column that can hold a zero date is nullable here; a key column stays as it is,
    and a zero date in it stops the table.
    """
    data_type = data_type_of(definition, table, zero_dates=zero_dates)
    nullable = definition.nullable or (zero_dates == "null" and definition.data_type in DATES)
    warning = warning_of(definition, data_type)
    nullable = nullable and not key
    return Column(definition.name, data_type, nullable, definition.column_type, warning, comment=definition.comment)


def data_type_of(definition: ColumnDefinition, table: TableId, *, zero_dates: str = "null") -> DataType:
    """The type that holds every value of the column.  Raises UnsupportedType, UnsupportedCharset."""
    name = definition.data_type
    if name in TEXTS or name in LABELS:
        _check_charset(definition, table)
        return types.STRING
    if zero_dates == "text" and name in DATES:
        return types.STRING
    if name == "year" and definition.column_type.startswith("year(2)"):
        raise _unsupported(definition, table)
    rule = _RULES.get(name)
    if rule is None:
        raise _unsupported(definition, table)
    return rule(definition) if callable(rule) else rule


def warning_of(definition: ColumnDefinition, data_type: DataType) -> str:
    """What the target's column is less than the source's; empty for most."""
    if definition.data_type == "decimal" and data_type == types.STRING:
        return f"{definition.column_type} has more than {types.MAX_DECIMAL_PRECISION} digits: it becomes text."
    return ""


def _integer(definition: ColumnDefinition) -> DataType:
    return types.BIGINT if definition.unsigned else types.INT


def _bigint(definition: ColumnDefinition) -> DataType:
    return types.decimal(20, 0) if definition.unsigned else types.BIGINT


def _decimal(definition: ColumnDefinition) -> DataType:
    precision = definition.precision or 10
    if precision > types.MAX_DECIMAL_PRECISION:
        return types.STRING
    return types.decimal(precision, definition.scale or 0)


def _bit(definition: ColumnDefinition) -> DataType:
    bits = definition.precision or 1
    if bits == 1:
        return types.BOOLEAN
    return types.BIGINT if bits < _MAX_BITS else types.decimal(20, 0)


_RULES: dict[str, DataType | Callable[[ColumnDefinition], DataType]] = {
    "tinyint": types.INT,
    "smallint": types.INT,
    "mediumint": types.INT,
    "int": _integer,
    "bigint": _bigint,
    "decimal": _decimal,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "bit": _bit,
    "year": types.INT,
    "date": types.DATE,
    "datetime": types.TIMESTAMP_NTZ,
    "timestamp": types.TIMESTAMP,
    "time": types.STRING,
    "json": types.STRING,
    "uuid": types.STRING,
    "inet4": types.STRING,
    "inet6": types.STRING,
    "vector": types.BINARY,
    **dict.fromkeys(BYTES | GEOMETRIES, types.BINARY),
}


def _check_charset(definition: ColumnDefinition, table: TableId) -> None:
    charset = definition.charset or "utf8mb4"
    if not _decodable(charset):
        message = f"Column {definition.name} of {table} has the character set {charset}, which Tidemark cannot decode."
        raise UnsupportedCharset(message, table=str(table), column=definition.name)


def _decodable(charset: str) -> bool:
    try:
        decoder(charset)
    except UnsupportedCharset:
        return False
    return True


def check_format(definition: ColumnDefinition, table: TableId) -> None:
    """UnsupportedType where the log does not say how long the values are, so that those behind it cannot be found: of
    columns left out, too.
    """
    if definition.fsp and _OLD_FORMAT in definition.column_type:
        raise old_format(definition.name, table)


def old_format(column: str, table: TableId) -> UnsupportedType:
    """For TIME, DATETIME and TIMESTAMP with fractions as MariaDB stored them before 10.1: the log shows them as those
    without, but longer.
    """
    message = f"Column {column} of {table} is stored in the old temporal format, which the log does not describe."
    return UnsupportedType(message, remedy=TEMPORAL_REMEDY, table=str(table))


def _unsupported(definition: ColumnDefinition, table: TableId) -> UnsupportedType:
    message = (
        f"Column {definition.name} of {table} has the type {definition.column_type}, which Tidemark does not know."
    )
    return UnsupportedType(message, table=str(table), column=definition.name)


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A row of docs/types.md."""

    source: str
    target: str
    note: str


_ZERO = "zero dates and days that do not exist: null, text or fail by policy"
_SAMPLES: tuple[tuple[str, ColumnDefinition, str], ...] = (
    ("TINYINT, SMALLINT, MEDIUMINT [UNSIGNED]; BOOL is TINYINT(1)", ColumnDefinition("", "tinyint", ""), ""),
    ("INT", ColumnDefinition("", "int", ""), "display width and ZEROFILL do not count"),
    ("INT UNSIGNED", ColumnDefinition("", "int", "", unsigned=True), ""),
    ("BIGINT", ColumnDefinition("", "bigint", ""), ""),
    ("BIGINT UNSIGNED", ColumnDefinition("", "bigint", "", unsigned=True), "the whole range to 2^64-1"),
    (
        "DECIMAL(p,s), p <= 38, such as DECIMAL(38,10)",
        ColumnDefinition("", "decimal", "", precision=38, scale=10),
        "precision and scale kept",
    ),
    ("DECIMAL(p,s), p > 38", ColumnDefinition("", "decimal", "", precision=65, scale=30), "as text, with a warning"),
    ("FLOAT", ColumnDefinition("", "float", ""), "the stored value, not its 6-digit text"),
    ("DOUBLE", ColumnDefinition("", "double", ""), "negative zero kept"),
    ("BIT(1)", ColumnDefinition("", "bit", "", precision=1), ""),
    ("BIT(2) to BIT(63)", ColumnDefinition("", "bit", "", precision=63), ""),
    ("BIT(64)", ColumnDefinition("", "bit", "", precision=64), ""),
    (
        "CHAR, VARCHAR, TINYTEXT to LONGTEXT",
        ColumnDefinition("", "varchar", "", "utf8mb4"),
        "from the column's charset",
    ),
    ("BINARY(n)", ColumnDefinition("", "binary", ""), "always n bytes, trailing zeros kept"),
    ("VARBINARY, TINYBLOB to LONGBLOB", ColumnDefinition("", "varbinary", ""), ""),
    ("ENUM", ColumnDefinition("", "enum", "", "utf8mb4"), "the label; the invalid value is the empty text"),
    ("SET", ColumnDefinition("", "set", "", "utf8mb4"), "labels joined by commas, in the order of the definition"),
    ("YEAR", ColumnDefinition("", "year", "year(4)"), "0000 is 0; YEAR(2) is refused"),
    ("DATE", ColumnDefinition("", "date", ""), _ZERO),
    ("DATETIME(n)", ColumnDefinition("", "datetime", ""), f"without zone; {_ZERO}"),
    ("TIMESTAMP(n)", ColumnDefinition("", "timestamp", ""), f"an instant, in UTC; {_ZERO}"),
    (
        "TIME(n)",
        ColumnDefinition("", "time", ""),
        "the server's text, -838:59:59 to 838:59:59, n digits after the point",
    ),
    ("JSON (MySQL)", ColumnDefinition("", "json", ""), "the server's text"),
    ("JSON (MariaDB)", ColumnDefinition("", "longtext", "", "utf8mb4"), "LONGTEXT: the text as it was written"),
    ("GEOMETRY and its kinds", ColumnDefinition("", "geometry", ""), "SRID (4 bytes, little endian) and WKB"),
    ("UUID (MariaDB)", ColumnDefinition("", "uuid", ""), "lower-case text with hyphens"),
    ("INET4, INET6 (MariaDB)", ColumnDefinition("", "inet6", ""), "the server's text"),
    ("VECTOR", ColumnDefinition("", "vector", ""), "32-bit floats, little endian"),
)


def type_table() -> list[TypeRow]:
    """Every type that is mapped, computed by the mapping itself."""
    table = TableId("", "")
    rows = [TypeRow(source, str(data_type_of(sample, table)), note) for source, sample, note in _SAMPLES]
    return [*rows, TypeRow("anything else", "refused", "the table stops with a message that names the column")]


def type_document() -> str:
    """The part of docs/types.md that is MySQL and MariaDB."""
    head = "## MySQL and MariaDB\n\n| source | Tidemark, Spark, Iceberg | note |\n|---|---|---|\n"
    rows = "".join(f"| {row.source} | `{row.target}` | {row.note} |\n" for row in type_table())
    known = ", ".join(filter(_decodable, CHARSETS))
    return f"{head}{rows}\nCharacter sets: {known}. A column in any other stops its table.\n"
