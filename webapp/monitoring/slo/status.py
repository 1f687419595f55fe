"""How objectives were kept when they were last looked at: stored for pages that show many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from webapp.monitoring.models import Standing
from webapp.monitoring.slo.attainment import Figures, Key, measure
from webapp.replicators.models import Replicator

REFRESH = timedelta(minutes=2)  # of standings in which nothing is new: pages take those a minute older for forgotten
PASSING = frozenset({"at", "whole_up_to"})  # are other ones every time


def keep_standings(replicators: Sequence[Replicator], now: datetime | None = None) -> dict[Key, Figures]:
    """Measure and store, for pages that show many; two queries more, and one where an objective was removed.

    Where nothing happens little is written: what tells the same as before is written again every `REFRESH`.
    """
    found = measure(replicators, now)
    there = Standing.objects.filter(replicator__in=replicators).values_list("replicator", "table", "figures", "at")
    known: dict[Key, tuple[Mapping[str, Any], datetime]]
    known = {(replicator, table): (figures, at) for replicator, table, figures, at in there}
    rows = [
        Standing(replicator_id=replicator, table_id=table, figures=figures, at=one.at)
        for (replicator, table), one in found.items()
        if _news(figures := one.to_dict(), one.at, known.get((replicator, table)))
    ]
    Standing.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["replicator", "table"], update_fields=["figures", "at"]
    )
    if gone := [table for key in known if key not in found and (table := key[1]) is not None]:  # removed
        Standing.objects.filter(table__in=gone).delete()
    return found


def _news(figures: Mapping[str, Any], now: datetime, known: tuple[Mapping[str, Any], datetime] | None) -> bool:
    if known is None or now - known[1] >= REFRESH:
        return True
    return any(value != known[0].get(name) for name, value in figures.items() if name not in PASSING)


def standings(replicators: Iterable[int]) -> dict[Key, Figures]:
    """As last looked at: one query."""
    found: dict[Key, Figures] = {}
    rows = Standing.objects.filter(replicator__in=list(replicators)).values_list("replicator", "table", "figures")
    for replicator, table, figures in rows:
        with suppress(KeyError, TypeError, ValueError):  # written by another version: the next round writes it again
            found[replicator, table] = Figures.from_dict(figures)
    return found
