"""Creating a slot on a separate connection, so that it can be cancelled.

The creation waits for every transaction that is writing at that moment.
"""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import psycopg2

from replicator.errors import SourceBusy, TidemarkError
from replicator.sources.base import SourceWait
from replicator.sources.postgres.blocking_transactions import endings, listed, writing
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, read_rows, server_version
from replicator.sources.postgres.offset import parse_lsn

_LOOK_SECONDS = 0.5
_TOLD_SECONDS = 30.0
_CHECKED_SINCE = 140000


def create_slot(control: Connection, config: PostgresConfig, statement: str, waiting: SourceWait) -> int:
    """Where the slot begins.  `statement` makes it and returns its place; `control` looks at what it waits for.

    Raises SourceBusy once `waiting.stopped()`; the server then takes away what was made of the slot.
    """
    making = connect(config)
    with ThreadPoolExecutor(1, "slot") as pool:
        try:
            read_rows(making, "SELECT pg_catalog.set_config('lock_timeout', '0', false)", config.where)
            if server_version(making) >= _CHECKED_SINCE:  # a worker that is gone leaves no slot behind
                read_rows(
                    making,
                    "SELECT pg_catalog.set_config('client_connection_check_interval', '1s', false)",
                    config.where,
                )
            made = pool.submit(read_rows, making, statement, config.where)
            said_at, names = 0.0, ""
            while not wait([made], _LOOK_SECONDS).done:
                holders = [one for one in writing(control, config.where) if one.pid != making.info.backend_pid]
                busy = SourceBusy(
                    f"A new replication slot waits until these transactions have ended: {listed(holders)}.",
                    remedy=f"End them, or wait. SQL that ends them:\n{endings(holders)}",
                )
                if waiting.stopped():
                    raise busy
                now = " ".join(one.ending for one in holders)
                if holders and (now != names or time.monotonic() - said_at > _TOLD_SECONDS):
                    said_at, names = time.monotonic(), now
                    waiting.on_busy(busy)
            return parse_lsn(made.result()[0][0])
        finally:
            _end(control, making, config.where)


def _end(control: Connection, making: Connection, where: str) -> None:
    if making.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_ACTIVE:
        with suppress(TidemarkError):
            read_rows(control, f"SELECT pg_catalog.pg_terminate_backend({making.info.backend_pid})", where)
        with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(making.fileno())) as peer:
            peer.shutdown(socket.SHUT_RDWR)
    making.close()
