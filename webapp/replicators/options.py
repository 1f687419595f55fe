"""A replicator's options: one frozen value, validated, stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, parse_name
from replicator.model.mode import Mode
from replicator.model.retention import GRACE_HOURS, STEPS, Retention
from replicator.snapshot.sizing import MAX_ROWS, TARGET_SECONDS
from replicator.snapshot.throttle import Pace
from replicator.state.journal import DDL_OPERATIONS, DdlAction
from replicator.telemetry.lags import exact_seconds, nearest_seconds

MAX_NAME_LENGTH = 128
IGNORABLE = frozenset({"drop_column", "truncate", "drop_table"})
CHOICES: Mapping[str, tuple[str, ...]] = {
    "zero_dates": ("null", "text", "fail"),
    "on_table_failure": ("continue", "stop"),
    "on_log_lost": ("stop", "start_anew"),
    "on_decode_error": ("stop", "dead_letter"),
    "mode": tuple(mode.value for mode in Mode),
}


PACE = frozenset(
    {
        "snapshot_parallel",
        "snapshot_chunk_seconds",
        "snapshot_chunk_rows",
        "snapshot_delay_seconds",
        "snapshot_most_running",
    }
    | {"snapshot_most_lag_seconds"}
)


def _policy(default: str, **others: str) -> dict[str, str]:
    return {operation: others.get(operation, default) for operation in DDL_OPERATIONS}


DDL_PRESETS: dict[str, dict[str, str]] = {
    "mirror": _policy("apply"),
    "keep": _policy("apply", drop_column="ignore", truncate="ignore", drop_table="ignore"),
    "strict": _policy("stop"),
}
# Deprecated: names and values that were released, and what they are called now.  Removed with the next version.
OLD_OPTIONS = {"on_poison": "on_decode_error"}
OLD_VALUES = {("on_decode_error", "park"): "dead_letter"}
MAX_SLO_SECONDS = 86_400  # seconds of an objective


@dataclass(frozen=True)
class ReplicatorOptions:
    """What the user may decide.

    slo_percent, slo_minutes   the objective: X % of changes are queryable within Y minutes
    retry_minutes              how long failures are retried before the replicator (or table) stops
    ddl_policy                 operation → apply, ignore (only `IGNORABLE`) or stop
    zero_dates                 null, text or fail
    on_table_failure           continue (the others go on) or stop (the replicator stops)
    on_log_lost                the source no longer has the log to go on from: stop, or start_anew (all tables are
                               resnapshotted)
    on_decode_error            a row of the log cannot be decoded: stop (its table), or dead_letter (the row is stored
                               as its bytes; the others go on)
    mode                       of tables without their own: mirror, soft_delete, history or changelog
    retention_steps            which snapshots of the target's tables stay: `10m/1s 2h/1m 7d/1h` (empty: the
                               installation's)
    deletion_grace_hours       how long files of target tables stay that no snapshot needs (None: the installation's)
    retention_warn_percent     warn when this share of the log that the source may keep for the replicator is kept
    snapshot_parallel          readers of one snapshot; merge_parallel: tables merged at a time
    snapshot_chunk_seconds     what a chunk may take; its rows follow from that.  snapshot_chunk_rows: and has at most
    snapshot_delay_seconds     how long a reader waits between two chunks
    snapshot_most_running      no chunk is begun while more statements than this run on the source (0: no limit)
    snapshot_most_lag_seconds  no chunk is begun while a replica of the source is that far behind (0: no limit)
    signal_table               database.table of the source whose rows ask for snapshots (empty: none)
    """

    slo_percent: float = 99.0
    slo_minutes: float = 5
    retry_minutes: float = 30
    initial_snapshot: bool = True
    ddl_policy: Mapping[str, str] = field(default_factory=lambda: dict(DDL_PRESETS["mirror"]))
    zero_dates: str = "null"
    on_table_failure: str = "continue"
    on_log_lost: str = "stop"
    on_decode_error: str = "stop"
    mode: str = "mirror"
    retention_warn_percent: float = 80
    retention_steps: str = ""
    deletion_grace_hours: float | None = None
    snapshot_parallel: int = 2
    merge_parallel: int = 3
    snapshot_paused: bool = False
    snapshot_chunk_seconds: float = TARGET_SECONDS
    snapshot_chunk_rows: int = MAX_ROWS
    snapshot_delay_seconds: float = 0
    snapshot_most_running: int = 0
    snapshot_most_lag_seconds: float = 0
    signal_table: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    def changed(self, given: Mapping[str, Any]) -> ReplicatorOptions:
        """With the options that are given, the others as they are.  ConfigurationError as `from_dict`."""
        return ReplicatorOptions.from_dict({**self.to_dict(), **_renamed(given)})

    @property
    def ddl_preset(self) -> str:
        """Name of the preset that the policy equals; `custom` where there is none."""
        return next((name for name, policy in DDL_PRESETS.items() if policy == dict(self.ddl_policy)), "custom")

    @property
    def signals(self) -> TableId | None:
        """The signalling table."""
        found = parse_name(self.signal_table)
        return found[0] if found else None

    @property
    def pace(self) -> Pace:
        """How snapshots are read."""
        return Pace(
            parallel=self.snapshot_parallel,
            chunk_seconds=self.snapshot_chunk_seconds,
            chunk_rows=self.snapshot_chunk_rows,
            delay_seconds=self.snapshot_delay_seconds,
            most_running=self.snapshot_most_running,
            most_lag_seconds=self.snapshot_most_lag_seconds,
        )

    def retention(self, steps: str, grace_hours: float) -> Retention:
        """Of its target tables, where the installation has these."""
        return Retention.parse(self.retention_steps or steps, _or(self.deletion_grace_hours, grace_hours))

    @property
    def ddl_actions(self) -> dict[str, DdlAction]:
        return {operation: DdlAction(action) for operation, action in self.ddl_policy.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReplicatorOptions:
        """ConfigurationError that names the option; `ddl_policy` may be a preset's name or a partial mapping."""
        known = {item.name for item in fields(cls)}
        if not isinstance(data, Mapping):
            message = f"options must be a mapping, not {data!r}."
            raise ConfigurationError(message)
        values = _renamed(data)
        if unknown := sorted(map(str, set(values) - known)):
            message = f"Unknown option {unknown[0]!r}; known options: {', '.join(sorted(known))}."
            raise ConfigurationError(message)
        if "ddl_policy" in values:
            values["ddl_policy"] = parse_policy(values["ddl_policy"])
        options = cls(**values)
        _validate(options)
        return options


def _renamed(data: Mapping[str, Any]) -> dict[str, Any]:
    """With the present names in place of deprecated ones, which do not replace a present one."""
    current = {OLD_OPTIONS[name]: value for name, value in data.items() if name in OLD_OPTIONS}
    current |= {name: value for name, value in data.items() if name not in OLD_OPTIONS}
    return {name: OLD_VALUES.get((name, str(value)), value) for name, value in current.items()}


def with_old_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the API shows them: deprecated names and values beside the present ones."""
    old_values = {new: value for (_, value), new in OLD_VALUES.items()}
    old = {name: options[new] for name, new in OLD_OPTIONS.items()}
    return {**options, **{name: old_values.get(value, value) for name, value in old.items()}}


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def parse_policy(value: str | Mapping[str, str]) -> dict[str, str]:
    """A preset's name, or a mapping that overrides the preset `mirror`."""
    if isinstance(value, str):
        if value not in DDL_PRESETS:
            message = f"ddl_policy: unknown preset {value!r}; there are: {', '.join(DDL_PRESETS)}."
            raise ConfigurationError(message)
        return dict(DDL_PRESETS[value])
    if not isinstance(value, Mapping):
        message = f"ddl_policy must be a preset's name or a mapping, not {value!r}."
        raise ConfigurationError(message)
    if unknown := sorted(map(str, set(value) - set(DDL_OPERATIONS))):
        message = f"ddl_policy: unknown operation {unknown[0]!r}; there are: {', '.join(DDL_OPERATIONS)}."
        raise ConfigurationError(message)
    for operation, action in value.items():
        allowed = {"apply", "stop"} | ({"ignore"} if operation in IGNORABLE else set())
        if str(action) not in allowed:
            message = f"ddl_policy.{operation} must be one of {', '.join(sorted(allowed))}, not {action!r}."
            raise ConfigurationError(message)
    return DDL_PRESETS["mirror"] | dict(value)


def _number(options: ReplicatorOptions, name: str, low: float, high: float) -> None:
    value = getattr(options, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        message = f"{name} must be a number between {low:g} and {high:g}, not {value!r}."
        raise ConfigurationError(message)


def _validate(options: ReplicatorOptions) -> None:
    _number(options, "slo_percent", 0.1, 100)
    _number(options, "slo_minutes", 0.05, 1440)
    _number(options, "retry_minutes", 0, 10080)
    _number(options, "retention_warn_percent", 1, 100)
    Retention.parse(options.retention_steps or STEPS, _or(options.deletion_grace_hours, GRACE_HOURS))
    _number(options, "snapshot_parallel", 1, 16)
    _number(options, "merge_parallel", 1, 16)
    _number(options, "snapshot_chunk_seconds", 0.05, 60)
    _number(options, "snapshot_chunk_rows", 1, MAX_ROWS)
    _number(options, "snapshot_delay_seconds", 0, 3600)
    _number(options, "snapshot_most_running", 0, 1_000_000)
    _number(options, "snapshot_most_lag_seconds", 0, 86_400)
    table = options.signal_table
    if not isinstance(table, str) or "\0" in table or (table and not (options.signals and _fits(options.signals))):
        message = f"signal_table must be database.table, not {options.signal_table!r}."
        raise ConfigurationError(message)
    for name in ("snapshot_parallel", "merge_parallel", "snapshot_chunk_rows", "snapshot_most_running"):
        if not isinstance(getattr(options, name), int):
            message = f"{name} must be a whole number."
            raise ConfigurationError(message)
    for name in ("initial_snapshot", "snapshot_paused"):
        if not isinstance(getattr(options, name), bool):
            message = f"{name} must be true or false."
            raise ConfigurationError(message)
    for name, allowed in CHOICES.items():
        if getattr(options, name) not in allowed:
            message = f"{name} must be one of {', '.join(allowed)}, not {getattr(options, name)!r}."
            raise ConfigurationError(message)


def _fits(table: TableId) -> bool:
    return max(len(table.database), len(table.name)) <= MAX_NAME_LENGTH


def check_seconds(seconds: float) -> None:
    """ConfigurationError for an objective whose keeping could not be counted exactly; it names those beside it."""
    if not 0 < seconds <= MAX_SLO_SECONDS:  # NaN is refused, too
        raise ConfigurationError("The SLO must be more than 0 and at most 24 hours.")
    if exact_seconds(seconds):
        return
    below, above = nearest_seconds(seconds)
    raise ConfigurationError(
        f"{seconds:g} seconds is not a valid SLO: its attainment could not be measured exactly.",
        remedy=(
            f"Choose {below:g} or {above:g} seconds: whole seconds up to 2 minutes, then steps of 5 seconds up to 10"
            " minutes, of 30 seconds up to an hour, and whole minutes up to 24 hours."
        ),
    )
