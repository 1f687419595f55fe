"""Many clients at once at the web server that `up` starts: how long the slowest of a hundred answers takes."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.product import answers, wait
from benchmarks.report import Row
from webapp.embedded.ports import free_port
from webapp.embedded.processes import ProcessGroup
from webapp.installation.local import LocalMachine

CLIENTS, PROCESSES, SECONDS = 50, 2, 20.0
GOAL = 1000.0  # milliseconds, of 99 in 100 answers


def run(folder: Path, token: str, paths: Mapping[str, str]) -> list[Row]:
    """One row a path: all clients ask for it without a pause, each for the next when it has the last."""
    port, group = free_port(), ProcessGroup(folder)
    group.start("web", LocalMachine(port).command("web"), dict(os.environ))
    try:
        wait(lambda: answers(port), "The web server does not answer.")
        return [row for name, path in paths.items() for row in _asked(port, token, name, path)]
    finally:
        group.stop()


def _asked(port: int, token: str, name: str, path: str) -> list[Row]:
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        taken = sorted(one for some in pool.starmap(_clients, [(port, token, path)] * PROCESSES) for one in some)
    middle, slow = statistics.median(taken), taken[int(len(taken) * 0.99)]
    what = f"pages: {CLIENTS} clients, {name}"
    return [
        Row(f"{what}, answers a second", len(taken) / SECONDS, None, "none", met=True),
        Row(f"{what}, median", middle, None, "none", met=True, unit="ms"),
        Row(f"{what}, 99th percentile", slow, None, f"≤ {GOAL:.0f} ms", slow <= GOAL, "ms"),
    ]


def _clients(port: int, token: str, path: str) -> list[float]:
    """Milliseconds of each answer that came whole."""
    taken: list[float] = []
    until = time.monotonic() + SECONDS

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while time.monotonic() < until:
            began = time.perf_counter()
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                sys.exit(f"{path} answered {answer.status}")
            taken.append(1000 * (time.perf_counter() - began))

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS // PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken
