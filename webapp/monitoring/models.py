"""What happened: failures, log lines, timeline, metrics by minute.  All with bounded retention."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from webapp.monitoring.dead_letters.models import DeadLetterRow, Resolution
from webapp.replicators.models import Replicator, ReplicatorTable

__all__ = ["DeadLetterRow", "Resolution"]  # beside what is defined here


class Stage(models.TextChoices):
    CAPTURE = "capture"
    SNAPSHOT = "snapshot"
    APPLY = "apply"
    CONTROL = "control"


class Failure(models.Model):
    """One failed attempt.  `table` is empty where the whole replicator was concerned.

    offset_after, offset_until: it lies between these two places of the source's log, as people read them; empty for not
    known.
    first_sequence, last_sequence: changes of the table that were waiting when it failed.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="failures")
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="failures")
    stage = models.CharField(max_length=10, choices=Stage.choices)
    code = models.CharField(max_length=40)
    message = models.TextField()
    remedy = models.TextField(blank=True)
    attempt = models.PositiveIntegerField(default=1)
    first_sequence = models.BigIntegerField(null=True, blank=True)
    last_sequence = models.BigIntegerField(null=True, blank=True)
    offset_after = models.CharField(max_length=200, blank=True)
    offset_until = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    next_retry_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("replicator", "-at")),
            models.Index(fields=("-at",), name="failure_at"),
            models.Index(fields=("replicator",), name="failure_open", condition=models.Q(resolved_at=None)),
        )

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class LogLine(models.Model):
    """`table` is `database.table`, or empty."""

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="log_lines")
    at = models.DateTimeField(auto_now_add=True)
    level = models.CharField(max_length=8)
    stage = models.CharField(max_length=10, choices=Stage.choices)
    table = models.CharField(max_length=255, blank=True)
    message = models.TextField()
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=("replicator", "-id")), models.Index(fields=("at",)))

    def __str__(self) -> str:
        return f"{self.level} {self.message}"


class TimelineEvent(models.Model):
    """One line of the replicator's history: a user's action, or an automatic one."""

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="timeline")
    table = models.CharField(max_length=255, blank=True)
    kind = models.CharField(max_length=40)
    summary = models.CharField(max_length=500)
    detail = models.JSONField(default=dict)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (models.Index(fields=("replicator", "-at")),)

    def __str__(self) -> str:
        return self.summary


class MetricMinute(models.Model):
    """Counters of one minute of a table; `table` is empty for what capture read from the log, not yet applied.

    bytes: of staged files; merge_seconds: of all target commits of the minute, merge_longest: of the longest.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="metrics")
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="metrics")
    minute = models.DateTimeField()
    inserts = models.BigIntegerField(default=0)
    updates = models.BigIntegerField(default=0)
    deletes = models.BigIntegerField(default=0)
    reads = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    merges = models.PositiveIntegerField(default=0)
    merge_seconds = models.FloatField(default=0)
    merge_longest = models.FloatField(default=0, db_default=0)
    events = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("minute",)
        constraints = (
            models.UniqueConstraint(
                fields=("replicator", "table", "minute"), nulls_distinct=False, name="one_metric_per_minute"
            ),
        )
        indexes = (models.Index(fields=("minute",)),)

    def __str__(self) -> str:
        return f"{self.replicator_id} {self.minute:%H:%M}"


class LagSpan(models.IntegerChoices):
    """How much time a row of lags, counters or gauges covers, in seconds."""

    MINUTE = 60
    HOUR = 3600
    DAY = 86_400


class LagRow(models.Model):
    """How late the events were that became readable in one minute, hour or day (`replicator.telemetry.lags`).

    table is empty for all tables of the replicator together, those removed since included.  Minutes and hours are both
    written as events arrive; days are made of hours that are old.  How long each is kept: see
    `webapp.monitoring.slo.lag_histograms`.
    unmeasured: events that waited for the table's first load, when it had no objective.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="lags")
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="lags")
    span = models.IntegerField(choices=LagSpan.choices)
    at = models.DateTimeField()
    histogram = models.BinaryField()
    events = models.BigIntegerField(default=0)
    lag_sum_us = models.DecimalField(max_digits=30, decimal_places=0, default=0)
    lag_max_us = models.BigIntegerField(default=0)
    unmeasured = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("at",)
        constraints = (
            models.UniqueConstraint(
                fields=("replicator", "table", "span", "at"), nulls_distinct=False, name="one_lag_row_per_span"
            ),
        )
        indexes = (models.Index(fields=("span", "at")),)

    def __str__(self) -> str:
        return f"{self.events} events, {self.span} s from {self.at:%Y-%m-%d %H:%M}"


