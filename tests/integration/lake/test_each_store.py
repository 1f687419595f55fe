"""Modes, stores and Spark Connect together: each change, compaction and expiry leaves what a model of the mode says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from replicator.model.mode import Mode
from replicator.targets.iceberg.destination import NO_LAKE, lake_catalog
from tests.connect_server import ConnectServer
from tests.contract.targets.places import STORES, jdbc_settings
from tests.integration.lake.store_worker import BUNDLES, KEYS, NAMESPACE, STEPS, batches
from tests.integration.spark.mode_models import Model
from tests.staged import Row

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(900)]
BUILT = {"gcs", "adls"}  # their servers are built on first use
NUMBERS = count(1)
ROOT = Path(__file__).parents[3]
WAYS = {
    "load": "append (direct)", "merge": "(direct)", "spark": "(Spark", "compact by Spark": "compacted",
    "compact": "compacted", "expire": "deleted",
}  # fmt: skip
Worker = Callable[[dict[str, object]], str]


def trials() -> list[Any]:
    """All combinations; `make test` has each mode once, on a file or S3 store, by a Spark that is not Connect."""
    found = []
    for (one, store), (other, mode), connect in product(enumerate(STORES), enumerate(Mode), (0, 1)):
        chosen = store not in BUILT and not connect and (one + other) % 2 == 0
        marks = () if chosen else pytest.mark.long
        name = f"{store}-{mode}-{'connect' if connect else 'own'}"
        found.append(pytest.param(store, mode, bool(connect), marks=marks, id=name))
    return found


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Worker]]:
    """worker(connect) → a process that takes steps, one for the whole module."""
    folder = tmp_path_factory.mktemp("each-store")
    running: dict[bool, tuple[subprocess.Popen[str], ConnectServer | None]] = {}

    def started(connect: bool) -> Worker:
        if connect not in running:
            server = ConnectServer(folder, bundles=BUNDLES) if connect else None
            if server is not None:
                server.start()
            command = [sys.executable, "-m", "tests.integration.lake.store_worker", f"file://{folder}/staging"]
            with (folder / f"worker-{connect}.log").open("w") as log:
                process = subprocess.Popen(
                    [*command, server.url if server else ""], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=log, text=True,
                )  # fmt: skip
            running[connect] = process, server
        process, _ = running[connect]

        def step(asked: dict[str, object]) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(asked), file=process.stdin, flush=True)
            answer = json.loads(process.stdout.readline() or '{"failed": "the worker ended"}')
            assert "failed" not in answer, answer["failed"]
            return str(answer["how"])

        return step

    yield started
    for process, server in running.values():
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(60)
        process.stdout.close()  # type: ignore[union-attr]
        if server is not None:
            server.stop()


@pytest.mark.parametrize(("store", "mode", "connect"), trials())
def test_a_table_is_what_its_model_says_after_every_step(
    store: str, mode: Mode, connect: bool, worker: Callable[[bool], Worker], postgres_url: str,
    request: pytest.FixtureRequest, tmp_path: Path,
) -> None:  # fmt: skip
    settings = {**jdbc_settings(postgres_url), **STORES[store](request, tmp_path)}
    table = f"{store}_{mode.value}_{int(connect)}_{next(NUMBERS)}"
    step, (schema, changes) = worker(connect), batches(table)
    model = Model(tuple(schema.names.index(name) for name in (f"k {n}" for n in range(len(KEYS)))))
    catalog = load_catalog("lake", **lake_catalog(settings, NO_LAKE).python)
    snapshots = 0
    for what, batch in zip(STEPS, changes, strict=True):
        how = step({"settings": settings, "mode": mode.value, "table": table})
        assert WAYS[what] in how, (what, how)
        for change in batch:
            model.apply(change)
        found = catalog.load_table((NAMESPACE, table))
        assert Counter(map(tuple, _rows(found.scan().to_arrow().to_pylist(), mode))) == _expected(model, mode), what
        if what == "expire":
            assert len(found.snapshots()) < snapshots
        snapshots = len(found.snapshots())
    catalog.close()


def _rows(found: list[dict[str, object]], mode: Mode) -> list[Row]:
    return [tuple(row.values())[:-1] if mode is Mode.MIRROR else tuple(row.values()) for row in found]


def _expected(model: Model, mode: Mode) -> Counter[Row]:
    if mode is Mode.MIRROR:
        return Counter(row for row, _, gone in model.soft.values() if gone is None)
    return Counter(model.rows(mode))
