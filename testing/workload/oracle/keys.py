"""Key styles of Oracle."""

from __future__ import annotations

from testing.workload import kinds
from testing.workload.keys import KeyPart
from testing.workload.oracle.kinds import OracleKind

REPEATS = 7
_INT = OracleKind("NUMBER", 9, 0)
STYLES: dict[str, tuple[KeyPart, ...]] = {
    "int": (KeyPart(_INT),),
    "int ": (KeyPart(_INT),),
    "big": (KeyPart(OracleKind("NUMBER", 18, 0)),),
    "wide": (KeyPart(OracleKind("NUMBER", 38, 0)),),
    "number": (KeyPart(OracleKind("NUMBER")),),
    "negative": (KeyPart(OracleKind("NUMBER", 12, 0), "negative"),),
    "quarter": (KeyPart(OracleKind("NUMBER", 20, 4), "quarter"),),
    "number quarter": (KeyPart(OracleKind("NUMBER"), "quarter"),),
    "repeating": (KeyPart(_INT, "repeat"), KeyPart(_INT)),
    "repeating date": (KeyPart(OracleKind("DATE"), "day"), KeyPart(_INT, "repeat"), KeyPart(_INT)),
    "text first": (KeyPart(OracleKind("VARCHAR2", 20, by_char=True), "letter"), KeyPart(_INT)),
    "text": (KeyPart(OracleKind("VARCHAR2", 40, by_char=True), "text"),),
    "text bytes": (KeyPart(OracleKind("VARCHAR2", 60), "text"),),
    "national": (KeyPart(OracleKind("NVARCHAR2", 40), "text"),),
    "char": (KeyPart(OracleKind("CHAR", 30), "padded"),),
    "raw": (KeyPart(OracleKind("RAW", 16), "bytes"),),
    "date": (KeyPart(OracleKind("DATE"), "second"),),
    "timestamp": (KeyPart(OracleKind("TIMESTAMP", scale=6), "moment"),),
    "fine timestamp": (KeyPart(OracleKind("TIMESTAMP", scale=9), "fine"),),
    "none": (),
    "none ": (),
}
_NUMBERED = {
    "plain": "{}",
    "negative": "-({})",
    "quarter": "({}) * 0.25",
    "repeat": f"MOD({{}}, {REPEATS})",
    "few": "MOD({}, 9)",
    "parent": "1 + MOD({}, 40)",
    "day": "DATE '2020-02-25' + MOD({}, 9)",
    "second": "DATE '2024-01-01' + NUMTODSINTERVAL({}, 'SECOND')",
    "letter": "DECODE(MOD({}, 5), 0, 'a', 1, 'B', 2, 'c', 3, 'Cc', 'z')",
    "text": "'Key ' || ({})",
    "padded": "RPAD('Key ' || ({}), 30)",
    "bytes": "UTL_RAW.CAST_TO_RAW('Key ' || ({}))",
    "moment": "TIMESTAMP '2024-01-01 00:00:00.000001' + NUMTODSINTERVAL({}, 'SECOND')",
    "fine": "TIMESTAMP '2024-01-01 00:00:00.000000001' + NUMTODSINTERVAL({}, 'SECOND')",
}


def numbered(style: str, number: str, _kind: kinds.ValueKind) -> str:
    """Row `number`'s value, as SQL; `number` is an SQL expression."""
    return _NUMBERED[style].replace("{}", number)
