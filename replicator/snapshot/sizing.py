"""How many rows a chunk has: by a time budget."""

from __future__ import annotations

START_ROWS = 1_024
MAX_ROWS = 262_144
TARGET_SECONDS = 2.0
GROWTH = 16  # of the first chunks' seconds, most is spent on what each chunk costs whatever its size


def next_chunk_rows(current: int, rows: int, seconds: float) -> int:
    """The size for chunks planned from now on, after one of `rows` rows took `seconds`.

    At most 16 times, at least half of `current`; between 1,024 and 262,144 rows.
    """
    if rows < current // 2:
        return current
    fitting = int(rows * TARGET_SECONDS / max(seconds, 0.001))
    return max(START_ROWS, min(MAX_ROWS, current * GROWTH, max(current // 2, fitting)))
