"""Apache Iceberg tables in a JDBC catalog, changed by Spark; README.md is the guide."""

from pathlib import Path

from replicator.targets.iceberg.target import IcebergTarget

GUIDE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

__all__ = ["GUIDE", "IcebergTarget"]
