"""Replicators in the REST API: what goes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from replicator.model.masks import parse_masks
from replicator.model.row_filter import parse_filter
from replicator.sources.base import CheckResult, FormField
from replicator.targets.registry import KINDS
from webapp.connections.models import Connection
from webapp.destinations.models import Destination
from webapp.monitoring.serializers import AttainedSerializer, StandingSerializer
from webapp.replicators.models import MODES, Replicator, ReplicatorTable, SchemaVersion, SnapshotRun, TableSelection
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import ColumnAssessment, TableAssessment
from webapp.replicators.selection.entries import SelectionEntry, protected


class SelectionSerializer(serializers.Serializer[TableSelection]):
    """One line: a table, a whole database (an empty `table`), or with `pattern` all tables whose names match (`*`,
    `?`).
    """

    database = serializers.CharField(max_length=255, trim_whitespace=False)
    table = serializers.CharField(max_length=255, required=False, allow_blank=True, default="", trim_whitespace=False)
    excluded = serializers.BooleanField(required=False, default=False)
    excluded_columns = serializers.ListField(
        child=serializers.CharField(trim_whitespace=False),
        required=False,
        help_text="For an existing table: unchanged if left out; the same applies to masks and row_filter",
    )
    mode = serializers.ChoiceField(
        choices=MODES,
        required=False,
        allow_blank=True,
        default="",
        help_text=(
            "Write mode of its tables; empty: the replicator's. The mode of an existing table is changed by its own"
            " action"
        ),
    )
    masks = serializers.DictField(
        child=serializers.JSONField(allow_null=True),
        required=False,
        help_text="Column → null, hash, {kind: fixed, value: …} or {kind: partial, first: n, last: m}",
    )
    pattern = serializers.BooleanField(required=False, default=False)
    new_tables = serializers.BooleanField(
        required=False, default=True, help_text="Of a database or pattern: include future tables"
    )
    row_filter = serializers.CharField(required=False, allow_blank=True, help_text="country = 'DE' AND total >= 10")


def entries(lines: list[dict[str, Any]], replicator: Replicator | None = None) -> list[SelectionEntry]:
    """For the services.  ConfigurationError for a mask that makes no sense.

    What a line does not say of a table of `replicator` stays as it is.
    """
    found = [
        SelectionEntry(
            line["database"],
            line["table"],
            line["excluded"],
            tuple(line.get("excluded_columns", ())),
            line["mode"],
            parse_masks(line.get("masks", {})),
            parse_filter(line.get("row_filter", "")),
            line["pattern"],
            line["new_tables"],
        )
        for line in lines
    ]
    return found if replicator is None else protected(replicator, found, lines)


class OptionsSerializer(serializers.Serializer[None]):
    """What is left out keeps its default (at creation) or its present value."""

    slo_percent = serializers.FloatField(required=False, help_text="Percentage of changes")
    slo_minutes = serializers.FloatField(required=False, help_text="Minutes within which they are queryable")
    retry_minutes = serializers.FloatField(required=False, help_text="How long failures are retried")
    initial_snapshot = serializers.BooleanField(required=False)
    ddl_policy = serializers.JSONField(
        required=False, help_text="A preset (mirror, keep, strict), or operation → apply, ignore or stop"
    )
    zero_dates = serializers.CharField(required=False, help_text="null, text or fail")
    on_table_failure = serializers.CharField(required=False, help_text="continue or stop")
    mode = serializers.CharField(
        required=False, help_text="mirror, soft_delete, history or changelog: of tables that are added from now on"
    )
    on_log_lost = serializers.CharField(
        required=False, help_text="stop or start_anew: when the source no longer has the log to resume from"
    )
    on_decode_error = serializers.CharField(
        required=False,
        help_text="stop (the table) or dead_letter (the row as a dead letter): when a change cannot be decoded",
    )
    on_poison = serializers.CharField(required=False, help_text="Deprecated: on_decode_error (park: dead_letter)")
    retention_warn_percent = serializers.FloatField(
        required=False, help_text="Warn when the retained log reaches this share of its limit"
    )
    retention_steps = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text=(
            "Which snapshots of the target's tables are retained, such as 10m/1s 2h/1m 7d/1h; empty: the installation's"
        ),
    )
    deletion_grace_hours = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="Hours until unreferenced files are deleted; null: the installation's",
    )
    snapshot_parallel = serializers.IntegerField(required=False)
    snapshot_chunk_seconds = serializers.FloatField(required=False, help_text="Target duration of a chunk")
    snapshot_chunk_rows = serializers.IntegerField(required=False, help_text="Maximum rows per chunk")
    snapshot_delay_seconds = serializers.FloatField(required=False, help_text="Pause of a reader between two chunks")
    snapshot_most_running = serializers.IntegerField(
        required=False,
        help_text="Throttle: no chunk starts while the source has more active queries; 0: off",
    )
    snapshot_most_lag_seconds = serializers.FloatField(
        required=False, help_text="Throttle: no chunk starts while a replica of the source lags more; 0: off"
    )
    signal_table = serializers.CharField(
        required=False, allow_blank=True, help_text="Signalling table, as database.table of the source"
    )
    merge_parallel = serializers.IntegerField(required=False)
    snapshot_paused = serializers.BooleanField(required=False)

    def to_internal_value(self, data: Any) -> Any:
        """An option that does not exist is an error, not a silence."""
        if isinstance(data, Mapping) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError({unknown[0]: ["Unknown option."]})
        return super().to_internal_value(data)


def parsed(values: dict[str, Any], base: ReplicatorOptions | None = None) -> ReplicatorOptions:
    """ConfigurationError for a value that does not make sense."""
    return (base or ReplicatorOptions()).changed(values)


class TargetSerializer(serializers.Serializer[None]):
    """What a replicator sets of its target, as /destination-kinds/ lists it.

    Without a destination, `kind` and the settings of a destination, too: one with these settings is taken or made.
    """

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Those of every kind."""
        known = f"{' or '.join(KINDS)}; where no destination is named"
        found: dict[str, serializers.Field[Any, Any, Any, Any]] = {
            "kind": serializers.CharField(required=False, help_text=known)
        }
        for kind in KINDS.values():
            for one in kind.settings:
                found[one.name] = _setting(one, "" if one.name in found else kind.title)
        return found

    def to_internal_value(self, data: Any) -> Any:
        """A setting that does not exist is an error, not a silence."""
        if isinstance(data, Mapping) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError({unknown[0]: ["Unknown setting."]})
        return super().to_internal_value(data)


