"""Replicators: made, started, paused, stopped, deleted, and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from replicator.errors import ConfigurationError
from replicator.targets import registry
from replicator.targets.registry import target_kind
from webapp.alerts.selectors import firing_by_replicator
from webapp.api.base import ApiViewSet, listed
from webapp.console.api import serializers
from webapp.console.fleet import FleetRow, fleet_rows
from webapp.console.presenters.slo import ObjectiveView, objectives_of_fleet
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, SnapshotRun
from webapp.replicators.options import with_old_options
from webapp.replicators.selection import assessment
from webapp.replicators.selection.entries import refuse_missing, rule_for, under
from webapp.replicators.source_log import log_kept
from webapp.replicators.targets import check_target, public_target, target_settings, try_target
from webapp.web.responses import user_of

TRUE = {"1", "true", "yes", "on"}
STATUS = OpenApiParameter("status", str, description="Only replicators with this status")
SEARCH = OpenApiParameter("search", str, description="Part of the name")
CONNECTION = OpenApiParameter("connection", int, description="Only replicators of this connection")
DROP = OpenApiParameter("drop_target", bool, description="Drop the target's tables too")
LEAVE = OpenApiParameter("leave_source", bool, description="Delete even if the source cannot be reached")


def shown(rows: Sequence[FleetRow]) -> list[dict[str, Any]]:
    """The form of `ReplicatorSerializer`, with what the fleet page tells of objectives and alerts."""
    objectives, alerts = objectives_of_fleet([row.replicator for row in rows]), firing_by_replicator()
    return [_shown(row, objectives[row.replicator.pk], alerts.get(row.replicator.pk, 0)) for row in rows]


def _shown(row: FleetRow, objective: ObjectiveView, firing: int) -> dict[str, Any]:
    one = row.replicator
    same = (
        "id", "name", "connection_id", "desired", "status", "attempt", "next_retry_at",
        "next_sequence", "source_ts", "created_at",
    )  # fmt: skip
    return {
        **{name: getattr(one, name) for name in same},
        "connection_name": one.connection.name,
        "destination": one.destination_id,
        "destination_name": one.destination.name,
        "target": public_target(one),
        "options": with_old_options(one.parsed_options.to_dict()),
        "allowed_actions": sorted(row.actions),
        "tables": row.states,
        "lag_ms": row.lag_ms,
        "rows_per_minute": row.rows_per_minute,
        "failures_open": row.failures_open,
        "dead_letters": row.dead_letters,
        "parked": row.dead_letters,
        "slo": objective.figures.to_dict() | {"state": objective.state} if objective.figures else None,
        "alerts_firing": firing,
        "error": serializers.error_state(one),
        "log_kept": kept.to_dict() if (kept := log_kept(one)) else None,
        "checkpoint": one.checkpoint_offset,
    }


@extend_schema(tags=["replicators"])
class ReplicatorViewSet(ApiViewSet):
    """Replicators."""

    queryset = Replicator.objects.none()
    serializer_class = serializers.ReplicatorSerializer

    def _get(self, pk: str) -> Replicator:
        return get_object_or_404(selectors.list_replicators(), pk=pk)

    def _answer(self, pk: str | int, number: int = status.HTTP_200_OK) -> Response:
        row = next((row for row in fleet_rows() if row.replicator.pk == int(pk)), None)
        if row is None:  # deleted meanwhile
            return Response(status=status.HTTP_204_NO_CONTENT)
        return Response(serializers.ReplicatorSerializer(shown([row])[0]).data, status=number)

    @extend_schema(parameters=[STATUS, SEARCH, CONNECTION])
    def list(self, request: Request) -> Response:
        """By name."""
        query, rows = request.query_params, fleet_rows()
        if wanted := query.get("status"):
            rows = [row for row in rows if row.replicator.status == wanted]
        if search := query.get("search", "").lower():
            rows = [row for row in rows if search in row.replicator.name.lower()]
        if connection := query.get("connection"):
            rows = [row for row in rows if str(row.replicator.connection_id) == connection]
        return self.page(shown(rows), serializers.ReplicatorSerializer)

    @extend_schema(request=serializers.ReplicatorCreateSerializer, responses={201: serializers.ReplicatorSerializer})
    def create(self, request: Request) -> Response:
        """Make a replicator; with `start` it runs at once."""
        body = self.read(serializers.ReplicatorCreateSerializer, request)
        selection = serializers.entries(body["selection"])
        refuse_missing(body["connection"], under(rule_for(body["connection"], selection), selection))
        made = services.create_replicator(
            name=body["name"],
            connection=body["connection"],
            selection=selection,
            destination=body.get("destination"),
            target=body["target"],
            options=serializers.parsed(body["options"]),
            user=user_of(request),
            start=body["start"],
        )
        return self._answer(made.pk, status.HTTP_201_CREATED)

    def retrieve(self, request: Request, pk: str) -> Response:
        """One replicator."""
        del request
        return self._answer(self._get(pk).pk)

    @extend_schema(parameters=[DROP, LEAVE], responses={202: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Stop it and remove it with its journal and what it made on the source; the target's tables stay unless
        `drop_target`.

        With `leave_source` a source that does not answer holds nothing up: its replication slot then has to be dropped
        by hand.
        """
        drop, leave = (request.query_params.get(name, "").lower() in TRUE for name in ("drop_target", "leave_source"))
        services.delete_replicator(
            replicator=self._get(pk), drop_target=drop, leave_source=leave, user=user_of(request)
        )
        return Response(status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        request=serializers.TargetSerializer,
        responses=serializers.TargetCheckSerializer(many=True),
        operation_id="test_target",
    )
    @action(detail=False, methods=["post"], pagination_class=None, url_path="test-target")
    def test_target(self, request: Request) -> Response:
        """Can this target be reached and written?

        One line for each thing tried; none where there is nothing to try.
        """
        found = check_target(self.read(serializers.TargetSerializer, request))
        return Response(listed(serializers.TargetCheckSerializer, found))

    @extend_schema(
        request=serializers.AssessSerializer,
        responses=serializers.TableAssessmentSerializer(many=True),
        operation_id="assess",
    )
    @action(detail=False, methods=["post"], pagination_class=None)
    def assess(self, request: Request) -> Response:
        """What a replicator would make of these tables, before there is one."""
        body = self.read(serializers.AssessSerializer, request)
        place = body.get("destination")
        found = assessment.assess(
            connection=body["connection"],
            selection=serializers.entries(body["selection"]),
            options=serializers.parsed(body["options"]),
            target=place.plugin if place else target_kind(registry.DEFAULT),
            settings=body["target"],
        )
        return Response(listed(serializers.TableAssessmentSerializer, found))

    def _act(self, request: Request, pk: str, act: str) -> Response:
        replicator = self._get(pk)
        allowed = selectors.allowed_actions(replicator)
        if act not in allowed:
            message = f"{replicator.name} cannot {act} now: it is {replicator.status}."
            can = f"It can {', '.join(sorted(allowed))}." if allowed else "Wait until its deletion is complete."
            raise ConfigurationError(message, remedy=can)
        getattr(services, f"{act}_replicator")(replicator=replicator, user=user_of(request))
        return self._answer(pk)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: str) -> Response:
        """Run it; after a failure, try again."""
        return self._act(request, pk, "start")

    @extend_schema(request=None)
    @action(detail=True, methods=["post"], url_path="start-anew")
    def start_anew(self, request: Request, pk: str) -> Response:
        """From where the source's log ends now, every table read again: after a purged log, or on another server."""
        services.start_anew(replicator=self._get(pk), user=user_of(request))
        return self._answer(pk)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Stop reading and merging for a while; it goes on from the same place."""
        return self._act(request, pk, "pause")

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Go on after a pause."""
        return self._act(request, pk, "resume")

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        """Stop; started again it goes on from the same place while the source still has its log."""
        return self._act(request, pk, "stop")

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Retry now all that waits for its retry time, and every failed table; no effect where nothing failed."""
        services.retry_replicator(replicator=self._get(pk), user=user_of(request))
        return self._answer(pk)

    @extend_schema(methods=["GET"], responses=serializers.OptionsSerializer)
    @extend_schema(methods=["PATCH"], request=serializers.OptionsSerializer, responses=serializers.OptionsSerializer)
    @action(detail=True, methods=["get", "patch"], url_path="options", url_name="options")
    def stored_options(self, request: Request, pk: str) -> Response:
        """Options; changes take effect while it runs."""
        replicator = self._get(pk)
        if request.method == "PATCH":
            values = self.read(serializers.OptionsSerializer, request)
            changed = serializers.parsed(values, replicator.parsed_options)
            services.update_options(replicator=replicator, options=changed, user=user_of(request))
            replicator = self._get(pk)
        return Response(with_old_options(replicator.parsed_options.to_dict()))

    @extend_schema(methods=["GET"], responses=serializers.TargetSettingsSerializer)
    @extend_schema(
        methods=["PATCH"], request=serializers.TargetSerializer, responses=serializers.TargetSettingsSerializer
    )
    @action(detail=True, methods=["get", "patch"])
    def target(self, request: Request, pk: str) -> Response:
        """How the target is reached.

        Changes are tried out first; what is not named stays, null is the default. An empty password stays where its
        address does.
        """
        replicator = self._get(pk)
        if request.method == "PATCH":
            changes = self.read(serializers.TargetSerializer, request)
            try_target(replicator, changes)
            services.update_target(replicator=replicator, target=changes, user=user_of(request))
            replicator = self._get(pk)
        return Response(serializers.TargetSettingsSerializer(target_settings(replicator)).data)

    @extend_schema(responses=serializers.SelectionLineSerializer(many=True))
    @action(detail=True, pagination_class=None)
    def selection(self, request: Request, pk: str) -> Response:
        """The lines of the selection."""
        del request
        return Response(listed(serializers.SelectionLineSerializer, self._get(pk).selection.all()))

    @extend_schema(responses={200: {"type": "object", "additionalProperties": True}})
    @action(detail=True, pagination_class=None)
    def summary(self, request: Request, pk: str) -> Response:
        """What `manage.py status --json` prints."""
        del request
        return Response(selectors.summary(self._get(pk)))

    @extend_schema(
        parameters=[OpenApiParameter("all", bool, description="Include ended snapshots")],
        responses=serializers.SnapshotSerializer(many=True),
    )
    @action(detail=True)
    def snapshots(self, request: Request, pk: str) -> Response:
        """Snapshots under way, with progress."""
        runs = SnapshotRun.objects.filter(table__replicator=self._get(pk)).select_related("table")
        if request.query_params.get("all", "").lower() not in TRUE:
            runs = runs.filter(pk__in=[run.pk for run in selectors.open_runs(self._get(pk)).values()])
        return self.page(runs, serializers.SnapshotSerializer)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"], url_path="snapshots/pause", url_name="snapshots-pause")
    def pause_snapshots(self, request: Request, pk: str) -> Response:
        """Snapshots wait; the log goes on."""
        services.set_snapshot_paused(replicator=self._get(pk), paused=True, user=user_of(request))
        return self._answer(pk)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"], url_path="snapshots/resume", url_name="snapshots-resume")
    def resume_snapshots(self, request: Request, pk: str) -> Response:
        """Snapshots go on."""
        services.set_snapshot_paused(replicator=self._get(pk), paused=False, user=user_of(request))
        return self._answer(pk)
