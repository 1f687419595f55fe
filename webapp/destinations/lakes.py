"""The lake of a destination: that of this installation, or one in a catalog that its settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from replicator.errors import ConfigurationError
from replicator.targets.iceberg.destination import CATALOG, FILE_IO, S3, LakeCatalog, bundles_of, lake_catalog
from replicator.targets.registry import DEFAULT, target_kind
from webapp import environment
from webapp.connections.selectors import full_config
from webapp.destinations.models import Destination

if TYPE_CHECKING:
    from replicator.verification import CatalogConfig, TargetConfig


def catalog_url() -> str:
    """Of the Postgres database with the installation's own catalog."""
    return settings.TIDEMARK_CATALOG_URL or environment.catalog_beside(settings.DATABASE_URL)


def built_in_lake(database_url: str = "") -> LakeCatalog:
    """Return the JDBC catalog in the Postgres database of `catalog_url`; its tables are in TIDEMARK_WAREHOUSE_URL."""
    url = database_url or catalog_url()
    database, warehouse = environment.database(url), settings.TIDEMARK_WAREHOUSE_URL
    java = {
        "type": "jdbc",
        "uri": environment.jdbc_url(url),
        "warehouse": warehouse,
        "jdbc.schema-version": "V1",
        "jdbc.user": database["USER"],
        "jdbc.password": database["PASSWORD"],
    }
    store = {"s3.region": environment.store_region()}
    if endpoint := environment.store_endpoint():
        store["s3.endpoint"] = endpoint
    python = {"type": "sql", "uri": f"postgresql+psycopg2://{url.partition('://')[2]}", "init_catalog_tables": "false"}
    python |= {"warehouse": warehouse, **store}
    if warehouse.startswith("s3://"):
        java |= {"io-impl": FILE_IO[S3], "client.region": environment.store_region(), **store}
        java |= {"s3.path-style-access": "true"} if endpoint else {}
    known = {name: value for name, value in java.items() if value}
    return LakeCatalog(known, python, warehouse, environment.bundles(warehouse), own=True)


def lake_of(destination: Destination) -> LakeCatalog:
    """With secrets: for opening it only (invariant 8).  Raises ConfigurationError."""
    return lake_catalog(full_config(destination), built_in_lake())


def bundles() -> frozenset[str]:
    """Of jars, that any destination needs: a JVM that starts has them all."""
    found = environment.bundles(settings.TIDEMARK_WAREHOUSE_URL)
    return found.union(*(bundles_of(one.config) for one in Destination.objects.filter(kind=DEFAULT)))


def catalog_config() -> CatalogConfig:
    """That of this installation, as verification's own reader opens it."""
    from replicator.verification import CatalogConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    lake = built_in_lake()
    return CatalogConfig(CATALOG, lake.python.get("uri", ""), lake.warehouse, lake.python)


def copy_config(destination: Destination) -> TargetConfig:
    """How verification reaches the tables of a destination.  ConfigurationError for a kind that it cannot read."""
    kind = target_kind(destination.kind)
    if kind.verification is None:
        raise ConfigurationError(f"Tables of the kind {kind.title} cannot be compared row by row.", remedy=kind.compare)
    return kind.verification(full_config(destination), built_in_lake())
