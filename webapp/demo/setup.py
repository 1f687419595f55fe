"""The demo's source servers, connections and replicators, made through the same services as the pages use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from webapp import environment
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.demo.mariadb_shop import MariaDBShop
from webapp.demo.postgres_shop import PostgresShop
from webapp.demo.shop import DATABASE, Shop
from webapp.demo.traffic import Traffic
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, Status
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import SelectionEntry

SHOPS: tuple[type[Shop], ...] = (MariaDBShop, PostgresShop)
CURRENT_SECONDS = 170.0


def chosen(source: str, folder: Path) -> list[Shop]:
    """The shop on `source`, or `both`; nothing runs yet."""
    kinds = [kind for kind in SHOPS if source in {kind.source, "both"}]
    return [kind(folder / folder_name(kind), environment.kept_port(folder, folder_name(kind))) for kind in kinds]


def folder_name(kind: type[Shop]) -> str:
    """`postgres` is the metadata's."""
    return "postgres-source" if kind.source == "postgres" else kind.source


@contextmanager
def live(shop: Shop) -> Iterator[None]:
    """The source server with its rows and its traffic."""
    with ExitStack() as stack:
        stack.callback(shop.server.stop)
        shop.server.start()
        shop.seed()
        traffic = Traffic(shop)
        traffic.start()
        stack.callback(traffic.stop)
        yield


def ensure_replicator(shop: Shop) -> Replicator:
    """Made and started the first time; afterwards left as the user has it, with the server's present address."""
    connection = Connection.objects.filter(name=shop.name).first()
    port = shop.server.port
    if connection is None:
        connection = connections.create_connection(name=shop.name, kind=shop.kind, config=shop.config)
    elif connection.config.get("port") != port:
        connections.update_connection(connection=connection, config=shop.config)
    found = selectors.by_name(shop.name)
    return found or services.create_replicator(
        name=shop.name,
        connection=connection,
        selection=[SelectionEntry(DATABASE)],
        target={"namespace_prefix": shop.namespace_prefix} if shop.namespace_prefix else None,
        options=ReplicatorOptions(slo_minutes=1),
        start=True,
    )


def wait_until_current(
    replicators: Sequence[Replicator], stopped: Callable[[], bool], say: Callable[[str], None]
) -> list[Replicator]:
    """Until every table of all follows the log; returns those that are stopped, paused, failed, or take too long."""
    deadline = time.monotonic() + CURRENT_SECONDS
    waiting, wrong, shown = list(replicators), list[Replicator](), dict[str, str]()
    while waiting and time.monotonic() < deadline and not stopped():
        for replicator in tuple(waiting):
            with suppress(Replicator.DoesNotExist):
                replicator.refresh_from_db()
            states = [row.state for row in selectors.tables_of(replicator)]
            if replicator.status in {Status.FAILED, Status.PAUSED, Status.STOPPED}:
                wrong.append(replicator)
                waiting.remove(replicator)
            elif states and set(states) == {"streaming"}:
                waiting.remove(replicator)
            line = f"{states.count('streaming')} of {len(states)} tables follow the log" if states else "no table yet"
            if shown.get(replicator.name) != line:
                shown[replicator.name] = line
                say(f"{replicator.name}: {line}")
        time.sleep(0.5)
    return wrong + waiting
