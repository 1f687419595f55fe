"""Destinations: made, tested and looked into."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.api.base import ApiViewSet, listed
from webapp.connections.api import EndpointViewSet
from webapp.destinations import selectors, serializers
from webapp.destinations.models import Destination
from webapp.destinations.services import DESTINATIONS


@extend_schema(tags=["destinations"])
class DestinationKindViewSet(ApiViewSet):
    """Kinds of destinations, with the settings that each asks for and what it can do."""

    pagination_class = None
    serializer_class = serializers.DestinationKindSerializer

    @extend_schema(operation_id="destination_kinds")
    def list(self, request: Request) -> Response:
        """Every kind."""
        del request
        return Response(listed(serializers.DestinationKindSerializer, selectors.kinds()))


@extend_schema(tags=["destinations"])
@extend_schema_view(
    create=extend_schema(responses={201: serializers.DestinationSerializer}),
    test_settings=extend_schema(operation_id="destinations_try"),
)
class DestinationViewSet(EndpointViewSet):
    """Where replicators write to."""

    queryset = Destination.objects.none()
    serializer_class = serializers.DestinationSerializer
    services = DESTINATIONS

    def get_queryset(self) -> QuerySet[Destination]:
        """With what the serializer shows."""
        return selectors.list_destinations().prefetch_related("replicators").order_by("name")
