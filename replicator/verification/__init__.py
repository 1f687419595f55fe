"""Proof that a target equals its source, sharing nothing with the pipeline but the error tree."""

from replicator.verification.comparison import compare
from replicator.verification.model import (
    CatalogConfig,
    Difference,
    DifferenceKind,
    Options,
    SourceConfig,
    TablePair,
    TableReport,
)

__all__ = [
    "CatalogConfig",
    "Difference",
    "DifferenceKind",
    "Options",
    "SourceConfig",
    "TablePair",
    "TableReport",
    "compare",
]
