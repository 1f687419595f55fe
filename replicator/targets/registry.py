"""The targets that exist: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replicator.errors import ConfigurationError
from replicator.merge.session import SparkPool
from replicator.staging.storage import Storage
from replicator.targets import iceberg
from replicator.targets.base import Target


@dataclass(frozen=True)
class TargetKind:
    """A plugin: how to open it (Spark, staging, replicator id), and where its guide is."""

    name: str
    title: str
    open: Callable[[SparkPool, Storage, str], Target]
    guide: str


KINDS = {
    "iceberg": TargetKind("iceberg", "Apache Iceberg", iceberg.IcebergTarget, iceberg.GUIDE),
}


def target_kind(name: str) -> TargetKind:
    """ConfigurationError for a name that is not registered."""
    try:
        return KINDS[name]
    except KeyError:
        message = f"There is no target of kind {name!r}; there are: {', '.join(sorted(KINDS))}."
        raise ConfigurationError(message) from None
