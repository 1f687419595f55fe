"""What happened: failures, log lines, timeline, metrics by minute.  All with bounded retention."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from webapp.replicators.models import Replicator, ReplicatorTable


class Stage(models.TextChoices):
    CAPTURE = "capture"
    SNAPSHOT = "snapshot"
    APPLY = "apply"
    CONTROL = "control"


class Failure(models.Model):
    """One failed attempt.  `table` is empty where the whole replicator was concerned."""

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="failures")
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="failures")
    stage = models.CharField(max_length=10, choices=Stage.choices)
    code = models.CharField(max_length=40)
    message = models.TextField()
    remedy = models.TextField(blank=True)
    attempt = models.PositiveIntegerField(default=1)
    first_sequence = models.BigIntegerField(null=True, blank=True)
    last_sequence = models.BigIntegerField(null=True, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    next_retry_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (models.Index(fields=("replicator", "-at")),)

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
    """What people see as the replicator's history: who did what, and what it did by itself."""

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
    """Counters of one minute; `table` is empty for what belongs to no table (captured bytes of the replicator)."""

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
    lag_p50_ms = models.BigIntegerField(null=True, blank=True)
    lag_p95_ms = models.BigIntegerField(null=True, blank=True)
    lag_max_ms = models.BigIntegerField(null=True, blank=True)
    lag_sum_ms = models.BigIntegerField(default=0)
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
