"""Spark with Delta Lake's own library in a separate process, for tests: takes SQL, returns rows.

Run as a program, this module is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from webapp.embedded.java_artifacts import Artifact, all_fetched
from webapp.embedded.ports import LOOPBACK

JARS = (
    Artifact(
        "io.delta", "delta-spark_4.1_2.13", "4.3.0", "35ae4164ee41bbfc8bdb52dcd3715ff4e1821a18c085e7a71a462e8e80e23ee5"
    ),
    Artifact("io.delta", "delta-storage", "4.3.0", "d765a7144289c292e256963f810c1a4b096a8c09bdb3b0370096393b6a02b3c5"),
)
ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


class SparkSql:
    """Another program.  One statement at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, statement: str) -> list[list[Any]]:
        """Rows, their values as texts; AssertionError with Spark's words."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(statement), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or '{"failed": "Spark ended."}')
        assert "failed" not in answer, (statement, answer["failed"])
        rows: list[list[Any]] = answer["rows"]
        return rows


@contextmanager
def spark_sql(folder: Path) -> Iterator[SparkSql]:
    """`folder` holds what Spark writes for itself, its log among it."""
    jars = [str(jar) for jar in all_fetched(JARS)]
    with (folder / "spark.log").open("w") as log, subprocess.Popen(
        [sys.executable, "-m", "testing.servers.delta_spark", str(folder), *jars],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
    ) as process:  # fmt: skip
        try:
            yield SparkSql(process)
        finally:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait(60)


def main(folder: str, jars: Sequence[str]) -> None:
    """Until the end of what comes in.  What Java writes goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars))
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": f"{folder}/warehouse"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"rows": [list(row) for row in spark.sql(json.loads(line)).collect()]}
        except Exception as error:  # noqa: BLE001 - reported to the caller
            answer = {"failed": str(error)[:2000]}
        print(json.dumps(answer, default=str), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
