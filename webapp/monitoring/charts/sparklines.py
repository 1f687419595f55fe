"""Sparklines and the timeline in the form the pages draw them; everything is drawn on the server."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

# kind of a timeline event, by the words in it → (icon, tone)
EVENT_ICONS: Sequence[tuple[str, str, str]] = (
    ("failover", "shield", "warn"),
    ("table_skipped", "pause", "idle"),
    ("fail", "failed", "bad"),
    ("error", "failed", "bad"),
    ("retr", "retry", "warn"),
    ("recover", "ok", "ok"),
    ("stream_", "down", "info"),
    ("stream", "ok", "ok"),
    ("schema", "ddl", "info"),
    ("ddl", "ddl", "info"),
    ("snapshot", "download", "info"),
    ("table", "table", "info"),
    ("paus", "pause", "idle"),
    ("settle", "pause", "idle"),
    ("stop", "stop", "idle"),
    ("start", "play", "ok"),
    ("resum", "play", "ok"),
    ("creat", "plus", "ok"),
    ("delet", "trash", "idle"),
    ("option", "settings", "idle"),
    ("connection", "connection", "idle"),
    ("dead_letter_rows", "warning", "warn"),
    ("dead_letters", "ok", "idle"),
    ("log_large", "warning", "warn"),
    ("log_given_up", "warning", "warn"),
    ("log_lost", "failed", "bad"),
    ("log_safe", "ok", "ok"),
)


@dataclass(frozen=True)
class Sparkline:
    """SVG points in a box of 100 × 26; `peak` is the greatest value."""

    line: str
    area: str
    peak: float


def sparkline(values: Sequence[float]) -> Sparkline:
    """Values from old to new."""
    peak = max(values, default=0.0)
    step = 100 / max(1, len(values) - 1)
    points = [f"{index * step:.1f},{25 - 23 * value / peak if peak else 25:.1f}" for index, value in enumerate(values)]
    return Sparkline(" ".join(points), f"0,26 {' '.join(points)} 100,26", peak)


def last_minutes(number: int, known: Container[datetime]) -> list[datetime]:
    """From old to new; the minute that has just begun counts once something is known of it."""
    now = timezone.now().replace(second=0, microsecond=0)
    last = now if now in known else now - timedelta(minutes=1)
    return [last - timedelta(minutes=back) for back in range(number - 1, -1, -1)]


def seconds_of(minute: datetime) -> float:
    """How much of a minute is over."""
    return min(60.0, max(5.0, (timezone.now() - minute).total_seconds()))


def event_icon(kind: str) -> tuple[str, str]:
    """Icon and tone of a timeline event."""
    lowered = kind.lower()
    return next(((icon, tone) for word, icon, tone in EVENT_ICONS if word in lowered), ("info", "idle"))
