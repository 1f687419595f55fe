"""The same small merges in the lakehouse of the installation, in a REST catalog, in one whose files are on S3, and in a
folder of Delta tables: how long one takes, and how many requests to the catalog.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.lake.merging import MergedTable
from benchmarks.report import Row
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import RestFront
from testing.servers.stores.s3 import EmbeddedS3

if TYPE_CHECKING:
    from replicator.targets.iceberg.destination import LakeCatalog

ROWS, KEYS, MERGES, WARM = 500_000, 1_000, 20, 3
DELTA = "a folder of Delta tables"


def run(world: World[Any], rows: int | None) -> list[Row]:
    """Merges in turn, so that all places meet what else the machine does."""
    from replicator.targets.delta.destination import DeltaStore
    from replicator.targets.delta.target import DeltaTarget
    from replicator.targets.iceberg.destination import lake_catalog
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    own = built_in_lake()
    with _servers(world) as (rest, on_s3, settings):
        places: dict[str, tuple[LakeCatalog, RestFront | None]] = {"its own lakehouse": (own, None)}
        plain = {"catalog": "rest", "uri": rest.uri, "auth": "none", "store": "file"}
        places["a REST catalog"] = (lake_catalog(plain, own), rest)
        places["a REST catalog and S3"] = (lake_catalog({**settings, "uri": on_s3.uri}, own), on_s3)
        bundles = frozenset[str]().union(*(lake.bundles for lake, _ in places.values()))
        try:
            tables = {}
            for name, (lake, _) in places.items():
                pool = spark(lake, lambda: bundles)
                tables[name] = MergedTable(IcebergTarget(pool, storage(), "bench"), pool, "catalogs", rows or ROWS)
                tables[name].merges(KEYS, WARM)
            store = DeltaStore(f"file://{world.folder}/delta")
            tables[DELTA] = MergedTable(DeltaTarget(store, storage(), "bench"), None, "catalogs", rows or ROWS)
            tables[DELTA].merges(KEYS, WARM)
            seconds: dict[str, list[float]] = {name: [] for name in tables}
            asked: dict[str, Counter[str]] = {name: Counter() for name in tables}
            fronts = {name: front for name, (_, front) in places.items()}
            for _ in range(MERGES):
                for name, table in tables.items():
                    front = fronts.get(name)
                    before = Counter(front.counts if front else ())
                    seconds[name] += table.merges(KEYS, 1).seconds
                    asked[name] += Counter(front.counts if front else ()) - before
        finally:
            jvm.stop()
    base = statistics.median(seconds["its own lakehouse"])
    found = []
    for name, took in seconds.items():
        ours, per = statistics.median(took), {what: number / MERGES for what, number in asked[name].items()}
        say(f"catalogs: {name}: {ours:.3f} s, requests {per}")
        found.append(Row(f"catalogs: 1k keys into {name}", ours, base, "none", met=True, unit="s"))
        if per:
            found.append(Row(f"catalogs: requests in one, {name}", sum(per.values()), None, "none", met=True))
    return found


@contextmanager
def _servers(world: World[Any]) -> Iterator[tuple[RestFront, RestFront, dict[str, str]]]:
    """Fronts of two REST catalogs, and the settings of a destination in the second one, which is on S3."""
    s3 = EmbeddedS3(world.folder / "s3")
    s3.start()
    endpoint = s3.environment["AWS_ENDPOINT_URL"]
    keys = {"s3.access-key-id": s3.user, "s3.secret-access-key": s3.secret, "s3.path-style-access": "true"}
    own = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "us-east-1", **keys}
    servers = [
        EmbeddedRestCatalog(world.folder / "rest"),
        EmbeddedRestCatalog(
            world.folder / "rest-s3",
            warehouse=f"{s3.url}/bench",
            properties={**own, "s3.endpoint": endpoint},
        ),
    ]
    for server in servers:
        server.start()
    fronts = [RestFront(server.uri) for server in servers]
    for front in fronts:
        front.start()
    settings = {
        "catalog": "rest", "auth": "none", "store_endpoint": endpoint, "credentials": "keys",
        "access_key_id": s3.user, "secret_access_key": s3.secret,
    }  # fmt: skip
    try:
        yield fronts[0], fronts[1], settings
    finally:
        for one in (*fronts, *servers, s3):
            one.stop()
