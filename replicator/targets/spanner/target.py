"""The target: each change by mutations, or by definitions that are marked first."""

from __future__ import annotations

from replicator.staging.storage import Storage
from replicator.targets.base import Capabilities
from replicator.targets.spanner.config import SpannerDestination
from replicator.targets.spanner.dialect import SpannerDialect
from replicator.targets.spanner.positions import SpannerPositions
from replicator.targets.spanner.rows import SpannerRows
from replicator.targets.spanner.schema_update import SpannerSchemaChanges
from replicator.targets.spanner.values import Budget
from replicator.targets.warehouse.target import DatabaseTarget


def open_target(
    one: SpannerDestination, can: Capabilities, storage: Storage, replicator: str, budget: Budget | None = None
) -> DatabaseTarget:
    """`storage`: where segments lie; `replicator`: the id that marks its tables.  Connects at the first use."""
    dialect, budget = SpannerDialect(one), budget or Budget()
    positions = SpannerPositions(dialect, replicator)
    schemas = SpannerSchemaChanges(dialect, positions, budget)
    return DatabaseTarget(dialect, can, positions, schemas, SpannerRows(positions, storage, dialect, budget))
