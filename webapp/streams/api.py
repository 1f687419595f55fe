"""Streams, their changes and their groups."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from replicator.errors import CheckpointTooOld, ConfigurationError
from replicator.streams import forms
from replicator.streams.cursor import BatchLimits
from replicator.streams.position import StreamPosition, checkpoint
from webapp.api.base import ApiViewSet, listed
from webapp.replicators.selectors import list_replicators
from webapp.streams import groups, reading, selectors, serializers, services
from webapp.streams.feed import captured
from webapp.streams.models import Stream
from webapp.web.responses import user_of

ARROW = "application/vnd.apache.arrow.stream"
GROUP = OpenApiParameter("group", str, OpenApiParameter.PATH)
ASKED = [
    OpenApiParameter("shard", int, required=True),
    OpenApiParameter(
        "from",
        str,
        description="A checkpoint, `oldest` or `latest`; default: the group's checkpoint, or `oldest`",
    ),
    OpenApiParameter("group", str),
    OpenApiParameter("member", str, description="Rejected (409) if another member holds the shard"),
    OpenApiParameter("max_rows", int, description="1 to 100,000; default 10,000"),
    OpenApiParameter(
        "max_bytes", int, description="Approximate size of the rows as Arrow, up to 64 MiB; default 8 MiB"
    ),
    OpenApiParameter("wait", float, description="Seconds to wait for changes, at most 25"),
]


class ArrowRenderer(BaseRenderer):
    """Bytes as they are."""

    media_type = ARROW
    format = "arrow"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Encode errors as JSON, whichever format was requested (`StreamViewSet.finalize_response`)."""
        del accepted_media_type, renderer_context
        return data if isinstance(data, bytes) else json.dumps(data).encode()


