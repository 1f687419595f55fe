"""What there is to know of the kinds of target without opening one.  Loads neither Spark nor a client: for pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replicator.errors import ConfigurationError
from replicator.sources.base import CheckResult, FormField
from replicator.targets.kafka.config import EFFECTS as KAFKA_EFFECTS
from replicator.targets.kafka.config import FIXED as KAFKA_FIXED
from replicator.targets.kafka.config import FORM as KAFKA_FORM
from replicator.targets.kafka.config import KafkaConfig

Settings = Mapping[str, Any]
MAX_PREFIX_LENGTH = 100  # with a database's name behind it, it must fit where a namespace is stored
ICEBERG_FORM = (
    FormField(
        "namespace_prefix",
        "Namespace prefix",
        required=False,
        keeps_secret=True,
        help="Prepended to the name of each database.",
    ),
)


@dataclass(frozen=True)
class TargetForm:
    """What a kind asks for.

    valid: ConfigurationError for settings that make no sense; check: tries them out, None where there is nothing to try
    namespace: that of a database's tables; place: tells targets of one kind apart in which the same names are other
    tables
    fixed: settings that cannot be changed once the replicator is made, with the reason
    effects: when a change of another one takes effect
    written: does the place have what was written there before?
    jvm: it works in the process's JVM
    """

    name: str
    title: str
    about: str
    form: Sequence[FormField]
    valid: Callable[[Settings], object]
    namespace: Callable[[Settings, str], str]
    place: Callable[[Settings], str]
    fixed: Mapping[str, str]
    effects: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Settings], list[CheckResult]] | None = None
    written: Callable[[Settings], CheckResult] | None = None
    jvm: bool = False


def _iceberg_valid(settings: Settings) -> None:
    prefix = settings["namespace_prefix"]
    if len(prefix) > MAX_PREFIX_LENGTH:
        raise ConfigurationError(
            f"target: namespace_prefix must be a string of at most {MAX_PREFIX_LENGTH} characters."
        )


def _kafka_namespace(settings: Settings, database: str) -> str:
    prefix = settings.get("topic_prefix", "")
    return f"{prefix}.{database}" if prefix else database


def _kafka_check(settings: Settings) -> list[CheckResult]:
    from replicator.targets.kafka.check import check  # noqa: PLC0415 - the client is loaded only where it is needed

    return check(settings)


def _kafka_written(settings: Settings) -> CheckResult:
    from replicator.targets.kafka.check import check_written  # noqa: PLC0415

    return check_written(settings)


FORMS = {
    "iceberg": TargetForm(
        "iceberg",
        "Apache Iceberg",
        "Tables in the lakehouse of this installation, readable by Spark, Trino, DuckDB and others.",
        ICEBERG_FORM,
        _iceberg_valid,
        lambda settings, database: f"{settings.get('namespace_prefix', '')}{database}",
        lambda _: "",
        {"namespace_prefix": "Queries use these table names."},
        jvm=True,
    ),
    "kafka": TargetForm(
        "kafka",
        "Apache Kafka",
        "Every change as a message, one topic per table, in transactions: no duplicates with isolation level read_committed.",
        KAFKA_FORM,
        KafkaConfig.parse,
        _kafka_namespace,
        lambda settings: str(settings.get("bootstrap_servers", "")),
        KAFKA_FIXED,
        KAFKA_EFFECTS,
        _kafka_check,
        _kafka_written,
    ),
}


def target_form(name: str) -> TargetForm:
    """ConfigurationError for a name that is not registered."""
    try:
        return FORMS[name]
    except KeyError:
        message = f"Unknown target kind {name!r}; known kinds: {', '.join(sorted(FORMS))}."
        raise ConfigurationError(message) from None
