"""The process's JVM, and the sessions over the Spark in it.  Imports little: a process may start it before all else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connections

from replicator.errors import TidemarkError

if TYPE_CHECKING:
    from replicator.targets.iceberg.destination import LakeCatalog
    from replicator.targets.iceberg.jvm.session import SparkPool

MOST = 64  # catalogs that are open at a time
_making = threading.Lock()
_pools: dict[object, SparkPool] = {}


def spark(lake: LakeCatalog, bundles: Callable[[], frozenset[str]] = frozenset) -> SparkPool:
    """One for each catalog: its sessions keep connections in the JVM.

    bundles: of jars, that others in the process will need, asked for where a pool is made: a JVM that has them need not
    start again.
    """
    with _making:
        if lake.key not in _pools:
            while len(_pools) >= MOST:
                del _pools[next(iter(_pools))]
            _pools[lake.key] = _pool(lake, bundles())
        return _pools[lake.key]


def start_ahead() -> None:
    """Start the JVM in a thread that ignores errors.  What needs it waits for it, or tries again and raises the error;
    so where the metadata database does not say which jars it needs.
    """
    threading.Thread(target=_start, name="jvm", daemon=True).start()


def _start() -> None:
    from webapp.destinations.lakes import built_in_lake, bundles  # noqa: PLC0415

    try:
        with suppress(TidemarkError, DatabaseError):
            spark(built_in_lake(), bundles).catalog()
    finally:
        connections.close_all()


def _pool(lake: LakeCatalog, bundles: frozenset[str]) -> SparkPool:
    from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool  # noqa: PLC0415 - Spark is loaded only where it is needed
    from webapp.embedded.java_artifacts import spark_jars  # noqa: PLC0415
    from webapp.embedded.java_classes import java_options  # noqa: PLC0415

    config = SparkConfig(
        jars=spark_jars(bundles | lake.bundles),
        properties=lake.java,
        warehouse=lake.warehouse,
        own=lake.own,
        master=settings.SPARK_MASTER,
        remote=settings.SPARK_REMOTE,
        driver_memory=settings.TIDEMARK_SPARK_MEMORY,
        java_options=java_options(),
        extra=settings.TIDEMARK_SPARK_EXTRA,
    )
    return SparkPool(config)
