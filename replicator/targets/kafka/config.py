"""What a Kafka target can do and consists of, the form for its settings, and librdkafka's configuration."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from replicator.addresses import checked_authority, checked_servers, host_and_port, resolved
from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.targets.base import Capabilities
from replicator.targets.shared_settings import SHARED_EFFECTS, SHARED_FORM

CAPABILITIES = Capabilities(
    modes=frozenset(), exactly_once="transactional messages", renames=False, unfolded=True,
)  # fmt: skip
LEGAL = re.compile(r"[A-Za-z0-9._-]*")
MAX_PREFIX_LENGTH = 100
MAX_PARTITIONS = 1000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # bytes; topics that Tidemark makes take as much
TRANSACTION_SECONDS = 900  # the most that a broker allows by default
DELIVERY_SECONDS = 60
QUEUE_KILOBYTES = 32 * 1024  # of each table's messages under way (invariant 9)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
FORMATS = ("json", "avro")
ENVELOPES = ("debezium", "flat")
LOGGER = logging.getLogger("tidemark.kafka")
LOGGER.setLevel(logging.CRITICAL + 1)  # an unreachable broker is reported once, as the table's failure


def _choices(*names: str, **titles: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, titles.get(name, name)) for name in names)


SASL = (("security_protocol", ("SASL_PLAINTEXT", "SASL_SSL")),)
DESTINATION_FORM = (
    FormField("bootstrap_servers", "Bootstrap servers", help="host:port, separated by commas."),
    FormField("security_protocol", "Security", "choice", default="PLAINTEXT", choices=_choices(*PROTOCOLS), main=True),
    FormField("sasl_mechanism", "SASL mechanism", "choice", default="SCRAM-SHA-512", choices=_choices(*MECHANISMS),
        main=True, when=SASL),
    FormField("username", "User", required=False, main=True, when=SASL),
    FormField("password", "Password", "password", required=False, secret=True, when=SASL,
        help="It is stored encrypted."),
    FormField(
        "ca", "Certificate authority (PEM)", "textarea", required=False,
        help="Empty: the system’s own authorities.", when=(("security_protocol", ("SSL", "SASL_SSL")),),
    ),
)  # fmt: skip
FORM = (
    FormField(
        "topic_prefix", "Topic prefix", required=False, keeps_secret=True, main=True,
        help="A table’s topic is prefix.database.table. Letters, digits, dots, - and _.",
    ),
    FormField(
        "format", "Format", "choice", default="json",
        choices=_choices(*FORMATS, json="JSON", avro="Avro, single-object encoding"),
        keeps_secret=True, main=True,
    ),
    FormField(
        "envelope", "Envelope", "choice", default="debezium", keeps_secret=True, main=True,
        choices=_choices(*ENVELOPES, debezium="Debezium: before, after, source, op",
            flat="Flat: the row’s columns, __op, __sequence"),
    ),
    FormField(
        "partitions", "Partitions of a new topic", "number", default="1", help="Rows of one key stay in one partition.",
        keeps_secret=True,
    ),
    FormField(
        "replication_factor", "Replicas of a new topic", "number", required=False,
        help="Empty: the brokers’ own default.",
        keeps_secret=True,
    ),
    FormField(
        "tombstones", "Tombstones", "choice", default="yes", keeps_secret=True,
        choices=(("yes", "An empty message after each delete"), ("no", "None")),
    ),
    *SHARED_FORM,
)  # fmt: skip

FIXED = {
    "topic_prefix": "Topics cannot be renamed, and the progress of each table is stored in a topic with this prefix.",
    "format": (
        "The key of a row would be encoded differently and move to another partition, so its changes would lose their"
        " order."
    ),
    "envelope": "Consumers would get two message formats in one topic.",
}
SOON = "Takes effect within a minute, without a gap."
LATER_TOPICS = "Takes effect for topics that are created later."
EFFECTS = {
    "bootstrap_servers": f"{SOON} They must lead to the same cluster.",
    "partitions": f"{LATER_TOPICS} Others keep theirs, so that a row’s key stays in its partition.",
    "replication_factor": LATER_TOPICS,
    "tombstones": "Takes effect within a minute, for later deletes.",
    **dict.fromkeys(("security_protocol", "sasl_mechanism", "username", "password", "ca"), SOON),
    **SHARED_EFFECTS,
}


@dataclass(frozen=True)
class KafkaConfig:
    """`replication_factor` -1: the brokers' default.  `ca` is PEM text, empty for the system's."""

    bootstrap_servers: str
    topic_prefix: str = ""
    format: str = "json"
    envelope: str = "debezium"
    partitions: int = 1
    replication_factor: int = -1
    tombstones: bool = True
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)  # invariant 8
    ca: str = field(default="", repr=False)

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> KafkaConfig:
        """From the form's values (texts or numbers); ConfigurationError names the field that is wrong."""
        given = {name: value for name, value in settings.items() if value not in {"", None}}
        servers = checked_servers(str(given.get("bootstrap_servers", "")))
        if not servers:
            raise ConfigurationError("The Kafka target has no bootstrap servers.")
        prefix = str(given.get("topic_prefix", ""))
        if not LEGAL.fullmatch(prefix) or len(prefix) > MAX_PREFIX_LENGTH:
            raise ConfigurationError(
                f"The topic prefix must be at most {MAX_PREFIX_LENGTH} letters, digits, dots, - and _, not {prefix!r}."
            )
        protocol = _one_of(given, "security_protocol", PROTOCOLS)
        if protocol.startswith("SASL") and not (given.get("username") and given.get("password")):
            raise ConfigurationError(f"{protocol} needs a user and a password.")
        mechanism = _one_of(given, "sasl_mechanism", MECHANISMS, MECHANISMS[-1])
        if (protocol, mechanism) == ("SASL_PLAINTEXT", "PLAIN"):
            remedy = "Choose SASL_SSL, or one of the SCRAM mechanisms, which do not send the password."
            raise ConfigurationError(
                "The mechanism PLAIN would send the password in clear text over SASL_PLAINTEXT.", remedy=remedy
            )
        return cls(
            bootstrap_servers=servers,
            topic_prefix=prefix,
            format=_one_of(given, "format", FORMATS),
            envelope=_one_of(given, "envelope", ENVELOPES),
            partitions=_number(given, "partitions", 1),
            replication_factor=_number(given, "replication_factor", -1),
            tombstones=str(given.get("tombstones", "yes")).lower() not in {"no", "false"},
            security_protocol=protocol,
            sasl_mechanism=mechanism,
            username=str(given.get("username", "")),
            password=str(given.get("password", "")),
            ca=checked_authority(str(given.get("ca", ""))),
        )

    def topic(self, name: str) -> str:
        """One of Tidemark's own topics."""
        return f"{self.topic_prefix}.{name}" if self.topic_prefix else name

    @property
    def client(self) -> dict[str, Any]:
        """For every client of librdkafka.

        ConfigurationError where a server's name leads to an address that is never connected to.
        """
        for server in self.bootstrap_servers.split(","):
            host, port = host_and_port(server)
            with suppress(OSError):  # which librdkafka tells
                resolved(host, int(port))
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "tidemark",
            "security.protocol": self.security_protocol,
            "socket.timeout.ms": 10_000,
            "topic.metadata.refresh.interval.ms": 60_000,
            "logger": LOGGER,
        }
        if self.security_protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": self.sasl_mechanism}
            settings |= {"sasl.username": self.username, "sasl.password": self.password}
        if self.security_protocol.endswith("SSL") and self.ca:
            settings["ssl.ca.pem"] = self.ca
        return settings

    def producer(self, transactional_id: str) -> dict[str, Any]:
        """The same partition for a key as Java's clients choose."""
        return self.client | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "message.timeout.ms": DELIVERY_SECONDS * 1000,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "queue.buffering.max.kbytes": QUEUE_KILOBYTES,
            "queue.buffering.max.messages": 100_000,
            "compression.type": "lz4",
            "partitioner": "murmur2",
            "delivery.report.only.error": True,
        }

    def consumer(self, isolation: str) -> dict[str, Any]:
        """Of topics that are read from a place we know; it belongs to no group."""
        return self.client | {
            "group.id": "tidemark",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }


def _one_of(given: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
    value = str(given.get(name, default or allowed[0]))
    if value not in allowed:
        raise ConfigurationError(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def _number(given: Mapping[str, Any], name: str, default: int) -> int:
    try:
        value = int(given.get(name, default))
    except (TypeError, ValueError):
        raise ConfigurationError(f"{name} must be a whole number, not {given[name]!r}.") from None
    if value != default and not 0 < value <= MAX_PARTITIONS:
        raise ConfigurationError(f"{name} must be between 1 and {MAX_PARTITIONS}, not {value}.")
    return value
