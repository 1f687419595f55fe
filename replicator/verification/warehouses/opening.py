"""Who reads the tables that are in no Iceberg catalog.  Clients are loaded where they are needed."""

from __future__ import annotations

from replicator.verification.model import (
    BigQueryConfig,
    DatabaseConfig,
    DeltaConfig,
    RedshiftConfig,
    SnowflakeConfig,
    SpannerConfig,
    TableConfig,
    TablePair,
)
from replicator.verification.target import PinnedTable


def open_table(config: TableConfig, pair: TablePair) -> PinnedTable:
    """The table as it is now.  Raises TargetError where it does not exist."""
    match config:
        case DeltaConfig():
            from replicator.verification import delta  # noqa: PLC0415 - delta-rs

            return delta.open_table(config, pair)
        case DatabaseConfig():
            from replicator.verification.warehouses import postgres  # noqa: PLC0415 - not before Django's drivers

            return postgres.open_table(config, pair)
        case RedshiftConfig():
            from replicator.verification.warehouses import redshift  # noqa: PLC0415 - the same

            return redshift.open_table(config, pair)
        case SnowflakeConfig():
            from replicator.verification.warehouses import snowflake  # noqa: PLC0415 - the vendor's client

            return snowflake.open_table(config, pair)
        case BigQueryConfig():
            from replicator.verification.warehouses import bigquery  # noqa: PLC0415 - the vendor's client

            return bigquery.open_table(config, pair)
        case SpannerConfig():
            from replicator.verification.warehouses import spanner  # noqa: PLC0415 - the vendor's client

            return spanner.open_table(config, pair)
