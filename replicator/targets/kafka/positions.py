"""Where the target stands, read from the target itself (invariant 3): the compacted topic `tidemark-applied`.

Every transaction ends with a record of it: key the table, value its position.  Who asks has fenced the table before, so
all that was ever committed for it lies before the topic's end of that moment; committed records are read up to there.
Other records say what columns a table had last, and which replicator has made a topic.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from replicator.errors import TargetError
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.targets.base import Position, TargetTable
from replicator.targets.kafka.config import KafkaConfig

READ_SECONDS = 30.0
PATIENCE_SECONDS = 2.0  # longer than a live worker's transaction keeps the end of the topic from being read
POLL_SECONDS = 0.01
K = TypeVar("K")
V = TypeVar("V")
FIRST = 0  # the topic has one partition


@dataclass(frozen=True)
class Held:
    """A table's record.

    topic   where its messages are: that of the name under which it was made
    below   the greatest sequence number that a truncation was sent for
    blank   nothing was written since the table was made or emptied
    """

    replicator: str
    topic: str
    applied: int
    loaded: int
    schema_version: int
    load: str
    below: int = -1
    blank: bool = True
    mode: Mode = Mode.MIRROR  # kept for callers: messages are the same in every mode
    item: str = ""

    @property
    def position(self) -> Position:
        loaded = max(self.applied, self.loaded)
        return Position(self.applied, loaded, self.schema_version, self.load, Mode(self.mode), self.item)

    @property
    def value(self) -> str:
        """The record's."""
        return json.dumps(asdict(self))


@dataclass
class Known:
    """What the topic says: of each table its record and its columns, of each topic who made it."""

    tables: dict[TargetTable, Held] = field(default_factory=dict)
    schemas: dict[TargetTable, TableSchema] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def take(self, key: bytes, value: bytes | None) -> TargetTable | None:
        """One record; the table that it is the position of."""
        [(kind, name)] = json.loads(key).items()
        if kind == "topic":
            self._set(self.owners, name, value, lambda parsed: str(parsed["replicator"]))
            return None
        table = TargetTable(*name)
        if kind == "schema":
            self._set(self.schemas, table, value, TableSchema.from_dict)
            return None
        self._set(self.tables, table, value, lambda parsed: Held(**parsed))
        return table

    @staticmethod
    def _set(known: dict[K, V], place: K, value: bytes | None, read: Callable[[dict[str, Any]], V]) -> None:
        if value is None:
            known.pop(place, None)
        else:
            known[place] = read(json.loads(value))

    def copy(self) -> Known:
        """Of this moment."""
        return Known(dict(self.tables), dict(self.schemas), dict(self.owners))


def record_key(kind: str, name: TargetTable | str) -> str:
    """`kind`: table, schema or topic."""
    place = name if isinstance(name, str) else [name.namespace, name.name]
    return json.dumps({kind: place}, ensure_ascii=False)


class Positions:
    """The topic as a map.  Thread-safe."""

    def __init__(self, config: KafkaConfig, topic: str, replicator: str, fence: Callable[[TargetTable], None]) -> None:
        """`fence`: ends what a dead worker left open for a table of `replicator`; waits for nothing that this process
        does.
        """
        self._config, self._topic = config, topic
        self._replicator, self._fence = replicator, fence
        self._admin = AdminClient(config.client)
        self._consumer: Consumer | None = None
        self._known = Known()
        self._read_to = 0
        self._lock = threading.Lock()

    def now(self) -> Known:
        """All that is committed.

        Raises KafkaException; TargetError where another's open transaction hides the end for long.
        """
        end = self._end()
        with self._lock:
            self._read(end)
            return self._known.copy()

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _end(self) -> int:
        """Of the topic, with what is not committed."""
        place = TopicPartition(self._topic, FIRST)
        asked = self._admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=10
        )
        return int(asked[place].result().offset)

    def _read(self, end: int) -> None:
        consumer = self._opened()
        started, looked = time.monotonic(), False
        while self._read_to < end:
            for message in consumer.consume(500, POLL_SECONDS):
                self._take(message)
            waited = time.monotonic() - started
            if waited > READ_SECONDS:
                raise TargetError(
                    f"{self._topic} cannot be read to its end: a transaction of another replicator is open."
                )
            if waited > PATIENCE_SECONDS and not looked and self._read_to < end:
                looked = self._end_left_open(end)

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._config.consumer("read_committed"))
            self._consumer.assign([TopicPartition(self._topic, FIRST, 0)])
            self._known, self._read_to = Known(), 0
        return self._consumer

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._read_to = message.offset() + 1
            self._known.take(_key(message), message.value())
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            self._read_to = max(self._read_to, message.offset())
        elif not error.retriable() and error.code() not in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}:  # noqa: SLF001
            raise KafkaException(error)

    def _end_left_open(self, end: int) -> bool:
        """Transactions of our replicator that a dead worker left open behind what can be read; True."""
        consumer = Consumer(self._config.consumer("read_uncommitted"))
        left: set[TargetTable] = set()
        try:
            consumer.assign([TopicPartition(self._topic, FIRST, self._read_to)])
            place, deadline = self._read_to, time.monotonic() + PATIENCE_SECONDS
            while place < end and time.monotonic() < deadline:
                for message in consumer.consume(500, POLL_SECONDS):
                    place = max(place, message.offset() + (message.error() is None))
                    if message.error() is None:
                        left |= self._ours(message)
        finally:
            consumer.close()
        for table in left:
            self._fence(table)
        return True

    def _ours(self, message: Message) -> set[TargetTable]:
        found = Known()
        table = found.take(_key(message), message.value())
        held = found.tables.get(table) if table else None
        return {table} if table and (held is None or held.replicator == self._replicator) else set()


def _key(message: Message) -> bytes:
    key = message.key()
    assert isinstance(key, bytes)
    return key
