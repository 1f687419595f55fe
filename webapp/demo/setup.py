"""The demo's source server, connection and replicator, made through the same services as the pages use."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from webapp import environment
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.demo import shop
from webapp.demo.traffic import Traffic
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, Status
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection import SelectionEntry

NAME = "demo shop"
SEED = 7
CURRENT_SECONDS = 170.0


@contextmanager
def live_shop(folder: Path) -> Iterator[EmbeddedMariaDB]:
    """The source server with its rows and its traffic."""
    server = EmbeddedMariaDB(folder / "mariadb", environment.kept_port(folder, "mariadb"))
    server.start()
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            shop.seed(cursor, random.Random(SEED))  # noqa: S311 - not for secrecy
        traffic = Traffic(lambda: _connected(server))
        traffic.start()
        try:
            yield server
        finally:
            traffic.stop()
    finally:
        server.stop()


def _connected(server: EmbeddedMariaDB) -> Any:
    connection = server.connect(database=shop.DATABASE)
    connection.autocommit(False)  # noqa: FBT003 - pymysql's signature
    return connection


def ensure_replicator(server: EmbeddedMariaDB) -> Replicator:
    """Made and started the first time; afterwards left as the user has it, with the server's present address."""
    config = {**server.address, "tls": "disabled"}
    connection = Connection.objects.filter(name=NAME).first()
    if connection is None:
        connection = connections.create_connection(name=NAME, kind="mysql", config=config)
    elif connection.config.get("port") != server.port:
        connections.update_connection(connection=connection, config={**connection.config, "port": server.port})
    found = selectors.by_name(NAME)
    return found or services.create_replicator(
        name=NAME,
        connection=connection,
        selection=[SelectionEntry(shop.DATABASE)],
        options=ReplicatorOptions(slo_minutes=1),
        start=True,
    )


def wait_until_current(replicator: Replicator, stopped: Callable[[], bool], say: Callable[[str], None]) -> bool:
    """True once every table follows the log; False where it is stopped, paused, failed, or takes too long."""
    deadline = time.monotonic() + CURRENT_SECONDS
    shown = ""
    while time.monotonic() < deadline and not stopped():
        with suppress(Replicator.DoesNotExist):
            replicator.refresh_from_db()
        rows = list(selectors.tables_of(replicator))
        streaming = sum(row.state == "streaming" for row in rows)
        if replicator.status in {Status.FAILED, Status.PAUSED, Status.STOPPED}:
            return False
        if rows and streaming == len(rows):
            return True
        line = f"{streaming} of {len(rows)} tables follow the log" if rows else "waiting for the first rows"
        if line != shown:
            say(line)
            shown = line
        time.sleep(0.5)
    return False