class AssessSerializer(serializers.Serializer[None]):
    """What a replicator would take."""

    connection = serializers.PrimaryKeyRelatedField(queryset=Connection.objects.all())
    destination = serializers.PrimaryKeyRelatedField(
        queryset=Destination.objects.all(), required=False, help_text="Left out: the lakehouse of this installation"
    )
    selection = SelectionSerializer(many=True, allow_empty=False)
    options = OptionsSerializer(required=False, default=dict)
    target = TargetSerializer(required=False, default=dict, help_text="What the replicator sets of its target")


def _setting(one: FormField, title: str) -> serializers.Field[Any, Any, Any, Any]:
    """title: of the kind of destination; empty for what several have."""
    label = f"{title}: {one.label}" if title else one.label
    common: dict[str, Any] = {"required": False, "allow_null": True, "write_only": one.secret, "help_text": label}
    if one.kind == "number":
        return serializers.IntegerField(**common)
    if {value for value, _ in one.choices} == {"yes", "no"}:
        return serializers.BooleanField(**common)
    return serializers.CharField(allow_blank=True, **common)


class TargetSettingsSerializer(serializers.Serializer[dict[str, Any]]):
    """A replicator's target, without its secrets."""

    settings = serializers.DictField()
    secrets = serializers.ListField(child=serializers.CharField(), help_text="Names of the stored secrets")
    effects = serializers.DictField(
        child=serializers.CharField(), help_text="What can be changed, and when it takes effect"
    )
    fixed = serializers.DictField(child=serializers.CharField(), help_text="What cannot be changed, and why")


class TargetCheckSerializer(serializers.Serializer[CheckResult]):
    """One line of a target's test."""

    title = serializers.CharField()
    status = serializers.CharField(help_text="ok or failed")
    detail = serializers.CharField()
    remedy = serializers.CharField()


class ReplicatorCreateSerializer(AssessSerializer):
    """`start` starts it at once."""

    name = serializers.CharField(max_length=100)
    target = TargetSerializer(required=False, default=dict)
    start = serializers.BooleanField(required=False, default=False)


class AddTablesSerializer(serializers.Serializer[None]):
    """Lines to add to the selection, or to change in it."""

    selection = SelectionSerializer(many=True, allow_empty=False)


class EffectsSerializer(serializers.Serializer[dict[str, Any]]):
    """In sentences."""

    effects = serializers.ListField(child=serializers.CharField())


class ReasonSerializer(serializers.Serializer[None]):
    """`reason` is shown with the snapshot."""

    reason = serializers.CharField(
        required=False, allow_blank=True, default="asked for through the API", max_length=200
    )


class ErrorStateSerializer(serializers.Serializer[dict[str, str]]):
    """A current error and its remedy."""

    code = serializers.CharField()
    message = serializers.CharField()
    remedy = serializers.CharField()


