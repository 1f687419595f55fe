"""The lag histogram: exact at every objective, mergeable, bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.model.schema import COMMIT_TS
from replicator.staging.storage import Storage
from replicator.telemetry.commit_times import CommitTimes, read_commit_times
from replicator.telemetry.lags import (
    BOUNDS,
    DAY,
    LagHistogram,
    exact_seconds,
    merged,
    nearest_seconds,
    tally,
    within,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
LAGS = st.lists(
    st.one_of(st.integers(0, 200 * DAY), st.sampled_from(BOUNDS), st.sampled_from(BOUNDS[1:]).map(lambda b: b + 1)),
    max_size=60,
)


def of(lags: list[int]) -> LagHistogram:
    made = LagHistogram()
    made.add(np.array(lags, np.int64), np.ones(len(lags), np.int64))
    return made


def same(one: LagHistogram, other: LagHistogram) -> bool:
    return (one.counts == other.counts).all() and (one.sum, one.greatest) == (other.sum, other.greatest)


OBJECTIVES = [*range(1, 121), *range(120, 601, 5), *(60 * minute for minute in range(10, 1441))]


def test_every_objective_that_a_user_may_make_is_a_bound() -> None:
    assert [seconds for seconds in OBJECTIVES if not exact_seconds(seconds)] == []
    assert all(BOUNDS[within(seconds)] == seconds * 1_000_000 for seconds in OBJECTIVES)
    assert [s for s in (0, -1, 0.01, 121, 61.5, 602, 3601, 86_401, 86_460) if exact_seconds(s)] == []
    assert nearest_seconds(121) == (120, 125)
    assert nearest_seconds(3700) == (3660, 3720)


@given(LAGS)
def test_events_within_a_objective_are_counted_exactly(lags: list[int]) -> None:
    found = of(lags)
    stored = found.to_bytes()
    for seconds in (1, 2, 7, 59, 60, 61, 119, 120, 125, 600, 660, 3600, 86_400):
        good = sum(lag <= seconds * 1_000_000 for lag in lags)
        assert found.good(seconds) == good
        assert tally(stored, seconds) == (good, len(lags))


@given(LAGS, LAGS, LAGS)
def test_merging_is_adding_in_any_order(a: list[int], b: list[int], c: list[int]) -> None:
    left = merged([merged([of(a), of(b)]), of(c)])
    right = merged([of(c), merged([of(b), of(a)])])
    assert same(left, right)
    assert same(left, of(a + b + c))
    assert same(merged([]), of([]))


@given(LAGS)
def test_what_is_stored_comes_back(lags: list[int]) -> None:
    one = of(lags)
    stored = one.to_bytes()
    assert len(stored) <= 2 + 10 * len(set(lags))
    assert same(LagHistogram.from_bytes(stored, sum=one.sum, greatest=one.greatest), one)


@pytest.mark.parametrize("most", [0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62])
def test_counts_of_every_size_are_stored(most: int) -> None:
    one = LagHistogram()
    one.counts[3], one.counts[len(BOUNDS)] = most, most
    back = LagHistogram.from_bytes(one.to_bytes())
    assert (back.counts == one.counts).all()


@pytest.mark.parametrize("stored", [b"", b"\x01", b"\x02\x01", b"\x01\x03", b"\x01\x01\x00", b"\x01\x01\xff\xff\x01"])
def test_what_is_no_histogram_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match="histogram"):
        LagHistogram.from_bytes(stored)


@given(st.lists(st.integers(0, DAY), min_size=1, max_size=80), st.sampled_from([1.0, 50.0, 95.0, 99.0, 100.0]))
def test_a_percentile_is_never_flattering_and_its_error_is_bounded(lags: list[int], percent: float) -> None:
    true = sorted(lags)[max(1, -(-len(lags) * int(percent) // 100)) - 1]
    told = round((of(lags).percentile(percent) or 0) * 1_000_000)
    assert true <= told
    assert told - true <= max(50_000, true * 0.05)


def test_without_events_there_is_no_percentile_and_a_lag_beyond_all_bounds_is_told_as_it_was() -> None:
    assert LagHistogram().percentile(50) is None
    one = LagHistogram()
    one.add_one(timedelta(days=400), 3)
    assert one.percentile(50) == timedelta(days=400).total_seconds()
    assert (one.events, one.good(86_400)) == (3, 0)


def test_a_clock_ahead_of_ours_gives_no_lag_rather_than_a_negative_one() -> None:
    one = LagHistogram()
    one.add_one(timedelta(seconds=-3))
    assert (one.good(0.05), one.greatest, one.sum) == (1, 0, 0)


@pytest.mark.parametrize("unit", ["us", "ms", "s"])
def test_commit_times_are_read_from_one_column(tmp_path: Path, unit: str) -> None:
    storage = Storage(tmp_path.as_uri())
    base = NOW.replace(microsecond=0)
    times = [base - timedelta(seconds=n % 7) for n in range(1000)]
    schema = pa.schema([("id", pa.int64()), (COMMIT_TS, pa.timestamp(unit, "UTC"))])
    with storage.writer("a.parquet", schema) as file:
        file.write_table(pa.table([list(range(1001)), [*times, None]], schema))
    found = read_commit_times(storage, "a.parquet")
    assert found.events == 1000
    late = found.lags(NOW)
    assert late.good(3.5) == sum(NOW - moment <= timedelta(seconds=3.5) for moment in times)
    assert late.greatest == (NOW - base) // timedelta(microseconds=1) + 6_000_000
    kept = found.from_moment(base - timedelta(seconds=2))
    assert kept.events == sum(moment >= base - timedelta(seconds=2) for moment in times)


def test_events_of_one_moment_need_no_file() -> None:
    late = CommitTimes.same(NOW - timedelta(seconds=90), 12).lags(NOW)
    assert (late.good(89), late.good(90), late.sum) == (0, 12, 12 * 90_000_000)
