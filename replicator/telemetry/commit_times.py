"""The commit times of a staged segment's events: one column of its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.schema import COMMIT_TS
from replicator.staging.storage import Storage
from replicator.telemetry.lags import LagHistogram, since

BATCH = 262_144  # rows in memory at a time (invariant 9)
UTC_MICROSECONDS = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class CommitTimes:
    """How many events were committed at which moment (microseconds since 1970, UTC)."""

    moments: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def same(cls, moment: datetime, number: int) -> CommitTimes:
        """All at one moment."""
        return cls(since(np.zeros(1, np.int64), moment), np.array([number], np.int64))

    def from_moment(self, first: datetime | None) -> CommitTimes:
        """Only what was committed at `first` or later; None: everything."""
        if first is None:
            return self
        kept = self.moments >= since(np.zeros(1, np.int64), first)
        return CommitTimes(self.moments[kept], self.numbers[kept])

    @property
    def events(self) -> int:
        return int(self.numbers.sum())

    def lags(self, queryable_at: datetime) -> LagHistogram:
        """How late the events were if they could be read from `queryable_at` on."""
        made = LagHistogram()
        made.add(since(self.moments, queryable_at), self.numbers)
        return made


def read_commit_times(storage: Storage, path: str) -> CommitTimes:
    """Read those of one segment; takes milliseconds, regardless of its other columns.  Raises StagingError."""
    moments, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with storage.open(path) as file:
        for batch in file.iter_batches(BATCH, columns=[COMMIT_TS]):
            found = pc.value_counts(batch.column(0).drop_null().cast(UTC_MICROSECONDS).cast(pa.int64()))
            moments.append(found.field("values").to_numpy(zero_copy_only=False))
            numbers.append(found.field("counts").to_numpy(zero_copy_only=False))
    return CommitTimes(np.concatenate(moments), np.concatenate(numbers))
