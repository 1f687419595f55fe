"""The pages of destinations."""

from __future__ import annotations

from replicator.targets.registry import KINDS
from webapp.connections.pages import EndpointPages, Words
from webapp.destinations import selectors
from webapp.destinations.forms import DestinationForm
from webapp.destinations.services import DESTINATIONS

WORDS = Words(
    "Destination",
    "Destinations",
    about="Where replicators write to. Several replicators can share one.",
    empty="A destination holds the address and the credentials of a lakehouse, a warehouse or a message broker.",
    unused="No replicator writes to it yet.",
    kind="Kind of destination",
    deletion="Its address and credentials are removed from Tidemark. Nothing changes at the destination itself.",
    use="into",
)
PAGES = EndpointPages(
    "destinations",
    WORDS,
    DESTINATIONS,
    DestinationForm,
    kinds=lambda: KINDS,
    listed=selectors.list_destinations,
    usual=next(kind.name for kind in KINDS.values() if kind.destination_form),
    makes=lambda kind: bool(kind.destination_form),
)