class LogKeptSerializer(serializers.Serializer[dict[str, Any]]):
    """What the source keeps of its log for this replicator."""

    bytes = serializers.IntegerField(allow_null=True)
    most = serializers.IntegerField(allow_null=True, help_text="Bytes at which the log is lost")
    status = serializers.CharField(help_text="Status as reported by the source; missing if it retains nothing")
    checked_at = serializers.DateTimeField()
    concern = serializers.CharField(help_text="large, lost or empty")
    message = serializers.CharField()


class ReplicatorSerializer(serializers.Serializer[dict[str, Any]]):
    """A replicator: what is wanted (`desired`), what it does (`status`), and how far it is."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    connection = serializers.IntegerField(source="connection_id")
    connection_name = serializers.CharField()
    desired = serializers.CharField()
    status = serializers.CharField()
    allowed_actions = serializers.ListField(child=serializers.CharField())
    destination = serializers.IntegerField()
    destination_name = serializers.CharField()
    target = serializers.DictField(help_text="Kind, and all settings that are not secret")
    options = serializers.DictField()
    tables = serializers.DictField(child=serializers.IntegerField(), help_text="State → number of tables")
    lag_ms = serializers.IntegerField(
        allow_null=True, help_text="Now minus the source commit time of the newest queryable change"
    )
    rows_per_minute = serializers.IntegerField()
    failures_open = serializers.IntegerField()
    dead_letters = serializers.IntegerField(
        help_text="Dead-letter rows of all its tables, which are missing in the target"
    )
    parked = serializers.IntegerField(help_text="Deprecated: dead_letters")
    slo = StandingSerializer(allow_null=True, help_text="Null if the SLO was not evaluated yet")
    alerts_firing = serializers.IntegerField()
    error = ErrorStateSerializer(allow_null=True)
    log_kept = LogKeptSerializer(allow_null=True, help_text="Null if the source does not retain its log per consumer")
    attempt = serializers.IntegerField()
    next_retry_at = serializers.DateTimeField(allow_null=True)
    checkpoint = serializers.JSONField(allow_null=True, help_text="The position in the source's log")
    next_sequence = serializers.IntegerField()
    source_ts = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class SnapshotRequestSerializer(serializers.Serializer[None]):
    """Either `keys` or `where`.

    A key is a value, or a list of values in the order of the key's columns; or all of them are one text with a key a
    line (CSV or JSON arrays).  `where` is a condition in the source's own SQL.
    """

    keys = serializers.JSONField(required=False, help_text='[1, 2] or [["north", 1]] or "north,1\\nnorth,2"')
    where = serializers.CharField(required=False, allow_blank=True, help_text="updated_at >= '2026-01-01'")
    reason = serializers.CharField(required=False, default="asked for through the API", max_length=200)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """One of the two."""
        if ("keys" in attrs) == ("where" in attrs):
            message = "Send either keys or where. To read the whole table, use resnapshot."
            raise serializers.ValidationError(message)
        if not isinstance(attrs.get("keys", []), list | str):
            raise serializers.ValidationError({"keys": "A list, or text with one key per line."})
        return attrs


class SnapshotSerializer(serializers.Serializer[SnapshotRun]):
    """Progress of one copy of a table's rows, or of a part of them.  `fraction` and `eta` go by the row estimate."""

    id = serializers.IntegerField()
    table = serializers.CharField()
    reason = serializers.CharField()
    scope = serializers.CharField(help_text="whole, keys, or rows (those for which `condition` is true)")
    condition = serializers.CharField()
    paused = serializers.BooleanField()
    error = serializers.CharField(help_text="Error that ended it; empty if a user stopped it")
    state = serializers.CharField()
    rows_read = serializers.IntegerField()
    rows_estimate = serializers.IntegerField(allow_null=True)
    fraction = serializers.FloatField(allow_null=True)
    eta = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class RowsSerializer(serializers.Serializer[ReplicatorTable]):
    """Totals since the replicator was made."""

    read = serializers.IntegerField(source="rows_read")
    inserted = serializers.IntegerField(source="rows_inserted")
    updated = serializers.IntegerField(source="rows_updated")
    deleted = serializers.IntegerField(source="rows_deleted")


class TargetNameSerializer(serializers.Serializer[None]):
    """What a table's copy is to be called."""

    namespace = serializers.CharField(max_length=255)
    name = serializers.CharField(max_length=255)


class ModeSerializer(serializers.Serializer[None]):
    """What a table's copy is to keep.  Without `confirm` the answer says what would happen."""

    mode = serializers.ChoiceField(choices=MODES)
    confirm = serializers.BooleanField(default=False)


_ATTAINED = AttainedSerializer()  # its fields are copied once, not for each table


