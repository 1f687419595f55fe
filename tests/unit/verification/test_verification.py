"""Canonical cells and multiset difference, without a server."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.verification.cells import show
from replicator.verification.digests import Row, Side, Writer, difference, duplicates
from replicator.verification.model import TablePair, TableReport
from replicator.verification.mysql.rules import CONVERT, SourceColumn, rule
from replicator.verification.target import canonical

rows = st.lists(st.tuples(st.sampled_from([None, b"", b"a", b"b"]), st.sampled_from([None, b"", b"a"])), max_size=40)


def side(path: Path, content: list[Row], batch: int = 7) -> Side:
    writer = Writer(path, ())
    for start in range(0, len(content), batch):
        writer.add(content[start : start + batch])
    return writer.close()


@given(rows, rows, st.integers(1, 50))
def test_the_difference_is_that_of_the_multisets(
    tmp_path_factory: pytest.TempPathFactory, first: list[Row], second: list[Row], partition: int
) -> None:
    folder = tmp_path_factory.mktemp("sides")
    mine, theirs = side(folder / "a", first), side(folder / "b", second)
    only_mine, only_theirs = difference(mine, theirs, partition)
    assert Counter(mine.keys(only_mine)) == Counter(first) - Counter(second)
    assert Counter(theirs.keys(only_theirs)) == Counter(second) - Counter(first)


@given(st.lists(st.integers(-3, 20)), st.integers(1, 30))
def test_duplicates_are_counted_without_their_first(values: list[int], partition: int) -> None:
    assert duplicates(np.array(values, np.int64).view(np.uint64), partition) == len(values) - len(set(values))


@given(
    st.lists(st.none() | st.decimals(-(10**28) + 1, 10**28 - 1, places=10, allow_nan=False)),
    st.integers(0, 5),
)
def test_a_decimal_is_its_unscaled_integer(values: list[Decimal | None], skipped: int) -> None:
    column = pa.array(values, pa.decimal128(38, 10)).slice(skipped)
    expected = CONVERT["unscaled"]([None if v is None else f"{v:.10f}".encode() for v in values[skipped:]])
    assert canonical(column) == list(expected)


@pytest.mark.parametrize(
    ("source", "iceberg"),
    [
        (SourceColumn("c", "int", "int(10) unsigned"), "long"),
        (SourceColumn("c", "bigint", "bigint(20) unsigned"), "decimal(20, 0)"),
        (SourceColumn("c", "decimal", "decimal(39,0)", 39, 0), "string"),
        (SourceColumn("c", "bit", "bit(63)", 63), "long"),
        (SourceColumn("c", "bit", "bit(64)", 64), "decimal(20, 0)"),
        (SourceColumn("c", "enum", "enum('unsigned')"), "string"),
    ],
)
def test_a_source_type_has_one_target_type(source: SourceColumn, iceberg: str) -> None:
    found = rule(source, "null")
    assert found is not None
    assert found.iceberg == iceberg


def test_an_unknown_type_has_no_rule() -> None:
    assert rule(SourceColumn("c", "hologram", "hologram"), "null") is None


def test_zero_is_not_minus_zero_and_a_null_is_not_a_zero() -> None:
    cells = canonical(pa.array([0.0, -0.0, None], pa.float64()))
    assert len(set(cells)) == 3
    assert list(CONVERT["double"]([b"0", b"-0", None])) == cells


def test_cells_are_shown_as_people_write_them() -> None:
    assert show(b"-5", "decimal(10, 2)") == "-0.05"
    assert show(b"5", "decimal(20, 0)") == "5"
    assert show(b"\xff", "binary") == "0xff"
    assert show(None, "string") is None


def test_a_report_is_equal_only_without_any_finding() -> None:
    report = TableReport(TablePair("d", "t", "n", "t"))
    assert report.equal
    report.null_sequences = 1
    assert not report.equal
    assert "1 null" in report.lines()[0]
    assert report.to_dict()["equal"] is False
