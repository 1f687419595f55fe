"""How each kind of target is opened: one line each.  `kinds` says what there is to know of them before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from replicator.errors import ConfigurationError
from replicator.model.retention import Retention
from replicator.staging.storage import Storage
from replicator.targets.base import Target

if TYPE_CHECKING:
    from replicator.targets.iceberg.jvm.session import SparkPool


@dataclass(frozen=True)
class Opening:
    """What a target may ask for.

    `replicator`: the label that marks what is its own; `config`: its settings, secrets included.

    spark: called by who needs it only.  source: what Debezium calls its connector.  retention: of tables that have none of their
    own.
    """

    spark: Callable[[], SparkPool]
    storage: Storage
    replicator: str
    config: Mapping[str, Any]
    source: str
    retention: Retention = field(default_factory=Retention.parse)


def _iceberg(opening: Opening) -> Target:
    from replicator.targets.iceberg import IcebergTarget  # noqa: PLC0415 - Spark is loaded only where it is needed

    return IcebergTarget(opening.spark(), opening.storage, opening.replicator, retention=opening.retention)


def _kafka(opening: Opening) -> Target:
    from replicator.targets.kafka.config import KafkaConfig  # noqa: PLC0415
    from replicator.targets.kafka.target import KafkaTarget  # noqa: PLC0415

    return KafkaTarget(KafkaConfig.parse(opening.config), opening.storage, opening.replicator, opening.source)


KINDS: Mapping[str, Callable[[Opening], Target]] = {
    "iceberg": _iceberg,
    "kafka": _kafka,
}


def open_target(kind: str, opening: Opening) -> Target:
    """ConfigurationError for a kind that is not registered."""
    try:
        return KINDS[kind](opening)
    except KeyError:
        message = f"Unknown target kind {kind!r}; known kinds: {', '.join(sorted(KINDS))}."
        raise ConfigurationError(message) from None
