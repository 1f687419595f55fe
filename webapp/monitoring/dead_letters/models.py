"""Rows that cannot be decoded, kept until a user replays or discards them: the dead-letter rows."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from webapp.replicators.models import Replicator, ReplicatorTable


class Resolution(models.TextChoices):
    """What became of a dead-letter row; empty while it waits."""

    READ_ANEW = "read_anew", "Replayed"
    DISCARDED = "discarded", "Discarded"
    GONE = "gone", "Removed with its table"


class DeadLetterRow(models.Model):
    """One change of a table that is not in its target (`replicator.model.change.UndecodableRow`).

    sequence: the number that it has used up; data: its bytes as the source sent them, cut; size: bytes of the whole.
    keys: its key before and after the change, a list of texts by column; null where it is not known.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="dead_letter_rows")
    table = models.ForeignKey(ReplicatorTable, on_delete=models.CASCADE, related_name="dead_letter_rows")
    sequence = models.BigIntegerField()
    operation = models.CharField(max_length=10)
    offset = models.CharField(max_length=200)
    commit_ts = models.DateTimeField(null=True, blank=True)
    txn_id = models.CharField(max_length=200, blank=True)
    code = models.CharField(max_length=40)
    column = models.CharField(max_length=255, blank=True)
    message = models.TextField()
    remedy = models.TextField(blank=True)
    data = models.BinaryField()
    size = models.BigIntegerField()
    keys = models.JSONField(null=True, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolution = models.CharField(max_length=10, blank=True, choices=Resolution.choices)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ("-at", "-id")
        constraints = (models.UniqueConstraint(fields=("table", "sequence"), name="dead_letter_once"),)
        indexes = (
            models.Index(fields=("replicator", "-at")),
            models.Index(fields=("table",), name="dead_letter_open", condition=models.Q(resolved_at=None)),
        )

    def __str__(self) -> str:
        return f"{self.operation} at {self.sequence}"
