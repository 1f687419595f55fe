"""The form of a destination."""

from __future__ import annotations

from webapp.connections.forms import EndpointForm
from webapp.destinations.models import Destination


class DestinationForm(EndpointForm):
    model = Destination
    word = "destination"
    example = "For example “analytics cluster”."
