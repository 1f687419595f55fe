"""The tables of a replicator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.api.base import ApiViewSet, listed
from webapp.console.api import serializers
from webapp.console.api.lineage_serializers import LineageSerializer
from webapp.console.api.target_serializers import PreviewSerializer, TableReportSerializer
from webapp.monitoring.slo.attainment import measure_tables
from webapp.replicators import selectors, services
from webapp.replicators.lineage import table_lineage
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.selection.change_preview import effects
from webapp.replicators.selection.entries import refuse_missing, rule_for, under
from webapp.replicators.target_tables import target_preview, target_report
from webapp.web.responses import user_of

REPLICATOR = OpenApiParameter("replicator", int, OpenApiParameter.PATH)
ID = OpenApiParameter("id", int, OpenApiParameter.PATH)


def _context(replicator: Replicator, tables: Sequence[ReplicatorTable]) -> dict[str, Any]:
    """What `ReplicatorTableSerializer` asks for: four queries."""
    attained = measure_tables(replicator, [table.pk for table in tables])
    return {"runs": selectors.open_runs(replicator), "attained": attained}


@extend_schema(tags=["tables"], parameters=[REPLICATOR])
class TableViewSet(ApiViewSet):
    """Tables of a replicator."""

    queryset = ReplicatorTable.objects.none()
    serializer_class = serializers.ReplicatorTableSerializer

    def _replicator(self, pk: str) -> Replicator:
        return get_object_or_404(selectors.list_replicators(), pk=pk)

    def _get(self, replicator: str, pk: str) -> ReplicatorTable:
        found = ReplicatorTable.objects.select_related("replicator").filter(replicator_id=replicator)
        return get_object_or_404(found, pk=pk)

    def _answer(self, replicator: str, pk: str) -> Response:
        table = self._get(replicator, pk)
        context = _context(table.replicator, [table])
        return Response(serializers.ReplicatorTableSerializer(table, context=context).data)

    @extend_schema(
        parameters=[
            OpenApiParameter("state", str, description="Only tables in this state"),
            OpenApiParameter("database", str),
            OpenApiParameter("search", str, description="Part of database or table"),
        ]
    )
    def list(self, request: Request, replicator: str) -> Response:
        """By database and name."""
        owner, query = self._replicator(replicator), request.query_params
        found = selectors.tables_of(owner)
        for name in ("state", "database"):
            if query.get(name):
                found = found.filter(**{name: query[name]})
        if search := query.get("search"):
            found = found.filter(Q(database__icontains=search) | Q(name__icontains=search))
        page = self.paginate_queryset(found) or []
        for table in page:
            table.replicator = owner
        context = _context(owner, page)
        lines = listed(serializers.ReplicatorTableSerializer, page, context)
        return self.get_paginated_response(lines)

    @extend_schema(
        request=serializers.AddTablesSerializer,
        responses={201: serializers.SelectionLineSerializer(many=True)},
    )
    def create(self, request: Request, replicator: str) -> Response:
        """Add tables (or whole databases) to the selection; they are read while the others go on."""
        owner = self._replicator(replicator)
        lines = self.read(serializers.AddTablesSerializer, request)["selection"]
        selection = serializers.entries(lines, owner)
        refuse_missing(owner.connection, under(rule_for(owner.connection, selection, owner), selection))
        services.add_tables(replicator=owner, selection=selection, user=user_of(request))
        answer = listed(serializers.SelectionLineSerializer, owner.selection.all())
        return Response(answer, status=status.HTTP_201_CREATED)

    @extend_schema(request=serializers.AddTablesSerializer, responses=serializers.EffectsSerializer)
    @action(detail=False, methods=["post"])
    def effects(self, request: Request, replicator: str) -> Response:
        """What adding or changing these lines would do; nothing is done."""
        owner = self._replicator(replicator)
        lines = self.read(serializers.AddTablesSerializer, request)["selection"]
        return Response({"effects": effects(owner, serializers.entries(lines, owner))})

    @extend_schema(parameters=[ID])
    def retrieve(self, request: Request, replicator: str, pk: str) -> Response:
        """One table."""
        del request
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID])
    def destroy(self, request: Request, replicator: str, pk: str) -> Response:
        """Not captured any more; the target's table stays."""
        table = self._get(replicator, pk)
        services.remove_table(replicator=table.replicator, table=table.table_id, user=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, replicator: str, pk: str) -> Response:
        """Try again now."""
        services.retry_table(table=self._get(replicator, pk), user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=serializers.ReasonSerializer)
    @action(detail=True, methods=["post"])
    def resnapshot(self, request: Request, replicator: str, pk: str) -> Response:
        """Read the table again while its log goes on."""
        reason = self.read(serializers.ReasonSerializer, request)["reason"]
        services.resnapshot_table(table=self._get(replicator, pk), reason=reason, user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=serializers.TargetNameSerializer)
    @action(detail=True, methods=["post"], url_path="rename-target")
    def rename_target(self, request: Request, replicator: str, pk: str) -> Response:
        """Call its copy otherwise in the target, from the next merge on."""
        name = self.read(serializers.TargetNameSerializer, request)
        services.rename_target(table=self._get(replicator, pk), **name, user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=serializers.ModeSerializer)
    @action(detail=True, methods=["post"])
    def mode(self, request: Request, replicator: str, pk: str) -> Response:
        """Change its mode: it is read again into a new table, which takes the place of its copy.

        Asks for `confirm` first.
        """
        body = self.read(serializers.ModeSerializer, request)
        table = self._get(replicator, pk)
        services.change_mode(table=table, mode=body["mode"], confirmed=body["confirm"], user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"])
    def skip(self, request: Request, replicator: str, pk: str) -> Response:
        """Go on without the table; its copy stays as it is."""
        services.skip_table(table=self._get(replicator, pk), user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, replicator: str, pk: str) -> Response:
        """Read a skipped table again, and follow it again."""
        services.resume_table(table=self._get(replicator, pk), user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"], url_path="cancel-snapshot")
    def cancel_snapshot(self, request: Request, replicator: str, pk: str) -> Response:
        """Give up a reload; the table keeps the rows it has."""
        services.cancel_snapshot(table=self._get(replicator, pk), user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(
        parameters=[ID],
        request=serializers.SnapshotRequestSerializer,
        responses={201: serializers.SnapshotSerializer},
    )
    @action(detail=True, methods=["post"])
    def snapshot(self, request: Request, replicator: str, pk: str) -> Response:
        """Read a part of the table while it streams: rows by their keys, or those for which a condition is true."""
        table, asked = self._get(replicator, pk), self.read(serializers.SnapshotRequestSerializer, request)
        about = {"table": table, "reason": asked["reason"], "user": user_of(request)}
        if "keys" in asked:
            run = services.read_keys(keys=asked["keys"], **about)
        else:
            run = services.read_rows(condition=asked["where"], **about)
        return Response(serializers.SnapshotSerializer(run).data, status=status.HTTP_201_CREATED)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"], url_path="stop-snapshot")
    def stop_snapshot(self, request: Request, replicator: str, pk: str) -> Response:
        """Stop all that is being read of the table; nothing is wrong where nothing is."""
        services.stop_snapshots(table=self._get(replicator, pk), user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"], url_path="pause-snapshot")
    def pause_snapshot(self, request: Request, replicator: str, pk: str) -> Response:
        """Its readers stop within seconds; its changes go on being copied."""
        services.set_paused(table=self._get(replicator, pk), paused=True, user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], request=None)
    @action(detail=True, methods=["post"], url_path="resume-snapshot")
    def resume_snapshot(self, request: Request, replicator: str, pk: str) -> Response:
        """Go on where it paused."""
        services.set_paused(table=self._get(replicator, pk), paused=False, user=user_of(request))
        return self._answer(replicator, pk)

    @extend_schema(parameters=[ID], responses=serializers.SnapshotSerializer(many=True))
    @action(detail=True)
    def snapshots(self, request: Request, replicator: str, pk: str) -> Response:
        """Every snapshot of the table, newest first."""
        del request
        runs = self._get(replicator, pk).runs.select_related("table")
        return self.page(runs, serializers.SnapshotSerializer)

    @extend_schema(parameters=[ID], responses=serializers.SchemaVersionSerializer(many=True))
    @action(detail=True, url_path="schema-versions")
    def schema_versions(self, request: Request, replicator: str, pk: str) -> Response:
        """How the table's definition changed."""
        del request
        return self.page(self._get(replicator, pk).schemas.all(), serializers.SchemaVersionSerializer)

    @extend_schema(parameters=[ID], responses=TableReportSerializer)
    @action(detail=True)
    def target(self, request: Request, replicator: str, pk: str) -> Response:
        """The copy as the target has it: rows, bytes, files, snapshots, and what to paste to query it."""
        del request
        if (found := target_report(self._get(replicator, pk))) is None:
            raise Http404
        return Response(TableReportSerializer(found).data)

    @extend_schema(parameters=[ID], responses=PreviewSerializer)
    @action(detail=True)
    def preview(self, request: Request, replicator: str, pk: str) -> Response:
        """Some rows of the copy."""
        del request
        if (found := target_preview(self._get(replicator, pk))) is None:
            raise Http404
        return Response(PreviewSerializer(found).data)

    @extend_schema(
        parameters=[ID, OpenApiParameter("version", int, description="Schema version; the present one by default")],
        responses=LineageSerializer,
    )
    @action(detail=True)
    def lineage(self, request: Request, replicator: str, pk: str) -> Response:
        """Field by field: source column to target column, with both types, policies, and the column's life."""
        asked = request.query_params.get("version", "")
        version = int(asked) if asked.isdigit() and len(asked) < 9 else None  # noqa: PLR2004 - digits of a version
        found = table_lineage(self._get(replicator, pk), version=version, collapse=False)
        if found is None or (version is not None and version != found.version):
            raise Http404
        return Response(LineageSerializer(found).data)
