"""Counters that only grow, and the queue of OpenLineage events."""

from __future__ import annotations

from django.db import models

from webapp.replicators.models import Replicator


class FailureCount(models.Model):
    """Failed attempts since the replicator was made; failures themselves are kept for a while only.

    retries: those of them that another attempt was to follow.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="failure_counts")
    stage = models.CharField(max_length=10)
    code = models.CharField(max_length=40)
    attempts = models.BigIntegerField(default=0)
    retries = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("replicator", "stage", "code")
        constraints = (models.UniqueConstraint(fields=("replicator", "stage", "code"), name="one_failure_count"),)

    def __str__(self) -> str:
        return f"{self.replicator_id} {self.stage} {self.code}: {self.attempts}"


class LineageEvent(models.Model):
    """An OpenLineage event to deliver.  `key` names the run and what happened to it, so that each event is queued once.

    A delivered one keeps its row, without the body, for `delivery.REMEMBERED`.
    """

    key = models.CharField(max_length=80, unique=True)
    body = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(fields=("id",), condition=models.Q(delivered_at=None), name="lineage_event_waiting"),
            models.Index(fields=("delivered_at",), name="lineage_event_delivered"),
        )

    def __str__(self) -> str:
        return self.key


class LineageState(models.Model):
    """How far events were gathered and how delivery stands: one row.

    snapshots_to, merges_to   gathered up to here; None before the first round
    attempt, retry_at, error  of the delivery that failed last; attempt 0 where the last one did not
    delivered, dropped        events since the beginning; dropped ones did not fit the queue, or the receiver refused
                              them
    """

    snapshots_to = models.DateTimeField(null=True, blank=True)
    merges_to = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    delivered = models.BigIntegerField(default=0)
    dropped = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.delivered} delivered, {self.dropped} dropped"
