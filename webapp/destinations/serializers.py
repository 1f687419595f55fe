"""Destinations in the REST API.  Secrets go in and never come out (invariant 8)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from replicator.targets.kind import TargetKind
from webapp.connections.serializers import EndpointSerializer, FormFieldSerializer
from webapp.destinations.models import Destination


class CapabilitiesSerializer(serializers.Serializer[dict[str, Any]]):
    """What a kind of destination can do."""

    modes = serializers.ListField(child=serializers.CharField(), help_text="Empty: it keeps every change")
    ddl = serializers.ListField(child=serializers.CharField(), help_text="Changes of a table that it follows")
    exactly_once = serializers.CharField(help_text="By what a position and its rows are one")
    renames = serializers.BooleanField(help_text="Its tables can be given other names")
    verified = serializers.BooleanField(help_text="Its copy can be compared with the source by manage.py verify")


class DestinationKindSerializer(serializers.Serializer[TargetKind]):
    """A kind of destination."""

    name = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField()
    proof = serializers.CharField(help_text="On what its tests run; empty where no label is needed")
    form = FormFieldSerializer(source="destination_form", many=True)
    replicator_form = FormFieldSerializer(source="form", many=True, help_text="What each replicator sets for itself")
    capabilities = serializers.SerializerMethodField()
    guide = serializers.CharField(help_text="Guide, Markdown")

    @extend_schema_field(CapabilitiesSerializer)
    def get_capabilities(self, kind: TargetKind) -> dict[str, Any]:
        """In the form of `CapabilitiesSerializer`."""
        can = kind.capabilities
        found = {"modes": sorted(can.modes), "ddl": sorted(can.ddl), "exactly_once": can.exactly_once}
        return dict(CapabilitiesSerializer(found | {"renames": can.renames, "verified": can.verified}).data)


class DestinationSerializer(EndpointSerializer):
    class Meta(EndpointSerializer.Meta):
        model = Destination
