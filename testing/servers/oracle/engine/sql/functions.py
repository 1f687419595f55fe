"""Oracle's functions, each as Postgres' text and a type (SQL Language Reference, "Functions")."""

from __future__ import annotations

import re

from sqlglot import exp

from testing.servers.oracle.engine import nls
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import (
    DATE,
    INTERVALS,
    LOCAL,
    MONTHS,
    NUMBER,
    NUMBERS,
    ROWID,
    SECONDS,
    TEXT,
    TIMESTAMP,
    ZONED,
    ZONED_TIMESTAMP,
    Kind,
)  # fmt: skip
from testing.servers.oracle.engine.sql.coercions import assigned
from testing.servers.oracle.engine.sql.expressions import Expressions, Function, Nodes, Scope, Typed, quoted

CLOB, BLOB, RAW = Kind("CLOB"), Kind("BLOB"), Kind("RAW", 2000)
DOUBLE, INT = Kind("BINARY_DOUBLE"), Kind("INT")  # the latter is Postgres' alone
GAP = ("1582-10-05", "1582-10-14")  # between the Julian calendar and the Gregorian
_DIGITS = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s*(.*)$")


def _plain(template: str, kind: Kind | None, *wanted: Kind) -> Function:
    """Postgres' text with the arguments put in, each first made the kind that is wanted (the last: of all others)."""

    def made(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
        kinds = [wanted[min(at, len(wanted) - 1)] for at in range(len(nodes))]
        texts = [me.assigned(node, scope, one) for node, one in zip(nodes, kinds, strict=True)]
        return Typed(template.format(", ".join(texts), *texts), kind)

    return made


def _first(template: str) -> Function:
    """The result has the first argument's kind, and so have the others."""

    def made(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
        values = [me.of(one, scope) for one in nodes]
        kind = next((one.kind for one in values if one.kind), None)
        texts = [assigned(one.sql, one.kind, kind, me.session.time_zone) if kind else one.sql for one in values]
        return Typed(template.format(", ".join(texts), *texts), kind)

    return made


def _lob_length(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    """Characters or bytes."""
    return Typed(f"length({me.of(nodes[0], scope).sql})::numeric", NUMBER)


def _serialized(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    """XMLSERIALIZE: no white space between elements with NO INDENT, else one blank (Oracle leaves that open)."""
    document, packed = me.of(nodes[0], scope), nodes[1].name == "1"
    if document.kind is None or document.kind.name != "XMLTYPE":
        raise OracleError(932, "expected - got -")
    return Typed(f"regexp_replace({document.sql}, '>\\s*<', '>{'' if packed else ' '}<', 'g')", CLOB)


def _count(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    if isinstance(nodes[0], exp.Star):
        return Typed("count(*)::numeric", NUMBER)
    if isinstance(nodes[0], exp.Distinct):
        return Typed(f"count(DISTINCT {me.of(nodes[0].expressions[0], scope).sql})::numeric", NUMBER)
    return Typed(f"count({me.of(nodes[0], scope).sql})::numeric", NUMBER)


def _decode(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    pairs, rest = nodes[1:], None
    if len(pairs) % 2:
        pairs, rest = pairs[:-1], pairs[-1]
    results = [me.of(one, scope) for one in (*pairs[1::2], *((rest,) if rest is not None else ()))]
    kind = next((one.kind for one in results if one.kind), None)
    texts = [assigned(one.sql, one.kind, kind, me.session.time_zone) if kind else one.sql for one in results]
    whens = ""
    for at, choice in enumerate(pairs[::2]):
        left, right = me.pair(nodes[0], choice, scope)
        whens += f" WHEN {left} IS NOT DISTINCT FROM {right} THEN {texts[at]}"
    return Typed(f"(CASE{whens}{f' ELSE {texts[-1]}' if rest is not None else ''} END)", kind)


def _to_char(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    value = me.of(nodes[0], scope)
    model = me.literal(nodes[1], scope) if len(nodes) > 1 else ""
    name = value.kind.name if value.kind else ""
    if name in NUMBERS and model.upper() in ("", "TM9", "TM"):
        return Typed(f"ora.num_char(({value.sql})::numeric)", TEXT)
    if name in INTERVALS and value.kind:
        function = "ds_char" if name == SECONDS else "ym_char"
        digits = f"{value.kind.precision or 2}" + (f", {value.kind.scale}" if name == SECONDS else "")
        return Typed(f"ora.{function}({value.sql}, {digits})", TEXT)
    if name in ("DATE", "TIMESTAMP", ZONED, LOCAL) and value.kind:
        setting = {"DATE": "NLS_DATE_FORMAT", ZONED: "NLS_TIMESTAMP_TZ_FORMAT"}.get(name, "NLS_TIMESTAMP_FORMAT")
        return Typed(_rendered(value.sql, value.kind, model or me.session.nls[setting], me.session.time_zone), TEXT)
    if model:
        raise unsupported(f"TO_CHAR of {name} with {model}")
    return Typed(me.assigned(nodes[0], scope, TEXT), TEXT)


def _rendered(sql: str, kind: Kind, model: str, zone: str) -> str:
    """A datetime in a model: what Postgres' to_char knows, fractions and zones put between."""
    local = {ZONED: f"ora.local({sql})", LOCAL: f"ora.shift({sql}, interval '{zone}')"}.get(kind.name, sql)
    stamp = local if kind.name == "DATE" else f"ora.ts_date({local})"
    offset = f"split_part({sql}, '|', 2)" if kind.name == ZONED else quoted(zone)
    parts, plain = [], ""

    def close() -> None:
        nonlocal plain
        if plain:
            parts.append(f"to_char({stamp}, {quoted(plain)})")
            plain = ""

    for what, element in nls.elements(model):
        if what == "name" and "FF" in element:
            close()
            digits = int(element[-1]) if element[-1].isdigit() else kind.scale or 0
            parts.append(("'.' || " if element[0] == "X" else "") + f"substr({local}, 21, {digits})")
        elif what == "name" and element.startswith("TZ"):
            close()
            parts.append({"TZH": f"left({offset}, 3)", "TZM": f"right({offset}, 2)", "TZR": offset}[element])
        elif what == "text":
            plain += f'"{element}"'
        else:
            plain += nls.POSTGRES.get(element, element)
    close()
    return "(" + " || ".join(parts) + ")"


def _parsed(kind: Kind, setting: str) -> Function:
    """TO_DATE and its like: of literals and bound values, which are read before the statement runs."""

    def made(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
        value = me.of(nodes[0], scope)
        if value.kind is None:
            return Typed("NULL", None)
        model = me.literal(nodes[1], scope) if len(nodes) > 1 else me.session.nls[setting]
        if value.literal is None:
            return Typed(_read(value.sql, kind, model), kind)
        stamp, zone = nls.parse(value.literal, model, me.session.time_zone)
        return _stamp(stamp, zone, kind)

    return made


def _read(sql: str, kind: Kind, model: str) -> str:
    """The same of a column's text, where Postgres' to_timestamp can."""
    if kind.name == ZONED or "FF" in model.upper():
        raise unsupported("a datetime made of a column's text")
    plain = "".join(nls.POSTGRES.get(element, element) for _, element in nls.elements(model))
    stamp = f"to_timestamp({sql}, {quoted(plain)})::timestamp(0)"
    return stamp if kind.name == "DATE" else f"ora.date_ts({stamp})"


def _stamp(stamp: str, zone: str, kind: Kind) -> Typed:
    if GAP[0] <= stamp[:10] <= GAP[1]:
        raise unsupported(f"a day that the calendar has not: {stamp[:10]}")
    if kind.name == "DATE":
        return Typed(f"timestamp '{stamp[:19]}'", DATE)
    if kind.name == ZONED:
        return Typed(f"'{nls.shifted(stamp, -nls.offset(zone))}|{zone}'::text", kind)
    return Typed(f"'{stamp}'::text", kind)


def _literal_date(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    return _stamp(nls.parse(me.literal(nodes[0], scope), "YYYY-MM-DD")[0], "", DATE)


def _literal_timestamp(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    match = _DIGITS.match(me.literal(nodes[0], scope))
    if match is None:
        raise OracleError(1861)
    stamp = f"{match[1]}.{(match[2] or '').ljust(9, '0')}"
    kind = Kind(ZONED if match[3] else "TIMESTAMP", scale=9)
    return _stamp(stamp, match[3] or "", kind)


def _interval(name: str) -> Function:
    def made(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
        read = nls.seconds if name == SECONDS else nls.months
        return Typed(f"({read(me.literal(nodes[0], scope))})::numeric", Kind(name, precision=9, scale=9))

    return made


def _units(name: str) -> Function:
    sizes = {"DAY": 86_400_000_000_000, "HOUR": 3_600_000_000_000, "MINUTE": 60_000_000_000, "SECOND": 1_000_000_000,
             "YEAR": 12, "MONTH": 1}  # fmt: skip

    def made(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
        unit = me.literal(nodes[1], scope).upper()
        return Typed(f"round({me.assigned(nodes[0], scope, NUMBER)} * {sizes[unit]})", Kind(name, precision=9, scale=9))

    return made


def _unistr(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    text = re.sub(r"\\(\\|[0-9A-Fa-f]{4})", lambda one: "\\" if one[1] == "\\" else chr(int(one[1], 16)),
                  me.literal(nodes[0], scope))  # fmt: skip
    text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    return Typed(quoted(text), Kind("NVARCHAR2", 2000), text)


def _rounded(function: str) -> Function:
    def made(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
        value = me.of(nodes[0], scope)
        if value.kind and value.kind.name == "DATE":
            unit = me.literal(nodes[1], scope).upper() if len(nodes) > 1 else "DD"
            word = {"DD": "day", "MM": "month", "MONTH": "month", "YYYY": "year", "HH24": "hour", "HH": "hour",
                    "MI": "minute"}.get(unit)  # fmt: skip
            if function != "trunc" or word is None:
                raise unsupported(f"{function} of a date to {unit}")
            return Typed(f"date_trunc('{word}', {value.sql})", DATE)
        places = f", {me.assigned(nodes[1], scope, NUMBER)}::int" if len(nodes) > 1 else ""
        return Typed(f"{function}({me.assigned(nodes[0], scope, NUMBER)}{places})", NUMBER)

    return made


def _from_tz(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    stamp = me.assigned(nodes[0], scope, TIMESTAMP)
    return Typed(assigned(stamp, TIMESTAMP, ZONED_TIMESTAMP, me.literal(nodes[1], scope)), ZONED_TIMESTAMP)


def _utc(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    value = me.assigned(nodes[0], scope, ZONED_TIMESTAMP)
    return Typed(f"split_part({value}, '|', 1)", Kind("TIMESTAMP", scale=9))


def _context(me: Expressions, nodes: Nodes, scope: Scope) -> Typed:
    if me.literal(nodes[0], scope).upper() != "USERENV":
        raise OracleError(2003)
    value = me.session.context(me.literal(nodes[1], scope).upper())
    return Typed("NULL" if value is None else quoted(value), Kind("VARCHAR2", 256))


FUNCTIONS: dict[str, Function] = {
    "DATE ": _literal_date, "TIMESTAMP ": _literal_timestamp,
    "UPPER": _plain("upper({0})", TEXT, TEXT), "LOWER": _plain("lower({0})", TEXT, TEXT),
    "LENGTH": _plain("length({0})::numeric", NUMBER, TEXT),
    "LENGTHB": _plain("octet_length({0})::numeric", NUMBER, TEXT),
    "SUBSTR": _plain("ora.substr({0})", TEXT, TEXT, NUMBER), "INSTR": _plain("strpos({0})::numeric", NUMBER, TEXT),
    "LPAD": _plain("lpad({0})", TEXT, TEXT, INT, TEXT), "RPAD": _plain("rpad({0})", TEXT, TEXT, INT, TEXT),
    "REPLACE": _plain("nullif(replace({0}), '')", TEXT, TEXT),
    "LTRIM": _plain("nullif(ltrim({0}), '')", TEXT, TEXT), "RTRIM": _plain("nullif(rtrim({0}), '')", TEXT, TEXT),
    "CONCAT": _plain("ora.cat({0})", TEXT, TEXT),
    "TRANSLATE": _plain("translate({0})", TEXT, TEXT), "CHR": _plain("chr(({0})::int)", TEXT, NUMBER),
    "ASCII": _plain("ascii({0})::numeric", NUMBER, TEXT), "INITCAP": _plain("initcap({0})", TEXT, TEXT),
    "NVL": _first("coalesce({0})"), "COALESCE": _first("coalesce({0})"), "GREATEST": _first("greatest({0})"),
    "LEAST": _first("least({0})"), "NULLIF": _first("nullif({0})"),
    "MIN": _first("min({0})"), "MAX": _first("max({0})"),
    "DECODE": _decode, "COUNT": _count, "SUM": _plain("sum({0})", NUMBER, NUMBER),
    "AVG": _plain("avg({0})", NUMBER, NUMBER),
    "ABS": _first("abs({0})"), "MOD": _plain("mod({0})", NUMBER, NUMBER), "POWER": _plain("power({0})", NUMBER, NUMBER),
    "FLOOR": _plain("floor({0})", NUMBER, NUMBER), "CEIL": _plain("ceil({0})", NUMBER, NUMBER),
    "SIGN": _plain("sign({0})", NUMBER, NUMBER), "ROUND": _rounded("round"), "TRUNC": _rounded("trunc"),
    "ROW_NUMBER": _plain("row_number()", NUMBER, NUMBER), "RANK": _plain("rank()", NUMBER, NUMBER),
    "TO_CHAR": _to_char, "TO_NCHAR": _plain("{0}", Kind("NVARCHAR2", 2000), TEXT),
    "TO_NUMBER": _plain("({0})::numeric", NUMBER, TEXT), "TO_CLOB": _plain("{0}", CLOB, CLOB),
    "TO_NCLOB": _plain("{0}", Kind("NCLOB"), CLOB), "TO_BLOB": _plain("{0}", BLOB, BLOB),
    "TO_BINARY_DOUBLE": _plain("({0})::double precision", DOUBLE, DOUBLE),
    "TO_BINARY_FLOAT": _plain("({0})::real", Kind("BINARY_FLOAT"), Kind("BINARY_FLOAT")),
    "TO_DATE": _parsed(DATE, "NLS_DATE_FORMAT"),
    "TO_TIMESTAMP": _parsed(Kind("TIMESTAMP", scale=9), "NLS_TIMESTAMP_FORMAT"),
    "TO_TIMESTAMP_TZ": _parsed(Kind(ZONED, scale=9), "NLS_TIMESTAMP_TZ_FORMAT"),
    "TO_DSINTERVAL": _interval(SECONDS), "TO_YMINTERVAL": _interval(MONTHS), "NUMTODSINTERVAL": _units(SECONDS),
    "NUMTOYMINTERVAL": _units(MONTHS), "FROM_TZ": _from_tz, "SYS_EXTRACT_UTC": _utc, "UNISTR": _unistr,
    "HEXTORAW": _plain("decode({0}, 'hex')", RAW, TEXT), "RAWTOHEX": _plain("upper(encode({0}, 'hex'))", TEXT, RAW),
    "EMPTY_CLOB": lambda *_: Typed("''::text", CLOB), "EMPTY_BLOB": lambda *_: Typed("''::bytea", BLOB),
    "ROWIDTOCHAR": _plain("{0}", Kind("VARCHAR2", 18), ROWID), "CHARTOROWID": _plain("{0}", ROWID, TEXT),
    "SYS_CONTEXT": _context, "SYS_GUID": lambda *_: Typed("decode(md5(random()::text), 'hex')", Kind("RAW", 16)),
    "XMLTYPE": _plain("{0}", Kind("XMLTYPE"), CLOB), "XMLSERIALIZE": _serialized,
}  # fmt: skip
PACKAGES: dict[str, Function] = {
    "DBMS_FLASHBACK.GET_SYSTEM_CHANGE_NUMBER": lambda me, *_: Typed(f"{me.session.scn()}::numeric", NUMBER),
    "DBMS_LOB.SUBSTR": _plain("ora.substr({1}, {3}, {2})", TEXT, CLOB, NUMBER),
    "DBMS_LOB.GETLENGTH": _lob_length,
    "UTL_RAW.CAST_TO_RAW": _plain("convert_to({0}, 'UTF8')", RAW, TEXT),
    "UTL_RAW.CAST_TO_VARCHAR2": _plain("convert_from({0}, 'UTF8')", TEXT, RAW),
}
