"""Connections, alert channels and replicators as code: what `manage.py export` and `manage.py apply` do, for
programs.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.api.base import ApiViewSet
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.web.responses import user_of

NAME = OpenApiParameter("name", str, many=True, description="Replicators with their dependencies; default: all")


class DefinitionsSerializer(serializers.Serializer[None]):
    """A file of definitions."""

    file = serializers.CharField(
        trim_whitespace=False, help_text="YAML; secrets as ${NAME}, as `manage.py export` writes them"
    )


class ApplySerializer(DefinitionsSerializer):
    """A file, and what its `${NAME}` stand for.  The server's own environment is not read."""

    variables = serializers.DictField(child=serializers.CharField(trim_whitespace=False), default=dict, write_only=True)
    dry_run = serializers.BooleanField(default=False, help_text="Report the changes without applying them")


class ChangesSerializer(serializers.Serializer[dict[str, Any]]):
    """What was changed, a line each; nothing where all was so already."""

    changes = serializers.ListField(child=serializers.CharField())


@extend_schema(tags=["definitions"])
class DefinitionsViewSet(ApiViewSet):
    """Definitions."""

    serializer_class = DefinitionsSerializer

    @extend_schema(parameters=[NAME], responses=DefinitionsSerializer, operation_id="export")
    def list(self, request: Request) -> Response:
        """What there is, as one file; no secret is in it."""
        return Response({"file": export(request.query_params.getlist("name"))})

    @extend_schema(request=ApplySerializer, responses=ChangesSerializer, operation_id="apply")
    def create(self, request: Request) -> Response:
        """Make it so; all or nothing, and any number of times.  What the file does not name is left alone."""
        body = self.read(ApplySerializer, request)
        with transaction.atomic():
            changes = apply(body["file"], body["variables"], user=user_of(request))
            transaction.set_rollback(body["dry_run"])
        return Response({"changes": changes})
