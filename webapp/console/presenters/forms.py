"""Forms of the wizard and of a replicator's settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from replicator.errors import ConfigurationError
from replicator.model.mode import Mode
from replicator.model.retention import MAX_GRACE_HOURS
from replicator.snapshot.sizing import MAX_ROWS
from replicator.sources.base import FormField
from replicator.state.journal import DDL_OPERATIONS
from webapp.connections.forms import form_field
from webapp.replicators.models import Replicator
from webapp.replicators.options import DDL_PRESETS, IGNORABLE, ReplicatorOptions, check_seconds
from webapp.replicators.targets import kind_of

CUSTOM = "custom"
NUMBER = {"class": "input input-number"}
ACTIONS = {"apply": "Apply", "ignore": "Leave the target as it is", "stop": "Stop the table"}
PRESETS = (
    ("mirror", "Mirror", "The target follows every change of the source’s tables."),
    ("keep", "Keep data", "Nothing is removed: dropped columns and tables and truncated rows stay in the target."),
    ("strict", "Strict", "A table stops at every schema change and requires a decision."),
    (CUSTOM, "Custom", "Set an action for each kind of change below."),
)
OPERATION_LABELS = {
    "add_column": "Column added",
    "drop_column": "Column dropped",
    "rename_column": "Column renamed",
    "change_type": "Column type changed",
    "truncate": "Table truncated",
    "drop_table": "Table dropped",
    "rename_table": "Table renamed",
}
MODE_CHOICES = (
    ("mirror", "Mirror: the current rows of the source"),
    ("soft_delete", "Soft delete: deleted rows are kept and marked"),
    ("history", "History: every version of a row with its validity"),
    ("changelog", "Changelog: one row per change"),
)
AT_ONCE = "Takes effect immediately."
NEXT_SLICE = "Takes effect within a minute, without a gap."
NEXT_CHUNK = "Takes effect at the next chunk of each reader."
NEXT_LOAD = "Takes effect for tables that are loaded later."


@dataclass(frozen=True)
class Preset:
    """A choice of the DDL policy; `policy` is what it sets for each kind."""

    value: str
    title: str
    text: str
    policy: Mapping[str, str]


def presets() -> list[Preset]:
    """The DDL policy's choices, custom last."""
    return [Preset(value, title, text, DDL_PRESETS.get(value, {})) for value, title, text in PRESETS]


class NameForm(forms.Form):
    """A replicator's name, unique."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        help_text="Used in the UI and the API. It cannot be changed later.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Enter a name for the replicator."},
    )

    def clean_name(self) -> str:
        """Names are unique."""
        name: str = self.cleaned_data["name"].strip()
        if Replicator.objects.filter(name=name).exists():
            message = f"There is already a replicator named {name}. Choose another name."
            raise forms.ValidationError(message)
        return name


class TargetSettingsForm(forms.Form):
    """What can be changed of a replicator's target; `effects` and `fixed` say the rest."""

    def __init__(self, data: QueryDict | None = None, *, replicator: Replicator) -> None:
        """Empty, and so not to be shown, where nothing can be changed."""
        initial = {name: value for name, value in replicator.target.items() if value != ""}
        super().__init__(data, initial=initial, auto_id="id_target_%s")
        self.kind = kind_of(replicator)
        for field in self.kind.form:
            if field.name in self.kind.effects:
                self.fields[field.name] = form_field(field, stored=False)
        self.replicator = replicator

    @property
    def lines(self) -> list[tuple[forms.BoundField, str]]:
        """Each with when a change of it takes effect."""
        return [(self[name], self.kind.effects[name]) for name in self.fields]

    @property
    def own(self) -> list[tuple[str, str]]:
        """Label and value in words of all that the replicator sets."""
        found = []
        for field in self.kind.form:
            value = str(self.replicator.target.get(field.name) or field.default)
            found.append((field.label, dict(field.choices).get(value, value) or "–"))
        return found

    @property
    def fixed(self) -> list[tuple[str, str, str]]:
        """Label, value in words, and why it cannot be changed."""
        found = []
        for field in self.kind.form:
            if field.name in self.kind.fixed:
                value = str(self.replicator.target.get(field.name) or field.default)
                found.append((field.label, dict(field.choices).get(value, value), self.kind.fixed[field.name]))
        return found

    @property
    def changes(self) -> dict[str, Any]:
        """By name; of a valid form."""
        return {name: "" if value is None else value for name, value in self.cleaned_data.items()}