@extend_schema(tags=["streams"])
class StreamViewSet(ApiViewSet):
    """Pull feeds of a replicator's changes."""

    queryset = Stream.objects.none()
    serializer_class = serializers.StreamSerializer
    lookup_field = "name"
    lookup_value_regex = "[a-z0-9][a-z0-9_-]*"

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Only changes are Arrow."""
        if not isinstance(getattr(response, "data", None), bytes):
            request.accepted_renderer = JSONRenderer()
            request.accepted_media_type = JSONRenderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)

    def _get(self, name: str) -> Stream:
        return get_object_or_404(selectors.streams(), name=name)

    def _answer(self, stream: Stream, code: int = status.HTTP_200_OK) -> Response:
        return Response(serializers.StreamSerializer(self._get(stream.name)).data, status=code)

    def list(self, request: Request) -> Response:
        """By name."""
        del request
        return self.page(selectors.streams(), serializers.StreamSerializer)

    @extend_schema(request=serializers.StreamCreateSerializer)
    def create(self, request: Request) -> Response:
        """From now on; with `snapshot` the present rows come, too."""
        body = self.read(serializers.StreamCreateSerializer, request)
        owner = list_replicators().filter(pk=body.pop("replicator")).first()
        if owner is None:
            raise ConfigurationError("Unknown replicator.", remedy="GET /api/v1/replicators/ lists them.")
        made = services.create_stream(replicator=owner, user=user_of(request), **body)
        return self._answer(made, status.HTTP_201_CREATED)

    def retrieve(self, request: Request, name: str) -> Response:
        """One stream."""
        del request
        return self._answer(self._get(name))

    @extend_schema(request=serializers.StreamChangeSerializer)
    def partial_update(self, request: Request, name: str) -> Response:
        """Other tables, another retention.  A table that was not in it is from now on."""
        stream, body = self._get(name), self.read(serializers.StreamChangeSerializer, request)
        if {"tables", "exclude"} & body.keys():
            known, out = selectors.tables_named(stream)
            before = None if known is None else [table.table_id for table in known]
            services.change_tables(
                stream=stream,
                tables=body.get("tables", before),
                exclude=body.get("exclude", [table.table_id for table in out]),
                user=user_of(request),
            )
        if "retention_hours" in body:
            services.change_retention(stream=stream, hours=body["retention_hours"], user=user_of(request))
        return self._answer(stream)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        """With its groups."""
        services.delete_stream(stream=self._get(name), user=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def enable(self, request: Request, name: str) -> Response:
        """It gives changes, and keeps them for its retention."""
        return self._answer(services.set_enabled(stream=self._get(name), enabled=True, user=user_of(request)))

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def disable(self, request: Request, name: str) -> Response:
        """It gives nothing, and nothing is kept for it."""
        return self._answer(services.set_enabled(stream=self._get(name), enabled=False, user=user_of(request)))

    @extend_schema(responses=serializers.ShardSerializer(many=True))
    @action(detail=True, pagination_class=None)
    def shards(self, request: Request, name: str) -> Response:
        """Where each begins and ends now."""
        del request
        stream = self._get(name)
        end = captured(stream)
        found = [
            {
                "shard": shard,
                "oldest": checkpoint(stream.uid, shard, StreamPosition(stream.oldest)),
                "latest": checkpoint(stream.uid, shard, StreamPosition(end)),
            }
            for shard in range(stream.shards)
        ]
        return Response(found)

    @extend_schema(parameters=ASKED, responses=serializers.BatchSerializer)
    @action(detail=True, renderer_classes=[JSONRenderer, ArrowRenderer], pagination_class=None)
    def changes(self, request: Request, name: str) -> Response:
        """What follows a checkpoint in a shard: in order, without a gap.  410 with `oldest` where some of it is
        deleted.
        """
        stream, asked = self._get(name), _asked(request.query_params)
        try:
            start, batch = reading.changes(stream, asked)
        except CheckpointTooOld as error:
            gone = {"code": error.code, "message": error.message, "remedy": error.remedy, "oldest": error.oldest}
            return Response(gone, status=status.HTTP_410_GONE)
        marks = [checkpoint(stream.uid, asked.shard, place) for place in (start, batch.position)]
        if request.accepted_renderer.format == ArrowRenderer.format:
            headers = {"Tidemark-Checkpoint": marks[1], "Tidemark-More": "true" if batch.more else "false"}
            return Response(forms.as_arrow(batch), headers=headers)
        header = {"stream": name, "shard": asked.shard, "start": marks[0], "checkpoint": marks[1], "more": batch.more}
        return Response(header | {"changes": forms.as_json(batch)})

    @extend_schema(request=serializers.AckSerializer, responses=serializers.AckSerializer)
    @action(detail=True, methods=["post"])
    def ack(self, request: Request, name: str) -> Response:
        """All before the checkpoint is stored at the client: the group goes on there."""
        stream, body = self._get(name), self.read(serializers.AckSerializer, request)
        if body["shard"] >= stream.shards:
            raise ConfigurationError(f"The stream {stream} has the shards 0 to {stream.shards - 1}.")
        given = body.pop("checkpoint")
        return Response(body | {"checkpoint": groups.ack(stream=stream, text=given, **body)})

    @extend_schema(responses=serializers.GroupSerializer(many=True))
    @action(detail=True, pagination_class=None)
    def groups(self, request: Request, name: str) -> Response:
        """With their lag and checkpoints."""
        del request
        stream = self._get(name)
        lags = selectors.group_lags([stream]).get(stream.pk, [])
        return Response(listed(serializers.GroupSerializer, lags))


@extend_schema(tags=["streams"], parameters=[GROUP])
class GroupViewSet(ApiViewSet):
    """Clients that read a stream together."""

    queryset = Stream.objects.none()
    serializer_class = serializers.MembershipSerializer

    def _get(self, name: str) -> Stream:
        return get_object_or_404(selectors.streams(), name=name)

    @extend_schema(request=serializers.JoinSerializer, responses={201: serializers.MembershipSerializer})
    def join(self, request: Request, name: str, group: str) -> Response:
        """A new member; its shards may still be the others': heartbeats tell when they come."""
        body = self.read(serializers.JoinSerializer, request)
        made = groups.join(stream=self._get(name), group=group, **body)
        return Response(serializers.MembershipSerializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=serializers.HeartbeatSerializer)
    def heartbeat(self, request: Request, name: str, group: str) -> Response:
        """Renew the lease, more often than every third of it.  The member must release shards that the answer lacks."""
        body = self.read(serializers.HeartbeatSerializer, request)
        membership = groups.heartbeat(stream=self._get(name), group=group, member=body["member"], held=body["shards"])
        return Response(serializers.MembershipSerializer(membership).data)

    @extend_schema(request=serializers.LeaveSerializer, responses={204: None})
    def leave(self, request: Request, name: str, group: str) -> Response:
        """Its shards go to the others at once."""
        body = self.read(serializers.LeaveSerializer, request)
        groups.leave(stream=self._get(name), group=group, member=body["member"])
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str, group: str) -> Response:
        """A group without members; its checkpoints are forgotten."""
        del request
        groups.delete_group(stream=self._get(name), group=group)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _asked(query: Mapping[str, str]) -> reading.Asked:
    usual = BatchLimits()
    return reading.Asked(
        shard=_number(query, "shard", None, 0, services.MAX_SHARDS),
        begin=query.get("from", ""),
        group=query.get("group", ""),
        member=query.get("member", ""),
        limits=BatchLimits(
            _number(query, "max_rows", usual.rows, 1, reading.MAX_ROWS),
            _number(query, "max_bytes", usual.size, 1, reading.MAX_BYTES),
        ),
        wait=_seconds(query),
    )


def _number(query: Mapping[str, str], name: str, usual: int | None, least: int, most: int) -> int:
    text = query.get(name, "" if usual is None else str(usual))
    if not (text.isascii() and text.isdigit() and least <= int(text[:12]) <= most):
        raise ConfigurationError(f"{name} must be a number from {least} to {most}.")
    return int(text)


def _seconds(query: Mapping[str, str]) -> float:
    """Longer waits are cut: the client asks again."""
    try:
        wait = float(query.get("wait", "0"))
    except ValueError:
        wait = math.nan
    if not wait >= 0:  # NaN is refused, too
        raise ConfigurationError("wait must be a number of seconds.")
    return min(wait, reading.MAX_WAIT)
