"""One Spark for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.staging.storage import Storage
from replicator.targets.iceberg import IcebergTarget
from replicator.targets.iceberg.jvm import jvm
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from tests.integration.spark.lake import Lake
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import java_options

PASSWORD = "s3cr3t-and-unique"


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    config = SparkConfig(
        jars=spark_jars(),
        catalog_uri=f"jdbc:sqlite:{folder}/catalog.db",
        catalog_user="nobody",
        catalog_password=PASSWORD,
        warehouse=f"file://{folder}/warehouse",
        master="local[2]",
        driver_memory="1g",
        java_options=java_options(),
    )
    storage = Storage(f"file://{folder}/staging")
    pool = SparkPool(config)
    yield Lake(pool, storage, IcebergTarget(pool, storage, "r1"), folder / "catalog.db")
    jvm.stop()
