"""The pages of connections."""

from __future__ import annotations

from replicator.sources.registry import DEFAULT_KIND, KINDS
from webapp.connections import selectors
from webapp.connections.forms import ConnectionForm
from webapp.connections.pages import EndpointPages, Words
from webapp.connections.services import CONNECTIONS

WORDS = Words(
    "Connection",
    "Connections",
    about="The databases that replicators read from.",
    empty=(
        "A connection holds the address and the credentials of a database. Tidemark tests it and gives you the SQL for"
        " anything that is missing."
    ),
    unused="No replicator reads from it yet.",
    kind="Kind of source",
    deletion="Its address and credentials are removed from Tidemark. Nothing changes on the database itself.",
    use="Replicate from",
)
PAGES = EndpointPages(
    "connections",
    WORDS,
    CONNECTIONS,
    ConnectionForm,
    kinds=lambda: KINDS,
    listed=selectors.list_connections,
    usual=DEFAULT_KIND,
)
known_kind, save = PAGES.known_kind, PAGES.save
