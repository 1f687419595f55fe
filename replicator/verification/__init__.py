"""Proof that a target equals its source, sharing nothing with the pipeline but the error tree."""

from replicator.verification.comparison import compare
from replicator.verification.model import (
    BigQueryConfig,
    CatalogConfig,
    DatabaseConfig,
    DeltaConfig,
    DifferenceKind,
    Options,
    RedshiftConfig,
    RowDifference,
    SnowflakeConfig,
    SourceConfig,
    SpannerConfig,
    TablePair,
    TableReport,
    TargetConfig,
)
from replicator.verification.selection import SelectionLine, absent_tables
from replicator.verification.source import OpenReader

__all__ = [
    "BigQueryConfig",
    "CatalogConfig",
    "DatabaseConfig",
    "DeltaConfig",
    "DifferenceKind",
    "OpenReader",
    "Options",
    "RedshiftConfig",
    "RowDifference",
    "SelectionLine",
    "SnowflakeConfig",
    "SourceConfig",
    "SpannerConfig",
    "TablePair",
    "TableReport",
    "TargetConfig",
    "absent_tables",
    "compare",
]
