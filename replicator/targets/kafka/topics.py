"""Topics: made when they are needed, never deleted."""

from __future__ import annotations

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from replicator.targets.kafka.config import MAX_MESSAGE_BYTES, KafkaConfig

SECONDS = 10.0
KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}


class Topics:
    """Of one cluster.  All raise KafkaException.  Thread-safe."""

    def __init__(self, config: KafkaConfig) -> None:
        """Nothing is connected yet."""
        self._config = config
        self._admin = AdminClient(config.client)
        # Not the admin client, which would make a topic by asking for it where the brokers allow that.
        self._asking = Consumer(config.consumer("read_committed"))

    def partitions(self, topic: str) -> int:
        """Return the topic's number of partitions; 0 where it does not exist."""
        found = self._asking.list_topics(topic, SECONDS).topics.get(topic)
        if found is None or (found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
            return 0
        if found.error is not None:
            raise KafkaException(found.error)
        return len(found.partitions)

    def make(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        """No error where it is there."""
        new = NewTopic(topic, partitions, self._config.replication_factor, config=settings)
        try:
            self._admin.create_topics([new], request_timeout=SECONDS)[topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def used(self, topic: str, partitions: int) -> bool:
        """Has anything ever been written to it?"""
        places = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        asked = self._admin.list_offsets(
            places, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=SECONDS
        )
        return any(one.result().offset > 0 for one in asked.values())

    def close(self) -> None:
        self._asking.close()
