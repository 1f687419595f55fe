"""The lineage of a table in the REST API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from replicator.telemetry.lineage import ColumnHistory, ColumnStep, FieldLine
from webapp.api.base import listed
from webapp.replicators.lineage import TableLineage


class StepSerializer(serializers.Serializer[ColumnStep]):
    """What a version did to a column."""

    version = serializers.IntegerField()
    fate = serializers.CharField()
    text = serializers.CharField()


class FieldLineSerializer(serializers.Serializer[FieldLine]):
    """Source and target are empty where the column is on one side only; `steps` is its life."""

    source = serializers.CharField()  # type: ignore[assignment]  # declared fields are not attributes of the class
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

    def get_type(self, line: FieldLine) -> str:
        """Empty for a column that is left out."""
        return str(line.type or "")


class PastColumnSerializer(serializers.Serializer[ColumnHistory]):
    """A column that the source had before."""

    names = serializers.ListField(child=serializers.CharField())
    first = serializers.IntegerField(help_text="Version")
    last = serializers.IntegerField(help_text="Version")
    kept = serializers.BooleanField(help_text="Dropped in the source, kept in the target by policy")
    steps = StepSerializer(many=True)


class LineageSerializer(serializers.Serializer[TableLineage]):
    """One table at one schema version."""

    version = serializers.IntegerField()
    source = serializers.CharField()  # type: ignore[assignment]  # declared fields are not attributes of the class
    target = serializers.CharField()
    columns = serializers.SerializerMethodField()
    past = PastColumnSerializer(many=True)

    @extend_schema_field(FieldLineSerializer(many=True))
    def get_columns(self, lineage: TableLineage) -> list[dict[str, Any]]:
        """In the target's order."""
        lines = [line for run in lineage.runs for line in run.lines]
        return listed(FieldLineSerializer, lines)
