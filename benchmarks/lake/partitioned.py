"""The same merges into an unpartitioned table and into partitioned ones, in turn.

A merge writes a data file for each partition that it touches, and a file of deletes for each data file.  So it is
compared twice: with keys of all partitions, by the files written, and with keys of a single one, where the tables write
about as many files.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.world import World
from benchmarks.lake.merging import MergedTable
from benchmarks.report import Row

ROWS, KEYS, WARM, BUCKETS = 2_000_000, 1_000, 2, 16
PARTITION_BY = f"*.by_bucket: bucket({BUCKETS}, id)\n*.by_bucket_and_day: bucket({BUCKETS}, id), day(ordered)"
TITLES = {"by_bucket": f"{BUCKETS} buckets", "by_bucket_and_day": f"{BUCKETS} buckets of 12 days"}
PLAIN, BUCKET, BUCKET_AND_DAY = "plain", "by_bucket", "by_bucket_and_day"


def run(world: World[Any], rows: int | None, repeats: int) -> list[Row]:
    """`rows` of each table."""
    del world  # its environment says where the lake is
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.layout import Layout
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    pool = spark(built_in_lake())
    target = IcebergTarget(pool, storage(), "bench", layout=Layout.parse({"partition_by": PARTITION_BY}))
    try:
        tables = {name: MergedTable(target, pool, name, rows or ROWS) for name in (PLAIN, BUCKET, BUCKET_AND_DAY)}
        for table in tables.values():
            table.merges(KEYS, WARM)
        seconds: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        files: defaultdict[tuple[str, bool], list[int]] = defaultdict(list)
        for _ in range(repeats):
            for (name, table), single in itertools.product(tables.items(), (False, True)):
                seconds[name, single] += table.merges(KEYS, 1, of_one_bucket if single else None).seconds
                files[name, single].append(table.files())
        wrong = sum(table.wrong() for table in tables.values())
    finally:
        jvm.stop()

    def row(name: str, *, single: bool, goal: float | None = None) -> Row:
        ours, base = (statistics.median(seconds[one, single]) for one in (name, PLAIN))
        wrote, wrote_base = (statistics.median(files[one, single]) for one in (name, PLAIN))
        keys = f"1k keys{' of one bucket' if single else ''}"
        title = f"merge-partitioned: {keys} into {TITLES[name]}: {wrote:g} files, unpartitioned {wrote_base:g}"
        if goal is None:
            return Row(title, ours, base, "none", met=True, unit="s")
        return Row.at_most(title, ours, base, goal, "s")

    many = statistics.median(seconds[BUCKET_AND_DAY, False]) / statistics.median(files[BUCKET_AND_DAY, False])
    return [
        row(BUCKET, single=True, goal=1.5),
        row(BUCKET_AND_DAY, single=True),
        row(BUCKET, single=False),
        row(BUCKET_AND_DAY, single=False),
        Row(
            "merge-partitioned: milliseconds for each file of the last", 1000 * many, None, "none", met=True, unit="ms"
        ),
        Row("merge-partitioned: rows too many or too few after all", wrong, None, "0", wrong == 0),
    ]


def of_one_bucket(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Those of the ids that are in one bucket of `PARTITION_BY`."""
    from replicator.targets.iceberg.table.transforms import transformed

    return ids[np.asarray(transformed(f"bucket[{BUCKETS}]", pa.array(ids))) == 0]
