"""A lake without Spark: a bare JVM with Iceberg's classes is all that direct merges may need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.staging.storage import Storage
from replicator.targets.iceberg.jvm import jvm
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import java_options


@pytest.fixture(scope="module")  # and no longer: tests that need Spark itself start it after this
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("direct")
    config = SparkConfig(
        jars=spark_jars(),
        catalog_uri=f"jdbc:sqlite:{folder}/catalog.db",
        warehouse=f"file://{folder}/warehouse",
        master="local[2]",
        driver_memory="512m",
        java_options=java_options(),
    )
    alone = jvm._engine is None
    storage = Storage(f"file://{folder}/staging")
    pool = SparkPool(config)
    yield Lake(pool, storage, IcebergTarget(pool, storage, "r1"), folder / "catalog.db")
    if alone:
        jvm.stop()
