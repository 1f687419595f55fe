"""The test of a Kafka target: what would fail later, tried now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from replicator.errors import TidemarkError
from replicator.sources.base import CheckResult, CheckStatus
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.diagnosis import met
from replicator.targets.kafka.failures import known
from replicator.targets.kafka.naming import APPLIED

SECONDS = 10.0
PROBE = "tidemark-probe"


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """One line for each thing tried; it ends with the first that fails.  Makes no topic and no message."""
    results: list[CheckResult] = []
    try:
        config = KafkaConfig.parse(settings)
        for name, title, attempt in (
            ("brokers", "Brokers", _brokers),
            ("topics", "Privilege to create topics", _topics),
            ("transactions", "Transactions", _transactions),
        ):
            results.append(CheckResult(name, title, CheckStatus.OK, _tried(config, attempt)))
    except TidemarkError as error:
        title = ("Brokers", "Privilege to create topics", "Transactions")[len(results)]
        results.append(CheckResult("failed", title, CheckStatus.FAILED, error.message, error.remedy))
    return results


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Do these brokers have what was written before?  Never raises."""
    title = "Same cluster"
    try:
        config = KafkaConfig.parse(settings)
        topic = config.topic(APPLIED)
        there = topic in met(config, SECONDS).topics
    except TidemarkError as error:
        return CheckResult("written", title, CheckStatus.FAILED, error.message, error.remedy)
    if there:
        return CheckResult("written", title, CheckStatus.OK, f"The topic {topic} exists.")
    detail = (
        f"The Kafka brokers at {config.bootstrap_servers} do not have the topic {topic}, which stores the progress of"
        " each table."
    )
    remedy = "Use brokers of the same cluster. To write to another cluster, create another replicator."
    return CheckResult("written", title, CheckStatus.FAILED, detail, remedy)


def _tried(config: KafkaConfig, attempt: Any) -> str:
    try:
        return str(attempt(config))
    except KafkaException as error:
        raise known(error.args[0], config, "the test") from error


def _brokers(config: KafkaConfig) -> str:
    found = met(config, SECONDS)
    return f"{len(found.brokers)} broker{'' if len(found.brokers) == 1 else 's'} of the cluster {found.cluster_id}."


def _topics(config: KafkaConfig) -> str:
    """Only tried: the brokers say whether they would."""
    new = NewTopic(config.topic(PROBE), config.partitions, config.replication_factor)
    admin = AdminClient(config.client)  # it must live until it has answered
    admin.create_topics([new], request_timeout=SECONDS, validate_only=True)[new.topic].result()
    return f"A topic such as {config.topic(APPLIED)} can be created."


def _transactions(config: KafkaConfig) -> str:
    """Start a transaction under an id that nothing else uses."""
    producer = Producer(config.producer(f"tidemark.{config.topic(PROBE)}"))
    try:
        producer.init_transactions(SECONDS)
    finally:
        producer.close()
    return "A transaction can be started."
