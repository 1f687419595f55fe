"""How many rows a chunk has: by a time budget."""

from __future__ import annotations

START_ROWS = 1_024
MAX_ROWS = 262_144
TARGET_SECONDS = 2.0
GROWTH = 16  # a small chunk's seconds say little of a much larger one's


def next_chunk_rows(
    current: int, rows: int, seconds: float, wanted: float = TARGET_SECONDS, most: int = MAX_ROWS
) -> int:
    """The size for chunks planned from now on, after one of `rows` rows took `seconds` from its first row on.

    At most 16 times, at least half of `current`; between 1,024 and 262,144 rows, and never more than `most`.
    wanted: seconds that a chunk may take.
    """
    if rows < min(current, most) // 2:
        return min(current, most)
    fitting = int(rows * wanted / max(seconds, 0.001))
    return min(most, max(START_ROWS, min(MAX_ROWS, current * GROWTH, max(current // 2, fitting))))
