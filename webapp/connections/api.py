"""Connections: made, tested and looked into."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from replicator.model.identifiers import TableId
from replicator.sources.base import CheckResult, CheckStatus
from webapp.api.base import ApiViewSet, Pages, listed
from webapp.connections import selectors, serializers
from webapp.connections.endpoints import Endpoints
from webapp.connections.models import Connection
from webapp.connections.services import CONNECTIONS
from webapp.web.responses import user_of

SEARCH = OpenApiParameter("search", str, description="Part of the name")


@extend_schema(tags=["connections"])
class KindViewSet(ApiViewSet):
    """Kinds of sources, with the settings that each asks for."""

    pagination_class = None
    serializer_class = serializers.KindSerializer

    @extend_schema(operation_id="source_kinds")
    def list(self, request: Request) -> Response:
        """Every kind."""
        del request
        return Response(listed(serializers.KindSerializer, selectors.kinds()))


class EndpointViewSet(ApiViewSet):
    """What connections and destinations have in common."""

    services: Endpoints[Any]
    serializer_class: type[serializers.EndpointSerializer]

    def _get(self, pk: str | int) -> Any:
        return get_object_or_404(self.get_queryset(), pk=pk)

    def _shown(self, pk: str | int, number: int = status.HTTP_200_OK) -> Response:
        return Response(self.get_serializer(self._get(str(pk))).data, status=number)

    @extend_schema(parameters=[SEARCH, OpenApiParameter("kind", str)])
    def list(self, request: Request) -> Response:
        """By name."""
        found = self.get_queryset()
        if search := request.query_params.get("search"):
            found = found.filter(name__icontains=search)
        if kind := request.query_params.get("kind"):
            found = found.filter(kind=kind)
        return self.page(found, self.serializer_class)

    @extend_schema(request=serializers.EndpointCreateSerializer)
    def create(self, request: Request) -> Response:
        """Store one; it is not tested by that."""
        made = self.services.create(**self.read(serializers.EndpointCreateSerializer, request), user=user_of(request))
        return self._shown(made.pk, status.HTTP_201_CREATED)

    def retrieve(self, request: Request, pk: str) -> Response:
        """One of them."""
        del request
        return self._shown(pk)

    @extend_schema(request=serializers.EndpointUpdateSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change name or settings; settings left out stay, secrets too unless what says where or how they are sent
        changes.
        """
        endpoint = self._get(pk)
        body = self.read(serializers.EndpointUpdateSerializer, request)
        if "config" in body:
            body["config"] = {**selectors.public_config(endpoint), **body["config"]}
            self.services.try_out(endpoint, body["config"])
        self.services.update(endpoint, **body, user=user_of(request))
        return self._shown(pk)

    def destroy(self, request: Request, pk: str) -> Response:
        """Refused while a replicator uses it."""
        self.services.delete(self._get(pk), user=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=serializers.TestResultSerializer)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Test a stored one; the result is kept with it."""
        del request
        endpoint = self._get(pk)
        return Response(_result(self.services.test(kind=endpoint.kind, config={}, endpoint=endpoint)))

    @extend_schema(request=serializers.EndpointTrySerializer, responses=serializers.TestResultSerializer)
    @action(detail=False, methods=["post"], url_path="test", url_name="try")
    def test_settings(self, request: Request) -> Response:
        """Test settings without storing them."""
        return Response(_result(self.services.test(**self.read(serializers.EndpointTrySerializer, request))))


@extend_schema(tags=["connections"])
@extend_schema_view(
    create=extend_schema(responses={201: serializers.ConnectionSerializer}),
    test_settings=extend_schema(operation_id="connections_try"),
)
class ConnectionViewSet(EndpointViewSet):
    """Connections to sources."""

    queryset = Connection.objects.none()
    serializer_class = serializers.ConnectionSerializer
    services = CONNECTIONS

    def get_queryset(self) -> QuerySet[Connection]:
        """With what the serializer shows."""
        return selectors.list_connections().prefetch_related("replicators").order_by("name")

    @extend_schema(responses=serializers.DatabaseSerializer(many=True))
    @action(detail=True, pagination_class=None)
    def databases(self, request: Request, pk: str) -> Response:
        """The source's databases."""
        del request
        return Response(listed(serializers.DatabaseSerializer, selectors.databases(self._get(pk))))

    @extend_schema(
        parameters=[OpenApiParameter("database", str), SEARCH],
        responses=serializers.TableInfoSerializer(many=True),
    )
    @action(detail=True)
    def tables(self, request: Request, pk: str) -> Response:
        """The source's tables, one page at a time."""
        connection, pages = self._get(pk), Pages()
        limit, offset = pages.window(request)
        found, pages.count = selectors.tables(
            connection,
            database=request.query_params.get("database") or None,
            search=request.query_params.get("search", ""),
            limit=limit,
            offset=offset,
        )
        return pages.get_paginated_response(listed(serializers.TableInfoSerializer, found))

    @extend_schema(
        request=serializers.DescribeSerializer,
        responses=serializers.DescribedSerializer(many=True),
        filters=False,
    )
    @action(detail=True, methods=["post"], pagination_class=None)
    def describe(self, request: Request, pk: str) -> Response:
        """Columns, keys and target types of tables."""
        names = self.read(serializers.DescribeSerializer, request)["tables"]
        tables = [TableId(name["database"], name["table"]) for name in names]
        found = selectors.describe(self._get(pk), tables)
        return Response([serializers.described(dict(n), found.get(t)) for n, t in zip(names, tables, strict=True)])


def _result(checks: list[CheckResult]) -> dict[str, object]:
    lines = listed(serializers.CheckSerializer, checks)
    return {"ok": all(check.status is not CheckStatus.FAILED for check in checks), "checks": lines}
