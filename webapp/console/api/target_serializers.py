"""The copy of a table in the target."""

from __future__ import annotations

from rest_framework import serializers

from replicator.targets.kind import InspectedTable, Preview, QueryExample


class QueryExampleSerializer(serializers.Serializer[QueryExample]):
    """What to paste into an engine."""

    engine = serializers.CharField()
    text = serializers.CharField(help_text="Words in angle brackets stand for secrets")


class TableReportSerializer(serializers.Serializer[InspectedTable]):
    """A table of the target as it is now."""

    location = serializers.CharField()
    rows = serializers.IntegerField()
    bytes = serializers.IntegerField(help_text="Of data files and files of deletes")
    files = serializers.IntegerField(help_text="Data files")
    delete_files = serializers.IntegerField()
    snapshots = serializers.IntegerField()
    columns = serializers.IntegerField()
    committed_at = serializers.DateTimeField(allow_null=True)
    compacted_at = serializers.DateTimeField(allow_null=True, help_text="Null: not in the snapshots that are kept")
    examples = QueryExampleSerializer(many=True)


class PreviewSerializer(serializers.Serializer[Preview]):
    """Some rows, as texts."""

    columns = serializers.ListField(child=serializers.CharField())
    rows = serializers.ListField(child=serializers.ListField(child=serializers.CharField(allow_null=True)))
