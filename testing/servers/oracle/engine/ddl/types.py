"""A column's type as a definition writes it (SQL Language Reference, "Data Types")."""

from __future__ import annotations

from collections.abc import Callable

from testing.servers.oracle.engine.ddl.words import Words
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import LOCAL, MONTHS, SECONDS, ZONED, Kind

INTEGERS = ("INTEGER", "INT", "SMALLINT")
MOST = {"VARCHAR2": 4000, "NVARCHAR2": 2000, "CHAR": 2000, "NCHAR": 1000, "RAW": 2000}
PLAIN = ("DATE", "BINARY_FLOAT", "BINARY_DOUBLE", "CLOB", "NCLOB", "BLOB", "ROWID", "XMLTYPE")
SYNONYMS = {"VARCHAR": "VARCHAR2", "CHARACTER": "CHAR", "DECIMAL": "NUMBER", "NUMERIC": "NUMBER", "DEC": "NUMBER"}
MOST_DIGITS, FLOAT_BITS, REAL_BITS = 38, 126, 63
REFUSED = ("BFILE", "JSON", "VECTOR", "BOOLEAN", "ANYDATA")


def kind_of(words: Words, types: dict[tuple[str, str], str], schema: str) -> Kind:
    """Read one.  ORA-00902 for an unknown one."""
    owner, name = "", words.name()
    if words.take("."):
        owner, name = name, words.name()
    if name == "XMLTYPE" and owner in ("", "SYS"):
        return Kind("XMLTYPE", storage="BINARY")
    if (owner or schema, name) in types:
        return Kind(name, owner=owner or schema)
    name = SYNONYMS.get(name, name)
    if name in REFUSED:
        raise unsupported(f"type {name}")
    if owner or name not in READERS:
        raise OracleError(902)
    return READERS[name](name, words)


def _sized(name: str, words: Words) -> Kind:
    length, by_char = 1, name in ("NVARCHAR2", "NCHAR")
    if words.take("("):
        length = words.integer()
        if words.take("CHAR"):
            by_char = True
        else:
            words.take("BYTE")
        words.need(")")
    elif name not in ("CHAR", "NCHAR"):
        raise OracleError(906)
    if not 0 < length <= MOST[name]:
        raise OracleError(910)
    return Kind(name, length, by_char=by_char)


def _long(name: str, words: Words) -> Kind:
    return Kind("LONG RAW" if words.take("RAW") else name)


def _double(name: str, words: Words) -> Kind:
    del name
    words.need("PRECISION")
    return Kind("FLOAT", precision=FLOAT_BITS)


def _number(name: str, words: Words) -> Kind:
    digits = _digits(words)
    if not digits:
        return Kind(name)
    if digits[0] is None:
        return Kind(name, scale=digits[1] if len(digits) > 1 else None)
    if not 1 <= digits[0] <= MOST_DIGITS:
        raise OracleError(1727)
    return Kind(name, precision=digits[0], scale=digits[1] if len(digits) > 1 else 0)


def _float(name: str, words: Words) -> Kind:
    digits = _digits(words)
    return Kind("FLOAT", precision=REAL_BITS if name == "REAL" else digits[0] if digits else FLOAT_BITS)


def _rowid(name: str, words: Words) -> Kind:
    digits = _digits(words)
    return Kind(name, digits[0] or 4000 if digits else 4000)


def _timestamp(name: str, words: Words) -> Kind:
    digits = _digits(words)
    if words.take("WITH", "TIME", "ZONE"):
        name = ZONED
    elif words.take("WITH", "LOCAL", "TIME", "ZONE"):
        name = LOCAL
    return Kind(name, scale=digits[0] if digits else 6)


def _interval(name: str, words: Words) -> Kind:
    del name
    if words.take("YEAR"):
        digits = _digits(words)
        words.need("TO", "MONTH")
        return Kind(MONTHS, precision=digits[0] if digits else 2, scale=0)
    words.need("DAY")
    digits = _digits(words)
    words.need("TO", "SECOND")
    scale = _digits(words)
    return Kind(SECONDS, precision=digits[0] if digits else 2, scale=scale[0] if scale else 6)


def _digits(words: Words) -> list[int | None]:
    if not words.take("("):
        return []
    found: list[int | None] = [None if words.take("*") else words.integer()]
    if words.take(","):
        found.append(words.integer())
    words.need(")")
    return found


READERS: dict[str, Callable[[str, Words], Kind]] = {
    **dict.fromkeys(PLAIN, lambda name, _: Kind(name)), **dict.fromkeys(MOST, _sized),
    **dict.fromkeys(INTEGERS, lambda *_: Kind("NUMBER", scale=0)), "LONG": _long, "DOUBLE": _double, "NUMBER": _number,
    "FLOAT": _float, "REAL": _float, "UROWID": _rowid, "TIMESTAMP": _timestamp, "INTERVAL": _interval,
}  # fmt: skip
