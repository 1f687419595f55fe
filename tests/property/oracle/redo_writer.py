"""SQL_REDO as Oracle's manuals describe it, written from values by nothing of the product's, for tests and benchmarks.

Oracle Database Utilities, "Using LogMiner to Analyze Redo Log Files" (steps "Examining the SQL_REDO values"); SQL
Language Reference, "Literals", "UNISTR", "HEXTORAW".
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np

from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.oracle.rows.redo_rows import DELETE, INSERT, UPDATE, RedoLayout, RedoRun
from replicator.sources.oracle.types import ColumnDefinition, column_of, value_type

TABLE = TableId("SHOP", "O DD")
DEFINITIONS = (
    ColumnDefinition("ID", "NUMBER", nullable=False, precision=9, scale=0),
    ColumnDefinition("BIG", "NUMBER", precision=18, scale=0),
    ColumnDefinition("AMOUNT", "NUMBER", precision=20, scale=6),
    ColumnDefinition("ANY", "NUMBER"),
    ColumnDefinition("REAL", "BINARY_DOUBLE"),
    ColumnDefinition("NAME", "VARCHAR2", size=100),
    ColumnDefinition("NNAME", "NVARCHAR2", size=100),
    ColumnDefinition("DAY", "DATE"),
    ColumnDefinition("AT", "TIMESTAMP(6)"),
    ColumnDefinition("ZONED", "TIMESTAMP(6) WITH TIME ZONE"),
    ColumnDefinition("FINE", "TIMESTAMP(9)"),
    ColumnDefinition("SPAN", "INTERVAL DAY(2) TO SECOND(6)"),
    ColumnDefinition("MONTHS", "INTERVAL YEAR(2) TO MONTH"),
    ColumnDefinition("BYTES", "RAW", size=50),
    ColumnDefinition("we (,ird", "VARCHAR2", size=10),
    ColumnDefinition("PADDED", "CHAR", size=14),
    ColumnDefinition("NPADDED", "NCHAR", size=14),
    ColumnDefinition("PLACE", "ROWID"),
    ColumnDefinition("SMALL", "BINARY_FLOAT"),
    ColumnDefinition("LOCAL", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
)
_OF_THE_GOLDEN_FILE = 15


def _layout(definitions: Sequence[ColumnDefinition]) -> RedoLayout:
    columns = tuple(column_of(one, TABLE, key=one.name == "ID") for one in definitions)
    types = tuple(value_type(one, TABLE) for one in definitions)
    return RedoLayout(TableSchema(TABLE, columns, ("ID",)), types, (*(one.name for one in definitions), "LEFT_OUT"))


LAYOUT, GOLDEN_LAYOUT = _layout(DEFINITIONS), _layout(DEFINITIONS[:_OF_THE_GOLDEN_FILE])
SCHEMA = LAYOUT.schema
NAMES = SCHEMA.names
MOMENTS = ("DAY", "AT", "ZONED", "LOCAL")
_ALPHABET = "abc XYZ'\"\\|();,=\n\t\u00e9\u20ac\U0001f600NULL-09"
_CODES = {"insert": INSERT, "delete": DELETE, "update": UPDATE}
_ROWID = "ABCXYZabcxyz0189+/"
Values = Mapping[str, Any]


class BeforeChrist(str):
    """A moment as the session's format has it, which no type of the target holds."""

    __slots__ = ()


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unistr(text: str) -> str:
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    plain = "".join(chr(one) if 32 <= one < 127 and one != 92 else f"\\{one:04x}" for one in pairs)
    return f"UNISTR({quoted(plain)})"


def _text(text: str, pen: random.Random, *, national: bool) -> str:
    """As one literal, or cut into several that are joined."""
    plain = not national or text.isascii()
    if pen.random() < 0.2 and len(text) > 1:
        at = pen.randrange(1, len(text))
        parts = (text[:at], text[at:])
        return " || ".join(quoted(one) if not national or one.isascii() else _unistr(one) for one in parts)
    return quoted(text) if plain else _unistr(text)


def literal(name: str, value: Any, pen: random.Random) -> str:  # noqa: C901, PLR0911, PLR0912 - a type each
    """As LogMiner writes it in a session with Tidemark's formats."""
    if value is None:
        return "NULL"
    if isinstance(value, BeforeChrist):
        shown, zone = f"{value}.000000000", " +01:00" if name == "ZONED" else ""
        return {
            "DAY": f"TO_DATE('{value}', 'SYYYY-MM-DD HH24:MI:SS')", "ZONED": f"TO_TIMESTAMP_TZ('{shown}{zone}')",
        }.get(name, f"TO_TIMESTAMP('{shown}')")  # fmt: skip
    match name:
        case "NNAME" | "NPADDED":
            return _text(value, pen, national=True)
        case "NAME" | "we (,ird" | "PADDED":
            return _text(value, pen, national=False)
        case "LOCAL":
            return f"TO_TIMESTAMP(' {value.replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}000')"
        case "DAY":
            return f"TO_DATE(' {value:%Y-%m-%d %H:%M:%S}', 'SYYYY-MM-DD HH24:MI:SS')"
        case "AT":
            return f"TO_TIMESTAMP(' {value:%Y-%m-%d %H:%M:%S.%f}000')"
        case "ZONED":
            zone = timezone(timedelta(minutes=pen.choice((-480, -30, 0, 60, 345))))
            there = value.astimezone(zone)
            offset = there.strftime("%z")
            return f"TO_TIMESTAMP_TZ(' {there:%Y-%m-%d %H:%M:%S.%f}000 {offset[:3]}:{offset[3:]}')"
        case "FINE":
            return f"TO_TIMESTAMP('{'' if value.startswith('-') else ' '}{value}')"
        case "SPAN":
            return f"TO_DSINTERVAL({quoted(value)})"
        case "MONTHS":
            return f"TO_YMINTERVAL({quoted(value)})"
        case "BYTES":
            return f"HEXTORAW('{value.hex()}')"
        case "REAL" | "SMALL":
            return quoted("Nan" if value != value else repr(value).replace("inf", "Inf"))  # noqa: PLR0124
        case "ANY" | "AMOUNT":
            written = format(value, "f")
            return quoted(written.replace("0.", ".", 1) if written.startswith(("0.", "-0.")) else written)
    return quoted(str(value))


