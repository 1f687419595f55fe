"""Replicators, their tables, and the journal: the only truth about progress (invariant 2)."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from replicator.model.identifiers import TableId
from replicator.model.masks import Mask, parse_masks
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.state.tables import TableState
from replicator.targets.base import TargetTable
from replicator.telemetry.differences import Definition
from webapp.connections.models import Connection
from webapp.destinations.models import Destination
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.snapshots import ChunkRow, ChunkState, RunState, Scope, SnapshotRun

__all__ = ["ChunkRow", "ChunkState", "RunState", "Scope", "SnapshotRun"]  # beside what is defined here

TABLE_STATES = [(state.value, state.value) for state in TableState]
MODES = [(mode.value, mode.label) for mode in Mode]


class Desired(models.TextChoices):
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    DELETED = "deleted"


class Status(models.TextChoices):
    """What the replicator really does; written by the workers and the supervisor."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DELETING = "deleting"


class LogConcern(models.TextChoices):
    """What there is to warn of in the log that the source keeps; empty for nothing."""

    LARGE = "large"
    LOST = "lost"


def new_uid() -> str:
    """Tells this replicator from every other, those of other installations included."""
    return uuid.uuid4().hex[:12]


class Replicator(models.Model):
    """Source + table selection + target + policies, and capture's checkpoint.

    target: what the destination's kind lets a replicator set for itself, such as {"namespace_prefix": ""}.
    plan_version changes whenever capture must read its plan again. log_held_…: what the source kept of its log at
    log_held_at (None: not a source that does): bytes, those at which it is lost, its own word for how safe that is, and
    what there is to warn of.
    secrets: sealed (webapp/connections/secrets.py): the salt of its hashes, once a mask needs one.
    snapshot_waits: why no chunk is begun though there is one; empty where nothing waits.
    """

    name = models.CharField(max_length=100, unique=True)
    uid = models.CharField(max_length=12, unique=True, default=new_uid, editable=False)
    connection = models.ForeignKey(Connection, on_delete=models.PROTECT, related_name="replicators")
    destination = models.ForeignKey(Destination, on_delete=models.PROTECT, related_name="replicators")
    desired = models.CharField(max_length=10, choices=Desired.choices, default=Desired.STOPPED)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.CREATED)
    target = models.JSONField(default=dict)
    options = models.JSONField(default=dict)
    secrets = models.TextField(blank=True, editable=False)
    plan_version = models.BigIntegerField(default=1)
    checkpoint_offset = models.JSONField(null=True, blank=True)
    next_sequence = models.BigIntegerField(default=0)
    identity = models.CharField(max_length=200, blank=True)
    source_ts = models.DateTimeField(null=True, blank=True)
    captured_at = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    first_failure_at = models.DateTimeField(null=True, blank=True)
    next_retry_at = models.DateTimeField(null=True, blank=True)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.TextField(blank=True)
    error_remedy = models.TextField(blank=True)
    log_held_bytes = models.BigIntegerField(null=True, blank=True)
    log_held_most = models.BigIntegerField(null=True, blank=True)
    log_held_status = models.CharField(max_length=40, blank=True)
    log_held_at = models.DateTimeField(null=True, blank=True)
    log_concern = models.CharField(max_length=10, blank=True, choices=LogConcern.choices)
    snapshot_waits = models.CharField(max_length=200, blank=True)
    drop_target_on_delete = models.BooleanField(default=False)
    leave_source_on_delete = models.BooleanField(default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def parsed_options(self) -> ReplicatorOptions:
        return ReplicatorOptions.from_dict(self.options)


class TableSelection(models.Model):
    """One line of the selection.

    An empty `table` is the whole database; with `pattern`, `table` stands for all names that it matches.

    new_tables: of these two, tables that come later are taken too; otherwise `found` names those that were there when
    capture looked.

    discovered: its tables that existed when capture first saw the line have their rows.
    mode: of its tables; empty for the replicator's own (a table's line goes before its database's).
    masks: column → `replicator.model.masks.Mask` in JSON; row_filter: as `replicator.model.row_filter` reads it.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="selection")
    database = models.CharField(max_length=255)
    table = models.CharField(max_length=255, blank=True)
    excluded = models.BooleanField(default=False)
    excluded_columns = models.JSONField(default=list)
    mode = models.CharField(max_length=20, blank=True, choices=MODES)
    pattern = models.BooleanField(default=False)
    new_tables = models.BooleanField(default=True)
    found = models.JSONField(default=list, blank=True)
    masks = models.JSONField(default=dict, blank=True)
    row_filter = models.TextField(blank=True, default="")
    discovered = models.BooleanField(default=False)

    class Meta:
        ordering = ("database", "table")
        constraints = (models.UniqueConstraint(fields=("replicator", "database", "table"), name="selected_once"),)

    def __str__(self) -> str:
        return f"{self.database}.{self.table or '*'}"

    @property
    def parsed_masks(self) -> dict[str, Mask]:
        return parse_masks(self.masks)


class ReplicatorTable(models.Model):
    """One table of a replicator: state, marks, totals, last error.

    applied, loaded    copies of the target's own position (invariant 3), -1 for nothing
    own_namespace, own_name   the target name that a user chose; empty: the one that the source's names give
    target_part        `column=value` of a table that shares its target table with others (`TargetTable.part`)
    mode               of the generation wanted: another one makes another generation
                       (`webapp.replicators.services.modes`)
    load, made_load    the generation wanted, and the one that the target was last seen to have
    load_complete      the generation's initial load is over
    collected          the last sequence number of changes that the journal no longer has
    live_from          log changes up to this sequence number are covered by the snapshot
    lag_ms             source commit → queryable, of the newest change of the last merge
    merges, merge_seconds   target commits with rows, and the time they took; only ever grow
    dead_letters       dead-letter rows that are not replayed or discarded yet: the copy is not exact
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="tables")
    database = models.CharField(max_length=255)
    name = models.CharField(max_length=255)
    target_namespace = models.CharField(max_length=255)
    target_name = models.CharField(max_length=255)
    target_part = models.CharField(max_length=400, blank=True, default="", db_default="")
    state = models.CharField(max_length=10, choices=TABLE_STATES, default=TableState.WAITING.value)
    tracked = models.BooleanField(default=False)
    mode = models.CharField(max_length=20, choices=MODES, default=Mode.MIRROR.value)
    load = models.CharField(max_length=32, blank=True)
    own_namespace = models.CharField(max_length=255, blank=True)
    own_name = models.CharField(max_length=255, blank=True)
    made_load = models.CharField(max_length=32, blank=True)
    load_complete = models.BooleanField(default=False)
    live_from = models.BigIntegerField(default=-1)
    schema_version = models.PositiveIntegerField(null=True, blank=True)
    keyless = models.BooleanField(default=False)
    applied = models.BigIntegerField(default=-1)
    loaded = models.BigIntegerField(default=-1)
    collected = models.BigIntegerField(default=-1, db_default=-1)
    last_sequence = models.BigIntegerField(default=-1)
    last_chunk_sequence = models.BigIntegerField(default=-1)
    rows_estimate = models.BigIntegerField(null=True, blank=True)
    rows_inserted = models.BigIntegerField(default=0)
    rows_updated = models.BigIntegerField(default=0)
    rows_deleted = models.BigIntegerField(default=0)
    rows_read = models.BigIntegerField(default=0)
    applied_commit_ts = models.DateTimeField(null=True, blank=True)
    queryable_at = models.DateTimeField(null=True, blank=True)
    lag_ms = models.BigIntegerField(null=True, blank=True)
    merges = models.BigIntegerField(default=0)
    merge_seconds = models.FloatField(default=0)
    zero_dates = models.BigIntegerField(default=0)
    dead_letters = models.PositiveIntegerField(default=0, db_default=0)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.TextField(blank=True)
    error_remedy = models.TextField(blank=True)
    needs_reload = models.BooleanField(default=False)
    reload_again = models.CharField(max_length=200, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    first_failure_at = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("database", "name")
        constraints = (models.UniqueConstraint(fields=("replicator", "database", "name"), name="table_once"),)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def table_id(self) -> TableId:
        return TableId(self.database, self.name)

    @property
    def target(self) -> TargetTable:
        """Its copy."""
        return TargetTable(self.target_namespace, self.target_name, self.target_part)

    @property
    def table_state(self) -> TableState:
        return TableState(self.state)


class SchemaVersion(models.Model):
    """Schema history of a table; versions count from 1.

    change: what made the version, kept for as long as the version is (its table event is not): `kind` (the statement's,
    empty for none), `renamed` {old: new}, `keep_dropped`, `reload`, `decision` in words, `left_out` (columns that the
    selection excluded then).
    """

    table = models.ForeignKey(ReplicatorTable, on_delete=models.CASCADE, related_name="schemas")
    version = models.PositiveIntegerField()
    schema = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    statement = models.TextField(blank=True)
    decision = models.CharField(max_length=10, blank=True)
    change = models.JSONField(default=dict)

    class Meta:
        ordering = ("version",)
        constraints = (models.UniqueConstraint(fields=("table", "version"), name="schema_version_once"),)

    def __str__(self) -> str:
        return f"version {self.version}"

    @property
    def parsed(self) -> TableSchema:
        return TableSchema.from_dict(self.schema)

    @property
    def definition(self) -> Definition:
        """With what made it; versions from before that was kept know only what the schema itself tells."""
        made = self.change
        return Definition(
            version=self.version,
            schema=self.parsed,
            renamed=made.get("renamed", {}) if made else None,
            keep_dropped=bool(made.get("keep_dropped")),
            created=made.get("kind") == "CREATE_TABLE" and self.version > 1,
            left_out=frozenset(made.get("left_out", ())),
        )


class SegmentRow(models.Model):
    """An immutable staged file (`replicator.state.journal.Segment`)."""

    table = models.ForeignKey(ReplicatorTable, on_delete=models.CASCADE, related_name="segments")
    kind = models.CharField(max_length=5)
    schema_version = models.PositiveIntegerField()
    first_sequence = models.BigIntegerField()
    last_sequence = models.BigIntegerField()
    path = models.CharField(max_length=500)
    rows = models.BigIntegerField()
    size = models.BigIntegerField()
    inserts = models.BigIntegerField(default=0)
    updates = models.BigIntegerField(default=0)
    deletes = models.BigIntegerField(default=0)
    reads = models.BigIntegerField(default=0)
    first_commit_ts = models.DateTimeField(null=True, blank=True)
    last_commit_ts = models.DateTimeField(null=True, blank=True)
    bare = models.BooleanField(default=False)
    without = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    applied_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("first_sequence",)
        indexes = (
            models.Index(fields=("table", "last_sequence")),
            models.Index(fields=("path",)),
            models.Index(fields=("table",), name="segment_waiting", condition=models.Q(applied_at=None)),
        )

    def __str__(self) -> str:
        return self.path


class TableEventRow(models.Model):
    """DDL and engine events between segments; `table` is empty for events of a database.

    database, name: what the table was called when the event happened.
    token: of this row and no other, as a segment's path is: a journal that was restored gives its numbers again; empty
    in old rows.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="events")
    table = models.ForeignKey(ReplicatorTable, null=True, blank=True, on_delete=models.CASCADE, related_name="events")
    database = models.CharField(max_length=255)
    name = models.CharField(max_length=255, blank=True)
    sequence = models.BigIntegerField()
    kind = models.CharField(max_length=20)
    schema_version = models.PositiveIntegerField(null=True, blank=True)
    detail = models.JSONField(default=dict)
    commit_ts = models.DateTimeField(null=True, blank=True)
    token = models.CharField(max_length=32, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    applied_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("sequence",)
        indexes = (models.Index(fields=("table", "sequence")),)

    def __str__(self) -> str:
        return f"{self.kind} at {self.sequence}"


class Draft(models.Model):
    """The wizard's state, so that leaving and coming back keeps it.  Holds no secret."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="drafts")
    name = models.CharField(max_length=100, blank=True)
    step = models.CharField(max_length=30, default="source")
    data = models.JSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-updated_at",)

    def __str__(self) -> str:
        return self.name or "new replicator"
