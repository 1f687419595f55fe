"""What happened, in the REST API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from replicator.telemetry.slo import Objective
from webapp.monitoring.failures import FailureTally
from webapp.monitoring.models import Failure, LogLine, Stage, TableObjective, TimelineEvent
from webapp.monitoring.slo.attainment import Attained

LEVELS = ("debug", "info", "warning", "error")


class FailureSerializer(serializers.Serializer[Failure]):
    """One failed attempt; `table` is empty where the whole replicator was concerned."""

    id = serializers.IntegerField()
    replicator = serializers.IntegerField(source="replicator_id")
    table = serializers.SerializerMethodField()
    table_id = serializers.IntegerField(allow_null=True)
    stage = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    remedy = serializers.CharField()
    attempt = serializers.IntegerField()
    first_sequence = serializers.IntegerField(allow_null=True)
    last_sequence = serializers.IntegerField(allow_null=True)
    offset_after = serializers.CharField(help_text="Log position after which it lies; empty if unknown")
    offset_until = serializers.CharField(help_text="Log position up to which it lies")
    at = serializers.DateTimeField()
    next_retry_at = serializers.DateTimeField(allow_null=True)
    resolved_at = serializers.DateTimeField(allow_null=True)

    def get_table(self, failure: Failure) -> str:
        """`database.table`, or empty."""
        return str(failure.table) if failure.table else ""


class FailureCountSerializer(serializers.Serializer[FailureTally]):
    """How often one kind of failure happened to one table."""

    replicator = serializers.IntegerField(source="replicator_id")
    table = serializers.CharField()
    table_id = serializers.IntegerField(allow_null=True)
    code = serializers.CharField()
    attempts = serializers.IntegerField()
    open = serializers.IntegerField()
    last_at = serializers.DateTimeField()


class LogLineSerializer(serializers.Serializer[LogLine]):
    """`id` is the cursor for `after` and `before`."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    level = serializers.CharField()
    stage = serializers.CharField()
    table = serializers.CharField()
    message = serializers.CharField()
    detail = serializers.JSONField()


class LogFilterSerializer(serializers.Serializer[None]):
    """Filters of the log."""

    level = serializers.ChoiceField(LEVELS, required=False, help_text="The minimum level")
    stage = serializers.ChoiceField(Stage.values, required=False)
    table = serializers.CharField(required=False, help_text="database.table")
    text = serializers.CharField(required=False, default="", allow_blank=True)


class LogFileQuerySerializer(LogFilterSerializer):
    """What is downloaded, and in which form."""

    form = serializers.ChoiceField(("text", "jsonl"), required=False, default="text")


class LogQuerySerializer(LogFilterSerializer):
    """What is listed."""

    after = serializers.IntegerField(required=False, help_text="The first lines after this id: to follow the log")
    before = serializers.IntegerField(required=False, help_text="The last lines before this id: to page back")
    limit = serializers.IntegerField(required=False, default=200, min_value=1, max_value=5000)


class LogPageSerializer(serializers.Serializer[dict[str, Any]]):
    """Oldest first; `next_after` is the cursor to ask with next."""

    lines = LogLineSerializer(many=True)
    next_after = serializers.IntegerField(allow_null=True)


class TimelineSerializer(serializers.Serializer[TimelineEvent]):
    """A user's action, or an automatic one of the replicator."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    summary = serializers.CharField()
    table = serializers.CharField()
    user = serializers.CharField(source="user.username", default=None, allow_null=True)
    detail = serializers.JSONField()


class MetricsQuerySerializer(serializers.Serializer[None]):
    """`table` is a table's id; without it, all tables of a minute are added up."""

    minutes = serializers.IntegerField(
        required=False, default=60, min_value=1, max_value=1440, help_text="For more than a day ask /charts/"
    )
    table = serializers.IntegerField(required=False)


class MetricSerializer(serializers.Serializer[dict[str, Any]]):
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
    lag_p50_ms = serializers.IntegerField(allow_null=True, help_text="Rounded up: by 50 ms up to 2 s, by 5 % above")
    lag_p95_ms = serializers.IntegerField(allow_null=True)
    lag_p99_ms = serializers.IntegerField(allow_null=True)
    lag_max_ms = serializers.IntegerField(allow_null=True)


