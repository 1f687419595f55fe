"""Dead-letter rows in the REST API."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.api.base import ApiViewSet
from webapp.console.monitoring.dead_letters import bytes_of
from webapp.monitoring.dead_letters.selectors import STATES, DeadLetterFilters, dead_letter_rows
from webapp.monitoring.dead_letters.services import discard, replay
from webapp.monitoring.models import DeadLetterRow
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import list_replicators
from webapp.web.responses import user_of

REPLICATOR = OpenApiParameter("replicator", int, OpenApiParameter.PATH)
ID = OpenApiParameter("id", int, OpenApiParameter.PATH)


class DeadLetterRowSerializer(serializers.Serializer[DeadLetterRow]):
    """A change that is not in the target, because it cannot be decoded."""

    id = serializers.IntegerField()
    table = serializers.CharField(help_text="database.table")
    table_id = serializers.IntegerField()
    sequence = serializers.IntegerField(help_text="The sequence number of the change")
    operation = serializers.CharField()
    offset = serializers.CharField(help_text="Its position in the source's log")
    commit_ts = serializers.DateTimeField(allow_null=True)
    txn_id = serializers.CharField(help_text="Its transaction, as the source names it")
    code = serializers.CharField()
    column = serializers.CharField(help_text="The column that cannot be decoded")
    message = serializers.CharField()
    remedy = serializers.CharField()
    keys = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField()),
        allow_null=True,
        help_text="Its key before and after the change, texts by column; null if unknown",
    )
    size = serializers.IntegerField(help_text="Bytes of the row as the source sent it")
    kept = serializers.IntegerField(help_text="Number of leading bytes that are stored")
    at = serializers.DateTimeField()
    resolved_at = serializers.DateTimeField(allow_null=True)
    resolution = serializers.CharField(help_text="read_anew, discarded, gone, or empty while it waits")
    resolved_by = serializers.CharField(allow_null=True)


class DiscardSerializer(serializers.Serializer[None]):
    """`all`: every row of its table that waits, not this one only."""

    all = serializers.BooleanField(required=False, default=False)


class DiscardedSerializer(serializers.Serializer[dict[str, Any]]):
    """How many there were."""

    discarded = serializers.IntegerField()


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class DeadLetterRowViewSet(ApiViewSet):
    """Dead-letter rows of a replicator."""

    queryset = DeadLetterRow.objects.none()
    serializer_class = DeadLetterRowSerializer

    def _owner(self, pk: str) -> Replicator:
        return get_object_or_404(list_replicators(), pk=pk)

    def _get(self, replicator: str, pk: str) -> DeadLetterRow:
        return get_object_or_404(dead_letter_rows(self._owner(replicator), DeadLetterFilters(state="")), pk=pk)

    @extend_schema(
        parameters=[
            OpenApiParameter("state", str, enum=list(STATES), description="All by default"),
            OpenApiParameter("table", int, description="A table's id"),
        ]
    )
    def list(self, request: Request, replicator: str) -> Response:
        """Newest first."""
        filters = DeadLetterFilters.of({"state": ""} | request.query_params.dict())
        return self.page(dead_letter_rows(self._owner(replicator), filters), DeadLetterRowSerializer)

    @extend_schema(parameters=[ID])
    def retrieve(self, request: Request, replicator: str, pk: str) -> Response:
        """One of them."""
        del request
        return Response(DeadLetterRowSerializer(self._get(replicator, pk)).data)

    @extend_schema(parameters=[ID], responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)})
    @action(detail=True, url_path="bytes")
    def data(self, request: Request, replicator: str, pk: str) -> HttpResponse:
        """The row as the source sent it, as far as it is kept: MySQL's row images, Postgres' message."""
        del request
        return bytes_of(self._get(replicator, pk))

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, replicator: str, pk: str) -> Response:
        """Read the dead-letter rows of its table again by their keys, or the whole table where a key is not
        known or it does not stream.

        The log goes on; all its dead-letter rows until now are resolved when that is done.  The table's newest snapshot
        says which.
        """
        replay(table=self._get(replicator, pk).table, user=user_of(request))
        return Response(DeadLetterRowSerializer(self._get(replicator, pk)).data)

    @extend_schema(parameters=[ID], request=DiscardSerializer, responses=DiscardedSerializer)
    @action(detail=True, methods=["post"])
    def discard(self, request: Request, replicator: str, pk: str) -> Response:
        """Accept it as lost."""
        row = self._get(replicator, pk)
        rows = None if self.read(DiscardSerializer, request)["all"] else [row.pk]
        return Response({"discarded": discard(table=row.table, rows=rows, user=user_of(request))})


@extend_schema(exclude=True)
class ParkedRowViewSet(DeadLetterRowViewSet):
    """Deprecated: `parked-rows/`, as the address was before."""
