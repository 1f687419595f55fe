"""The one mapping of Oracle's column types; catalog, snapshot and log all use it.

Its part of docs/types.md is `type_document()`.  Source: Oracle Database SQL Language Reference, "Data Types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from replicator.errors import UnsupportedType
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.model.types import MAX_DECIMAL_PRECISION, DataType

MAX_MICRO_DIGITS = 6
_INT_DIGITS, _BIGINT_DIGITS = 9, 18
_MOMENT = re.compile(r"TIMESTAMP\((\d)\)( WITH TIME ZONE| WITH LOCAL TIME ZONE)?")
_DAYS = re.compile(r"INTERVAL DAY\((\d)\) TO SECOND\((\d)\)")
_MONTHS = re.compile(r"INTERVAL YEAR\((\d)\) TO MONTH")
DATE_REMEDY = (
    "Correct the row on the source, or choose another policy for dates that do not exist (for a key column only 'text' "
    "is left); then resnapshot the table."
)
XML, OBJECT_RELATIONAL = "XMLTYPE", "OBJECT-RELATIONAL"  # the latter: STORAGE_TYPE of ALL_XML_TAB_COLS
_OWNERS = ("", "SYS", "PUBLIC")  # of Oracle's own XMLTYPE
_LOBS = {"CLOB": types.STRING, "NCLOB": types.STRING, "BLOB": types.BINARY, XML: types.STRING}
LOB_BYTES = {"CLOB": 3, "NCLOB": 3, "BLOB": 1, XML: 3}  # of UTF-8, at most, for each that DBMS_LOB.GETLENGTH counts
_RESELECTED = (
    "is read again from the table as of each commit (experimental): states that one transaction wrote over are not had."
)
_NOT_LOGGED = frozenset({"LONG", "LONG RAW", "BFILE", "JSON", "VECTOR", "BOOLEAN", "ANYDATA"})


class Form(StrEnum):
    """How values of a type are written, in SQL_REDO and by a snapshot's SELECT."""

    NUMBER = "number"  # with precision and scale
    DIGITS = "digits"  # a number that only text holds
    FLOAT = "float"
    TEXT = "text"
    MOMENT = "moment"
    FINE_MOMENT = "fine moment"  # nanoseconds, which only text holds
    ZONED = "zoned"
    DAYS = "days"
    MONTHS = "months"
    BYTES = "bytes"
    ROWID = "rowid"
    LOB = "large object"  # not of the log: `stream.large_objects` reads it


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of ALL_TAB_COLS.

    data_type as the view has it; `owner` of a type that a user made. size: characters, or bytes of RAW. number: its
    place in the table. storage: of XMLTYPE, if known (`OBJECT_RELATIONAL`).
    """

    name: str
    data_type: str
    nullable: bool = True
    size: int = 0
    precision: int | None = None
    scale: int | None = None
    owner: str = ""
    number: int = 0
    comment: str = ""
    storage: str = ""

    @property
    def text(self) -> str:
        """As CREATE TABLE has it."""
        kind = self.data_type
        if self.owner and not kind.startswith("XML"):
            return f"{self.owner}.{kind}"
        if kind == "NUMBER":
            if self.precision is None:
                return "NUMBER" if self.scale is None else f"NUMBER(*,{self.scale})"
            return f"NUMBER({self.precision},{self.scale or 0})"
        if kind == "FLOAT":
            return f"FLOAT({self.precision or 126})"
        if kind in {"CHAR", "NCHAR", "VARCHAR2", "NVARCHAR2", "RAW", "UROWID"}:
            return f"{kind}({self.size})"
        return kind


@dataclass(frozen=True, slots=True)
class ValueType:
    """What a column becomes, and how its values are written.  digits: of the seconds, in texts of them."""

    type: DataType
    form: Form
    warning: str = ""
    digits: int = 0


def column_of(
    definition: ColumnDefinition, table: TableId, *, zero_dates: str = "null", key: bool = False, lobs: bool = False
) -> Column:
    """The column as Tidemark keeps it.  Raises UnsupportedType.

    With zero_dates "null", a NOT NULL column that can hold a year before 1 is nullable here; a key column stays as it
    is, and such a date in it stops the table.  A large object is nullable: of a state that is not had it is null.
    """
    found = value_type(definition, table, zero_dates=zero_dates, lobs=lobs)
    dated = zero_dates == "null" and found.form in {Form.MOMENT, Form.ZONED}
    nullable = definition.nullable or dated or found.form is Form.LOB
    return Column(
        definition.name, found.type, nullable and not key, definition.text, found.warning, comment=definition.comment
    )


def value_type(  # noqa: C901, PLR0911 - a case each
    definition: ColumnDefinition, table: TableId, *, zero_dates: str = "null", lobs: bool = False
) -> ValueType:
    """The type that holds every value of the column.  lobs: large objects are read.  Raises UnsupportedType."""
    kind = definition.data_type
    match kind:
        case "NUMBER":
            return _number(definition)
        case "FLOAT":
            return _digits(definition, "is a decimal number of any size")
        case "BINARY_FLOAT":
            return ValueType(types.FLOAT, Form.FLOAT)
        case "BINARY_DOUBLE":
            return ValueType(types.DOUBLE, Form.FLOAT)
        case "CHAR" | "NCHAR" | "VARCHAR2" | "NVARCHAR2":
            return ValueType(types.STRING, Form.TEXT)
        case "RAW":
            return ValueType(types.BINARY, Form.BYTES)
        case "ROWID" | "UROWID":
            return ValueType(types.STRING, Form.ROWID)
        case "DATE":
            return _moment(definition, 0, "", zero_dates)
        case "CLOB" | "NCLOB" | "BLOB" | "XMLTYPE" if lobs and _readable(definition):
            return ValueType(_LOBS[kind], Form.LOB, f"{kind} {_RESELECTED}")
    if found := _MOMENT.fullmatch(kind):
        return _moment(definition, int(found[1]), found[2] or "", zero_dates)
    if found := _DAYS.fullmatch(kind):
        return ValueType(types.STRING, Form.DAYS, digits=int(found[2]))
    if _MONTHS.fullmatch(kind):
        return ValueType(types.STRING, Form.MONTHS)
    raise _unsupported(definition, table)


def _readable(definition: ColumnDefinition) -> bool:
    return definition.owner in _OWNERS and definition.storage != OBJECT_RELATIONAL


def _unsupported(definition: ColumnDefinition, table: TableId) -> UnsupportedType:
    kind, named = definition.data_type, f"Column {definition.name} of {table} has the type {definition.text}"
    remedy = None
    if definition.storage == OBJECT_RELATIONAL:
        message = f"{named}, stored as objects and relational rows: such documents are not read from Oracle."
        remedy = "Exclude the column, or store it as binary XML."
    elif kind in _LOBS and definition.owner in _OWNERS:
        message = f"{named}: large objects are read where the connection's setting for them says so."
        remedy = "Exclude the column, or set 'Large objects' of the connection to 'Read again as of each commit'."
    elif definition.owner:
        message = f"{named}: object types and collections are not replicated."
    elif kind in _NOT_LOGGED:
        message = f"{named}, which LogMiner does not show or Tidemark does not read from Oracle yet."
    else:
        message = f"{named}, which Tidemark does not know."
    return UnsupportedType(message, table=str(table), column=definition.name, remedy=remedy)


def _number(definition: ColumnDefinition) -> ValueType:
    precision, scale = definition.precision, definition.scale
    if precision is None:
        if scale == 0:  # INTEGER is NUMBER(*,0): 38 digits
            return ValueType(types.decimal(MAX_DECIMAL_PRECISION, 0), Form.NUMBER)
        return _digits(definition, "has no fixed precision")
    scale = scale or 0
    digits, places = max(precision - min(scale, 0), scale), max(scale, 0)
    if digits > MAX_DECIMAL_PRECISION:
        return _digits(definition, f"has more than {MAX_DECIMAL_PRECISION} digits")
    if not places and digits <= _BIGINT_DIGITS:
        return ValueType(types.INT if digits <= _INT_DIGITS else types.BIGINT, Form.NUMBER)
    return ValueType(types.decimal(digits, places), Form.NUMBER)


def _digits(definition: ColumnDefinition, why: str) -> ValueType:
    return ValueType(types.STRING, Form.DIGITS, f"{definition.text} {why}: it becomes text.")


def _moment(definition: ColumnDefinition, digits: int, zone: str, zero_dates: str) -> ValueType:
    zoned = Form.ZONED if zone else Form.MOMENT
    if digits > MAX_MICRO_DIGITS:
        warning = f"{definition.text} is finer than a microsecond: it becomes text."
        return ValueType(types.STRING, Form.FINE_MOMENT, warning, digits)
    if zero_dates == "text":
        return ValueType(types.STRING, Form.FINE_MOMENT, digits=digits)
    lost = zone == " WITH TIME ZONE"
    warning = f"{definition.text} keeps the instant, in UTC, and not the time zone." if lost else ""
    return ValueType(types.TIMESTAMP if zone else types.TIMESTAMP_NTZ, zoned, warning, digits)


_LOB_NOTE = (
    "refused, unless the connection has large objects *read again as of each commit* (experimental; tables with a key)"
)
_CALENDAR = "years before 1: null, text or fail by policy"
_SAMPLES: tuple[tuple[str, ColumnDefinition, str], ...] = (
    ("NUMBER(p), NUMBER(p,0), 1 <= p <= 9", ColumnDefinition("", "NUMBER", precision=9, scale=0), ""),
    ("NUMBER(p), NUMBER(p,0), 10 <= p <= 18", ColumnDefinition("", "NUMBER", precision=18, scale=0), ""),
    (
        "NUMBER(p,s), 0 <= s, such as NUMBER(38,10)",
        ColumnDefinition("", "NUMBER", precision=38, scale=10),
        "precision and scale kept; of a negative scale the zeros are digits, too",
    ),
    ("INTEGER, INT, SMALLINT, NUMBER(*,0)", ColumnDefinition("", "NUMBER", scale=0), ""),
    (
        "NUMBER, FLOAT, REAL, DOUBLE PRECISION",
        ColumnDefinition("", "NUMBER"),
        "the exact digits as text, with a warning",
    ),
    ("BINARY_FLOAT", ColumnDefinition("", "BINARY_FLOAT"), "NaN and infinities kept"),
    ("BINARY_DOUBLE", ColumnDefinition("", "BINARY_DOUBLE"), "NaN and infinities kept"),
    ("CHAR(n), NCHAR(n)", ColumnDefinition("", "CHAR"), "padded with blanks to n characters"),
    ("VARCHAR2(n), NVARCHAR2(n)", ColumnDefinition("", "VARCHAR2"), "to Oracle the empty text is null"),
    ("RAW(n)", ColumnDefinition("", "RAW"), ""),
    ("DATE", ColumnDefinition("", "DATE"), f"with its time, in seconds; {_CALENDAR}"),
    ("TIMESTAMP(n), n <= 6", ColumnDefinition("", "TIMESTAMP(6)"), _CALENDAR),
    ("TIMESTAMP(n) WITH TIME ZONE, n <= 6", ColumnDefinition("", "TIMESTAMP(6) WITH TIME ZONE"), "the instant, in UTC"),
    (
        "TIMESTAMP(n) WITH LOCAL TIME ZONE, n <= 6",
        ColumnDefinition("", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        "the instant",
    ),
    (
        "TIMESTAMP(n), n > 6, with or without zone",
        ColumnDefinition("", "TIMESTAMP(9)"),
        "text of n digits, with a warning",
    ),
    ("INTERVAL DAY TO SECOND", ColumnDefinition("", "INTERVAL DAY(2) TO SECOND(6)"), "text: `+01 02:03:04.500000`"),
    ("INTERVAL YEAR TO MONTH", ColumnDefinition("", "INTERVAL YEAR(2) TO MONTH"), "text: `+01-06`"),
    ("ROWID, UROWID", ColumnDefinition("", "ROWID"), "the server's text"),
)


def type_document() -> str:
    """The part of docs/types.md that is Oracle."""
    rows = "".join(
        f"| {source} | `{value_type(definition, TableId('', '')).type}` | {note} |\n"
        for source, definition, note in _SAMPLES
    )
    return (
        "## Oracle\n\n| source | Tidemark, Spark, Iceberg | note |\n|---|---|---|\n"
        f"{rows}| CLOB, NCLOB | `string` | {_LOB_NOTE} |\n| BLOB | `binary` | {_LOB_NOTE} |\n"
        f"| XMLTYPE, as binary XML or CLOB | `string` | {_LOB_NOTE}; without insignificant white space |\n"
        "| LONG, LONG RAW, BFILE, object-relational XMLTYPE, JSON, VECTOR, BOOLEAN | refused | exclude the column |\n"
        "| object types, collections, anything else | refused |"
        " the table stops with a message that names the column |\n"
    )
