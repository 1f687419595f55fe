"""What becomes of dates that the target has none for: 0000-00-00, 31 February, infinity."""

from __future__ import annotations

from replicator.sources.base import FormField, ReadOptions

ZERO_DATES = FormField(
    "zero_dates",
    "Dates like 0000-00-00 or infinity",
    kind="choice",
    default="null",
    choices=(
        ("null", "Replace with null and count"),
        ("text", "Keep exactly: the column becomes text"),
        ("fail", "Stop the table"),
    ),
)


def date_policy(options: ReadOptions) -> str:
    """One of `ZERO_DATES`: null, text (the column becomes a string) or fail."""
    return options.values.get(ZERO_DATES.name, ZERO_DATES.default)
