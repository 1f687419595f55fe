"""Reading destinations."""

from __future__ import annotations

from django.db.models import Count, QuerySet

from replicator.targets.kind import TargetKind
from replicator.targets.registry import KINDS
from webapp.destinations.models import Destination
from webapp.destinations.services import built_in


def list_destinations() -> QuerySet[Destination]:
    """By name, each with `replicator_count`."""
    built_in()
    return Destination.objects.annotate(replicator_count=Count("replicators")).order_by("name")


def kinds() -> list[TargetKind]:
    """Every registered target."""
    return list(KINDS.values())
