"""Lag histograms by minute, hour and day: written with the mark that they belong to, merged, kept by policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product

from django.conf import settings
from django.db import connection, transaction

from replicator.telemetry.lags import LagHistogram, merged
from webapp.monitoring.models import LagRow, LagSpan
from webapp.replicators.models import ReplicatorTable

PAGE = 500  # rows of one statement
WRITTEN = (LagSpan.MINUTE, LagSpan.HOUR)  # days are made of hours, when these are old
WRITE = """
INSERT INTO monitoring_lagrow
  (replicator_id, table_id, span, at, histogram, events, lag_sum_us, lag_max_us, unmeasured)
VALUES {rows}
ON CONFLICT ON CONSTRAINT one_lag_row_per_span DO UPDATE SET
  histogram = EXCLUDED.histogram, events = EXCLUDED.events, lag_sum_us = EXCLUDED.lag_sum_us,
  lag_max_us = EXCLUDED.lag_max_us, unmeasured = EXCLUDED.unmeasured
"""


@dataclass
class Lags:
    """What is kept of a span."""

    histogram: LagHistogram = field(default_factory=LagHistogram)
    unmeasured: int = 0

    def merge(self, other: Lags) -> None:
        self.histogram.merge(other.histogram)
        self.unmeasured += other.unmeasured


Key = tuple[int | None, int, datetime]  # table, span, at


def begin(span: int, moment: datetime) -> datetime:
    """Of the minute, hour or day that `moment` lies in."""
    whole = moment.replace(second=0, microsecond=0)
    if span >= LagSpan.HOUR:
        whole = whole.replace(minute=0)
    return whole.replace(hour=0) if span >= LagSpan.DAY else whole


def parsed(row: LagRow) -> Lags:
    """The row's value."""
    histogram = LagHistogram.from_bytes(bytes(row.histogram), sum=int(row.lag_sum_us), greatest=row.lag_max_us)
    return Lags(histogram, row.unmeasured)


@transaction.atomic(savepoint=False)
def add(table: ReplicatorTable, new: Mapping[datetime, Lags]) -> None:
    """Lags by the moment at which they became queryable.

    Within the transaction of the table's mark: counted exactly when the mark is.  The merge lease's row is locked in
    it, so no other mark of this replicator reads what is written here before it is there.
    """
    found: dict[Key, Lags] = {}
    for moment, lags in new.items():
        if lags.histogram.events or lags.unmeasured:
            for pk, span in product((table.pk, None), WRITTEN):
                found.setdefault((pk, span, begin(span, moment)), Lags()).merge(lags)
    if not found:
        return
    for key, lags in _stored(table.replicator_id, found).items():
        found[key].merge(lags)
    _write(table.replicator_id, found)


def _stored(replicator_id: int, keys: Iterable[Key]) -> dict[Key, Lags]:
    wanted = set(keys)
    rows = LagRow.objects.filter(
        replicator_id=replicator_id, span__in={span for _, span, _ in wanted}, at__in={at for _, _, at in wanted}
    )
    tables = {table for table, _, _ in wanted}
    if tables != {None}:
        rows = rows.filter(table_id__in=tables - {None}) | rows.filter(table=None)
    found = {(row.table_id, row.span, row.at): parsed(row) for row in rows.order_by().select_for_update()}
    return {key: lags for key, lags in found.items() if key in wanted}


def _write(replicator_id: int, rows: Mapping[Key, Lags]) -> None:
    values = [
        (
            replicator_id, table, span, at, one.histogram.to_bytes(), one.histogram.events, one.histogram.sum,
            one.histogram.greatest, one.unmeasured,
        )
        for (table, span, at), one in rows.items()
    ]  # fmt: skip
    for start in range(0, len(values), PAGE):
        page = values[start : start + PAGE]
        row = f"({', '.join(['%s'] * len(page[0]))})"
        with connection.cursor() as cursor:
            cursor.execute(WRITE.format(rows=", ".join([row] * len(page))), [value for one in page for value in one])


def drop_old(now: datetime) -> int:
    """Minutes are kept for days, hours for weeks, and made into days; days for a year (settings).

    Returns rows removed.
    """
    removed = 0
    minutes = LagRow.objects.filter(span=LagSpan.MINUTE, at__lt=now - timedelta(days=settings.TIDEMARK_LAG_MINUTE_DAYS))
    removed += minutes.delete()[0]
    before = begin(LagSpan.DAY, now - timedelta(days=settings.TIDEMARK_LAG_HOUR_DAYS))
    old = LagRow.objects.filter(span=LagSpan.HOUR, at__lt=before)
    for replicator_id in old.order_by().values_list("replicator_id", flat=True).distinct():
        removed += _roll_up(replicator_id, before)
    days = LagRow.objects.filter(span=LagSpan.DAY, at__lt=now - timedelta(days=settings.TIDEMARK_LAG_DAY_DAYS))
    return removed + days.delete()[0]


@transaction.atomic(savepoint=False)
def _roll_up(replicator_id: int, before: datetime) -> int:
    """Hours into days; what is deleted here is in them, in the same transaction."""
    rows = list(
        LagRow.objects.filter(replicator_id=replicator_id, span=LagSpan.HOUR, at__lt=before).select_for_update()
    )
    days: dict[Key, Lags] = {}
    for row in rows:
        key = (row.table_id, int(LagSpan.DAY), begin(LagSpan.DAY, row.at))
        days.setdefault(key, Lags()).merge(parsed(row))
    for key, lags in _stored(replicator_id, days).items():
        days[key].merge(lags)
    _write(replicator_id, days)
    LagRow.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def together(rows: Iterable[LagRow]) -> LagHistogram:
    """One histogram of several rows."""
    return merged(parsed(row).histogram for row in rows)
