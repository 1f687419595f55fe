"""A log that is kept for no time at all."""

from __future__ import annotations

import time

import pytest

from tests.integration.pipeline.lab import Lab


def purge_everything_old(lab: Lab) -> None:
    """The server keeps a file that a reader has just left a moment longer."""
    lab.execute("SET GLOBAL slave_connections_needed_for_purge = 0", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with lab.sql.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            newest = cursor.fetchone()[0]
            cursor.execute(f"PURGE BINARY LOGS TO '{newest}'")
            cursor.execute("SHOW BINARY LOGS")
            if cursor.rowcount == 1:
                return
        time.sleep(0.2)
    pytest.fail("the server does not purge its log")
