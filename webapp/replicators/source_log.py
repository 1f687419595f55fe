"""What a source keeps of its log for a replicator, in figures and in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from replicator.sources.base import LogHeld
from webapp.replicators.models import Desired, LogConcern, Replicator
from webapp.replicators.options import ReplicatorOptions
from webapp.web.formatting import size

MISSING = "missing"  # the source has nothing for this replicator any more
CALMED = 0.75  # of what is warned of: figures go up and down, and a warning is not to come and go with them


@dataclass(frozen=True)
class LogKept:
    """As last seen at `at`.  Bytes; `most`: those at which the log is lost; `status`: the source's own word."""

    bytes: int | None
    most: int | None
    status: str
    at: datetime
    concern: str
    message: str = ""
    remedy: str = ""

    @property
    def percent(self) -> float | None:
        """Of `most`, 0 to 100."""
        return None if not self.most or self.bytes is None else min(100.0, 100 * self.bytes / self.most)

    def to_dict(self) -> dict[str, Any]:
        """For the API and `status --json`."""
        return {
            "bytes": self.bytes,
            "most": self.most,
            "status": self.status,
            "checked_at": self.at.isoformat(),
            "concern": self.concern,
            "message": self.message,
        }


def log_kept(replicator: Replicator) -> LogKept | None:
    """None where nothing was seen: a replicator that never ran, or a source that does not say."""
    if replicator.log_held_at is None:
        return None
    message, remedy = _words(replicator)
    return LogKept(
        replicator.log_held_bytes,
        replicator.log_held_most,
        replicator.log_held_status,
        replicator.log_held_at,
        replicator.log_concern,
        message,
        remedy,
    )


def concern(held: LogHeld, options: ReplicatorOptions, before: str) -> str:
    """LogConcern, or empty: the source's own word, or the share of what may be kept.  `before`: what it was so far."""
    if held.lost:
        return LogConcern.LOST
    warned = before == LogConcern.LARGE
    level = options.retention_warn_percent / 100 * (CALMED if warned else 1)
    full = held.most is not None and held.bytes is not None and held.bytes >= level * held.most
    return LogConcern.LARGE if held.threatened or full else ""


def _words(replicator: Replicator) -> tuple[str, str]:
    """What is wrong, and what to do."""
    if replicator.log_concern == LogConcern.LOST:
        begin = {Desired.PAUSED: " once it is resumed", Desired.STOPPED: " once it is started"}.get(
            Desired(replicator.desired), ""
        )
        message = "The source no longer has the log to resume from."
        if replicator.parsed_options.on_log_lost == "start_anew":
            return (
                message,
                f"No action required: it restarts from scratch automatically{begin} and resnapshots all its tables.",
            )
        return (
            message,
            (
                "Restart the replicator from scratch (resnapshots all its tables), and increase the log retention of"
                " the source."
            ),
        )
    if replicator.log_concern != LogConcern.LARGE:
        return "", ""
    kept = "The source retains much of its log"
    if replicator.log_held_bytes is not None:
        kept = f"The source retains {size(replicator.log_held_bytes)} of its log"
    end = "" if replicator.log_held_most is None else f"; above {size(replicator.log_held_most)} it is lost"
    message = f"{kept} for this replicator ({replicator.log_held_status}){end}."
    if replicator.desired != Desired.RUNNING:
        return message, "Resume or start the replicator. Until then the source retains its whole log."
    return (
        message,
        "Check why capture falls behind: errors, a long transaction on the source, or insufficient throughput.",
    )