def _moment(pen: random.Random) -> datetime:
    seconds = pen.randrange(-62_000_000_000, 250_000_000_000)
    return datetime(1970, 1, 1) + timedelta(seconds=seconds, microseconds=pen.randrange(10**6))  # noqa: DTZ001


def values(pen: random.Random) -> dict[str, Any]:
    """A row."""
    text = "".join(pen.choices(_ALPHABET, k=pen.randrange(1, 12)))
    made = {
        "ID": pen.randrange(-999_999_999, 10**9),
        "BIG": pen.randrange(-(10**18) + 1, 10**18),
        "AMOUNT": Decimal(pen.randrange(-(10**20) + 1, 10**20)).scaleb(-6),
        "ANY": Decimal(pen.randrange(-(10**12), 10**12)).scaleb(pen.randrange(-30, 30)),
        "REAL": pen.choice((0.1, -1e-300, float("nan"), float("inf"), pen.uniform(-1e10, 1e10))),
        "NAME": text,
        "NNAME": text[::-1],
        "DAY": _moment(pen).replace(microsecond=0),
        "AT": _moment(pen),
        "ZONED": _moment(pen).replace(tzinfo=UTC),
        "FINE": f"{_moment(pen):%Y-%m-%d %H:%M:%S}.{pen.randrange(10**9):09}",
        "SPAN": f"{pen.choice('+-')}{pen.randrange(99):02} {pen.randrange(24):02}:00:{pen.randrange(60):02}.500000",
        "MONTHS": f"{pen.choice('+-')}{pen.randrange(99):02}-{pen.randrange(12):02}",
        "BYTES": pen.randbytes(pen.randrange(1, 9)),
        "we (,ird": "x",
        "PADDED": f"{text:14}",
        "NPADDED": f"{text[::-1]:14}",
        "PLACE": "".join(pen.choices(_ROWID, k=18)),
        "SMALL": pen.choice((0.5, float("nan"), float("-inf"), float(np.float32(pen.uniform(-1e10, 1e10))))),
        "LOCAL": _moment(pen).replace(tzinfo=UTC),
    }
    # strftime has no zeros before a year below 1000, which Oracle's format has
    for name in MOMENTS:
        if made[name].year < 1001:
            made[name] += timedelta(days=366_000)  # a day of February has no other year for sure
    if made["FINE"].index("-") < 4:
        made["FINE"] = made["FINE"].partition("-")[0].rjust(4, "0") + "-" + made["FINE"].partition("-")[2]
    for name in (*MOMENTS, "FINE"):
        if pen.random() < 0.05:
            day = f"-{pen.randrange(1, 4713):04}-{pen.randrange(1, 13):02}-{pen.randrange(1, 29):02} 23:00:59"
            made[name] = f"{day}.123456789" if name == "FINE" else BeforeChrist(day)
    return {name: None if name != "ID" and pen.random() < 0.2 else made[name] for name in NAMES}


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _where(row: Values, pen: random.Random) -> str:
    parts = [
        f"{_name(column)} IS NULL" if row[column] is None else f"{_name(column)} = {literal(column, row[column], pen)}"
        for column in NAMES
    ]
    return " and ".join([*parts, '"LEFT_OUT" IS NULL', *pen.choice(([], ["ROWID = 'AAARFyAAHAAAAAAAAC'"]))])


def statement(verb: str, before: Values | None, after: Values | None, pen: random.Random) -> str:
    """INSERT, UPDATE (SET has what changed) or DELETE."""
    table, end = f"{_name(TABLE.database)}.{_name(TABLE.name)}", pen.choice(("", ";"))
    if verb == "insert":
        assert after is not None
        columns = ",".join(_name(column) for column in (*NAMES, "LEFT_OUT"))
        made = ",".join([*(literal(column, after[column], pen) for column in NAMES), "EMPTY_CLOB()"])
        return f"insert into {table}({columns}) values ({made}){end}"
    assert before is not None
    if verb == "delete":
        return f"delete from {table} where {_where(before, pen)}{end}"
    assert after is not None
    changed = [column for column in NAMES if after[column] is not before[column]] or ["NAME"]
    set_ = ", ".join(f"{_name(column)} = {literal(column, after[column], pen)}" for column in changed)
    return f"update {table} set {set_} where {_where(before, pen)}{end}"


def run_of(statements: Sequence[bytes], verbs: Sequence[str]) -> RedoRun:
    """Statements as they come from the log."""
    bounds, count = np.cumsum([0, *map(len, statements)]), len(statements)
    return RedoRun(
        np.frombuffer(b"".join(statements) or b"\0", np.uint8),
        bounds[:-1],
        bounds[1:],
        np.array([_CODES[verb] for verb in verbs], np.int64),
        np.full(count, 0x0000000500020001),
        np.arange(count),
        np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
    )
