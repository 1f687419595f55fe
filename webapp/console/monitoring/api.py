"""What happened to a replicator: failures, log, timeline, metrics."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from replicator.telemetry.lags import LagHistogram
from webapp.api.base import ApiViewSet, listed
from webapp.console.monitoring.downloads import log_file
from webapp.monitoring import selectors, serializers
from webapp.monitoring.charts import ranges
from webapp.monitoring.charts.charts import points_of
from webapp.monitoring.failures import RANGES, STATES, FailureFilters, counts, failures
from webapp.monitoring.models import LogLine, Stage
from webapp.monitoring.services import objective_for_table
from webapp.monitoring.slo.attainment import measure
from webapp.monitoring.timeline import BY, CHOICES, TimelineFilters, timeline
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import list_replicators, tables_of
from webapp.web.responses import user_of

REPLICATOR = OpenApiParameter("replicator", int, OpenApiParameter.PATH)
SINCE = OpenApiParameter("since", str, enum=list(RANGES), description="Time range; open failures are always included")
FAILURE_FILTERS = [
    OpenApiParameter("open", bool, description="true: only unresolved failures"),
    OpenApiParameter("state", str, enum=list(STATES)),
    OpenApiParameter("stage", str, enum=Stage.values),
    OpenApiParameter("code", str),
    OpenApiParameter("table", int, description="A table's id; 0 for failures of the whole replicator"),
    SINCE,
]
PERCENTILES = (50, 95, 99)


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


class FailuresOfAll(MonitoringViewSet):
    """Filters and answers shared by the failures of one replicator and those of all."""

    serializer_class = serializers.FailureSerializer

    def filters(self, request: Request) -> FailureFilters:
        """`open=true` and no range are what they were before there was more to filter by."""
        query = request.query_params.dict()
        if query.get("open", "").lower() in {"1", "true"}:
            query["state"] = "open"
        return FailureFilters.of({"since": "all"} | query)

    def failures(self, request: Request, replicator: Replicator | None) -> Response:
        """Newest first."""
        return self.page(failures(self.filters(request), replicator=replicator), serializers.FailureSerializer)

    def counted(self, request: Request, replicator: Replicator | None) -> Response:
        """Most frequent first."""
        return self.page(counts(self.filters(request), replicator=replicator), serializers.FailureCountSerializer)


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class FailureViewSet(FailuresOfAll):
    """Failed attempts of a replicator."""

    @extend_schema(parameters=FAILURE_FILTERS)
    def list(self, request: Request, replicator: str) -> Response:
        """Newest first."""
        return self.failures(request, self.owner(replicator))

    @extend_schema(parameters=[SINCE], responses=serializers.FailureCountSerializer(many=True))
    def counts(self, request: Request, replicator: str) -> Response:
        """Attempts by table and error code, most frequent first; 200 of them at most."""
        return self.counted(request, self.owner(replicator))


@extend_schema(tags=["monitoring"])
class FleetFailureViewSet(FailuresOfAll):
    """Failed attempts of all replicators."""

    @extend_schema(parameters=[*FAILURE_FILTERS, OpenApiParameter("replicator", int, description="A replicator's id")])
    def list(self, request: Request) -> Response:
        """Newest first."""
        return self.failures(request, None)

    @extend_schema(parameters=[SINCE], responses=serializers.FailureCountSerializer(many=True))
    def counts(self, request: Request) -> Response:
        """Attempts by replicator, table and error code, most frequent first; 200 of them at most."""
        return self.counted(request, None)


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
        parameters=[serializers.LogFileQuerySerializer],
        responses={(200, "text/plain"): OpenApiResponse(str, description="One line each, oldest first")},
    )
    def download(self, request: Request, replicator: str) -> StreamingHttpResponse:
        """The whole log as a file, with the same filters: text, or one JSON object a line (`form=jsonl`)."""
        query = self.asked(serializers.LogFileQuerySerializer, request)
        return log_file(self.owner(replicator), query.pop("form"), query)


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class TimelineViewSet(MonitoringViewSet):
    """The replicator's history."""

    serializer_class = serializers.TimelineSerializer

    @extend_schema(
        parameters=[
            OpenApiParameter("group", str, enum=list(CHOICES)),
            OpenApiParameter("kind", str, description="One kind of event"),
            OpenApiParameter("by", str, enum=list(BY), description="Made by users, or automatically"),
            OpenApiParameter("table", str, description="Part of database.table"),
        ]
    )
    def list(self, request: Request, replicator: str) -> Response:
        """Newest first."""
        filters = TimelineFilters.of(request.query_params.dict())
        return self.page(timeline(self.owner(replicator), filters), serializers.TimelineSerializer)


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
        lags = selectors.lag_minutes(owner, table=table, minutes=query["minutes"])
        rows = selectors.metrics(owner, table=table, minutes=query["minutes"])
        lines = [row | _lags(lags.get(row["minute"])) for row in rows]
        return Response(listed(serializers.MetricSerializer, lines))

    @extend_schema(
        parameters=[
            OpenApiParameter("range", str, enum=[*ranges.RANGES], description="Up to now; 1h by default"),
            OpenApiParameter("from", str, description="A timestamp, 2026-03-01T14:30:00Z; instead of `range`"),
            OpenApiParameter("to", str, description="A timestamp; now by default"),
            OpenApiParameter("table", int, description="A table's id; without it, all tables together"),
        ],
        responses=serializers.ChartsSerializer,
    )
    def charts(self, request: Request, replicator: str) -> Response:
        """The figures of the charts page: the range put together into points."""
        owner = self.owner(replicator)
        shown = ranges.asked(request.query_params, timezone.now())
        table = None
        if asked := request.query_params.get("table"):
            table = get_object_or_404(tables_of(owner), pk=int(asked) if asked.isdigit() and len(asked) < 19 else 0)  # noqa: PLR2004 - digits
        return Response(points_of(owner, shown, table))

    @extend_schema(responses=serializers.SloSerializer)
    def slo(self, request: Request, replicator: str) -> Response:
        """How the objective is kept now, and those of tables that have their own.

        What is late and waits counts already.
        """
        del request
        owner = self.owner(replicator)
        found = measure([owner])
        names = {row.table_id: str(row.table) for row in selectors.table_objectives(owner)}
        tables = {names[table]: one.to_dict() for (_, table), one in found.items() if table in names}
        return Response(found[owner.pk, None].to_dict() | {"tables": tables})


