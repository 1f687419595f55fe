"""A consumer that shares nothing with the target: it reads what is committed and rebuilds the tables, by the rules of
docs/kafka.md.
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import fastavro
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

Row = dict[str, Any]
SECONDS = 60.0


def messages(servers: str, topic: str, isolation: str = "read_committed") -> Iterator[Message]:
    """From the first to the last of now, partition by partition."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "proof", "isolation.level": isolation, "enable.partition.eof": True,
         "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    try:
        found = consumer.list_topics(topic, 10).topics[topic]
        for partition in found.partitions:
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline = time.monotonic() + SECONDS
            while True:
                message = consumer.poll(1.0)
                assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
                if message is None:
                    continue
                if message.error() is None:
                    yield message
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    break
    finally:
        consumer.close()


@dataclass
class Schemas:
    """What the topic of schemas says."""

    versions: dict[tuple[str, int], list[Row]] = field(default_factory=dict)
    avro: dict[bytes, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, servers: str, prefix: str) -> Schemas:
        found = cls()
        for message in messages(servers, f"{prefix}.tidemark-schemas"):
            told = json.loads(message.value())
            found.versions.setdefault((told["topic"], told["version"]), []).append(told)
            for fingerprint, schema in told.get("avro", {}).items():
                found.avro[bytes.fromhex(fingerprint)] = fastavro.parse_schema(schema)
        return found

    def told(self, topic: str, version: int, sequence: int) -> Row | None:
        """Of the version that held then."""
        found = [one for one in self.versions.get((topic, version), []) if one["begins"] <= sequence]
        return max(found, key=lambda one: one["begins"], default=None)

    def of_flat(self, topic: str, sequence: int) -> Row:
        """Flat messages do not say their version."""
        found = [
            one
            for (name, _), told in self.versions.items()
            if name == topic
            for one in told
            if one["begins"] <= sequence
        ]
        return max(found, key=lambda one: one["begins"])


@dataclass
class Topic:
    """A table rebuilt.  `events`: how often each (sequence number, operation) came."""

    name: str
    schemas: Schemas
    rows: dict[Any, tuple[int, Row]] = field(default_factory=dict)
    multiset: Counter[Any] = field(default_factory=Counter)
    events: Counter[tuple[int, str]] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    tombstones: int = 0
    values: list[Row] = field(default_factory=list)
    version: int = 0
    sequence: int = 0

    @classmethod
    def read(cls, servers: str, prefix: str, table: str) -> Topic:
        topic = cls(f"{prefix}.{table}", Schemas.read(servers, prefix))
        newest: dict[Any, int] = {}
        for message in messages(servers, topic.name):
            if message.value() is None:
                topic.tombstones += 1
                continue
            value = topic.decoded(message.value())
            topic.values.append(value)
            key = message.key()
            sequence = topic.take(key, value)
            if key is not None:
                assert sequence >= newest.get(key, -1), "a key went back"
                newest[key] = sequence
        doubled = {event: times for event, times in topic.events.items() if times > 1 and event[1] != "t"}
        assert not doubled, f"doubled: {doubled}"
        return topic

    def decoded(self, value: bytes) -> Row:
        if value[:2] == b"\xc3\x01":
            return fastavro.schemaless_reader(io.BytesIO(value[10:]), self.schemas.avro[value[2:10]], None)
        return json.loads(value)

    def take(self, key: bytes | None, value: Row) -> int:
        """The change's sequence number."""
        flat = "__op" in value
        about = value if flat else value["source"]
        sequence = about["__sequence" if flat else "sequence"]
        op = value["__op" if flat else "op"]
        before, after = (value, None if op == "d" else value) if flat else (value["before"], value["after"])
        unchanged = about.get("__unchanged" if flat else "unchanged") or []
        self.sequence = sequence
        if not flat:
            self._follow(about["schema_version"])
        self.events[sequence, op] += 1
        self.ops[op] += 1
        if op == "t":
            self.rows = {key: held for key, held in self.rows.items() if held[0] >= sequence}
            self.multiset.clear()
        elif key is None:
            self.multiset[hashable(self.plain(before))] -= op in "ud"
            self.multiset[hashable(self.plain(after))] += op in "cur"
        elif op == "d":
            self.rows.pop(key, None)
        else:
            row = self.plain(after)
            row |= {name: self.rows[key][1][name] for name in unchanged}
            self.rows[key] = (sequence, row)
        return sequence

    def _follow(self, version: int) -> None:
        """Columns were renamed, dropped or added: rows that came before have them by their new names from here on."""
        if version < self.version:
            assert not self.rows, "a table that was made anew is told to be empty first"
            self.version = version
        while self.version < version:
            self.version += 1
            told = self.schemas.told(self.name, self.version, self.sequence)
            if told is None:
                continue
            names = [column["name"] for column in told["columns"]]
            for key, (sequence, row) in self.rows.items():
                renamed = {told["renamed"].get(name, name): value for name, value in row.items()}
                self.rows[key] = (sequence, {name: renamed.get(name) for name in names})

    def plain(self, row: Row | None) -> Row:
        """Python's values of the row's columns."""
        if row is None:
            return {}
        own = {name: value for name, value in row.items() if not name.startswith("__")}
        told = self.schemas.told(self.name, self.version, self.sequence) or self.schemas.of_flat(
            self.name, self.sequence
        )
        types = {column["name"]: column["type"] for column in told["columns"]}
        return {name: converted(value, types[name]) for name, value in own.items()}

    def table(self) -> list[Row]:
        """Rows, in no order."""
        if self.rows:
            return [row for _, row in self.rows.values()]
        return [dict(row) for row, times in self.multiset.items() for _ in range(times) if row]


def converted(value: Any, kind: str) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if not isinstance(value, str) or kind == "string":
        return value
    return next(read for begins, read in READERS.items() if kind.startswith(begins))(value)


READERS: dict[str, Any] = {
    "decimal": Decimal,
    "binary": base64.b64decode,
    "date": date.fromisoformat,
    "timestamp": lambda text: datetime.fromisoformat(text).replace(tzinfo=None),
    "double": float,  # NaN, Infinity
    "float": float,
}


def hashable(row: Row) -> Any:
    return tuple(sorted(row.items()))
