"""How late every single event was: a histogram that is exact at every bound that an objective can name (ADR 15).

A lag is the time between an event's commit at the source and the moment it could be read in the target, in whole
microseconds.  Buckets end at fixed bounds, the same for every histogram, and include their bound.  So histograms merge
by addition, and the number of events within a bound is exact.  A percentile is reported as the bound above it, so it is
never too low: it is too high by at most 50 ms up to 2 s and 5 % from there to 24 hours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000  # microseconds
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
# (up to, in steps of)
STEPS = (
    (2 * SECOND, SECOND // 20),
    (10 * SECOND, SECOND // 10),
    (MINUTE, SECOND // 2),
    (2 * MINUTE, SECOND),
    (10 * MINUTE, 5 * SECOND),
    (HOUR, 30 * SECOND),
    (DAY, MINUTE),
    (7 * DAY, HOUR),
    (60 * DAY, DAY),
)
FORMAT = 1
WIDTHS = (1, 2, 4, 8)  # bytes of a count


def _bounds() -> list[int]:
    """The upper ends of the buckets; one more bucket is above the last."""
    bounds = [0]
    for end, step in STEPS:
        bounds += range(bounds[-1] + step, end + 1, step)
    return bounds


BOUNDS = tuple(_bounds())
_BOUNDS = np.array(BOUNDS, np.int64)
Counts = npt.NDArray[np.int64]


def exact_seconds(seconds: float) -> bool:
    """Say whether events within `seconds` can be counted exactly: only such a value may be an objective."""
    wanted = round(seconds * SECOND)
    return 0 < wanted <= DAY and BOUNDS[within(seconds)] == wanted


def within(seconds: float) -> int:
    """Return the last bucket that lies wholly within `seconds`."""
    return max(0, bisect_right(BOUNDS, round(seconds * SECOND)) - 1)


def nearest_seconds(seconds: float) -> tuple[float, float]:
    """The objectives below and above one that cannot be made."""
    below = max(1, within(seconds))
    return BOUNDS[below] / SECOND, BOUNDS[min(below + 1, len(BOUNDS) - 1)] / SECOND


@dataclass
class LagHistogram:
    """Counts by bucket, with the exact number, sum and greatest of the lags (microseconds)."""

    counts: Counts = field(default_factory=lambda: np.zeros(len(BOUNDS) + 1, np.int64))
    sum: int = 0
    greatest: int = 0

    @property
    def events(self) -> int:
        return int(self.counts.sum())

    def add(self, lags: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> None:
        """`numbers` of events for each of `lags` (microseconds); a clock that was ahead of ours gives 0, not less."""
        if not len(lags):
            return
        lags = np.maximum(lags, 0)
        places = np.searchsorted(_BOUNDS, lags, side="left")
        np.add.at(self.counts, places, numbers)
        self.sum += sum(lag * number for lag, number in zip(lags.tolist(), numbers.tolist(), strict=True))
        self.greatest = max(self.greatest, int(lags.max()))

    def add_one(self, lag: timedelta, number: int = 1) -> None:
        """`number` events of the same lag."""
        self.add(np.array([lag // MICROSECOND], np.int64), np.array([number], np.int64))

    def merge(self, other: LagHistogram) -> None:
        """As if the other's events had been added to this one."""
        self.counts = self.counts + other.counts
        self.sum += other.sum
        self.greatest = max(self.greatest, other.greatest)

    def merge_stored(self, stored: bytes, *, sum: int = 0, greatest: int = 0) -> None:  # noqa: A002 - the field's name
        """As `merge` with one that `to_bytes` made, at the cost of the buckets that hold something."""
        places, counts = unpack(stored)
        self.counts[places] += counts  # a place is there once
        self.sum += sum
        self.greatest = max(self.greatest, greatest)

    def good(self, seconds: float) -> int:
        """Count events within `seconds`: exact for an objective, else for the next shorter one."""
        return int(self.counts[: within(seconds) + 1].sum())

    def percentile(self, percent: float) -> float | None:
        """Seconds that `percent` of the events stayed within, rounded up to a bound; None without an event."""
        total = self.events
        if not total:
            return None
        rank = max(1, -(-total * percent // 100))
        place = int(np.searchsorted(np.cumsum(self.counts), rank, side="left"))
        bound = BOUNDS[place] if place < len(BOUNDS) else self.greatest
        return min(bound, self.greatest) / SECOND

    def to_bytes(self) -> bytes:
        """Only buckets that hold something: a format and a width, the places, then the counts."""
        places = np.flatnonzero(self.counts)
        counts = self.counts[places]
        most = int(counts.max()) if len(counts) else 0
        width = next(size for size in WIDTHS if most < 1 << (8 * size - (size == WIDTHS[-1])))
        return bytes((FORMAT, width)) + places.astype("<u2").tobytes() + counts.astype(f"<u{width}").tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes, *, sum: int = 0, greatest: int = 0) -> LagHistogram:  # noqa: A002 - the field's name
        """Inverse of `to_bytes`; ValueError for another format."""
        places, counts = unpack(stored)
        made = cls(sum=sum, greatest=greatest)
        made.counts[places] = counts
        return made


def unpack(stored: bytes) -> tuple[npt.NDArray[np.int64], Counts]:
    """The buckets that hold something, ascending, and how much; ValueError for another format."""
    if len(stored) < 2 or stored[0] != FORMAT or stored[1] not in WIDTHS:  # noqa: PLR2004 - format and width
        raise ValueError("Not a lag histogram of a known format.")
    width = stored[1]
    number, rest = divmod(len(stored) - 2, 2 + width)
    if rest:
        raise ValueError("This lag histogram is cut off.")
    places = np.frombuffer(stored, "<u2", number, 2).astype(np.int64)
    if number and places[-1] > len(BOUNDS):
        raise ValueError("This lag histogram has unknown buckets.")
    return places, np.frombuffer(stored, f"<u{width}", number, 2 + 2 * number).astype(np.int64)


def tally(stored: bytes, seconds: float) -> tuple[int, int]:
    """Return (events within `seconds`, events) of a stored histogram, without expanding it."""
    places, counts = unpack(stored)
    return int(counts[: int(np.searchsorted(places, within(seconds), side="right"))].sum()), int(counts.sum())


def merged(histograms: Iterable[LagHistogram]) -> LagHistogram:
    """All of them as one."""
    whole = LagHistogram()
    for one in histograms:
        whole.merge(one)
    return whole


def since(moments: npt.NDArray[np.int64], until: datetime) -> npt.NDArray[np.int64]:
    """Microseconds from each of `moments` (microseconds since 1970, UTC) to `until`."""
    return int(until.timestamp()) * SECOND + until.microsecond - moments
