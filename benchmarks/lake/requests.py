"""Requests to the object store by merges into tables on S3 in a REST catalog, by method and kind of object.

The client's alone: a REST catalog writes metadata files itself, and these are not among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.lake.merging import MergedTable
from benchmarks.report import Row
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.stores.s3 import EmbeddedS3
from testing.servers.stores.s3_front import S3Front

if TYPE_CHECKING:
    from replicator.targets.base import ApplyResult, TargetChange, TargetTable
    from replicator.targets.iceberg.target import IcebergTarget

ROWS, KEYS, WARM, MERGES, BUCKETS = 200_000, 1_000, 3, 10, 16
TABLES = {"plain": "unpartitioned", "buckets": f"in {BUCKETS} buckets"}
PARTITION_BY = f"*.buckets: bucket({BUCKETS}, id)"


class Counted:
    """A target, and the requests that were made while it worked."""

    def __init__(self, target: IcebergTarget, front: S3Front) -> None:
        self._target, self._front = target, front
        self.merges, self.maintenance = Counter[str](), Counter[str]()

    def apply(self, table: TargetTable, change: TargetChange) -> ApplyResult:
        """See `Target`."""
        with self._counting(self.merges):
            return self._target.apply(table, change)

    def maintain(self, table: TargetTable) -> str:
        """See `Target`."""
        with self._counting(self.maintenance):
            return self._target.maintain(table)

    @contextmanager
    def _counting(self, into: Counter[str]) -> Iterator[None]:
        before = Counter(self._front.counts)
        yield
        into.update(Counter(self._front.counts) - before)


def run(world: World[Any], rows: int | None) -> list[Row]:
    """`rows` of each table."""
    from replicator.targets.iceberg.destination import lake_catalog
    from replicator.targets.iceberg.direct.writer import SPARK_ONLY
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.layout import Layout
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    found, layout = [], Layout.parse({"partition_by": PARTITION_BY})
    with servers(world) as (front, settings):
        lake = lake_catalog(settings, built_in_lake())
        pool = spark(lake, lambda: lake.bundles)
        try:
            for way, options in (("direct", {}), ("Spark", {"limits": SPARK_ONLY})):
                target = Counted(IcebergTarget(pool, storage(), way, layout=layout, **options), front)
                for name, title in TABLES.items():
                    table = MergedTable(target, pool, name, rows or ROWS, namespace=f"bench_{way.lower()}")
                    table.merges(KEYS, WARM)
                    target.merges.clear()
                    target.maintenance.clear()
                    table.merges(KEYS, MERGES)
                    case = f"merge-requests: 1k keys, {way}, {title}"
                    found += [_row(case, target.merges), _row(f"{case}, maintenance after it", target.maintenance)]
        finally:
            jvm.stop()
    return found


def _row(name: str, counts: Counter[str]) -> Row:
    say(f"{name}: {', '.join(f'{count / MERGES:g} {kind}' for kind, count in counts.most_common())}")
    methods = Counter[str]()
    for kind, count in counts.items():
        method, _, what = kind.partition(" ")
        methods["LIST" if what == "list" else method] += count
    told = ", ".join(f"{count / MERGES:g} {method}" for method, count in methods.most_common())
    return Row(f"{name}{f' ({told})' if told else ''}", methods.total() / MERGES, None, "none", met=True)


@contextmanager
def servers(world: World[Any]) -> Iterator[tuple[S3Front, dict[str, str]]]:
    """A REST catalog on S3, and the settings of a destination in it that goes to the store through the front."""
    s3 = EmbeddedS3(world.folder / "s3")
    s3.start()
    keys = {"s3.access-key-id": s3.user, "s3.secret-access-key": s3.secret, "s3.path-style-access": "true"}
    own = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "us-east-1", **keys}
    rest = EmbeddedRestCatalog(
        world.folder / "rest",
        warehouse=f"{s3.url}/bench",
        properties={**own, "s3.endpoint": s3.environment["AWS_ENDPOINT_URL"]},
    )
    front = S3Front(s3.port)
    for one in (rest, front):
        one.start()
    settings = {
        "catalog": "rest", "auth": "none", "uri": rest.uri, "store_endpoint": front.endpoint, "credentials": "keys",
        "access_key_id": s3.user, "secret_access_key": s3.secret,
    }  # fmt: skip
    try:
        yield front, settings
    finally:
        for one in (rest, front, s3):
            one.stop()
