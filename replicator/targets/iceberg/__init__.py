"""Apache Iceberg tables in a JDBC catalog, changed by Spark; README.md is the guide."""

from replicator.targets.iceberg.target import IcebergTarget

__all__ = ["IcebergTarget"]
