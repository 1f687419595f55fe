"""What there is to know of the Kafka target without opening one."""

from __future__ import annotations

from replicator.model.types import DataType, Kind
from replicator.sources.base import CheckResult
from replicator.sources.kind import read_guide
from replicator.targets.base import Target
from replicator.targets.kafka.config import CAPABILITIES, DESTINATION_FORM, EFFECTS, FIXED, FORM, KafkaConfig
from replicator.targets.kind import Opening, Settings, TargetKind, TypeSupport

NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "bytes",
    Kind.DATE: "date",
    Kind.TIMESTAMP_NTZ: "local-timestamp-micros",
    Kind.TIMESTAMP: "timestamp-micros",
}


def _types(kind: DataType) -> TypeSupport:
    """Avro's logical types, which JSON has in its own way (docs/kafka.md)."""
    named = f"decimal({kind.precision}, {kind.scale})" if kind.kind is Kind.DECIMAL else NAMES[kind.kind]
    return TypeSupport(named)


def _open(opening: Opening) -> Target:
    from replicator.targets.kafka.target import KafkaTarget  # noqa: PLC0415 - its client is loaded where it is needed

    return KafkaTarget(KafkaConfig.parse(opening.config), opening.storage, opening.replicator, opening.source)


def _namespace(settings: Settings, database: str) -> str:
    prefix = settings.get("topic_prefix", "")
    return f"{prefix}.{database}" if prefix else database


def _check(settings: Settings) -> list[CheckResult]:
    from replicator.targets.kafka.check import check  # noqa: PLC0415

    return check(settings)


def _written(settings: Settings) -> CheckResult:
    from replicator.targets.kafka.check import check_written  # noqa: PLC0415

    return check_written(settings)


KAFKA = TargetKind(
    "kafka",
    "Apache Kafka",
    "Every change as a message, one topic per table, in transactions: no duplicates with isolation level"
    " read_committed.",
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    namespace=_namespace,
    place=lambda settings: str(settings.get("bootstrap_servers", "")),
    dataset=lambda settings, _: f"kafka://{str(settings.get('bootstrap_servers', '')).partition(',')[0]}",
    form=FORM,
    destination_form=DESTINATION_FORM,
    valid=KafkaConfig.parse,
    fixed=FIXED,
    effects=EFFECTS,
    check=_check,
    written=_written,
    compare="Rebuild a table from its topic as described in docs/kafka.md, and compare that.",
    guide=read_guide(__file__),
)
