"""Which snapshots stay, second by second, over a busy day."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError
from replicator.model.retention import MAX_SNAPSHOTS, Retention

DAY = 86_400
START = 1_790_000_000 * 1.0


def test_a_busy_day_keeps_what_is_promised_and_no_more() -> None:
    """Two commits a second, an expiry pass a minute."""
    retention = Retention.parse()
    kept: dict[int, float] = {}
    most = 0
    for second in range(DAY):
        for half in range(2):
            kept[2 * second + half] = START + second + half / 2
        if second % 60 == 59:
            now = START + second + 0.5
            stay = retention.thinned(kept.items(), now)
            kept = {one: at for one, at in kept.items() if one in stay}
            most = max(most, len(kept))
    assert most <= retention.most <= MAX_SNAPSHOTS
    ages = sorted(START + DAY - at for at in kept.values())
    for low, high, every in ((0, 590, 1), (660, 7100, 60), (7200 + 3600, DAY - 3600, 3600)):
        within = [age for age in ages if low <= age <= high]
        assert (high - low) // every - 1 <= len(within) <= (high - low) // every + 2
    assert ages[-1] > DAY - 2 * 3600


def test_all_stay_for_ten_minutes_up_to_one_a_second() -> None:
    retention = Retention.parse()
    snapshots = [(n, START + n / 10) for n in range(600)]
    assert len(retention.thinned(snapshots, START + 60)) == 600
    assert len(retention.thinned([*snapshots, (600, START + 60)], START + 60)) == 61


def test_what_is_older_than_the_last_step_goes() -> None:
    assert Retention.parse().thinned([(1, START), (2, START + 10)], START + 7 * DAY + 5) == {2}


@pytest.mark.parametrize(
    "steps", ["", "10m", "10m/0s", "2h/1m 10m/1s", "10m/1m 2h/1s", "10m/7s 2h/1m", "1h/1s", "10m/1s,2h/1m", "1s/1m"]
)
def test_steps_that_cannot_be_meant_are_refused(steps: str) -> None:
    with pytest.raises(ConfigurationError, match="retention_steps"):
        Retention.parse(steps)


@pytest.mark.parametrize("hours", [-1, 10_000, "24", float("nan")])
def test_a_grace_that_cannot_be_meant_is_refused(hours: float) -> None:
    with pytest.raises(ConfigurationError, match="deletion_grace_hours"):
        Retention.parse(grace_hours=hours)
