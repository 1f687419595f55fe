"""The hash of a key is what docs/streams.md says, for every type, and does not change when a column is widened."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from replicator.model import types
from replicator.streams.sharding import shards_of

MASK = (1 << 64) - 1
MANY = 1 << 40


def mix(h: int, word: int) -> int:
    h = (h ^ word) & MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ (h >> 33)) * factor & MASK
    return h ^ (h >> 33)


def words(value: Any) -> list[int]:
    """As the page has it."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        padded = value + b"\0" * (-len(value) % 8)
        return [len(value), *(word for (word,) in struct.iter_unpack("<Q", padded))]
    if isinstance(value, float):  # adding 0 makes one zero of the two
        return [struct.unpack("<Q", struct.pack("<d", math.nan if math.isnan(value) else value + 0.0))[0]]
    if isinstance(value, datetime):
        value = round((value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 10**6)
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days
    elif isinstance(value, Decimal):
        value = int(value.scaleb(-value.as_tuple().exponent))
    return [value & MASK, (int(value) >> 64) & MASK]


def shard(key: tuple[Any, ...], shards: int) -> int:
    h = 0
    for value in key:
        for word in words(value):
            h = mix(h, word)
    return h % shards


VALUES: list[tuple[types.DataType, list[Any]]] = [
    (types.BOOLEAN, [True, False]),
    (types.INT, [0, 1, -1, 2**31 - 1, -(2**31)]),
    (types.BIGINT, [0, 7, -7, 2**63 - 1, -(2**63)]),
    (types.decimal(10, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")]),
    (types.decimal(38, 0), [Decimal(10**37), Decimal(-(10**37)), Decimal(2**64 - 1)]),
    (types.FLOAT, [0.0, -0.0, 1.5, float("nan"), float("-inf")]),
    (types.DOUBLE, [0.1, -2.5e300, float("nan")]),
    (types.STRING, ["", "a", "12345678", "123456789", "ß漢字", "x" * 100]),
    (types.BINARY, [b"", b"\0", b"\0\0", b"\xff" * 9]),
    (types.DATE, [date(1970, 1, 1), date(1900, 2, 28), date(9999, 12, 31)]),
    (types.TIMESTAMP_NTZ, [datetime.fromisoformat("2026-11-22T10:00:00.123456"), datetime.fromisoformat("0001-01-01")]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda one: str(one)[:20])
def test_each_type_is_hashed_as_it_is_documented(kind: types.DataType, values: list[Any]) -> None:
    other = pa.array(range(len(values)), pa.int64())
    column = pa.array(values, kind.arrow)
    found = shards_of([column, other], MANY, len(values))
    assert found.tolist() == [shard((value, place), MANY) for place, value in enumerate(column.to_pylist())]
    assert shards_of([column.slice(1), other.slice(1)], MANY, len(values) - 1).tolist() == found[1:].tolist()


def test_a_widened_key_stays_in_its_shard() -> None:
    numbers = [0, 5, -3, 2**31 - 1]
    same = [types.INT.arrow, types.BIGINT.arrow, types.decimal(20, 0).arrow]
    assert len({tuple(shards_of([pa.array(numbers).cast(kind)], MANY, 4)) for kind in same}) == 1
    money = [Decimal("1.25"), Decimal("-7.00")]
    assert len({tuple(shards_of([pa.array(money, pa.decimal128(p, 2))], MANY, 2)) for p in (5, 30)}) == 1
    floats = pa.array([1.5, -0.25], pa.float32())
    assert shards_of([floats], MANY, 2).tolist() == shards_of([floats.cast(pa.float64())], MANY, 2).tolist()


def test_keys_spread_evenly_and_no_key_is_shard_0() -> None:
    found = shards_of([pa.array(range(80_000), pa.int64())], 8, 80_000)
    assert all(abs((found == one).sum() - 10_000) < 500 for one in range(8))
    texts = shards_of([pa.array([f"customer-{n:09d}" for n in range(80_000)])], 8, 80_000)
    assert all(abs((texts == one).sum() - 10_000) < 500 for one in range(8))
    assert shards_of([], 8, 3).tolist() == [0, 0, 0]
