"""A lake without Spark: a bare JVM with Iceberg's classes is all that direct merges may need."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from replicator.merge import engine
from replicator.merge.engine import Engine
from replicator.merge.session import SparkConfig, SparkPool
from replicator.staging.storage import Storage
from replicator.targets.iceberg import IcebergTarget
from tests.integration.spark.lake import Lake
from webapp.embedded.java_artifacts import spark_jars


@pytest.fixture(scope="module")  # and no longer: tests that need Spark itself start it after this
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("direct")
    config = SparkConfig(
        jars=spark_jars(),
        catalog_uri=f"jdbc:sqlite:{folder}/catalog.db",
        warehouse=f"file://{folder}/warehouse",
        master="local[2]",
        driver_memory="512m",
    )
    alone = engine._engine is None
    if alone:
        conf = SparkConf(loadDefaults=False)
        for key, value in engine.launch_settings(config).items():
            conf.set(key, value)
        gateway = launch_gateway(conf)
        hadoop = gateway.jvm.org.apache.hadoop.conf.Configuration()
        engine._generation += 1
        engine._engine = Engine(None, gateway.jvm, gateway, hadoop, engine._generation, os.getpid(), "")
    storage = Storage(f"file://{folder}/staging")
    pool = SparkPool(config)
    yield Lake(pool, storage, IcebergTarget(pool, storage, "r1"), folder / "catalog.db")
    if alone:
        engine.stop()
