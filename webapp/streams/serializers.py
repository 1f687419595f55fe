"""Streams in the REST API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from replicator.model.identifiers import TableId
from replicator.streams.position import checkpoint
from webapp.api.base import listed
from webapp.replicators.models import ReplicatorTable
from webapp.streams import groups
from webapp.streams.models import Stream, StreamCheckpoint
from webapp.streams.selectors import GroupLag, tables_named


class StreamTableSerializer(serializers.Serializer[ReplicatorTable]):
    """A table of the replicator's source."""

    database = serializers.CharField(max_length=255)
    table = serializers.CharField(max_length=255)

    def to_internal_value(self, data: Any) -> TableId:
        """As the engine names it."""
        values = super().to_internal_value(data)
        return TableId(values["database"], values["table"])

    def to_representation(self, instance: ReplicatorTable) -> dict[str, str]:
        """Its name now."""
        return {"database": instance.database, "table": instance.name}


class StreamSerializer(serializers.Serializer[Stream]):
    """A pull feed of a replicator's changes."""

    name = serializers.CharField(read_only=True)
    replicator = serializers.IntegerField(source="replicator_id", read_only=True)
    replicator_name = serializers.CharField(source="replicator.name", read_only=True)
    enabled = serializers.BooleanField(read_only=True)
    shards = serializers.IntegerField(read_only=True)
    tables = serializers.SerializerMethodField()
    exclude = serializers.SerializerMethodField()
    retention_hours = serializers.FloatField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)

    def get_tables(self, stream: Stream) -> list[dict[str, str]] | None:
        """Null for all, and those that the replicator gets later."""
        tables = tables_named(stream)[0]
        return None if tables is None else [StreamTableSerializer().to_representation(one) for one in tables]

    def get_exclude(self, stream: Stream) -> list[dict[str, str]]:
        """Not in it."""
        return [StreamTableSerializer().to_representation(one) for one in tables_named(stream)[1]]


class StreamCreateSerializer(serializers.Serializer[None]):
    """What a stream is; `shards` never change."""

    name = serializers.CharField(max_length=63)
    replicator = serializers.IntegerField(help_text="Its id")
    shards = serializers.IntegerField(default=1)
    tables = StreamTableSerializer(
        many=True, allow_null=True, default=None, help_text="Null or left out: all current and future tables"
    )
    exclude = StreamTableSerializer(many=True, default=list)
    retention_hours = serializers.FloatField(default=24)
    snapshot = serializers.BooleanField(default=False, help_text="Resnapshot the tables to include their existing rows")


class StreamChangeSerializer(serializers.Serializer[None]):
    """What is left out stays; `tables` and `exclude` are changed together."""

    tables = StreamTableSerializer(many=True, allow_null=True, required=False)
    exclude = StreamTableSerializer(many=True, required=False)
    retention_hours = serializers.FloatField(required=False)


class ShardSerializer(serializers.Serializer[dict[str, Any]]):
    """Where a shard begins and ends now."""

    shard = serializers.IntegerField()
    oldest = serializers.CharField(help_text="The oldest checkpoint that can still be read")
    latest = serializers.CharField(help_text="The end of the captured changes")


class BatchSerializer(serializers.Serializer[dict[str, Any]]):
    """Changes of a shard, in order (docs/streams.md has their form)."""

    stream = serializers.CharField()
    shard = serializers.IntegerField()
    start = serializers.CharField(help_text="Where to start")
    checkpoint = serializers.CharField(help_text="The checkpoint after them; ack it when they are stored")
    more = serializers.BooleanField(help_text="More changes are available")
    changes = serializers.ListField(child=serializers.DictField())


class AckSerializer(serializers.Serializer[None]):
    """What a group is done with."""

    group = serializers.CharField(max_length=63)
    shard = serializers.IntegerField(min_value=0)
    checkpoint = serializers.CharField(max_length=200)
    member = serializers.CharField(max_length=12, default="", allow_blank=True)


class CheckpointSerializer(serializers.Serializer[StreamCheckpoint]):
    """How far a group has come in a shard, and whose it is."""

    shard = serializers.IntegerField()
    checkpoint = serializers.SerializerMethodField()
    acked_at = serializers.DateTimeField(allow_null=True)
    owner = serializers.CharField(source="owner.uid", default=None, allow_null=True)

    def get_checkpoint(self, row: StreamCheckpoint) -> str:
        """As clients have it."""
        return checkpoint(row.group.stream.uid, row.shard, row.position)


class GroupSerializer(serializers.Serializer[GroupLag]):
    """A group's lag: its slowest shard's."""

    name = serializers.CharField(source="group.name")
    members = serializers.IntegerField()
    behind = serializers.IntegerField(help_text="In sequence numbers, including those of other tables")
    seconds = serializers.FloatField(help_text="Age of the oldest change that is not acked")
    checkpoints = serializers.SerializerMethodField()

    def get_checkpoints(self, lag: GroupLag) -> list[dict[str, Any]]:
        """By shard."""
        rows = lag.group.checkpoints.select_related("group__stream", "owner")
        return listed(CheckpointSerializer, rows)


class JoinSerializer(serializers.Serializer[None]):
    """A client that shares the shards with others of its group."""

    name = serializers.CharField(max_length=100, default="", allow_blank=True, help_text="Human-readable")
    lease_seconds = serializers.FloatField(default=groups.LEASE_SECONDS)
    begin = serializers.ChoiceField(
        (groups.OLDEST, groups.LATEST), default=groups.OLDEST, help_text="For a group that does not exist yet"
    )


class HeartbeatSerializer(serializers.Serializer[None]):
    """That a member is there, and the shards it works on."""

    member = serializers.CharField(max_length=12)
    shards = serializers.ListField(child=serializers.IntegerField())


class LeaveSerializer(serializers.Serializer[None]):
    """A member that ends."""

    member = serializers.CharField(max_length=12)


class MembershipSerializer(serializers.Serializer[groups.Membership]):
    """A member and the shards that are its own now."""

    member = serializers.CharField()
    lease_seconds = serializers.FloatField()
    shards = serializers.ListField(child=serializers.IntegerField())
