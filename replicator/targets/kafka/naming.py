"""Names that Kafka and Avro allow, made of names that allow anything; different ones stay different."""

from __future__ import annotations

import re

from replicator.targets.base import TargetTable
from replicator.targets.identifiers import digest

MAX_TOPIC_LENGTH = 200  # Kafka's 249, less what tells a second generation apart
APPLIED = "tidemark-applied"
SCHEMAS = "tidemark-schemas"


def topic_of(table: TargetTable) -> str:
    """Return `namespace.name`, with a digest at its end where that is not a legal topic name."""
    plain = str(table)
    legal = re.sub(r"[^A-Za-z0-9._-]", "_", plain)[:MAX_TOPIC_LENGTH]
    return plain if legal == plain else f"{legal}-{digest(plain)}"


def avro_name(name: str, taken: set[str]) -> str:
    """A name for a field; added to `taken`."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    found = legal = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
    number = 1
    while found in taken:
        number += 1
        found = f"{legal}_{number}"
    taken.add(found)
    return found


def avro_namespace(topic: str) -> str:
    """Of the topic's records."""
    parts = re.sub(r"[^A-Za-z0-9_.]", "_", topic).split(".")
    return ".".join(part if re.match(r"[A-Za-z_]", part) else f"_{part}" for part in parts)
