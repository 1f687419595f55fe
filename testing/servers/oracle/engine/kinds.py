"""Oracle's data types: how a column is declared, how the dictionary shows it, and what Postgres keeps for it.

In Postgres a value stands in one form per type, and all code reads that form's text:
* NUMBER, FLOAT: numeric; BINARY_FLOAT, BINARY_DOUBLE: real, double precision
* character types: text (CHAR, NCHAR: bpchar, padded); RAW, BLOB: bytea; ROWID: text of 18 characters
* DATE: timestamp(0); TIMESTAMP: text `YYYY-MM-DD HH:MI:SS.nnnnnnnnn`, since Postgres has six digits only
* WITH LOCAL TIME ZONE: as TIMESTAMP, in UTC; WITH TIME ZONE: as TIMESTAMP in UTC, `|` and the zone
* INTERVAL YEAR TO MONTH: numeric, months; DAY TO SECOND: numeric, nanoseconds
"""

from __future__ import annotations

from dataclasses import dataclass

ZONED, LOCAL = "TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH LOCAL TIME ZONE"
MONTHS, SECONDS = "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND"
POSTGRES = {
    "NUMBER": "numeric", "FLOAT": "numeric", "BINARY_FLOAT": "real", "BINARY_DOUBLE": "double precision",
    "VARCHAR2": "text", "NVARCHAR2": "text", "CHAR": "bpchar", "NCHAR": "bpchar", "CLOB": "text", "NCLOB": "text",
    "LONG": "text", "XMLTYPE": "text", "RAW": "bytea", "LONG RAW": "bytea", "BLOB": "bytea", "ROWID": "text",
    "UROWID": "text", "DATE": "timestamp(0)", "TIMESTAMP": "text", ZONED: "text", LOCAL: "text", MONTHS: "numeric",
    SECONDS: "numeric",
}  # fmt: skip
LOBS = frozenset({"CLOB", "NCLOB", "BLOB"})
LONGS = frozenset({"LONG", "LONG RAW"})
TEXTS = frozenset({"VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR", "LONG", "CLOB", "NCLOB", "XMLTYPE"})
NUMBERS = frozenset({"NUMBER", "FLOAT", "BINARY_FLOAT", "BINARY_DOUBLE"})
TIMESTAMPS = frozenset({"TIMESTAMP", ZONED, LOCAL})
DATETIMES = frozenset({"DATE", *TIMESTAMPS})
INTERVALS = frozenset({MONTHS, SECONDS})
NATIONAL = frozenset({"NVARCHAR2", "NCHAR", "NCLOB"})


@dataclass(frozen=True)
class Kind:
    """A type.

    name         as declared, without its numbers; of an object type: the type's name
    length       of character types and RAW: in characters where `by_char`, otherwise in bytes
    precision    of NUMBER (None: any), FLOAT (binary digits), of an interval's first field
    scale        of NUMBER, of fractional seconds
    owner        of an object type
    storage      of XMLTYPE: BINARY, CLOB, OBJECT-RELATIONAL
    """

    name: str
    length: int = 0
    precision: int | None = None
    scale: int | None = None
    by_char: bool = False
    owner: str = ""
    storage: str = ""

    @property
    def postgres(self) -> str:
        return POSTGRES.get(self.name, "text")

    @property
    def known(self) -> bool:
        """Not an object type."""
        return self.name in POSTGRES

    @property
    def shown(self) -> str:
        """As DATA_TYPE of ALL_TAB_COLUMNS."""
        if self.name in TIMESTAMPS:
            return self.name.replace("TIMESTAMP", f"TIMESTAMP({self.scale})", 1)
        if self.name == MONTHS:
            return f"INTERVAL YEAR({self.precision}) TO MONTH"
        if self.name == SECONDS:
            return f"INTERVAL DAY({self.precision}) TO SECOND({self.scale})"
        return self.name

    @property
    def bytes(self) -> int:
        """DATA_LENGTH of ALL_TAB_COLUMNS."""
        if self.name in ("NVARCHAR2", "NCHAR"):
            return self.length * 2
        if self.name in ("VARCHAR2", "CHAR"):
            return min(self.length * 4, 4000) if self.by_char else self.length
        if self.name in TIMESTAMPS:
            return 13 if self.name == ZONED else 11 if self.scale else 7
        if self.name in LOBS:
            return 4000
        return self.length or {
            "NUMBER": 22, "FLOAT": 22, "DATE": 7, "BINARY_FLOAT": 4, "BINARY_DOUBLE": 8, MONTHS: 5, SECONDS: 11,
            "ROWID": 10, "XMLTYPE": 2000, "UROWID": 4000,
        }.get(self.name, 0)  # fmt: skip


def number(precision: int | None = None, scale: int | None = None) -> Kind:
    return Kind("NUMBER", precision=precision, scale=scale)


def text(length: int = 4000, *, by_char: bool = False) -> Kind:
    return Kind("VARCHAR2", length, by_char=by_char)


NUMBER, TEXT = number(), text()
DATE, TIMESTAMP = Kind("DATE"), Kind("TIMESTAMP", scale=6)
ZONED_TIMESTAMP = Kind(ZONED, scale=6)
ROWID = Kind("ROWID")
