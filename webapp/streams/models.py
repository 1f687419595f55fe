"""Streams, their tables, and the groups of clients that read them."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from replicator.streams.position import StreamPosition
from webapp.replicators.models import Replicator, ReplicatorTable, SnapshotRun, new_uid


class Stream(models.Model):
    """A pull feed of a replicator's changes, in `shards` that never change.

    every_table  carries the tables that the replicator will get later, too; StreamTable has the exceptions
    begins       the sequence number at which it was made
    oldest       everything from this sequence number on is there; grows when segments of its tables are deleted
    retention_hours   for so long segments are kept for it, while it is enabled
    """

    name = models.CharField(max_length=63, unique=True)
    uid = models.CharField(max_length=12, unique=True, default=new_uid, editable=False)
    replicator = models.ForeignKey(Replicator, on_delete=models.CASCADE, related_name="streams")
    shards = models.PositiveIntegerField(default=1)
    every_table = models.BooleanField(default=True)
    enabled = models.BooleanField(default=True)
    retention_hours = models.FloatField(default=24)
    begins = models.BigIntegerField(default=0)
    oldest = models.BigIntegerField(default=0)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class StreamTable(models.Model):
    """A table that was named: in the stream from the sequence number `since` on, or not in it.

    It stays so under another name.
    """

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="named")
    table = models.ForeignKey(ReplicatorTable, on_delete=models.CASCADE, related_name="+")
    included = models.BooleanField()
    since = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("stream", "table"), name="stream_table_once"),)

    def __str__(self) -> str:
        return f"{self.table} {'in' if self.included else 'not in'} {self.stream}"


class StreamGroup(models.Model):
    """Clients that read a stream together: its checkpoints are theirs."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(max_length=63)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("stream", "name"), name="stream_group_once"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.stream}"


class GroupMember(models.Model):
    """A client of a group; it is gone when nothing was heard of it for `lease_seconds`."""

    group = models.ForeignKey(StreamGroup, on_delete=models.CASCADE, related_name="members")
    uid = models.CharField(max_length=12, unique=True, default=new_uid, editable=False)
    name = models.CharField(max_length=100, blank=True)
    lease_seconds = models.FloatField()
    expires_at = models.DateTimeField()
    joined_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return self.name or self.uid


class StreamCheckpoint(models.Model):
    """How far a group has read a shard, and whose the shard is.

    revoked: its owner is to give it up, so that another gets it: it keeps it until it says that it has.
    """

    group = models.ForeignKey(StreamGroup, on_delete=models.CASCADE, related_name="checkpoints")
    shard = models.PositiveIntegerField()
    sequence = models.BigIntegerField()
    offset = models.BigIntegerField(default=0)
    acked_at = models.DateTimeField(null=True, blank=True)
    owner = models.ForeignKey(GroupMember, null=True, blank=True, on_delete=models.SET_NULL, related_name="checkpoints")
    revoked = models.BooleanField(default=False)

    class Meta:
        ordering = ("shard",)
        constraints = (models.UniqueConstraint(fields=("group", "shard"), name="group_shard_once"),)

    def __str__(self) -> str:
        return f"shard {self.shard} of {self.group}"

    @property
    def position(self) -> StreamPosition:
        return StreamPosition(self.sequence, self.offset)


class KeylessPlace(models.Model):
    """Where a load of a table without key lies among the changes, for all who read it (`feed`)."""

    run = models.OneToOneField(SnapshotRun, on_delete=models.CASCADE, related_name="+")
    place = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.run} at {self.place}"
