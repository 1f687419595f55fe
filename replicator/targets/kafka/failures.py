"""What librdkafka raises, in words and in the tree of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from replicator.errors import ConfigurationError, TableError, TargetConflict, TargetError, TidemarkError
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.diagnosis import CHECK_ADDRESS, DECISIVE, explained, met

WHY_SECONDS = 3.0

FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - librdkafka's own codes begin so
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
_AWAY = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_REFUSED = frozenset(
    {
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG_SIZE})


def known(error: KafkaError, config: KafkaConfig, what: str) -> TidemarkError:
    """`what`: the table or topic concerned.  Of brokers that are away it is found out why, which may take seconds."""
    code, servers = error.code(), config.bootstrap_servers
    if code in FENCED:
        return TargetConflict(f"Another worker now writes the messages of {what}.", table=what)
    if code in _TOO_LARGE:
        remedy = "Raise max.message.bytes of the topic, or exclude the column, then resnapshot the table."
        return TableError(f"A row of {what} is larger than a message of its topic may be.", table=what, remedy=remedy)
    if code in _AWAY | DECISIVE:
        return _why(error, config)
    if code in _REFUSED:
        remedy = "Correct the user and password of the target, or its privileges on topics and transactional ids."
        return TargetError(f"The Kafka brokers at {servers} refuse: {error.str()}.", remedy=remedy)
    if code == KafkaError._INVALID_ARG:  # noqa: SLF001
        return ConfigurationError(f"Kafka configuration error: {error.str()}.")
    return TargetError(f"Kafka at {servers} failed for {what}: {error.str()} ({error.name()}).")


def _why(error: KafkaError, config: KafkaConfig) -> TargetError:
    """By what the error says itself, or by asking the brokers again."""
    if error.code() in DECISIVE and (reason := explained([error], config)) is not None:
        return reason
    try:
        met(config, WHY_SECONDS)
    except TargetError as reason:
        return reason
    message = f"The Kafka brokers at {config.bootstrap_servers} do not respond: {error.str()}."
    return TargetError(message, remedy=CHECK_ADDRESS)


@contextmanager
def translated(config: KafkaConfig, what: str) -> Iterator[None]:
    """KafkaException becomes one of ours."""
    try:
        yield
    except KafkaException as error:
        raise known(error.args[0], config, what) from error
