"""Ranges of charts."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest

from replicator.errors import ConfigurationError
from webapp.monitoring.charts import ranges
from webapp.monitoring.models import LagSpan

NOW = datetime(2026, 3, 31, 14, 37, 21, 500_000, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges.timezone, "now", lambda: NOW)


@pytest.mark.parametrize(
    ("name", "step", "points", "span"),
    [
        ("1h", 60, 61, LagSpan.MINUTE),
        ("6h", 120, 181, LagSpan.MINUTE),
        ("24h", 300, 289, LagSpan.MINUTE),
        ("7d", 3600, 169, LagSpan.HOUR),
        ("30d", 10_800, 241, LagSpan.HOUR),
    ],
)
def test_usual_ranges_have_whole_points_up_to_now(name: str, step: int, points: int, span: LagSpan) -> None:
    found = ranges.asked({"range": name}, NOW)
    assert (found.step, len(found.points), found.span, found.live) == (step, points, span, True)
    assert found.points[0] <= NOW - ranges.RANGES[name][1] < found.points[1]
    assert found.points[-1] <= NOW < found.points[-1] + timedelta(seconds=step)
    assert all(point.timestamp() % step == 0 for point in found.points)


def test_whatever_is_asked_has_at_most_three_hundred_points_of_what_is_kept() -> None:
    dice = random.Random(3)
    for _ in range(2000):
        begin = NOW - timedelta(seconds=dice.choice((600, 10_000, 10**6, 4 * 10**7)) * dice.random() + 1)
        end = begin + (NOW - begin) * dice.random() + timedelta(seconds=1)
        found = ranges.between(begin, end, NOW)
        assert 1 <= len(found.points) <= 300
        assert found.step >= found.span
        assert found.points[0] <= max(begin, NOW - timedelta(days=400))
        assert found.points[-1] + timedelta(seconds=found.step) >= end
        age = NOW - begin
        least = LagSpan.DAY if age > timedelta(days=35) else LagSpan.HOUR if age > timedelta(days=3) else LagSpan.MINUTE
        assert found.span >= least


@pytest.mark.parametrize(
    "query",
    [
        {"range": "6h"},
        {"range": "6h", "at": "2026-03-31T12:00:05Z"},
        {"from": "2026-03-30T08:15", "to": "2026-03-30T20:00"},
    ],
)
def test_an_address_leads_to_the_same_range(query: dict[str, str]) -> None:
    found = ranges.asked(query, NOW)
    again = ranges.asked(dict(parse_qsl(found.address)), NOW)
    assert again == found
    assert found.frozen == ("at" in query)


def test_what_was_stopped_stays_where_it_was() -> None:
    stopped = ranges.asked(ranges.asked({"range": "1h"}, NOW).stopped_query, NOW + timedelta(minutes=5))
    assert stopped.points == ranges.asked({"range": "1h"}, NOW).points
    assert (stopped.live, stopped.end) == (False, NOW.replace(microsecond=0))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"range": "2h"}, "Unknown range 2h"),
        ({"from": "yesterday"}, "from: invalid timestamp"),
        ({"from": "2026-02-30T10:00"}, "from: invalid timestamp"),
        ({"range": "1h", "at": "0001-01-01T00:00:00Z"}, "at: invalid timestamp"),
        ({"from": "2026-03-30T10:00", "to": "2026-03-30T10:00"}, "after the start"),
        ({"from": "2026-04-30T10:00", "to": "2026-05-30T10:00"}, "in the future"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_words(query: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ranges.asked(query, NOW)
