"""Row images: what a server writes for a value is read back as that value (encoders after MySQL's pack functions)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import RowImageIncomplete
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.jsonb import decimal_from, double_text
from replicator.sources.mysql.rows.row_events import TableRows
from replicator.sources.mysql.rows.table_map import LogColumn
from replicator.sources.mysql.rows.values import inet6_text
from replicator.sources.mysql.stream.schema_tracker import definition_of
from replicator.sources.mysql.types import column_of
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent

TABLE = TableId("d", "t")
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - DATETIME has no zone


def pack_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return pack_unscaled(-number if sign else number, precision, scale)


def pack_unscaled(number: int, precision: int, scale: int) -> bytes:
    digits = f"{abs(number):0{precision}}"
    split = precision - scale
    whole, part = digits[:split], digits[split:]
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    groups = [whole[: split % 9], *(whole[i : i + 9] for i in range(split % 9, split, 9))]
    groups += [part[i : i + 9] for i in range(0, scale, 9)]
    data = b"".join(int(group).to_bytes(sizes[len(group)], "big") for group in groups if group)
    if number < 0:
        data = bytes(octet ^ 0xFF for octet in data)
    return bytes([data[0] ^ 0x80]) + data[1:]


def pack_datetime(value: datetime) -> bytes:
    days = (value.year * 13 + value.month) << 5 | value.day
    packed = (days << 17 | value.hour << 12 | value.minute << 6 | value.second) << 24 | value.microsecond
    return (packed + (0x8000000000 << 24)).to_bytes(8, "big")


def pack_time(millis: int) -> bytes:
    """TIME(3): negative values are stored as one number, sign and fraction together."""
    seconds, rest = divmod(abs(millis), 1000)
    packed = (seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60) << 16 | rest * 10
    return ((-packed if millis < 0 else packed) + (0x800000 << 16)).to_bytes(5, "big")


def time_text(millis: int) -> str:
    seconds, rest = divmod(abs(millis), 1000)
    return f"{'-' if millis < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def prefixed(size: int) -> Callable[[bytes], bytes]:
    return lambda data: len(data).to_bytes(size, "little") + data


Spec = tuple[LogColumn, st.SearchStrategy[Any], Callable[[Any], bytes], Callable[[Any], Any]]
SAME: Callable[[Any], Any] = lambda value: value
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31)  # noqa: DTZ001 - DATETIME has no zone
SPECS: list[Spec] = [
    (LogColumn(t.TINY, 0, True, "tiny", unsigned=False), st.integers(-128, 127), lambda v: struct.pack("<b", v), SAME),
    (LogColumn(t.INT24, 0, True, "int24", unsigned=False), st.integers(-(2**23), 2**23 - 1),
        lambda v: v.to_bytes(3, "little", signed=True), SAME),
    (LogColumn(t.LONG, 0, True, "long", unsigned=True), st.integers(0, 2**32 - 1), lambda v: struct.pack("<I", v),
        SAME),
    (LogColumn(t.LONGLONG, 0, True, "big", unsigned=True), st.integers(0, 2**64 - 1), lambda v: struct.pack("<Q", v),
        Decimal),
    (LogColumn(t.DOUBLE, 8, True, "double", unsigned=False), st.floats(allow_nan=False, allow_infinity=False),
        lambda v: struct.pack("<d", v), SAME),
    (LogColumn(t.NEWDECIMAL, 20 << 8 | 7, True, "dec", unsigned=False), st.decimals(-(10**12), 10**12, places=7),
        lambda v: pack_decimal(v, 20, 7), SAME),
    (LogColumn(t.NEWDECIMAL, 65 << 8 | 30, True, "wide", unsigned=False), st.decimals(-(10**30), 10**30, places=30),
        lambda v: pack_decimal(v, 65, 30), lambda v: f"{v:f}" if v else f"{abs(v):f}"),
    (LogColumn(t.DATETIME2, 6, True, "dt"), st.datetimes(FIRST, LAST), pack_datetime, SAME),
    (LogColumn(t.TIME2, 3, True, "time"), st.integers(-3020399000, 3020399000), pack_time, time_text),
    (LogColumn(t.VARCHAR, 400, True, "text", charset=45),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=90), lambda v: prefixed(2)(v.encode()), SAME),
    (LogColumn(t.VARCHAR, 90, True, "latin", charset=8), st.text("aé€ÿ", max_size=20),
        lambda v: prefixed(1)(v.encode("cp1252")), SAME),
    (LogColumn(t.STRING, 6, True, "bin", charset=63), st.binary(min_size=6, max_size=6),
        lambda v: prefixed(1)(v.rstrip(b"\0")), SAME),
    (LogColumn(t.BLOB, 3, True, "blob", charset=63), st.binary(max_size=300), prefixed(3), SAME),
    (LogColumn(t.BIT, 1, True, "bit1"), st.booleans(), lambda v: bytes([v]), SAME),
    (LogColumn(t.BIT, 64, True, "bit64"), st.integers(0, 2**64 - 1), lambda v: v.to_bytes(8, "big"), Decimal),
    (LogColumn(t.YEAR, 0, True, "year"), st.one_of(st.just(0), st.integers(1901, 2155)),
        lambda v: bytes([v - 1900 if v else 0]), SAME),
    (LogColumn(t.ENUM, 1, True, "enum", charset=45, labels=(b"x", b"\xc3\xa9")), st.sampled_from(["", "x", "é"]),
        lambda v: bytes([("", "x", "é").index(v)]), SAME),
    (LogColumn(t.SET, 1, True, "set", charset=45, labels=(b"a", b"b", b"c")), st.sets(st.sampled_from("abc")),
        lambda v: bytes([sum(1 << "abc".index(x) for x in v)]), lambda v: ",".join(sorted(v))),
]  # fmt: skip
COLUMNS = [spec[0] for spec in SPECS]
SCHEMA = TableSchema(TABLE, tuple(column_of(definition_of(column), TABLE) for column in COLUMNS))
Row = list[Any]
ROW = st.tuples(*(st.none() | spec[1] for spec in SPECS)).map(list)


def image(row: Row) -> bytes:
    nulls = sum(1 << place for place, value in enumerate(row) if value is None)
    size = (len(row) + 7) // 8
    return nulls.to_bytes(size, "little") + b"".join(s[2](v) for s, v in zip(SPECS, row, strict=True) if v is not None)


def rows_event(kind: int, images: list[bytes], bitmaps: int = 1, present: int | None = None) -> BinlogEvent:
    size = (len(SPECS) + 7) // 8
    bitmap = (present if present is not None else (1 << len(SPECS)) - 1).to_bytes(size, "little")
    body = (7).to_bytes(6, "little") + b"\1\0\2\0" + bytes([len(SPECS)]) + bitmap * bitmaps + b"".join(images)
    return BinlogEvent(kind, 0, 1, 0, "bin.000001", 100, 200, body)


def expected(row: Row) -> Row:
    return [None if value is None else spec[3](value) for spec, value in zip(SPECS, row, strict=True)]


@given(st.lists(st.tuples(st.sampled_from("IUD"), ROW, ROW), max_size=4))
def test_every_row_is_read_back(changes: list[tuple[str, Row, Row]]) -> None:
    gathered = TableRows(SCHEMA, COLUMNS, ReadOptions())
    ordinal = 0
    for kind, old, new in changes:
        if kind == "I":
            ordinal += gathered.add(rows_event(e.WRITE_V2, [image(new), image(old)]), ordinal, 1, "t")
        elif kind == "U":
            ordinal += gathered.add(rows_event(e.UPDATE_V2, [image(old), image(new)], 2), ordinal, 1, "t")
        else:
            ordinal += gathered.add(rows_event(e.DELETE_V2, [image(old)]), ordinal, 1, "t")
    batch = gathered.take()
    assert batch.schema == SCHEMA.change_arrow
    batch.validate(full=True)
    nothing = [None] * len(SPECS)
    wanted = []
    for kind, old, new in changes:
        before = expected(old)
        wanted += {
            "I": [(expected(new), nothing), (before, nothing)],
            "U": [(expected(new), before)],
            "D": [(before, before)],
        }[kind]
    found = [list(row.values())[5:] for row in batch.to_pylist()]
    assert found == [[*row, *before] for row, before in wanted]
    assert batch.column(0).to_pylist() == list(range(ordinal))


@given(st.lists(ROW, min_size=1, max_size=3), st.lists(ROW, min_size=1, max_size=3))
def test_a_truncated_gathering_is_as_if_the_rest_had_never_come(kept: list[Row], dropped: list[Row]) -> None:
    once, again = TableRows(SCHEMA, COLUMNS, ReadOptions()), TableRows(SCHEMA, COLUMNS, ReadOptions())
    for gathered in (once, again):
        gathered.add(rows_event(e.WRITE_V2, [image(row) for row in kept]), 0, 1, "t")
    mark = again.mark()
    again.add(rows_event(e.DELETE_V2, [image(row) for row in dropped]), 9, 1, "t")
    again.add(rows_event(e.UPDATE_V2, [image(row) for row in dropped * 2], 2), 9, 1, "t")
    again.truncate(mark)
    assert again.take().equals(once.take())


def test_a_missing_column_is_not_null() -> None:
    gathered = TableRows(SCHEMA, COLUMNS, ReadOptions())
    with pytest.raises(RowImageIncomplete):
        gathered.add(rows_event(e.WRITE_V2, [], present=1), 0, 1, "t")


@given(st.integers(1, 65).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, min(p, 30)))), st.data())
def test_decimals_of_every_size_are_exact(shape: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = shape
    number = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    sign, digits, _ = Decimal(number).as_tuple()
    value = Decimal((sign, digits, -scale))
    assert decimal_from(pack_unscaled(number, precision, scale), precision, scale) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_is_that_double(value: float) -> None:
    assert struct.pack("<d", float(double_text(value))) == struct.pack("<d", value)


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_an_address_is_that_address(data: bytes) -> None:
    import ipaddress

    assert ipaddress.IPv6Address(inet6_text(data).decode()).packed == data


@given(st.timedeltas(timedelta(0), timedelta(days=300 * 365)))
def test_fractions_of_a_second_are_kept(past: timedelta) -> None:
    gathered = TableRows(
        TableSchema(TABLE, (Column("dt", SCHEMA.column("dt").type, nullable=True, source_type=""),)),
        COLUMNS,
        ReadOptions(),
    )
    row = [None] * len(SPECS)
    row[7] = EPOCH - past
    gathered.add(rows_event(e.WRITE_V2, [image(row)]), 0, 1, "t")
    assert gathered.take().column("dt").to_pylist() == [EPOCH - past]
