"""Row images with damage: what is decoded at all is exactly what the bytes say, for they can be made again from it."""

from __future__ import annotations

import random
import struct

from replicator.errors import TableError
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows.row_events import TableRows
from replicator.sources.mysql.wire import events as e
from tests.property.budget import examples, seed
from tests.property.mutations import EXTREMES
from tests.property.mysql.test_row_image import COLUMNS, SCHEMA, SPECS, Row, image, rows_event

BINARY = COLUMNS.index(next(column for column in COLUMNS if column.name == "bin"))
LATIN = COLUMNS.index(next(column for column in COLUMNS if column.name == "latin"))
REFUSALS = (
    TableError,
    LookupError,
    ValueError,
    ArithmeticError,
    struct.error,
)  # EventParser.guard's, and a table's own


def _row(rng: random.Random) -> Row:
    """A row of the columns of test_row_image, drawn without Hypothesis: its shrinking is of no use for bytes."""
    from datetime import datetime, timedelta
    from decimal import Decimal

    values: Row = [
        rng.randint(-128, 127), rng.randint(-(2**23), 2**23 - 1), rng.randrange(2**32), rng.randrange(2**64),
        rng.uniform(-1e9, 1e9), Decimal(rng.randint(-(10**18), 10**18)).scaleb(-7),
        Decimal(rng.randint(-(10**60), 10**60)),
        datetime(1, 1, 1) + timedelta(microseconds=rng.randrange(10**17)),  # noqa: DTZ001 - DATETIME has no zone
        rng.randint(-3020399000, 3020399000), "".join(rng.choices("aé中😀", k=rng.randint(0, 40))),
        "".join(rng.choices("aé€ÿ", k=rng.randint(0, 20))), rng.randbytes(6), rng.randbytes(rng.randint(0, 60)),
        rng.random() < 0.5, rng.randrange(2**64), rng.choice([0, 1901, 2155]), rng.choice(["", "x", "é"]),
        set(rng.sample("abc", rng.randint(0, 3))),
    ]  # fmt: skip
    values[6] = values[6].scaleb(-30, context=None)
    return [None if rng.random() < 0.1 else value for value in values]


def _damaged(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(damaged))
        how = rng.randrange(5)
        if how == 0:
            damaged[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            damaged[at] = rng.choice(EXTREMES)
        elif how == 2:
            damaged[at:at] = rng.randbytes(rng.randint(1, 4))
        elif how == 3:
            damaged[at : at + 3] = rng.randbytes(3)
        else:
            del damaged[at : at + rng.randint(1, 4)]
        if not damaged:
            return b"\0"
    return bytes(damaged)


def _read_back(found: Row) -> Row:
    """Decoded values in the form that the encoders take."""
    from decimal import Decimal

    row = list(found)
    names = [column.name for column in COLUMNS]
    for name in ("big", "bit64"):
        at = names.index(name)
        row[at] = None if row[at] is None else int(row[at])
    at = names.index("wide")
    row[at] = None if row[at] is None else Decimal(row[at])
    at = names.index("time")
    row[at] = None if row[at] is None else _millis(row[at])
    at = names.index("set")
    row[at] = None if row[at] is None else set(filter(None, row[at].split(",")))
    return row


def _millis(text: str) -> int:
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    hours, minutes, seconds = text.split(":")
    return sign * ((int(hours) * 3600 + int(minutes) * 60) * 1000 + round(float(seconds) * 1000))


def _again(row: Row) -> bytes:
    """The image of a row, where latin1 has the five bytes too that Python's cp1252 has not."""
    text = row[LATIN]
    if text is None:
        return image(row)
    data = b"".join(bytes([ord(char)]) if char in "\x81\x8d\x8f\x90\x9d" else char.encode("cp1252") for char in text)
    kept, SPECS[LATIN] = SPECS[LATIN], (*SPECS[LATIN][:2], lambda _: bytes([len(data)]) + data, SPECS[LATIN][3])
    try:
        return image(row)
    finally:
        SPECS[LATIN] = kept


def test_a_damaged_row_is_refused_or_read_as_its_bytes_are() -> None:
    start = seed()
    outcomes = {"read": 0, "refused": 0}
    for number in range(examples(1500, 60_000)):
        rng = random.Random(f"{start}/{number}")
        damaged = _damaged(image(_row(rng)), rng)
        gathered = TableRows(SCHEMA, COLUMNS, ReadOptions(values={"zero_dates": "fail"}))
        try:
            gathered.add(rows_event(e.WRITE_V2, [damaged]), 0, 1, "t")
            batch = gathered.take()
        except REFUSALS:
            outcomes["refused"] += 1
            continue
        batch.validate(full=True)
        found = [_read_back(list(row.values())[5 : 5 + len(SPECS)]) for row in batch.to_pylist()]
        again = b"".join(_again(row) for row in found)
        assert _same(again, damaged, found), f"seed {start}, case {number}: {damaged.hex()} is read as {found}"
        outcomes["read"] += 1
    assert min(outcomes.values()) > 0, outcomes


def _same(again: bytes, damaged: bytes, found: list[Row]) -> bool:
    """Equal but for what two encodings may share: BINARY's zeros at the end, minus zero."""
    if again == damaged:
        return True
    return len(again) <= len(damaged) and _normal(damaged, len(found)) == _normal(again, len(found))


def _normal(data: bytes, rows: int) -> bytes:
    """The bytes of rows with zeros at the end of BINARY(6) taken off and minus zero made zero."""
    from replicator.sources.mysql.rows.values import shape_of

    size, out, at = (len(SPECS) + 7) // 8, bytearray(), 0
    shapes = [shape_of(log) for log in COLUMNS]
    for _ in range(rows):
        nulls, at = int.from_bytes(data[at : at + size], "little"), at + size
        out += (nulls & (1 << len(SPECS)) - 1).to_bytes(size, "little")
        for place, (prefix, length) in enumerate(shapes):
            if nulls >> place & 1:
                continue
            end = at + prefix + (int.from_bytes(data[at : at + prefix], "little") if prefix else length)
            value = data[at:end]
            if place == BINARY:
                value = bytes([len(value[1:].rstrip(b"\0"))]) + value[1:].rstrip(b"\0")
            elif COLUMNS[place].name in ("dec", "wide") and not any(
                octet ^ 0xFF for octet in bytes([value[0] ^ 0x80]) + value[1:]
            ):
                value = b"\x80" + bytes(len(value) - 1)
            out += value
            at = end
    return bytes(out) + data[at:]
