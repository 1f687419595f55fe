"""The form of a destination."""

from __future__ import annotations

from collections.abc import Sequence

from replicator.sources.base import FormField
from replicator.targets.registry import target_kind
from webapp.connections.forms import EndpointForm
from webapp.destinations.models import Destination


class DestinationForm(EndpointForm):
    model = Destination
    word = "destination"
    example = "For example “analytics cluster”."

    @classmethod
    def settings_of(cls, kind: str) -> Sequence[FormField]:
        """How a destination of the kind is reached."""
        return target_kind(kind).destination_form
