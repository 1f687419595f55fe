"""Where the demo copies the shops a second time (`--destination`): Postgres, or a stand-in that only a checkout has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webapp import environment
from webapp.connections.models import Connection
from webapp.demo.postgres_shop import MODEST
from webapp.demo.shop import DATABASE, Shop
from webapp.destinations.models import Destination
from webapp.destinations.services import DESTINATIONS
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import SelectionEntry

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Warehouse:
    """kind: the destination's; settings: of the running server; kept: does it keep what it holds when it stops?"""

    kind: str
    title: str
    settings: Settings
    kept: bool


@contextmanager
def _postgres(folder: Path, port: int) -> Iterator[Warehouse]:
    server = EmbeddedPostgresSource(folder, port, options=MODEST)
    server.start()
    try:
        settings = {"host": server.host, "port": port, "database": server.database, "user": server.user}
        yield Warehouse("postgres", "Postgres", settings | {"password": server.password, "tls": "disable"}, kept=True)
    finally:
        server.stop()


@contextmanager
def _redshift(folder: Path, port: int) -> Iterator[Warehouse]:
    from testing.servers.redshift import EmbeddedRedshift  # noqa: PLC0415 - only a checkout has it
    from testing.servers.stores.s3 import EmbeddedS3  # noqa: PLC0415

    with ExitStack() as stack:  # the folder is the server's user's, who may be another one and can walk to it only then
        server, store = EmbeddedPostgresSource(folder, options=MODEST), EmbeddedS3(folder / "s3")
        for one in (server, store):
            one.start()
            stack.callback(one.stop)
        front = EmbeddedRedshift(server, store.environment)
        front.port = port
        front.start()
        stack.callback(front.stop)
        yield Warehouse("redshift", "Redshift", front.settings(f"{store.url}/demo"), kept=True)


def _snowflake(folder: Path, port: int) -> AbstractContextManager[Warehouse]:
    from testing.servers.snowflake.embedded import EmbeddedSnowflake  # noqa: PLC0415 - only a checkout has it

    return _in_memory("snowflake", "Snowflake", EmbeddedSnowflake(folder, port))


def _bigquery(folder: Path, port: int) -> AbstractContextManager[Warehouse]:
    from testing.servers.bigquery.embedded import EmbeddedBigQuery  # noqa: PLC0415 - only a checkout has it

    return _in_memory("bigquery", "BigQuery", EmbeddedBigQuery(folder, port))


def _spanner(folder: Path, port: int) -> AbstractContextManager[Warehouse]:
    from testing.servers.spanner import EmbeddedSpanner  # noqa: PLC0415 - only a checkout has it

    return _in_memory("spanner", "Spanner", EmbeddedSpanner(folder, port))


@contextmanager
def _in_memory(kind: str, title: str, server: Any) -> Iterator[Warehouse]:
    """A stand-in that says itself how it is reached, and keeps nothing."""
    server.start()
    try:
        yield Warehouse(kind, title, server.settings, kept=False)
    finally:
        server.stop()


WAREHOUSES: Mapping[str, Callable[[Path, int], AbstractContextManager[Warehouse]]] = {
    "postgres": _postgres,
    "redshift": _redshift,
    "snowflake": _snowflake,
    "bigquery": _bigquery,
    "spanner": _spanner,
}


@contextmanager
def live_warehouse(name: str, folder: Path) -> Iterator[Warehouse]:
    """The server, on the port that it had the last time."""
    own = f"{name}-destination"
    with WAREHOUSES[name](folder / own, environment.kept_port(folder, own)) as running:
        yield running


def ensure_copy(warehouse: Warehouse, shop: Shop) -> Replicator:
    """A second replicator of the shop, into the warehouse; all is read again where that has forgotten what it held."""
    title = f"demo {warehouse.title}"
    place = Destination.objects.filter(name=title).first()
    if place is None:
        place = DESTINATIONS.create(name=title, kind=warehouse.kind, config=warehouse.settings)
    else:
        DESTINATIONS.update(place, config=warehouse.settings)
    name = f"{shop.name} to {warehouse.title}"
    if (found := selectors.by_name(name)) is None:
        return services.create_replicator(
            name=name,
            connection=Connection.objects.get(name=shop.name),
            selection=[SelectionEntry(DATABASE)],
            destination=place,
            target={"namespace_prefix": shop.namespace_prefix} if shop.namespace_prefix else None,
            options=ReplicatorOptions(slo_minutes=1),
            start=True,
        )
    return found if warehouse.kept else services.start_anew(replicator=found)
