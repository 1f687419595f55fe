"""The lineage of a table in the REST API."""

from __future__ import annotations

from rest_framework import serializers

from webapp.replicators.lineage import TableLineage


class StepSerializer(serializers.Serializer):
    """What a version did to a column."""

    version = serializers.IntegerField()
    fate = serializers.CharField()
    text = serializers.CharField()


class FieldLineSerializer(serializers.Serializer):
    """Source and target are empty where the column is on one side only; `steps` is its life."""

    source = serializers.CharField()
    source_type = serializers.CharField()
    type = serializers.SerializerMethodField(help_text="Tidemark's type between the two")
    target = serializers.CharField()
    target_type = serializers.CharField()
    key = serializers.BooleanField()
    nullable = serializers.BooleanField()
    fate = serializers.CharField(help_text="Change in this version")
    was = serializers.CharField(help_text="Previous name, if it was renamed")
    notes = serializers.ListField(child=serializers.CharField(), help_text="Policies, masks and warnings")
    masked = serializers.BooleanField()
    steps = StepSerializer(many=True, source="life.steps", default=())

    def get_type(self, line: object) -> str:
        """Empty for a column that is left out."""
        return str(getattr(line, "type", None) or "")


class PastColumnSerializer(serializers.Serializer):
    """A column that the source had before."""

    names = serializers.ListField(child=serializers.CharField())
    first = serializers.IntegerField(help_text="Version")
    last = serializers.IntegerField(help_text="Version")
    kept = serializers.BooleanField(help_text="Dropped in the source, kept in the target by policy")
    steps = StepSerializer(many=True)


class LineageSerializer(serializers.Serializer):
    """One table at one schema version."""

    version = serializers.IntegerField()
    source = serializers.CharField()
    target = serializers.CharField()
    columns = serializers.SerializerMethodField()
    past = PastColumnSerializer(many=True)

    def get_columns(self, lineage: TableLineage) -> FieldLineSerializer(many=True):  # type: ignore[valid-type]
        """In the target's order."""
        lines = [line for run in lineage.runs for line in run.lines]
        return FieldLineSerializer(lines, many=True).data
