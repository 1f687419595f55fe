"""Channels, rules, alerts, deliveries."""

from __future__ import annotations

from django.db import models

from webapp.replicators.models import Replicator


class ChannelKind(models.TextChoices):
    EMAIL = "email", "E-mail"
    WEBHOOK = "webhook", "Webhook"
    SLACK = "slack", "Slack (or Mattermost, Teams with a Slack connector)"


class Channel(models.Model):
    """A channel to which alerts are sent.

    Addresses of webhooks are secrets: they suffice to write to the channel (invariant 8).

    config: e-mail {"recipients": […]}, others {"host": …} for users to recognise; secrets: {"url", "key"} as a Fernet
    token.
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=ChannelKind.choices)
    config = models.JSONField(default=dict)
    secrets = models.TextField(blank=True, editable=False)
    last_sent_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=300, blank=True)
    last_error_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def destination(self) -> str:
        """Without anything secret."""
        return ", ".join(self.config.get("recipients", [])) or str(self.config.get("host", ""))


OLD_KINDS = {"rows_parked": "dead_letter_rows"}  # deprecated names of rules that were released, and the present ones


class RuleKind(models.TextChoices):
    SLO_BURN = "slo_burn", "SLO: error budget burns too fast"
    LAG = "lag", "Lag: target too far behind"
    TABLE_FAILED = "table_failed", "Table failed"
    STOPPED = "stopped", "Replicator stopped or failing"
    LOG_KEPT = "log_kept", "Source log retention too high, or log lost"
    DEAD_LETTER_ROWS = "dead_letter_rows", "Dead-letter rows: rows missing in the target"


class Rule(models.Model):
    """What is watched of a replicator: one rule of each kind.  params: see `webapp.alerts.rules.PARAMETERS`."""

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="alert_rules")
    kind = models.CharField(max_length=20, choices=RuleKind.choices)
    params = models.JSONField(default=dict)
    enabled = models.BooleanField(default=True)
    snoozed_until = models.DateTimeField(null=True, blank=True)
    channels = models.ManyToManyField(Channel, blank=True, related_name="rules")

    class Meta:
        ordering = ("replicator", "id")
        constraints = (models.UniqueConstraint(fields=("replicator", "kind"), name="rule_once"),)

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.replicator})"


class Alert(models.Model):
    """One occurrence: since when it holds, when it fired, when it cleared.

    fired_at is empty while it has not held for long enough.  round grows when there is more to tell of a fired alert (a
    further table failed): it is sent again then.
    """

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="alerts")
    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="alerts")
    severity = models.CharField(max_length=10, default="warning")
    summary = models.CharField(max_length=500)
    detail = models.JSONField(default=dict)
    round = models.PositiveIntegerField(default=1)
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True, blank=True)
    cleared_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-since", "-id")
        constraints = (
            models.UniqueConstraint(fields=("rule",), condition=models.Q(cleared_at=None), name="one_open_alert"),
        )
        indexes = (models.Index(fields=("replicator", "-since")), models.Index(fields=("-since",)))

    def __str__(self) -> str:
        return self.summary

    @property
    def firing(self) -> bool:
        return self.fired_at is not None and self.cleared_at is None


class DeliveryState(models.TextChoices):
    PENDING = "pending"
    SENT = "sent"
    GIVEN_UP = "given up"


class Event(models.TextChoices):
    FIRED = "fired"
    CLEARED = "cleared"


class Delivery(models.Model):
    """One message to one channel: sent once, tried again until it is; `next_at` is also how long a claim holds."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=10, choices=Event.choices)
    round = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = (models.UniqueConstraint(fields=("alert", "channel", "event", "round"), name="delivered_once"),)
        indexes = (models.Index(fields=("next_at",), name="delivery_due", condition=models.Q(state="pending")),)

    def __str__(self) -> str:
        return f"{self.event} to {self.channel_id}: {self.state}"
