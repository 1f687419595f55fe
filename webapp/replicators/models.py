"""Replicators, their tables, and the journal: the only truth about progress (invariant 2)."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.snapshot.sizing import START_ROWS
from replicator.state.tables import TableState
from webapp.connections.models import Connection
from webapp.replicators.options import ReplicatorOptions

TABLE_STATES = [(state.value, state.value) for state in TableState]


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

    target: {"kind": "iceberg", "namespace_prefix": ""}.  plan_version changes whenever capture must read its plan again.
    log_held_…: what the source kept of its log at log_held_at (None: not a source that does): bytes, those at which it is lost,
    its own word for how safe that is, and what there is to warn of.
    """

    name = models.CharField(max_length=100, unique=True)
    uid = models.CharField(max_length=12, unique=True, default=new_uid, editable=False)
    connection = models.ForeignKey(Connection, on_delete=models.PROTECT, related_name="replicators")
    desired = models.CharField(max_length=10, choices=Desired.choices, default=Desired.STOPPED)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.CREATED)
    target = models.JSONField(default=dict)
    options = models.JSONField(default=dict)
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
    """One line of the selection.  An empty `table` is the whole database, with the tables it will get later.

    discovered: its tables that existed when capture first saw the line have their rows.
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="selection")
    database = models.CharField(max_length=255)
    table = models.CharField(max_length=255, blank=True)
    excluded = models.BooleanField(default=False)
    excluded_columns = models.JSONField(default=list)
    discovered = models.BooleanField(default=False)

    class Meta:
        ordering = ("database", "table")
        constraints = (models.UniqueConstraint(fields=("replicator", "database", "table"), name="selected_once"),)

    def __str__(self) -> str:
        return f"{self.database}.{self.table or '*'}"


class ReplicatorTable(models.Model):
    """One table of a replicator: state, marks, totals, last error.

    applied, loaded    copies of the target's own position (invariant 3), -1 for nothing
    load, made_load    the generation wanted, and the one that the target was last seen to have
    load_complete      the generation's initial load is over
    live_from          log changes up to this sequence number are covered by the snapshot
    lag_ms             source commit → queryable, of the newest change of the last merge
    """

    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="tables")
    database = models.CharField(max_length=255)
    name = models.CharField(max_length=255)
    target_namespace = models.CharField(max_length=255)
    target_name = models.CharField(max_length=255)
    state = models.CharField(max_length=10, choices=TABLE_STATES, default=TableState.WAITING.value)
    tracked = models.BooleanField(default=False)
    load = models.CharField(max_length=32, blank=True)
    made_load = models.CharField(max_length=32, blank=True)
    load_complete = models.BooleanField(default=False)
    live_from = models.BigIntegerField(default=-1)
    schema_version = models.PositiveIntegerField(null=True, blank=True)
    keyless = models.BooleanField(default=False)
    applied = models.BigIntegerField(default=-1)
    loaded = models.BigIntegerField(default=-1)
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
    zero_dates = models.BigIntegerField(default=0)
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
    def table_state(self) -> TableState:
        return TableState(self.state)


class SchemaVersion(models.Model):
    """Schema history of a table; versions count from 1."""

    table = models.ForeignKey(ReplicatorTable, on_delete=models.CASCADE, related_name="schemas")
    version = models.PositiveIntegerField()
    schema = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    statement = models.TextField(blank=True)
    decision = models.CharField(max_length=10, blank=True)

    class Meta:
        ordering = ("version",)
        constraints = (models.UniqueConstraint(fields=("table", "version"), name="schema_version_once"),)

    def __str__(self) -> str:
        return f"version {self.version}"

    @property
    def parsed(self) -> TableSchema:
        return TableSchema.from_dict(self.schema)


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
        indexes = (models.Index(fields=("table", "last_sequence")), models.Index(fields=("path",)))

    def __str__(self) -> str:
        return self.path


class TableEventRow(models.Model):
    """DDL and engine events between segments; `table` is empty for events of a database.

    database, name: what the table was called when the event happened.
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
    created_at = models.DateTimeField(auto_now_add=True)
    applied_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("sequence",)
        indexes = (models.Index(fields=("table", "sequence")),)

    def __str__(self) -> str:
        return f"{self.kind} at {self.sequence}"


class RunState(models.TextChoices):
    PLANNING = "planning"
    READING = "reading"
    DONE = "done"
    CANCELLED = "cancelled"


class SnapshotRun(models.Model):
    """A copy of the rows that exist now.  `end_key` is fixed at the start; `position` is the last bound planned.

    start_sequence: rows with a smaller sequence number that the run did not touch are swept at its end (reloads).
    """

    table = models.ForeignKey(ReplicatorTable, on_delete=models.CASCADE, related_name="runs")
    reason = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.PLANNING)
    started = models.BooleanField(default=False)
    end_key = models.JSONField(null=True, blank=True)
    position = models.JSONField(null=True, blank=True)
    planned_all = models.BooleanField(default=False)
    chunk_rows = models.PositiveIntegerField(default=START_ROWS)
    start_sequence = models.BigIntegerField(default=-1)
    rows_estimate = models.BigIntegerField(null=True, blank=True)
    rows_read = models.BigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=0)
    first_failure_at = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("table", "state")),)

    def __str__(self) -> str:
        return f"snapshot of {self.table}: {self.state}"

    @property
    def open(self) -> bool:
        return self.state in {RunState.PLANNING, RunState.READING}

    @property
    def fraction(self) -> float | None:
        """0 to 1 by the row estimate; None where there is no estimate."""
        if self.state == RunState.DONE:
            return 1.0
        return min(self.rows_read / self.rows_estimate, 0.99) if self.rows_estimate else None

    @property
    def eta(self) -> datetime | None:
        """When the run ends if it goes on as it did so far."""
        done = self.fraction
        if not self.open or not done or self.started_at is None:
            return None
        now = timezone.now()
        return now + timedelta(seconds=(now - self.started_at).total_seconds() * (1 - done) / done)


class ChunkState(models.TextChoices):
    PLANNED = "planned"
    READING = "reading"
    READ = "read"
    DONE = "done"
    CANCELLED = "cancelled"


class ChunkRow(models.Model):
    """One key range of a run.  `attempt` names the present reading; an older one's results are ignored."""

    run = models.ForeignKey(SnapshotRun, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    lower = models.JSONField(null=True, blank=True)
    upper = models.JSONField(null=True, blank=True)
    keyless = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=ChunkState.choices, default=ChunkState.PLANNED)
    attempt = models.CharField(max_length=32, blank=True)
    owner = models.CharField(max_length=100, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    first_failure_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)
    path = models.CharField(max_length=500, blank=True)
    rows = models.BigIntegerField(default=0)
    size = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    schema = models.JSONField(null=True, blank=True)
    base_sequence = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("run", "number")
        constraints = (models.UniqueConstraint(fields=("run", "number"), name="chunk_once"),)
        indexes = (models.Index(fields=("run", "state")),)

    def __str__(self) -> str:
        return f"chunk {self.number} of run {self.run_id}"


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
