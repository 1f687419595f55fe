"""Forms of the wizard and of a replicator's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from replicator.errors import ConfigurationError
from webapp.replicators.models import Replicator
from webapp.replicators.options import DDL_OPERATIONS, DDL_PRESETS, IGNORABLE, ReplicatorOptions

CUSTOM = "custom"
NAMESPACE = re.compile(r"[A-Za-z0-9_]*")
NUMBER = {"class": "input input-number"}
ACTIONS = {"apply": "Apply", "ignore": "Leave the target as it is", "stop": "Stop the table"}
PRESETS = (
    ("mirror", "Mirror", "The target follows every change of the source’s tables."),
    ("keep", "Keep data", "Nothing is removed: dropped columns and tables and truncated rows stay in the target."),
    ("strict", "Strict", "A table stops at any change of its definition, until somebody decides."),
    (CUSTOM, "Custom", "Decide for each kind of change below."),
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
AT_ONCE = "Takes effect at once."
NEXT_SLICE = "Takes effect within a minute, without a gap."
NEXT_LOAD = "Takes effect for tables that are loaded from now on."


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
        help_text="How people and programs will call it. It cannot be changed later.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Give the replicator a name."},
    )

    def clean_name(self) -> str:
        """Names are unique."""
        name: str = self.cleaned_data["name"].strip()
        if Replicator.objects.filter(name=name).exists():
            message = f"There is already a replicator named {name}. Choose another name."
            raise forms.ValidationError(message)
        return name


class TargetForm(forms.Form):
    """Where the copy goes."""

    namespace_prefix = forms.CharField(
        label="Namespace prefix",
        required=False,
        max_length=60,
        help_text="Put before each database’s name, so that several sources can share a catalog. Letters, digits, _.",
        widget=forms.TextInput(attrs={"class": "input mono", "autocomplete": "off", "spellcheck": "false"}),
    )

    def clean_namespace_prefix(self) -> str:
        """Letters, digits and underscores."""
        prefix: str = self.cleaned_data["namespace_prefix"]
        if not NAMESPACE.fullmatch(prefix):
            message = "Only letters, digits and _ can stand in the prefix."
            raise forms.ValidationError(message)
        return prefix


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
        help_text="After that, what fails stops and says why.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    initial_snapshot = forms.BooleanField(required=False, label="Copy the rows that exist now")
    on_table_failure = forms.ChoiceField(
        label="When a table fails for good",
        choices=(("continue", "The other tables go on"), ("stop", "The whole replicator stops")),
        widget=forms.Select(attrs={"class": "select"}),
    )
    on_log_lost = forms.ChoiceField(
        label="When the source no longer has the log",
        choices=(("stop", "Stop, until somebody starts it anew"), ("start_anew", "Start anew: read all tables again")),
        help_text="The source purged it, or the limit of the connection was passed.",
        widget=forms.Select(attrs={"class": "select"}),
    )
    retention_warn_percent = forms.FloatField(
        label="Warn about log kept at (%)",
        min_value=1,
        max_value=100,
        help_text="Of what the source may keep of its log for this replicator.",
        widget=forms.NumberInput(attrs=NUMBER | {"step": "any"}),
    )
    zero_dates = forms.ChoiceField(
        label="Dates like 0000-00-00 or infinity",
        choices=(
            ("null", "Become null, and are counted"),
            ("text", "Kept exactly: the column becomes text"),
            ("fail", "Stop the table"),
        ),
        widget=forms.Select(attrs={"class": "select"}),
    )
    snapshot_parallel = forms.IntegerField(
        label="Snapshot readers",
        min_value=1,
        max_value=16,
        help_text="Connections that read existing rows at the same time.",
        widget=forms.NumberInput(attrs=NUMBER),
    )
    merge_parallel = forms.IntegerField(
        label="Tables merged at a time",
        min_value=1,
        max_value=16,
        help_text="More is faster with many busy tables, and takes more memory.",
        widget=forms.NumberInput(attrs=NUMBER),
    )
    ddl_preset = forms.ChoiceField(label="Changes of table definitions", choices=[(v, t) for v, t, _ in PRESETS])
    effects = {
        "slo": AT_ONCE,
        "retry_minutes": "Takes effect at the next failure.",
        "initial_snapshot": "Takes effect for tables that are added from now on.",
        "on_table_failure": "Takes effect at the next failure.",
        "on_log_lost": "Takes effect at the next failure.",
        "retention_warn_percent": "Takes effect within a minute.",
        "zero_dates": NEXT_LOAD + " Resnapshot a table to apply it to rows already copied.",
        "snapshot_parallel": NEXT_SLICE,
        "merge_parallel": NEXT_SLICE,
        "ddl": "Takes effect at the next change of a definition.",
    }

    def __init__(self, *args: Any, options: ReplicatorOptions, **kwargs: Any) -> None:
        """Starts from `options`; adds one choice per kind of DDL."""
        values = options.to_dict()
        values = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in values.items()}
        values["ddl_preset"] = options.ddl_preset
        values |= {f"ddl_{operation}": action for operation, action in options.ddl_policy.items()}
        super().__init__(*args, initial=values, **kwargs)
        self.base = options
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
            self.options = ReplicatorOptions.from_dict(self.base.to_dict() | plain | {"ddl_policy": policy})
        except ConfigurationError as error:
            if not self.errors:
                raise forms.ValidationError(error.message) from None
        return data
