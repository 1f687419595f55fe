"""How a change of a table was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replicator.targets.base import Counts

SKIPPED = "skip"
DIRECT = "direct"


@dataclass(frozen=True)
class ChangeOutcome:
    """How a change was done, what it did (Spark: the summary of its commit), and why in this way.

    `reason`: DIRECT, or why Spark did it; empty where there is no choice.  upto: see `ApplyResult`.
    """

    how: str
    did: Counts | Mapping[str, str]
    reason: str = ""
    upto: int | None = None

    def __str__(self) -> str:
        """`merge (direct)`, `merge (Spark: values left out)`, `skip`."""
        if not self.reason:
            return self.how
        return f"{self.how} ({self.reason})" if self.reason == DIRECT else f"{self.how} (Spark: {self.reason})"