class ReplicatorTableSerializer(serializers.Serializer[ReplicatorTable]):
    """One table of a replicator."""

    id = serializers.IntegerField()
    database = serializers.CharField()
    table = serializers.CharField(source="name")
    target_namespace = serializers.CharField()
    target_name = serializers.CharField()
    target_part = serializers.CharField(help_text="column=value of a table that shares its target table; else empty")
    state = serializers.CharField()
    mode = serializers.CharField()
    keyless = serializers.BooleanField()
    rows = RowsSerializer(source="*")
    zero_dates = serializers.IntegerField(help_text="Invalid dates, read or changed, that became null")
    dead_letters = serializers.IntegerField(help_text="Dead-letter rows; if any, the target is not exact")
    parked = serializers.IntegerField(source="dead_letters", help_text="Deprecated: dead_letters")
    schema_version = serializers.IntegerField(allow_null=True)
    applied_sequence = serializers.IntegerField(source="applied")
    last_sequence = serializers.IntegerField()
    lag_ms = serializers.SerializerMethodField()
    queryable_at = serializers.DateTimeField(allow_null=True)
    slo = serializers.SerializerMethodField()
    snapshot = serializers.SerializerMethodField()
    error = serializers.SerializerMethodField()
    attempt = serializers.IntegerField()
    retry_at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, table: ReplicatorTable) -> dict[str, Any]:
        """By hand: pages of a thousand tables are asked for by many at once, and fields made one by one took ten times
        as long.
        """
        return {name: value(table) for name, value in self._values.items()}

    @cached_property
    def _values(self) -> dict[str, Callable[[Any], Any]]:
        """What gives each field's value of a table: once for all tables of a page."""
        rows = {name: attrgetter(str(field.source)) for name, field in RowsSerializer().fields.items()}
        found: dict[str, Callable[[Any], Any]] = {}
        for name, field in self.fields.items():
            own = isinstance(field, serializers.SerializerMethodField)
            found[name] = getattr(self, f"get_{name}") if own else attrgetter(str(field.source))
        return found | {"rows": lambda table: {name: value(table) for name, value in rows.items()}}

    def get_lag_ms(self, table: ReplicatorTable) -> int | None:
        """Of this table; null while it does not stream."""
        from webapp.replicators import selectors  # noqa: PLC0415 - only where it is needed

        return selectors.table_lag_ms(table, table.replicator)

    @extend_schema_field(AttainedSerializer())
    def get_slo(self, table: ReplicatorTable) -> dict[str, Any]:
        """What came in time of the last 24 hours."""
        return dict(_ATTAINED.to_representation(self.context["attained"][table.pk]))

    @extend_schema_field(SnapshotSerializer(allow_null=True))
    def get_snapshot(self, table: ReplicatorTable) -> dict[str, Any] | None:
        """The snapshot under way."""
        run = self.context.get("runs", {}).get(table.pk)
        return None if run is None else SnapshotSerializer(run).data

    @extend_schema_field(ErrorStateSerializer(allow_null=True))
    def get_error(self, table: ReplicatorTable) -> dict[str, str] | None:
        """The table's current error."""
        return error_state(table)


def error_state(row: Any) -> dict[str, str] | None:
    """None where there is none."""
    if not row.error_code:
        return None
    return {"code": row.error_code, "message": row.error_message, "remedy": row.error_remedy}


class SchemaVersionSerializer(serializers.Serializer[SchemaVersion]):
    """A version of a table's definition, with the DDL that made it and what was decided."""

    version = serializers.IntegerField()
    schema = serializers.DictField()
    created_at = serializers.DateTimeField()
    statement = serializers.CharField()
    decision = serializers.CharField()
    change = serializers.DictField(help_text="Cause: kind, renamed, keep_dropped, reload, decision, left_out")


class ColumnAssessmentSerializer(serializers.Serializer[ColumnAssessment]):
    """`support`: full, partial or none."""

    name = serializers.CharField()
    source_type = serializers.CharField()
    target_type = serializers.CharField()
    support = serializers.CharField()
    note = serializers.CharField()


class TableAssessmentSerializer(serializers.Serializer[TableAssessment]):
    """What a replicator would make of a table."""

    database = serializers.CharField(source="table.database")
    table = serializers.CharField(source="table.name")
    support = serializers.CharField()
    key = serializers.CharField()
    rows = serializers.IntegerField()
    bytes = serializers.IntegerField()
    columns = ColumnAssessmentSerializer(many=True)
    reasons = serializers.ListField(child=serializers.CharField())


class SelectionLineSerializer(SelectionSerializer):
    """A line of the selection as it is."""

    id = serializers.IntegerField(read_only=True)
