"""Snapshot runs and their chunks; `webapp.replicators.models` gives them with the other models."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models
from django.utils import timezone

from replicator.snapshot.sizing import START_ROWS


class RunState(models.TextChoices):
    PLANNING = "planning"
    READING = "reading"
    DONE = "done"
    CANCELLED = "cancelled"


class Scope(models.TextChoices):
    """What a run reads.

    Only of a whole table can rows be found that are gone; parts of it are read while it streams.
    """

    WHOLE = "whole"
    KEYS = "keys"
    ROWS = "rows"


class SnapshotRun(models.Model):
    """A copy of the rows that exist now.  `end_key` is fixed at the start; `position` is the last bound planned.

    plan: token of the mark that was written into the log before `end_key` was asked for; plan_met: capture has met it
    there.
    start_sequence: rows with a smaller sequence number that the run did not touch are swept at its end (reloads).  Of a
    list of keys: where capture was.
    fresh: the copy is made again (a load), and not brought up to date (a reload).
    scope: the whole table, a list of keys (`ChunkRow.keys`; rows_estimate counts them), or the rows that `condition` is
    true for.
    paused: no chunk of it is read until a user resumes it.  error: what ended it, unless a user did.
    """

    table = models.ForeignKey("replicators.ReplicatorTable", on_delete=models.CASCADE, related_name="runs")
    reason = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.PLANNING)
    started = models.BooleanField(default=False)
    end_key = models.JSONField(null=True, blank=True)
    plan = models.CharField(max_length=32, blank=True)
    plan_met = models.BooleanField(default=False)
    position = models.JSONField(null=True, blank=True)
    planned_all = models.BooleanField(default=False)
    chunk_rows = models.PositiveIntegerField(default=START_ROWS)
    start_sequence = models.BigIntegerField(default=-1)
    fresh = models.BooleanField(default=False)
    scope = models.CharField(max_length=5, choices=Scope.choices, default=Scope.WHOLE)
    condition = models.TextField(blank=True)
    paused = models.BooleanField(default=False)
    error = models.TextField(blank=True)
    rows_estimate = models.BigIntegerField(null=True, blank=True)
    rows_read = models.BigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)
    first_failure_at = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("table", "state")),
            models.Index(fields=("id",), name="run_open", condition=models.Q(state__in=("planning", "reading"))),
        )

    def __str__(self) -> str:
        return f"snapshot of {self.table}: {self.state}"

    @property
    def open(self) -> bool:
        return self.state in {RunState.PLANNING, RunState.READING}

    @property
    def partial(self) -> bool:
        return self.scope != Scope.WHOLE

    @property
    def what(self) -> str:
        """What is read, for a sentence."""
        if self.scope == Scope.KEYS:
            return f"{self.rows_estimate:,} key{'' if self.rows_estimate == 1 else 's'} of {self.table}"
        return f"rows of {self.table}" if self.scope == Scope.ROWS else str(self.table)

    @property
    def fraction(self) -> float | None:
        """0 to 1 by the row estimate; None where there is no estimate."""
        if self.state == RunState.DONE:
            return 1.0
        return min(self.rows_read / self.rows_estimate, 0.99) if self.rows_estimate else None

    @property
    def eta(self) -> datetime | None:
        """When the run ends if it goes on as it did so far."""
        done = self.fraction
        if not self.open or not done or self.started_at is None:
            return None
        now = timezone.now()
        return now + timedelta(seconds=(now - self.started_at).total_seconds() * (1 - done) / done)


class ChunkState(models.TextChoices):
    PLANNED = "planned"
    READING = "reading"
    READ = "read"
    DONE = "done"
    CANCELLED = "cancelled"


class ChunkRow(models.Model):
    """One key range of a run, or some of its keys.

    `attempt` names the present reading; an older one's results are ignored.
    """

    run = models.ForeignKey(SnapshotRun, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    lower = models.JSONField(null=True, blank=True)
    upper = models.JSONField(null=True, blank=True)
    keys = models.JSONField(default=list, blank=True)
    keyless = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=ChunkState.choices, default=ChunkState.PLANNED)
    attempt = models.CharField(max_length=32, blank=True)
    owner = models.CharField(max_length=100, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    first_failure_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)
    path = models.CharField(max_length=500, blank=True)
    rows = models.BigIntegerField(default=0)
    size = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    schema = models.JSONField(null=True, blank=True)
    base_sequence = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("run", "number")
        constraints = (models.UniqueConstraint(fields=("run", "number"), name="chunk_once"),)
        indexes = (
            models.Index(fields=("run", "state")),
            models.Index(
                fields=("run", "number"),
                name="chunk_open",
                condition=models.Q(state__in=("planned", "reading", "read")),
            ),
        )

    def __str__(self) -> str:
        return f"chunk {self.number} of run {self.run_id}"
