"""What happened to a replicator: failures, log, timeline, metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, Max, Q, Sum
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.api_base import ApiViewSet
from webapp.monitoring import selectors, serializers
from webapp.monitoring.models import Failure, LogLine
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import list_replicators, tables_of

REPLICATOR = OpenApiParameter("replicator", int, OpenApiParameter.PATH)
DOWNLOAD_PAGE = 2000
COUNTERS = ("inserts", "updates", "deletes", "reads", "bytes", "merges", "merge_seconds", "events")
WORST = ("lag_max_ms", "lag_p95_ms", "lag_p50_ms")


class MonitoringViewSet(ApiViewSet):
    """Base: below a replicator."""

    queryset = LogLine.objects.none()

    def owner(self, pk: str) -> Replicator:
        """The replicator of the address."""
        return get_object_or_404(list_replicators(), pk=pk)

    def asked(self, kind: type, request: Request) -> dict[str, Any]:
        """The validated query string."""
        query = kind(data=request.query_params)
        query.is_valid(raise_exception=True)
        return dict(query.validated_data)


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class FailureViewSet(MonitoringViewSet):
    """Failed attempts."""

    serializer_class = serializers.FailureSerializer

    @extend_schema(
        parameters=[
            OpenApiParameter("open", bool, description="true: only those that nothing resolved yet"),
            OpenApiParameter("code", str),
            OpenApiParameter("table", int, description="A table's id"),
        ]
    )
    def list(self, request: Request, replicator: str) -> Response:
        """Newest first."""
        found = Failure.objects.filter(replicator=self.owner(replicator)).select_related("table")
        if request.query_params.get("open", "").lower() in {"1", "true"}:
            found = found.filter(resolved_at=None)
        if code := request.query_params.get("code"):
            found = found.filter(code=code)
        if (table := request.query_params.get("table", "")).isdigit():
            found = found.filter(table_id=int(table))
        return self.page(found, serializers.FailureSerializer)

    @extend_schema(responses=serializers.FailureCountSerializer(many=True))
    def counts(self, request: Request, replicator: str) -> Response:
        """Attempts by table and error code, most frequent first."""
        del request
        found = (
            Failure.objects.filter(replicator=self.owner(replicator))
            .order_by()
            .values("table__database", "table__name", "code")
            .annotate(attempts=Count("id"), open=Count("id", filter=Q(resolved_at=None)), last_at=Max("at"))
            .order_by("-attempts", "code")
        )
        named = [
            {**row, "table": f"{row['table__database']}.{row['table__name']}" if row["table__name"] else ""}
            for row in found
        ]
        return self.page(named, serializers.FailureCountSerializer)


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class LogViewSet(MonitoringViewSet):
    """The replicator's log."""

    serializer_class = serializers.LogPageSerializer
    pagination_class = None

    @extend_schema(
        parameters=[serializers.LogQuerySerializer],
        responses=serializers.LogPageSerializer,
        operation_id="replicators_logs_list",
    )
    def list(self, request: Request, replicator: str) -> Response:
        """The newest lines; `after` follows, `before` pages back."""
        query = self.asked(serializers.LogQuerySerializer, request)
        lines = selectors.log_lines(self.owner(replicator), **query)
        last = lines[-1].pk if lines else query.get("after")
        return Response(serializers.LogPageSerializer({"lines": lines, "next_after": last}).data)

    @extend_schema(
        parameters=[serializers.LogQuerySerializer],
        responses={(200, "text/plain"): OpenApiResponse(str, description="One line each, oldest first")},
    )
    def download(self, request: Request, replicator: str) -> StreamingHttpResponse:
        """The whole log as a text file, with the same filters."""
        owner, query = self.owner(replicator), self.asked(serializers.LogQuerySerializer, request)
        filters = {name: value for name, value in query.items() if name in {"level", "table", "text"}}
        response = StreamingHttpResponse(_text(owner, filters), content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="replicator-{owner.pk}.log"'
        return response


def _text(owner: Replicator, filters: dict[str, Any]) -> Iterator[str]:
    after = 0
    while lines := selectors.log_lines(owner, after=after, limit=DOWNLOAD_PAGE, **filters):
        for line in lines:
            message = line.message.replace("\n", "\n    ")
            where = f" {line.table}" if line.table else ""
            yield f"{line.at.isoformat(timespec='milliseconds')} {line.level} {line.stage}{where} {message}\n"
        after = lines[-1].pk


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class TimelineViewSet(MonitoringViewSet):
    """The replicator's history."""

    serializer_class = serializers.TimelineSerializer

    def list(self, request: Request, replicator: str) -> Response:
        """Newest first."""
        del request
        return self.page(self.owner(replicator).timeline.select_related("user"), serializers.TimelineSerializer)


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class MetricsViewSet(MonitoringViewSet):
    """Figures by minute."""

    serializer_class = serializers.MetricSerializer
    pagination_class = None

    @extend_schema(
        parameters=[serializers.MetricsQuerySerializer],
        responses=serializers.MetricSerializer(many=True),
        operation_id="replicators_metrics_list",
    )
    def list(self, request: Request, replicator: str) -> Response:
        """Oldest first."""
        owner, query = self.owner(replicator), self.asked(serializers.MetricsQuerySerializer, request)
        table = None
        if "table" in query:
            table = get_object_or_404(tables_of(owner), pk=query["table"])
        rows = selectors.metrics(owner, table=table, minutes=query["minutes"])
        totals = {f"{name}_": Sum(name) for name in COUNTERS} | {f"{name}_": Max(name) for name in WORST}
        found = rows.order_by().values("minute").annotate(**totals).order_by("minute")
        lines = [{name.removesuffix("_"): value for name, value in row.items()} for row in found]
        return Response(serializers.MetricSerializer(lines, many=True).data)

    @extend_schema(
        parameters=[OpenApiParameter("minutes", int, description="How far back; a day by default")],
        responses=serializers.SloSerializer,
    )
    def slo(self, request: Request, replicator: str) -> Response:
        """How the promise of the options was kept."""
        owner = self.owner(replicator)
        minutes = request.query_params.get("minutes", "1440")
        percent, events = selectors.slo(owner, minutes=int(minutes) if minutes.isdigit() else 1440)
        promise = owner.parsed_options
        answer = {
            "promised_percent": promise.slo_percent,
            "promised_minutes": promise.slo_minutes,
            "percent": percent,
            "events": events,
        }
        return Response(serializers.SloSerializer(answer).data)