class MetricRow(models.Model):
    """Counters as in `MetricMinute`, put together: of minutes for all tables, of hours and days for these and for each.

    table is empty for all tables of the replicator together, those removed since included.  Minutes and hours are
    written with the mark that they belong to (`webapp.worker.store.counters`); `webapp.monitoring.charts.rollups` makes
    days of old hours.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="+", db_index=False)
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    span = models.IntegerField(choices=LagSpan.choices)
    at = models.DateTimeField()
    inserts = models.BigIntegerField(default=0)
    updates = models.BigIntegerField(default=0)
    deletes = models.BigIntegerField(default=0)
    reads = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    merges = models.BigIntegerField(default=0)
    merge_seconds = models.FloatField(default=0)
    merge_longest = models.FloatField(default=0)

    class Meta:
        ordering = ("at",)
        constraints = (
            models.UniqueConstraint(
                fields=("replicator", "table", "span", "at"), nulls_distinct=False, name="one_metric_row_per_span"
            ),
        )
        indexes = (models.Index(fields=("span", "at")),)

    def __str__(self) -> str:
        return f"{self.merges} merges, {self.span} s from {self.at:%Y-%m-%d %H:%M}"


class GaugeRow(models.Model):
    """The most that waited in a minute, hour or day, sampled every half minute (`webapp.monitoring.slo.gauges`).

    table is empty for the whole replicator.  log_kept: the most bytes that the source kept of its log, written where
    they have changed; None: as before.  There is no row where nothing waited and `log_kept` did not change.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="+", db_index=False)
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    span = models.IntegerField(choices=LagSpan.choices)
    at = models.DateTimeField()
    waiting_rows = models.BigIntegerField(default=0)
    waiting_bytes = models.BigIntegerField(default=0)
    waiting_seconds = models.FloatField(default=0)
    log_kept = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("at",)
        constraints = (
            models.UniqueConstraint(
                fields=("replicator", "table", "span", "at"), nulls_distinct=False, name="one_gauge_row_per_span"
            ),
        )
        indexes = (models.Index(fields=("span", "at")),)

    def __str__(self) -> str:
        return f"{self.waiting_rows} rows wait, {self.span} s from {self.at:%Y-%m-%d %H:%M}"


class TableObjective(models.Model):
    """What holds for one table: its own objective where it has one (both figures or neither), and since when it is
    measured.

    since: when its first load was over; None: from its first change on.
    """

    table = models.OneToOneField(ReplicatorTable, on_delete=models.CASCADE, related_name="objective")
    percent = models.FloatField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True)
    since = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return "default of the replicator" if self.percent is None else f"{self.percent} % within {self.seconds} s"


class Standing(models.Model):
    """How an objective was kept when it was last looked at, every half minute; `table` is empty for the replicator's.

    figures: `webapp.monitoring.slo.attainment.Figures.to_dict`.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="standings")
    table = models.ForeignKey(
        ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="standings"
    )
    figures = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("replicator", "table"), nulls_distinct=False, name="one_standing"),
        )

    def __str__(self) -> str:
        return f"standing of {self.replicator_id} at {self.at:%H:%M:%S}"