def _lags(found: LagHistogram | None) -> dict[str, int | None]:
    figures = {f"lag_p{percent}_ms": found.percentile(percent) if found else None for percent in PERCENTILES}
    milliseconds = {name: None if value is None else round(value * 1000) for name, value in figures.items()}
    return milliseconds | {"lag_max_ms": found.greatest // 1000 if found and found.events else None}


@extend_schema(tags=["monitoring"], parameters=[REPLICATOR])
class TableObjectiveViewSet(MonitoringViewSet):
    """Objectives of single tables, in place of their replicator's."""

    serializer_class = serializers.TableObjectiveSerializer
    pagination_class = None

    @extend_schema(operation_id="replicators_table_objectives_list")
    def list(self, request: Request, replicator: str) -> Response:
        """By name."""
        del request
        return Response(
            listed(serializers.TableObjectiveSerializer, selectors.table_objectives(self.owner(replicator)))
        )

    @extend_schema(request=serializers.TableObjectiveSerializer, responses={204: None})
    def update(self, request: Request, replicator: str, table: int) -> Response:
        """Objective something else of this table."""
        row = get_object_or_404(tables_of(self.owner(replicator)).select_related("replicator"), pk=table)
        body = self.read(serializers.TableObjectiveSerializer, request)
        objective_for_table(table=row, percent=body["percent"], seconds=body["seconds"], user=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, replicator: str, table: int) -> Response:
        """The replicator's objective holds for it again."""
        row = get_object_or_404(tables_of(self.owner(replicator)).select_related("replicator"), pk=table)
        objective_for_table(table=row, percent=None, seconds=None, user=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
