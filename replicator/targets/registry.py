"""The targets that exist: one line each."""

from __future__ import annotations

from replicator.errors import ConfigurationError
from replicator.targets.base import Target
from replicator.targets.bigquery.kind import BIGQUERY
from replicator.targets.delta.kind import DELTA
from replicator.targets.iceberg.kind import ICEBERG
from replicator.targets.kafka.kind import KAFKA
from replicator.targets.kind import Opening, TargetKind
from replicator.targets.postgres.kind import POSTGRES
from replicator.targets.redshift.kind import REDSHIFT
from replicator.targets.snowflake.kind import SNOWFLAKE
from replicator.targets.spanner.kind import SPANNER

KINDS: dict[str, TargetKind] = {
    kind.name: kind for kind in (ICEBERG, DELTA, POSTGRES, REDSHIFT, SNOWFLAKE, BIGQUERY, SPANNER, KAFKA)
}
DEFAULT = ICEBERG.name


def target_kind(name: str) -> TargetKind:
    """ConfigurationError for a name that is not registered."""
    try:
        return KINDS[name]
    except KeyError:
        message = f"Unknown target kind {name!r}; known kinds: {', '.join(sorted(KINDS))}."
        raise ConfigurationError(message) from None


def open_target(kind: str, opening: Opening) -> Target:
    """ConfigurationError for a kind that is not registered."""
    return target_kind(kind).open(opening)
