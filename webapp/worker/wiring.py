"""Opens what the engine's loops need from a replicator's rows: source, staging, target, reporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from django.conf import settings

from replicator.sources.base import ReadOptions, Source
from replicator.sources.registry import source_kind
from replicator.staging.storage import Storage
from replicator.targets.base import Target
from webapp import environment
from webapp.connections.selectors import full_config, secret_values
from webapp.monitoring.models import Stage
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import table_set
from webapp.worker.reporting import OrmReporter

if TYPE_CHECKING:
    from replicator.merge.session import SparkPool


def label(replicator: Replicator) -> str:
    """What sources and staging know the replicator by: safe in paths, unique over installations, stable."""
    return f"r{replicator.pk}-{replicator.uid}"


@lru_cache(maxsize=4)
def storage(url: str | None = None) -> Storage:
    """The staging location."""
    return Storage(url or settings.TIDEMARK_STAGING_URL)


@contextmanager
def opened_source(replicator: Replicator) -> Iterator[Source]:
    """Closed at the end of the block.  It knows the columns left out, and how values are read."""
    source = source_kind(replicator.connection.kind).open(full_config(replicator.connection))
    source.tables, source.options = table_set(replicator), read_options(replicator)
    try:
        yield source
    finally:
        source.close()


def read_options(replicator: Replicator) -> ReadOptions:
    """The same for log and snapshot."""
    return ReadOptions(zero_dates=replicator.parsed_options.zero_dates)


def reporter(replicator: Replicator, stage: Stage) -> OrmReporter:
    """Scrubs the connection's secrets and those of the installation."""
    hidden = (*secret_values(replicator.connection), settings.SECRET_KEY, settings.DATABASES["default"]["PASSWORD"])
    return OrmReporter(replicator.pk, replicator.name, stage, tuple(value for value in hidden if len(value) > 3))  # noqa: PLR2004


def open_target(replicator: Replicator) -> Target:
    """Its Spark is the process's."""
    from replicator.targets.registry import target_kind  # noqa: PLC0415 - Spark is loaded only where it is needed

    return target_kind(str(replicator.target.get("kind", "iceberg"))).open(
        spark(settings.DATABASE_URL), storage(), label(replicator)
    )


@cache
def spark(catalog: str) -> SparkPool:
    """One for all replicators: its sessions keep database connections in the JVM.  `catalog`: the metadata database's URL."""
    from replicator.merge.session import SparkConfig, SparkPool  # noqa: PLC0415 - as above
    from webapp.embedded.java_artifacts import spark_jars  # noqa: PLC0415

    database = environment.database(catalog)
    config = SparkConfig(
        jars=spark_jars(),
        catalog_uri=f"jdbc:postgresql://{database['HOST'] or 'localhost'}:{database['PORT'] or 5432}/{database['NAME']}",
        catalog_user=database["USER"],
        catalog_password=database["PASSWORD"],
        warehouse=settings.TIDEMARK_WAREHOUSE_URL,
        master=settings.SPARK_MASTER,
        remote=settings.SPARK_REMOTE,
        driver_memory=settings.TIDEMARK_SPARK_MEMORY,
        extra=settings.TIDEMARK_SPARK_EXTRA,
    )
    return SparkPool(config)
