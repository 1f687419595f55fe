"""Alerts, their rules and channels."""

from __future__ import annotations

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.alerts import selectors, serializers, services
from webapp.alerts.models import Alert, Channel, Rule
from webapp.api.base import ApiViewSet, listed
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import list_replicators
from webapp.web.responses import user_of

REPLICATOR = OpenApiParameter("replicator", int, OpenApiParameter.PATH)


@extend_schema(tags=["alerts"])
class ChannelViewSet(ApiViewSet):
    """Where alerts are sent."""

    queryset = Channel.objects.none()
    serializer_class = serializers.ChannelSerializer

    def _get(self, pk: str) -> Channel:
        return get_object_or_404(selectors.channels(), pk=pk)

    def list(self, request: Request) -> Response:
        """By name."""
        del request
        return self.page(selectors.channels(), serializers.ChannelSerializer)

    def create(self, request: Request) -> Response:
        """A new channel; nothing is sent to it by that."""
        made = services.save_channel(**self.read(serializers.ChannelSerializer, request))
        return Response(serializers.ChannelSerializer(made).data, status=status.HTTP_201_CREATED)

    def retrieve(self, request: Request, pk: str) -> Response:
        """One channel."""
        del request
        return Response(serializers.ChannelSerializer(self._get(pk)).data)

    def update(self, request: Request, pk: str) -> Response:
        """Change it; an address or key that is left out stays."""
        channel, body = self._get(pk), self.read(serializers.ChannelSerializer, request)
        body.setdefault("recipients", channel.config.get("recipients", []))
        return Response(serializers.ChannelSerializer(services.save_channel(channel=channel, **body)).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the channel and its queued messages."""
        del request
        services.delete_channel(channel=self._get(pk))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=serializers.ChannelTestSerializer)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send a test message now."""
        del request
        error = services.try_channel(channel=self._get(pk))
        return Response({"ok": not error, "error": error})


@extend_schema(tags=["alerts"])
class AlertViewSet(ApiViewSet):
    """Alerts that fire, and those that have."""

    queryset = Alert.objects.none()
    serializer_class = serializers.AlertSerializer

    @extend_schema(
        parameters=[
            OpenApiParameter("replicator", int, description="Only of this replicator"),
            OpenApiParameter("firing", bool, description="Only alerts that fire now"),
        ]
    )
    def list(self, request: Request) -> Response:
        """Those that fire first, then the newest."""
        asked = request.query_params
        replicator = asked.get("replicator", "")
        found = selectors.alerts(
            replicator=int(replicator) if replicator.isdigit() else None,
            firing=asked.get("firing", "").lower() in {"1", "true"},
        )
        return self.page(found, serializers.AlertSerializer)


@extend_schema(tags=["alerts"], parameters=[REPLICATOR])
class RuleViewSet(ApiViewSet):
    """What is watched of a replicator: one rule of each kind."""

    queryset = Rule.objects.none()
    serializer_class = serializers.RuleSerializer
    pagination_class = None

    def _owner(self, pk: int) -> Replicator:
        return get_object_or_404(list_replicators(), pk=pk)

    @extend_schema(responses=serializers.RuleSerializer(many=True), operation_id="replicators_alert_rules_list")
    def list(self, request: Request, replicator: int) -> Response:
        """All of them."""
        del request
        return Response(listed(serializers.RuleSerializer, selectors.rules_of(self._owner(replicator))))

    @extend_schema(request=serializers.SnoozeSerializer, responses=serializers.RuleSerializer(many=True))
    def snooze(self, request: Request, replicator: int) -> Response:
        """Snooze all rules at once: no new alert is sent until then."""
        owner, body = self._owner(replicator), self.read(serializers.SnoozeSerializer, request)
        services.snooze_all(replicator=owner, until=body["until"], user=user_of(request))
        return Response(listed(serializers.RuleSerializer, selectors.rules_of(owner)))

    @extend_schema(request=None, responses=serializers.RuleTestSerializer(many=True))
    def test(self, request: Request, replicator: int) -> Response:
        """Send a test message to every channel that its rules tell, now."""
        del request
        tried = services.try_rules(replicator=self._owner(replicator))
        return Response([{"channel": name, "ok": not error, "error": error} for name, error in tried.items()])

    @extend_schema(request=serializers.RuleChangeSerializer, responses=serializers.RuleSerializer)
    def partial_update(self, request: Request, replicator: int, kind: str) -> Response:
        """Change or snooze one; takes effect within half a minute."""
        owner, body = self._owner(replicator), self.read(serializers.RuleChangeSerializer, request)
        snoozed = "snoozed_until" in body
        until = body.pop("snoozed_until", None)
        rule = services.save_rule(replicator=owner, kind=kind, user=user_of(request), **body)
        if snoozed:
            services.snooze(rule=rule, until=until, user=user_of(request))
        return Response(serializers.RuleSerializer(rule).data)
