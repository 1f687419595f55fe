"""Alerts in the REST API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.alerts.models import Alert, Channel, ChannelKind, Rule


class ChannelSerializer(serializers.Serializer[Channel]):
    """Where alerts are sent; a webhook's address and key are secrets and never come back."""

    id = serializers.IntegerField(read_only=True)
    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(ChannelKind.values)
    destination = serializers.CharField(read_only=True, help_text="E-mail addresses, or the webhook's host")
    recipients = serializers.ListField(
        child=serializers.EmailField(), required=False, write_only=True, help_text="Of kind email"
    )
    url = serializers.CharField(
        required=False,
        write_only=True,
        help_text="Of kinds webhook and slack; if left out, the stored one is kept",
    )
    key = serializers.CharField(
        required=False,
        allow_blank=True,
        write_only=True,
        help_text="Signs webhooks: X-Tidemark-Signature, HMAC-SHA256. Another url asks for it again",
    )
    last_sent_at = serializers.DateTimeField(read_only=True, allow_null=True)
    last_error = serializers.CharField(read_only=True)


class ChannelTestSerializer(serializers.Serializer[dict[str, Any]]):
    """What came of a test message."""

    ok = serializers.BooleanField()
    error = serializers.CharField()


class RuleTestSerializer(ChannelTestSerializer):
    """What came of a test message to one of the channels."""

    channel = serializers.CharField()


class SnoozeSerializer(serializers.Serializer[None]):
    """Until when no new alert is sent; null ends the snooze."""

    until = serializers.DateTimeField(allow_null=True)


class RuleSerializer(serializers.Serializer[Rule]):
    """What is watched of a replicator."""

    kind = serializers.CharField(read_only=True)
    title = serializers.CharField(source="get_kind_display", read_only=True)
    enabled = serializers.BooleanField(required=False)
    params = serializers.DictField(child=serializers.FloatField(), required=False)
    channels = serializers.SerializerMethodField()
    snoozed_until = serializers.DateTimeField(read_only=True, allow_null=True)

    def get_channels(self, rule: Rule) -> list[int]:
        """Ids of the channels to notify."""
        return [channel.pk for channel in rule.channels.all()]


class RuleChangeSerializer(serializers.Serializer[None]):
    """What is left out stays; `snoozed_until` null ends the snooze."""

    enabled = serializers.BooleanField(required=False)
    params = serializers.DictField(child=serializers.FloatField(), required=False)
    channels = serializers.ListField(child=serializers.IntegerField(), required=False)
    snoozed_until = serializers.DateTimeField(required=False, allow_null=True)


class AlertSerializer(serializers.Serializer[Alert]):
    """An alert that fires, or has fired."""

    id = serializers.IntegerField()
    replicator = serializers.IntegerField(source="replicator_id")
    replicator_name = serializers.CharField(source="replicator.name")
    kind = serializers.CharField(source="rule.kind")
    severity = serializers.CharField()
    summary = serializers.CharField()
    detail = serializers.JSONField()
    since = serializers.DateTimeField(help_text="When the condition was first met")
    fired_at = serializers.DateTimeField()
    cleared_at = serializers.DateTimeField(allow_null=True)
    snoozed_until = serializers.DateTimeField(source="rule.snoozed_until", allow_null=True)
