"""What happened, in the REST API."""

from __future__ import annotations

from rest_framework import serializers

LEVELS = ("debug", "info", "warning", "error")


class FailureSerializer(serializers.Serializer):
    """One failed attempt; `table` is empty where the whole replicator was concerned."""

    id = serializers.IntegerField()
    table = serializers.SerializerMethodField()
    stage = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    remedy = serializers.CharField()
    attempt = serializers.IntegerField()
    first_sequence = serializers.IntegerField(allow_null=True)
    last_sequence = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField()
    next_retry_at = serializers.DateTimeField(allow_null=True)
    resolved_at = serializers.DateTimeField(allow_null=True)

    def get_table(self, failure: object) -> str:
        """`database.table`, or empty."""
        table = getattr(failure, "table", None)
        return str(table) if table else ""


class FailureCountSerializer(serializers.Serializer):
    """How often one kind of failure happened to one table."""

    table = serializers.CharField()
    code = serializers.CharField()
    attempts = serializers.IntegerField()
    open = serializers.IntegerField()
    last_at = serializers.DateTimeField()


class LogLineSerializer(serializers.Serializer):
    """`id` is the cursor for `after` and `before`."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    level = serializers.CharField()
    stage = serializers.CharField()
    table = serializers.CharField()
    message = serializers.CharField()
    detail = serializers.JSONField()


class LogQuerySerializer(serializers.Serializer):
    """Filters of the log."""

    level = serializers.ChoiceField(LEVELS, required=False, help_text="The least level")
    table = serializers.CharField(required=False, help_text="database.table")
    text = serializers.CharField(required=False, default="", allow_blank=True)
    after = serializers.IntegerField(required=False, help_text="The first lines after this id: to follow the log")
    before = serializers.IntegerField(required=False, help_text="The last lines before this id: to page back")
    limit = serializers.IntegerField(required=False, default=200, min_value=1, max_value=5000)


class LogPageSerializer(serializers.Serializer):
    """Oldest first; `next_after` is the cursor to ask with next."""

    lines = LogLineSerializer(many=True)
    next_after = serializers.IntegerField(allow_null=True)


class TimelineSerializer(serializers.Serializer):
    """Who did what, and what the replicator did by itself."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    summary = serializers.CharField()
    table = serializers.CharField()
    user = serializers.CharField(source="user.username", default=None, allow_null=True)
    detail = serializers.JSONField()


class MetricsQuerySerializer(serializers.Serializer):
    """`table` is a table's id; without it, all tables of a minute are added up."""

    minutes = serializers.IntegerField(required=False, default=60, min_value=1, max_value=43200)
    table = serializers.IntegerField(required=False)


class MetricSerializer(serializers.Serializer):
    """Counters of one minute; lags are null where nothing became queryable."""

    minute = serializers.DateTimeField()
    inserts = serializers.IntegerField()
    updates = serializers.IntegerField()
    deletes = serializers.IntegerField()
    reads = serializers.IntegerField()
    bytes = serializers.IntegerField()
    merges = serializers.IntegerField()
    merge_seconds = serializers.FloatField()
    events = serializers.IntegerField()
    lag_max_ms = serializers.IntegerField(allow_null=True)
    lag_p95_ms = serializers.IntegerField(allow_null=True, help_text="The worst table's")
    lag_p50_ms = serializers.IntegerField(allow_null=True, help_text="The worst table's")


class SloSerializer(serializers.Serializer):
    """How the promise was kept."""

    promised_percent = serializers.FloatField()
    promised_minutes = serializers.FloatField()
    percent = serializers.FloatField(allow_null=True, help_text="null where there was no event")
    events = serializers.IntegerField()