class ChartPointSerializer(serializers.Serializer[dict[str, Any]]):
    """What happened within one point of time; lags are null where nothing became queryable."""

    at = serializers.DateTimeField(help_text="Its start")
    inserts = serializers.IntegerField()
    updates = serializers.IntegerField()
    deletes = serializers.IntegerField()
    reads = serializers.IntegerField(help_text="Snapshot rows")
    bytes = serializers.IntegerField(help_text="Of staged files that were merged")
    merges = serializers.IntegerField()
    merge_seconds = serializers.FloatField(help_text="Of all merges together")
    merge_longest = serializers.FloatField(help_text="Seconds of the longest merge")
    waiting_rows = serializers.IntegerField(help_text="Staged and not yet in the target, maximum")
    waiting_bytes = serializers.IntegerField()
    waiting_seconds = serializers.FloatField(help_text="Maximum age of the oldest of these changes")
    log_kept = serializers.IntegerField(allow_null=True, help_text="Bytes that the source retains for this replicator")
    failures = serializers.IntegerField(help_text="Failed attempts")
    retries = serializers.IntegerField(help_text="Failed attempts that are retried")
    events = serializers.IntegerField(help_text="Changes whose lag was measured")
    lag_p50_ms = serializers.IntegerField(allow_null=True, help_text="Of all events of the point together")
    lag_p95_ms = serializers.IntegerField(allow_null=True)
    lag_p99_ms = serializers.IntegerField(allow_null=True)


class ChartsSerializer(serializers.Serializer[dict[str, Any]]):
    """At most some 300 points, oldest first."""

    begin = serializers.DateTimeField()
    end = serializers.DateTimeField()
    seconds = serializers.IntegerField(help_text="Length of a point")
    points = ChartPointSerializer(many=True)


class ObjectiveSerializer(serializers.Serializer[Objective | dict[str, Any]]):
    """`percent` % of the changes can be read in the target within `seconds`."""

    percent = serializers.FloatField()
    seconds = serializers.FloatField()


class WindowSerializer(serializers.Serializer[dict[str, Any]]):
    """Events that became readable within a window, and late ones that wait."""

    good = serializers.IntegerField()
    total = serializers.IntegerField()
    percent = serializers.FloatField(allow_null=True, help_text="null where there was no event")


class FiguresSerializer(serializers.Serializer[dict[str, Any]]):
    """How an objective is kept."""

    objective = ObjectiveSerializer()
    promise = ObjectiveSerializer(help_text="Deprecated: objective")
    at = serializers.DateTimeField()
    state = serializers.CharField(help_text="The first that holds: unwatched, missed, late, burning, idle, kept")
    windows = serializers.DictField(child=WindowSerializer(), help_text="5m, 30m, 1h, 6h, 24h, 7d, 30d")
    budget_left_percent = serializers.FloatField(allow_null=True, help_text="Of 30 days; negative when overspent")
    burn = serializers.DictField(child=serializers.FloatField(), help_text="1 uses the budget up in exactly 30 days")
    waiting = serializers.IntegerField(help_text="Events that are staged and not in the target yet")
    waiting_late = serializers.IntegerField(help_text="Those of them that wait longer than the SLO allows")
    unproven_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when the source is not read within the SLO"
    )
    whole_up_to = serializers.DateTimeField(allow_null=True, help_text="What was committed before is in the target")
    watched = serializers.BooleanField(help_text="false while it is paused or stopped")


class StandingSerializer(FiguresSerializer):
    """How an objective was kept when it was last looked at."""

    state = serializers.CharField(help_text="As of /slo/; unseen: not evaluated for minutes")


class AttainedSerializer(serializers.Serializer[Attained]):
    """Of one table over the last 24 hours, by its own objective or the replicator's; what waits too long counts as
    late.
    """

    objective = ObjectiveSerializer()
    promise = ObjectiveSerializer(source="objective", help_text="Deprecated: objective")
    own = serializers.BooleanField(help_text="The table has its own SLO")
    good = serializers.IntegerField(source="tally.good")
    total = serializers.IntegerField(source="tally.total")
    percent = serializers.FloatField(source="tally.percent", allow_null=True)


class SloSerializer(FiguresSerializer):
    """The replicator's figures, and those of tables with their own objectives."""

    tables = serializers.DictField(child=FiguresSerializer())


class TableObjectiveSerializer(serializers.Serializer[TableObjective]):
    """A table's own objective."""

    table = serializers.IntegerField(source="table_id", read_only=True)
    name = serializers.CharField(source="table", read_only=True)
    percent = serializers.FloatField(min_value=0.1, max_value=100)
    seconds = serializers.FloatField(min_value=1, max_value=86_400)
