"""Many rows saved in few statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BATCH = 500


def save_many(rows: Sequence[Any], names: Sequence[str]) -> None:
    """These fields of rows of one model: what is the same in all of them costs as much as in one."""
    if not rows:
        return
    model, first = type(rows[0]), rows[0]
    same = {name: getattr(first, name) for name in names}
    same = {name: value for name, value in same.items() if all(getattr(row, name) == value for row in rows)}
    model.objects.filter(pk__in=[row.pk for row in rows]).update(**same)
    if other := [name for name in names if name not in same]:
        model.objects.bulk_update(rows, other, batch_size=BATCH)
