"""Every type, exactly, through append and merge, as value and as key."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from replicator.targets.base import Append, Merge, Replace
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

UTC = dt.UTC
FLOAT = struct.unpack("f", struct.pack("f", 0.1))[0]
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [-(2**31), 2**31 - 1, 0],
    "bigint": [-(2**63), 2**63 - 1, 0],
    "decimal(20,0)": [Decimal(2**64 - 1), Decimal(0), Decimal(-1)],
    "decimal(9,2)": [Decimal("-1234567.89"), Decimal("0.01"), Decimal("0.00")],
    "decimal(18,4)": [Decimal("99999999999999.9999"), Decimal("-0.0001"), Decimal("0.0000")],
    "decimal(38,20)": [Decimal("-123456789012345678.00000000000000000001"), Decimal("0E-20"),
        Decimal("1.00000000000000000000")],
    "float": [FLOAT, -16777216.0, math.inf],
    "double": [0.1, -1.7976931348623157e308, -math.inf, 5e-324],
    "string": ["", "naïve 😀 'quoted' \\ back`tick` \0 \n", "x" * 70_000, "\U0010ffff"],
    "binary": [b"", bytes(range(256)), b"\0" * 1000],
    "date": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "timestamp_ntz": [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1, 2, 3, 4),  # noqa: DTZ001
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],  # noqa: DTZ001 - a time without zone is meant
    "timestamp": [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
}  # fmt: skip
WIDE = schema_of({"id": "int"} | {f"c {kind}": kind for kind in VALUES}, ["id"])
ROWS = [(n, *(values[n % len(values)] for values in VALUES.values())) for n in range(12)]
NULLS = (99, *[None] * len(VALUES))
UNORDERED = {"boolean", "double", "float"}  # no source has keys of two booleans worth moving; floats are tried below


def test_every_type_is_the_same_after_an_append(lake: Lake) -> None:
    table = lake.table(WIDE)
    chunk = lake.segment(WIDE, [read(n, *row) for n, row in enumerate([*ROWS, NULLS])])
    lake.target.apply(table, Append([chunk], WIDE, chunk.last_sequence))
    assert sorted(lake.rows(table)) == [*ROWS, NULLS]


def test_every_type_is_the_same_after_a_merge(lake: Lake) -> None:
    table = lake.table(WIDE)
    lake.merge(table, WIDE, *[insert(n, n, *ROWS[0][1:]) for n in range(12)], insert(12, *NULLS))
    how = lake.merge(
        table,
        WIDE,
        *[update(20 + n, (n, *ROWS[0][1:]), row) for n, row in enumerate(ROWS)],
        update(40, NULLS, (99, *ROWS[1][1:])),
    )
    assert how == "merge"
    assert sorted(lake.rows(table)) == [*ROWS, (99, *ROWS[1][1:])]


def test_every_type_is_the_same_from_a_segment_of_many_pages(lake: Lake) -> None:
    """By Spark, and without it; a page ends after some thousands of rows, and nulls come singly and in long runs."""
    made = [NULLS[1:], *(row[1:] for row in ROWS if len(str(row)) < 70_000)]
    rows = [(n, *made[n % len(made) if n < 5_000 else 0 if n < 10_000 else 1 + n // 100 % 5]) for n in range(20_000)]
    # Numbers have gaps of every size: they are written as differences.
    numbers = [n if n < 10_000 else n * n for n in range(len(rows))]
    segment = lake.segment(WIDE, [insert(number, *row) for number, row in zip(numbers, rows, strict=True)])
    for target in (lake.target, IcebergTarget(lake.spark, lake.storage, "r1", SPARK_ONLY)):
        table = lake.table(WIDE)
        target.apply(table, Merge([segment], WIDE, segment.last_sequence))
        found = sorted(lake.rows(table, sequence=True))
        assert found == [(*row, number) for number, row in zip(numbers, rows, strict=True)]


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in UNORDERED])
def test_every_type_can_be_a_key(lake: Lake, kind: str) -> None:
    schema = schema_of({"k": kind, "v": "int"}, ["k"])
    table = lake.table(schema)
    one, two, *rest = VALUES[kind]
    lake.merge(table, schema, insert(0, one, 1), insert(1, two, 2))
    lake.merge(
        table,
        schema,
        update(2, (one, 1), (one, 10)),
        delete(3, two, 2),
        *[insert(4 + i, k, 3) for i, k in enumerate(rest)],
    )
    assert sorted(lake.rows(table)) == sorted([(one, 10), *[(k, 3) for k in rest]])


def test_rows_without_key_are_told_apart_by_every_type(lake: Lake) -> None:
    schema = schema_of({f"c {kind}": kind for kind in VALUES})
    table = lake.table(schema)
    plain = [row[1:] for row in ROWS]
    nothing = NULLS[1:]
    chunk = lake.segment(schema, [read(n, *row) for n, row in enumerate([*plain, *plain, nothing, nothing])])
    lake.target.apply(table, Replace([chunk], schema, 1, -1, chunk.last_sequence, "L1"))
    lake.merge(table, schema, *[delete(100 + n, *row) for n, row in enumerate(plain)], delete(150, *nothing))
    assert Counter(lake.rows(table)) == Counter([*plain, nothing])


def test_a_signed_zero_and_nan_are_values_of_their_own(lake: Lake) -> None:
    schema = schema_of({"d": "double", "f": "float"})
    table = lake.table(schema)
    lake.merge(
        table, schema, insert(0, 0.0, 0.0), insert(1, -0.0, 0.0), insert(2, math.nan, -0.0), insert(3, math.nan, 0.0)
    )
    lake.merge(table, schema, delete(4, -0.0, 0.0), delete(5, math.nan, -0.0))
    assert sorted(map(repr, lake.rows(table, sequence=True))) == ["(0.0, 0.0, 0)", "(nan, 0.0, 3)"]
