"""The metadata database is frozen (SIGSTOP): pages and probes answer, and all goes on when the database does."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
from django.conf import settings

from webapp.embedded.ports import free_port
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.processes import ProcessGroup
from webapp.installation.local import LocalMachine

pytestmark = pytest.mark.integration
SLOW = 25.0  # seconds that a busy machine may take for what takes milliseconds


def get(url: str, seconds: float = 150) -> tuple[int, str]:
    # A session cookie, so that the page has to ask the database.
    try:
        with urlopen(
            Request(url, headers={"Cookie": "sessionid=abcdefghijklmnopqrstuvwxyz012345"}), timeout=seconds
        ) as one:
            return one.status, one.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def address(metadata: EmbeddedPostgres, tmp_path: Path) -> Iterator[str]:
    environment = {
        **os.environ,
        "DATABASE_URL": metadata.url,
        "TIDEMARK_HOME": str(tmp_path),
        "PYTHONPATH": str(settings.BASE_DIR),
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
    }
    port, group = free_port(), ProcessGroup(tmp_path / "log")
    made = group.start("migrate", [sys.executable, "-m", "django", "migrate", "--verbosity", "0"], environment)
    while made.alive:
        time.sleep(0.2)
    web = group.start("web", LocalMachine(port).command("web"), environment)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 120
    while True:
        try:
            assert get(f"{url}/healthz", 5)[0] == 200
            break
        except OSError:
            assert time.monotonic() < deadline, web.tail()
            time.sleep(0.2)
    yield url
    group.stop()


def freeze(metadata: EmbeddedPostgres) -> list[psutil.Process]:
    """The server and all its processes."""
    with closing(metadata.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        parent = psutil.Process((cursor.fetchone() or (0,))[0]).parent()
    assert parent is not None
    parent.suspend()
    frozen = [parent]
    for process in parent.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.suspend()
            frozen.append(process)
    return frozen


def test_a_database_that_stands_still_hangs_neither_probes_nor_pages_for_ever(
    metadata: EmbeddedPostgres, address: str
) -> None:
    with ThreadPoolExecutor(12) as visitors:  # each thread of the server has its connection
        assert {status for status, _ in visitors.map(get, [f"{address}/"] * 24)} == {200}
    answers: list[tuple[int, str]] = []
    frozen = freeze(metadata)
    try:
        # More than the server has threads: all wait for the database.
        pages = [threading.Thread(target=lambda: answers.append(get(f"{address}/"))) for _ in range(12)]
        for page in pages:
            page.start()
        time.sleep(3)  # they have their threads by now; if not, the probes have it easier
        began = time.monotonic()
        assert get(f"{address}/healthz", SLOW) == (200, '{"status": "ok"}')
        status, said = get(f"{address}/readyz", SLOW)
        assert status == 503
        assert json.loads(said)["checks"]["database"] == "does not respond"
        assert time.monotonic() - began < SLOW
        assert not answers, "no page was waiting for the database"
        for page in pages:
            page.join(200)
        assert [status for status, _ in answers] == [503] * 12
    finally:
        for process in frozen:
            with suppress(psutil.NoSuchProcess):
                process.resume()
    deadline = time.monotonic() + 60
    while (found := get(f"{address}/"))[0] != 200:  # the sign-in page
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def test_a_database_that_is_gone_for_tcp_is_noticed(settings: Any) -> None:
    options = settings.DATABASES["default"]["OPTIONS"]
    assert options["tcp_user_timeout"] <= 20_000
    assert options["connect_timeout"] == 5
    assert options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"] <= 20
