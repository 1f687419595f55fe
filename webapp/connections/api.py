"""Connections: made, tested and looked into."""

from __future__ import annotations

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from replicator.model.identifiers import TableId
from replicator.sources.base import CheckResult, Status
from webapp.api.base import ApiViewSet, Pages, listed
from webapp.connections import selectors, serializers, services
from webapp.connections.models import Connection
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


@extend_schema(tags=["connections"])
class ConnectionViewSet(ApiViewSet):
    """Connections to sources."""

    queryset = Connection.objects.none()
    serializer_class = serializers.ConnectionSerializer

    def get_queryset(self) -> QuerySet[Connection]:
        """With what the serializer shows."""
        return selectors.list_connections().prefetch_related("replicators").order_by("name")

    def _get(self, pk: str | int) -> Connection:
        return get_object_or_404(self.get_queryset(), pk=pk)

    @extend_schema(parameters=[SEARCH, OpenApiParameter("kind", str)])
    def list(self, request: Request) -> Response:
        """By name."""
        found = self.get_queryset()
        if search := request.query_params.get("search"):
            found = found.filter(name__icontains=search)
        if kind := request.query_params.get("kind"):
            found = found.filter(kind=kind)
        return self.page(found, serializers.ConnectionSerializer)

    @extend_schema(request=serializers.ConnectionCreateSerializer, responses={201: serializers.ConnectionSerializer})
    def create(self, request: Request) -> Response:
        """Store a connection; it is not tested by that."""
        body = self.read(serializers.ConnectionCreateSerializer, request)
        made = services.create_connection(**body, user=user_of(request))
        return Response(serializers.ConnectionSerializer(self._get(made.pk)).data, status=status.HTTP_201_CREATED)

    def retrieve(self, request: Request, pk: str) -> Response:
        """One connection."""
        del request
        return Response(serializers.ConnectionSerializer(self._get(pk)).data)

    @extend_schema(request=serializers.ConnectionUpdateSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change name or settings; settings left out stay, secrets too unless what says where or how they are sent changes."""
        connection = self._get(pk)
        body = self.read(serializers.ConnectionUpdateSerializer, request)
        if "config" in body:
            body["config"] = {**selectors.public_config(connection), **body["config"]}
        services.update_connection(connection=connection, **body, user=user_of(request))
        return Response(serializers.ConnectionSerializer(self._get(pk)).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Refused while a replicator uses it."""
        services.delete_connection(connection=self._get(pk), user=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=serializers.TestResultSerializer)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Test a stored connection; the result is kept with it."""
        del request
        connection = self._get(pk)
        return Response(_result(services.test_connection(kind=connection.kind, config={}, connection=connection)))

    @extend_schema(
        operation_id="connections_try",
        request=serializers.ConnectionTrySerializer,
        responses=serializers.TestResultSerializer,
    )
    @action(detail=False, methods=["post"], url_path="test", url_name="try")
    def test_settings(self, request: Request) -> Response:
        """Test settings without storing them."""
        body = self.read(serializers.ConnectionTrySerializer, request)
        return Response(_result(services.test_connection(**body)))

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
    return {"ok": all(check.status is not Status.FAILED for check in checks), "checks": lines}
