"""A column's type as a definition writes it (SQL Language Reference, "Data Types")."""

from __future__ import annotations

from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import LOCAL, MONTHS, SECONDS, ZONED, Kind
from testing.servers.oracle.engine.words import Words

INTEGERS = ("INTEGER", "INT", "SMALLINT")
MOST = {"VARCHAR2": 4000, "NVARCHAR2": 2000, "CHAR": 2000, "NCHAR": 1000, "RAW": 2000}
PLAIN = ("DATE", "BINARY_FLOAT", "BINARY_DOUBLE", "CLOB", "NCLOB", "BLOB", "ROWID", "XMLTYPE")
REFUSED = ("BFILE", "JSON", "VECTOR", "BOOLEAN", "ANYDATA")


def kind_of(words: Words, types: dict[tuple[str, str], str], schema: str) -> Kind:
    """Read one.  ORA-00902 for an unknown one."""
    owner, name = "", words.name()
    if words.take("."):
        owner, name = name, words.name()
    if name == "XMLTYPE" or (owner == "SYS" and name == "XMLTYPE"):
        return Kind("XMLTYPE")
    if (owner or schema, name) in types:
        return Kind(name, owner=owner or schema)
    if owner:
        raise OracleError(902)
    name = {"VARCHAR": "VARCHAR2", "CHARACTER": "CHAR", "DECIMAL": "NUMBER", "NUMERIC": "NUMBER", "DEC": "NUMBER"}.get(
        name, name
    )
    if name in REFUSED:
        raise unsupported(f"type {name}")
    if name == "LONG":
        return Kind("LONG RAW" if words.take("RAW") else "LONG")
    if name == "DOUBLE":
        words.need("PRECISION")
        return Kind("FLOAT", precision=126)
    if name in PLAIN:
        return Kind(name)
    if name in INTEGERS:
        return Kind("NUMBER", scale=0)
    if name in MOST:
        return _sized(name, words)
    return _numeric(name, words)


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


def _numeric(name: str, words: Words) -> Kind:
    if name in ("NUMBER", "FLOAT", "REAL"):
        digits = _digits(words)
        if name != "NUMBER":
            return Kind("FLOAT", precision=63 if name == "REAL" else digits[0] if digits else 126)
        if not digits:
            return Kind("NUMBER")
        if digits[0] is None:
            return Kind("NUMBER", scale=digits[1] if len(digits) > 1 else None)
        if not 1 <= digits[0] <= 38:
            raise OracleError(1727)
        return Kind("NUMBER", precision=digits[0], scale=digits[1] if len(digits) > 1 else 0)
    if name == "UROWID":
        digits = _digits(words)
        return Kind("UROWID", digits[0] or 4000 if digits else 4000)
    if name == "TIMESTAMP":
        digits = _digits(words)
        scale = digits[0] if digits else 6
        if words.take("WITH", "TIME", "ZONE"):
            return Kind(ZONED, scale=scale)
        return Kind(LOCAL if words.take("WITH", "LOCAL", "TIME", "ZONE") else "TIMESTAMP", scale=scale)
    if name == "INTERVAL":
        if words.take("YEAR"):
            digits = _digits(words)
            words.need("TO", "MONTH")
            return Kind(MONTHS, precision=digits[0] if digits else 2, scale=0)
        words.need("DAY")
        digits = _digits(words)
        words.need("TO", "SECOND")
        scale = _digits(words)
        return Kind(SECONDS, precision=digits[0] if digits else 2, scale=scale[0] if scale else 6)
    raise OracleError(902)


def _digits(words: Words) -> list[int | None]:
    if not words.take("("):
        return []
    found: list[int | None] = [None if words.take("*") else words.integer()]
    if words.take(","):
        found.append(words.integer())
    words.need(")")
    return found
