"""Between two chunks: the delay, the source's own work, and that neither outlasts a stop."""

from __future__ import annotations

import time

import pytest

from replicator.snapshot import throttle as module
from replicator.snapshot.sizing import MAX_ROWS, START_ROWS, next_chunk_rows
from replicator.snapshot.throttle import Pace, Throttle
from replicator.sources.base import SourceLoad


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.01)


def idle() -> SourceLoad:
    return SourceLoad(0)


def always() -> bool:
    return True


@pytest.mark.parametrize(
    ("pace", "load", "said"),
    [
        (Pace(), SourceLoad(1000, 1000.0), ""),
        (Pace(most_running=10), SourceLoad(10), ""),
        (Pace(most_running=10), SourceLoad(11), "The source has 11 active queries; the limit is 10."),
        (Pace(most_lag_seconds=2), SourceLoad(11, 2.0), ""),
        (Pace(most_lag_seconds=2), SourceLoad(11), ""),
        (
            Pace(most_lag_seconds=2.5),
            SourceLoad(1, 3.26),
            "A replica of the source is 3.3 s behind; the limit is 2.5 s.",
        ),
    ],
)
def test_it_gives_way_above_its_limits(pace: Pace, load: SourceLoad, said: str) -> None:
    assert pace.why_wait(load) == said


def test_it_waits_while_the_source_is_busy_and_says_so_once() -> None:
    loads, told = [20, 30, 20, 3, 3], list[str]()
    throttle = Throttle(lambda: Pace(most_running=10), lambda: SourceLoad(loads.pop(0)), told.append)
    assert throttle.wait(always) == Pace(most_running=10)
    assert throttle.wait(always) is not None
    assert (loads, len(told), told[-1]) == ([], 2, "")
    assert told[0].startswith("The source has 20")


def test_the_source_is_not_looked_at_where_it_does_not_matter() -> None:
    def look() -> SourceLoad:
        raise AssertionError

    assert Throttle(Pace, look, lambda _: None).wait(always) == Pace()


def test_the_delay_is_that_of_now() -> None:
    paces = [Pace(delay_seconds=3600)] * 3 + [Pace(delay_seconds=0.1, parallel=5)] * 100
    began = time.monotonic()
    throttle = Throttle(lambda: paces.pop(0), idle, lambda _: None)
    assert throttle.wait(always) == Pace(delay_seconds=3600)  # nothing came before
    pace = throttle.wait(always, began)
    assert pace is not None
    assert pace.parallel == 5
    assert 0.1 <= time.monotonic() - began < 5


@pytest.mark.parametrize("pace", [Pace(delay_seconds=3600), Pace(most_running=1)])
def test_a_stop_ends_every_wait(pace: Pace) -> None:
    deadline = time.monotonic() + 0.1
    throttle = Throttle(lambda: pace, lambda: SourceLoad(5), lambda _: None)
    assert throttle.wait(lambda: time.monotonic() < deadline, time.monotonic()) is None
    assert time.monotonic() < deadline + 5


def test_chunks_follow_the_time_and_the_rows_that_are_wanted() -> None:
    assert next_chunk_rows(10_000, 10_000, 1.0, wanted=0.5) == 5_000
    assert next_chunk_rows(10_000, 10_000, 1.0, wanted=4) == 40_000
    assert next_chunk_rows(10_000, 10_000, 1.0, wanted=4, most=700) == 700
    assert next_chunk_rows(700, 700, 0.001, most=700) == 700
    assert next_chunk_rows(700, 700, 0.001) == 700 * 16
    assert next_chunk_rows(MAX_ROWS, 5, 0.1, most=700) == START_ROWS - (START_ROWS - 700)
