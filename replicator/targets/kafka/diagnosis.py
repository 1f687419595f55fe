"""Why brokers cannot be used.

A call of librdkafka says only that no broker answered; it reports the cause separately, to a callback.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from replicator.addresses import checked_host
from replicator.errors import TargetError
from replicator.targets.kafka.config import KafkaConfig

STEP_SECONDS = 0.2
SETTLE_SECONDS = 1.5  # after an error that another address, or a second attempt, may resolve
DECISIVE = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001 - librdkafka's own codes begin so
TELLING = DECISIVE | {KafkaError._TRANSPORT, KafkaError._RESOLVE}  # noqa: SLF001
MECHANISMS = re.compile(r"supported mechanisms: ([A-Z0-9, -]+\w)")
UNMET = ("Connect to", "resolve", "timed out")  # no broker took the connection; after other errors one has closed it
CHECK_ADDRESS = "Check that the brokers are running and reachable from this machine at their addresses and ports."


def met(config: KafkaConfig, seconds: float) -> ClusterMetadata:
    """What the brokers say of themselves; TargetError with what is wrong as soon as that is known, `seconds` at
    most.
    """
    heard: list[KafkaError] = []
    admin = AdminClient(config.client | {"error_cb": heard.append})
    until = time.monotonic() + seconds
    settled = False
    while True:
        try:
            found = admin.list_topics(timeout=STEP_SECONDS)
            for broker in found.brokers.values():
                checked_host(broker.host)
            return found  # noqa: TRY300 - what else raises is not librdkafka's
        except KafkaException as error:
            last = error.args[0]
        admin.poll(0)
        if heard and not settled:
            settled, until = True, min(until, time.monotonic() + SETTLE_SECONDS)
        if time.monotonic() > until or any(error.code() in DECISIVE for error in heard):
            raise explained(heard, config) or _away(config, last.str())


def explained(heard: Sequence[KafkaError], config: KafkaConfig) -> TargetError | None:
    """What tells most of it, in a sentence with what to do; None where nothing was heard."""
    errors = sorted(
        (error for error in heard if error.code() in TELLING), key=lambda error: error.code() not in DECISIVE
    )
    if errors:
        code, text = errors[0].code(), errors[0].str()
        if code == KafkaError._AUTHENTICATION:  # noqa: SLF001
            return _refused(config, text)
        if code == KafkaError._SSL:  # noqa: SLF001
            return _untrusted(config, text)
        if "PLAINTEXT broker listener" in text:
            return _no_tls(config)
        unmet = [error.str() for error in errors if any(sign in error.str() for sign in UNMET)]
        if unmet:  # also where one that was had was closed, because its broker went
            return _away(config, _plain(unmet[0]))
    return _hung_up(config) if heard else None  # all brokers are down, and nothing says why


def _hung_up(config: KafkaConfig) -> TargetError:
    """Each took the connection, and closed it."""
    remedy = (
        "Choose the security protocol of this port: probably TLS, none, or user and password. "
        "If it is correct, check the log of the brokers."
    )
    message = f"The Kafka brokers at {config.bootstrap_servers} close connections with {config.security_protocol}."
    return TargetError(message, remedy=remedy)


def _refused(config: KafkaConfig, text: str) -> TargetError:
    servers, mechanism = config.bootstrap_servers, config.sasl_mechanism
    if "Unsupported SASL mechanism" in text:
        found = MECHANISMS.search(text)
        taken = f"; they support {found[1].replace(',', ', ')}" if found else ""
        message = f"The Kafka brokers at {servers} do not support the SASL mechanism {mechanism}{taken}."
        return TargetError(message, remedy="Choose a supported mechanism, or enable this one on the brokers.")
    if "current SASL state" in text:
        other = config.security_protocol.replace("SASL_PLAINTEXT", "PLAINTEXT").replace("SASL_SSL", "SSL")
        message = f"The Kafka brokers at {servers} do not use SASL on this port; it accepts {other}."
        return TargetError(message, remedy=f"Choose the security protocol {other}, or the port for SASL.")
    message = f"The Kafka brokers at {servers} reject the user {config.username} or its password ({mechanism})."
    remedy = (
        "Correct the user and password of the target. For SCRAM the user must exist on the brokers for this mechanism."
    )
    return TargetError(message, remedy=remedy)


def _untrusted(config: KafkaConfig, text: str) -> TargetError:
    servers = config.bootstrap_servers
    if "certificate verify failed" in text:
        by = "the certificate authority of the target" if config.ca else "the system’s certificate authorities"
        message = f"The certificate of the Kafka brokers at {servers} cannot be verified by {by}."
        remedy = "Set the certificate authority that signed it, and use broker names that are in the certificate."
        return TargetError(message, remedy=remedy)
    message = f"TLS with the Kafka brokers at {servers} fails: {_plain(text)}."
    return TargetError(
        message, remedy="Check that this port uses TLS, and that the brokers do not require a client certificate."
    )


def _no_tls(config: KafkaConfig) -> TargetError:
    other = "SASL_PLAINTEXT" if config.security_protocol.startswith("SASL") else "PLAINTEXT or SASL_PLAINTEXT"
    message = f"The Kafka brokers at {config.bootstrap_servers} do not accept TLS on this port."
    return TargetError(message, remedy=f"Choose the security protocol {other}, or the TLS port of the brokers.")


def _away(config: KafkaConfig, text: str) -> TargetError:
    return TargetError(f"The Kafka brokers at {config.bootstrap_servers} do not respond: {text}.", remedy=CHECK_ADDRESS)


def _plain(text: str) -> str:
    """Without the client's own marks: `ssl://host:1/bootstrap: … (after 4ms in state CONNECT)`."""
    return re.sub(r"^\S+/\S+: | \(after \d+ms in state \w+[^)]*\)$", "", text)
