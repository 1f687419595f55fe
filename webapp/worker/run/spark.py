"""The process's JVM, and the sessions over the Spark in it.  Imports little: a process may start it before all else."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings

from replicator.errors import TidemarkError
from webapp import environment

if TYPE_CHECKING:
    from replicator.targets.iceberg.jvm.session import SparkPool

_making = threading.Lock()


def spark(catalog: str) -> SparkPool:
    """One for all replicators: its sessions keep database connections in the JVM.

    `catalog`: the metadata database's URL.
    """
    with _making:
        return _pool(catalog)


def start_ahead() -> None:
    """The JVM starts while this process does something else; whoever needs it waits for it, and is told where it does
    not start.
    """
    threading.Thread(target=_start, name="jvm", daemon=True).start()


def _start() -> None:
    with suppress(TidemarkError):
        spark(settings.DATABASE_URL).catalog()


@cache
def _pool(catalog: str) -> SparkPool:
    from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool  # noqa: PLC0415 - Spark is loaded only where it is needed
    from webapp.embedded.java_artifacts import spark_jars  # noqa: PLC0415
    from webapp.embedded.java_classes import java_options  # noqa: PLC0415

    database = environment.database(catalog)
    config = SparkConfig(
        jars=spark_jars(settings.TIDEMARK_WAREHOUSE_URL),
        catalog_uri=environment.jdbc_url(catalog),
        catalog_user=database["USER"],
        catalog_password=database["PASSWORD"],
        warehouse=settings.TIDEMARK_WAREHOUSE_URL,
        master=settings.SPARK_MASTER,
        remote=settings.SPARK_REMOTE,
        driver_memory=settings.TIDEMARK_SPARK_MEMORY,
        java_options=java_options(),
        extra=_object_store() | settings.TIDEMARK_SPARK_EXTRA,
    )
    return SparkPool(config)


def _object_store() -> dict[str, str]:
    """How Iceberg reaches a warehouse on `s3://`; who it is, the JVM reads from the environment by itself."""
    if not settings.TIDEMARK_WAREHOUSE_URL.startswith("s3://"):
        return {}
    found = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": environment.store_region()}
    if endpoint := environment.store_endpoint():
        found |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    return {f"spark.sql.catalog.lake.{name}": value for name, value in found.items()}
