"""Proof that a target equals its source, sharing nothing with the pipeline but the error tree."""

from replicator.verification.comparison import compare
from replicator.verification.model import (
    CatalogConfig,
    DeltaConfig,
    DifferenceKind,
    Options,
    RowDifference,
    SourceConfig,
    TablePair,
    TableReport,
)
from replicator.verification.selection import SelectionLine, absent_tables
from replicator.verification.source import OpenReader

__all__ = [
    "CatalogConfig",
    "DeltaConfig",
    "DifferenceKind",
    "OpenReader",
    "Options",
    "RowDifference",
    "SelectionLine",
    "SourceConfig",
    "TablePair",
    "TableReport",
    "absent_tables",
    "compare",
]