class OptionsForm(forms.Form):
    """Every option of a replicator; `options` gives the validated value back."""

    slo_percent = forms.FloatField(
        label="Percent of changes",
        min_value=0.1,
        max_value=100,
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    slo_minutes = forms.FloatField(
        label="Minutes", min_value=0.05, max_value=1440, widget=forms.NumberInput(attrs=NUMBER | {"step": "any"})
    )
    retry_minutes = forms.FloatField(
        label="Retry failures for (minutes)",
        min_value=0,
        max_value=10080,
        help_text="After that, the failing table or replicator stops.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    initial_snapshot = forms.BooleanField(required=False, label="Initial snapshot")
    on_table_failure = forms.ChoiceField(
        label="When a table fails permanently",
        choices=(("continue", "The other tables continue"), ("stop", "The whole replicator stops")),
        widget=forms.Select(attrs={"class": "select"}),
    )
    on_log_lost = forms.ChoiceField(
        label="When the source no longer has the log",
        choices=(
            ("stop", "Stop and wait for a restart from scratch"),
            ("start_anew", "Restart from scratch: resnapshot all tables"),
        ),
        help_text="The source purged it, or it exceeded the limit of the connection.",
        widget=forms.Select(attrs={"class": "select"}),
    )
    on_decode_error = forms.ChoiceField(
        label="When a change cannot be decoded",
        choices=(("stop", "Stop the table"), ("dead_letter", "Store it as a dead-letter row and continue")),
        help_text=(
            "Dead-letter rows are missing in the target. They are stored with their bytes until they are replayed or"
            " discarded."
        ),
        widget=forms.Select(attrs={"class": "select"}),
    )
    retention_warn_percent = forms.FloatField(
        label="Warn at log retention of (%)",
        min_value=1,
        max_value=100,
        help_text="Share of the log that the source may retain for this replicator.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    retention_steps = forms.CharField(
        label="Snapshot retention of target tables",
        required=False,
        max_length=200,
        help_text=(
            "For example 10m/1s 2h/1m 7d/1h: all for 10 minutes, one per minute for 2 hours, one per hour for 7 days."
            " Empty: the default of the installation."
        ),
        widget=forms.TextInput(attrs={"class": "input"}),
    )
    deletion_grace_hours = forms.FloatField(
        label="Delete unreferenced files after (hours)",
        required=False,
        min_value=0,
        max_value=MAX_GRACE_HOURS,
        help_text="Queries that run longer may fail. Empty: the default of the installation.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    mode = forms.ChoiceField(
        label="Write mode",
        choices=MODE_CHOICES,
        help_text="Default for tables without their own mode. Soft delete and history require a key.",
        widget=forms.Select(attrs={"class": "select"}),
    )
    snapshot_parallel = forms.IntegerField(
        label="Snapshot readers",
        min_value=1,
        max_value=16,
        help_text="Connections that read existing rows at the same time.",
        widget=forms.NumberInput(attrs=NUMBER),
    )
    snapshot_chunk_seconds = forms.FloatField(
        label="Target chunk duration (seconds)",
        min_value=0.05,
        max_value=60,
        help_text="Target duration of one snapshot SELECT; determines the rows per chunk.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    snapshot_chunk_rows = forms.IntegerField(
        label="Maximum rows per chunk",
        min_value=1,
        max_value=MAX_ROWS,
        widget=forms.NumberInput(attrs=NUMBER),
    )
    snapshot_delay_seconds = forms.FloatField(
        label="Wait between chunks (seconds)",
        min_value=0,
        max_value=3600,
        help_text="Each reader, after each chunk.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    snapshot_most_running = forms.IntegerField(
        label="Throttle above active queries",
        min_value=0,
        max_value=1_000_000,
        help_text="Counted on the source, including snapshot readers. 0: never throttle.",
        widget=forms.NumberInput(attrs=NUMBER),
    )
    snapshot_most_lag_seconds = forms.FloatField(
        label="Throttle above replica lag (seconds)",
        min_value=0,
        max_value=86_400,
        help_text="Only where the source reports the lag of its replicas (Postgres). 0: never throttle.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    signal_table = forms.CharField(
        label="Signalling table",
        required=False,
        max_length=260,
        help_text=(
            "database.table (schema.table) of the source. A row inserted there requests a snapshot, in Debezium’s"
            " format."
        ),
        widget=forms.TextInput(attrs={"class": "input mono", "autocomplete": "off", "spellcheck": "false"}),
    )
    merge_parallel = forms.IntegerField(
        label="Tables merged at a time",
        min_value=1,
        max_value=16,
        help_text="Higher values are faster with many busy tables and use more memory.",
        widget=forms.NumberInput(attrs=NUMBER),
    )
    ddl_preset = forms.ChoiceField(label="Schema changes", choices=[(v, t) for v, t, _ in PRESETS])
    effects = {
        "slo": AT_ONCE,
        "retry_minutes": "Takes effect at the next failure.",
        "initial_snapshot": "Takes effect for tables that are added later.",
        "on_table_failure": "Takes effect at the next failure.",
        "on_log_lost": "Takes effect at the next failure.",
        "on_decode_error": NEXT_SLICE,
        "retention_warn_percent": "Takes effect within a minute.",
        "retention_steps": NEXT_SLICE,
        "deletion_grace_hours": NEXT_SLICE,
        "values": NEXT_LOAD + " Resnapshot a table to apply it to rows already copied.",
        "mode": "Takes effect for tables that are added later. The mode of an existing table is changed in its menu.",
        "snapshot_parallel": NEXT_CHUNK,
        "snapshot_chunk_seconds": "Takes effect for chunks that are planned later.",
        "snapshot_chunk_rows": "Takes effect for chunks that are planned later.",
        "snapshot_delay_seconds": NEXT_CHUNK,
        "snapshot_most_running": NEXT_CHUNK,
        "snapshot_most_lag_seconds": NEXT_CHUNK,
        "signal_table": "Takes effect within seconds, for rows inserted afterwards.",
        "merge_parallel": NEXT_SLICE,
        "ddl": "Takes effect at the next schema change.",
    }

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        options: ReplicatorOptions,
        values_of: Sequence[FormField] = (),
        modes: Collection[Mode] = tuple(Mode),
    ) -> None:
        """Starts from `options`; adds one choice per kind of DDL, and those of how the source's values are read.

        modes: those of the target's kind; a kind that has none keeps every change.
        """
        values = options.to_dict()
        values = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in values.items()}
        values["ddl_preset"] = options.ddl_preset
        values |= {f"ddl_{operation}": action for operation, action in options.ddl_policy.items()}
        super().__init__(data, initial=values)
        self.base = options
        mode = self.fields["mode"]
        assert isinstance(mode, forms.ChoiceField)
        mode.choices = [(value, title) for value, title in MODE_CHOICES if value in modes]
        if not modes:
            del self.fields["mode"]
        self._values_of = [field.name for field in values_of]
        self.fields |= {field.name: form_field(field, stored=False) for field in values_of}
        for operation in DDL_OPERATIONS:
            allowed = [action for action in ACTIONS if action != "ignore" or operation in IGNORABLE]
            self.fields[f"ddl_{operation}"] = forms.ChoiceField(
                label=OPERATION_LABELS[operation],
                required=False,
                choices=[(action, ACTIONS[action]) for action in allowed],
                widget=forms.Select(attrs={"class": "select input-small", "data-ddl": operation}),
            )
        self.presets = presets()

    @property
    def ddl_fields(self) -> list[forms.BoundField]:
        """One per kind of change."""
        return [self[f"ddl_{operation}"] for operation in DDL_OPERATIONS]

    @property
    def value_fields(self) -> list[forms.BoundField]:
        """How values are read that the target has none for, where the source has such."""
        return [self[name] for name in self._values_of]

    @property
    def preset(self) -> str:
        """The preset that is chosen now."""
        return str(self["ddl_preset"].value())

    def clean(self) -> dict[str, Any]:
        """The engine's own validation has the last word."""
        data = super().clean() or self.cleaned_data
        preset = data.get("ddl_preset", CUSTOM)
        policy = DDL_PRESETS.get(preset) or {
            operation: data.get(f"ddl_{operation}") or "apply" for operation in DDL_OPERATIONS
        }
        plain = {name: data[name] for name in self.base.to_dict() if name in data}
        try:
            self.options = self.base.changed(plain | {"ddl_policy": policy})
        except ConfigurationError as error:
            if not self.errors:
                raise forms.ValidationError(error.message) from None
            return data
        if self.options.slo_minutes != self.base.slo_minutes:
            try:
                check_seconds(self.options.slo_minutes * 60)
            except ConfigurationError as error:
                self.add_error("slo_minutes", f"{error.message} {error.remedy}")
        return data
