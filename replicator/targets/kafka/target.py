"""The Kafka target: every change, in sequence order; each apply is one transaction that holds the messages and the
position.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ConfigurationError, TargetConflict
from replicator.faults import reach
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.reader import read
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import (
    NO_TABLE,
    Append,
    ApplyResult,
    Create,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    Replace,
    TargetChange,
    TargetTable,
    item_of,
)
from replicator.targets.identifiers import digest
from replicator.targets.kafka.config import CAPABILITIES, KafkaConfig
from replicator.targets.kafka.diagnosis import met
from replicator.targets.kafka.events import DELETE, columns, events
from replicator.targets.kafka.failures import translated
from replicator.targets.kafka.messages import Encoder, MessageContext, Text, encoder, schema_record
from replicator.targets.kafka.naming import APPLIED, SCHEMAS, topic_of
from replicator.targets.kafka.positions import FIRST, Held, Known, Positions, record_key
from replicator.targets.kafka.topics import COMPACTED, KEPT, SECONDS, Topics
from replicator.targets.kafka.transactions import ANY_PARTITION, Producers, Transaction

SKIPPED = "skip"
SLICE_BYTES = 8 * 1024 * 1024  # of Arrow, made into messages at a time (invariant 9)
Counts = tuple[int, int, int]
NOTHING: Counts = (0, 0, 0)
NO_NAMES: Mapping[str, str] = {}


@dataclass
class _Opened:
    """The clients, from the first use on."""

    topics: Topics
    positions: Positions


class KafkaTarget:
    """Topics of one replicator.  Thread-safe."""

    capabilities = CAPABILITIES

    def __init__(self, config: KafkaConfig, storage: Storage, replicator: str, source: str) -> None:
        """`storage`: where segments lie; `source`: what Debezium calls its connector.

        Nothing starts before the first use.
        """
        self._config, self._storage = config, storage
        self._replicator, self._connector = replicator, source
        self._applied, self._schemas = config.topic(APPLIED), config.topic(SCHEMAS)
        self._producers = Producers(config, replicator)
        self._opened: _Opened | None = None
        self._opening, self._naming = threading.Lock(), threading.RLock()

    # The port

    def prepare(self) -> None:
        """See `Target`."""
        with translated(self._config, self._applied):
            self._open()

    def position(self, table: TargetTable) -> Position | None:
        """See `Target`."""
        with translated(self._config, str(table)):
            held = self._held(table)
            return None if held is None else held.position

    def apply(self, table: TargetTable, change: TargetChange, seen: str | None = None) -> ApplyResult:
        """See `Target`."""
        started = time.monotonic()
        with translated(self._config, str(table)):
            how, counts = self._change(table, change, seen)
        return ApplyResult(*counts, how, time.monotonic() - started)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        """Nothing to do: the brokers compact."""
        del table, busy
        return ""

    def interrupt(self) -> None:
        """Transactions under way are aborted, unless their commit has begun."""
        self._producers.interrupt()

    def close(self) -> None:
        """See `Target`."""
        self._producers.close()
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.positions.close()
            opened.topics.close()

    # Where it stands

    def _open(self) -> _Opened:
        with self._opening:
            if self._opened is None:
                met(self._config, SECONDS)  # says at once what is wrong, where the calls below would wait for it
                topics = Topics(self._config)
                for own in (self._applied, self._schemas):
                    if not topics.partitions(own):
                        topics.make(own, 1, COMPACTED)
                self._opened = _Opened(topics, Positions(self._config, self._applied, self._replicator, self._end))
            return self._opened

    def _end(self, table: TargetTable) -> None:
        """What a dead worker left open."""
        self._producers.fence(table, again=True)

    def _known(self, table: TargetTable) -> Known:
        """Read behind the fence."""
        opened = self._open()
        self._producers.fence(table)
        return opened.positions.now()

    def _held(self, table: TargetTable) -> Held | None:
        """Return the table's record; None where there is no table, or its topic is gone."""
        held = self._known(table).tables.get(table)
        if held is None or not self._open().topics.partitions(held.topic):
            return None
        if held.replicator != self._replicator:
            raise _foreign(held.topic)
        return held

    def _as_seen(self, table: TargetTable, seen: str | None) -> Held | None:
        """The table; TargetConflict where it is not the one that the caller has seen."""
        held = self._held(table)
        if seen is None or (NO_TABLE if held is None else held.load) == seen:
            return held
        raise TargetConflict(f"{table} was recreated or dropped by another worker.", table=str(table))

    def _required(self, table: TargetTable, seen: str | None) -> Held:
        held = self._as_seen(table, seen)
        if held is None:
            raise TargetConflict(f"{table} does not exist in the target.", table=str(table))
        return held

    # Changes

    def _change(self, table: TargetTable, change: TargetChange, seen: str | None) -> tuple[str, Counts]:
        match change:
            case Create() | Drop() | Rename():
                with self._naming:
                    return self._named(table, change, seen), NOTHING
            case Evolve():
                reach("apply.evolve.before")
                how = self._evolve(table, self._required(table, seen), change)
                reach("apply.evolve.after")
                return how, NOTHING
            case DeleteBelow():
                return self._delete_below(table, self._required(table, seen), change), NOTHING
            case _:
                return self._rows(table, self._required(table, seen), change)

    def _named(self, table: TargetTable, change: Create | Drop | Rename, seen: str | None) -> str:
        """What changes which table has which name; one at a time in this process, fenced against others."""
        match change:
            case Create():
                reach("apply.create.before")
                how = self._create(table, self._as_seen(table, seen), change)
                reach("apply.create.after")
            case Drop():
                reach("apply.drop.before")
                how = self._drop(table, self._as_seen(table, seen))
                reach("apply.drop.after")
            case Rename():
                reach("apply.rename.before")
                how = self._rename(table, change.new, seen)
                reach("apply.rename.after")
        return how

    def _create(self, table: TargetTable, older: Held | None, change: Create) -> str:
        """Create the table, in the older table's topic where there is one: a truncation voids what the topic holds."""
        topic = self._free_topic(table) if older is None else older.topic
        void = self._made(topic)
        held = Held(
            self._replicator,
            topic,
            change.applied,
            -1,
            change.version,
            change.load,
            change.applied + 1,
            mode=change.mode,
        )
        with self._transaction(table, held) as transaction:
            if void:
                self._void(transaction, held, change.schema, change.applied + 1)
            transaction.send(self._applied, record_key("topic", topic), json.dumps({"replicator": self._replicator}))
            self._tell_schema(transaction, table, held, change.schema)
        return "create" if older is None else "recreate"

    def _free_topic(self, table: TargetTable) -> str:
        """That of the table's name, unless another table has kept it through a rename."""
        plain = topic_of(table)
        taken = {held.topic for held in self._known(table).tables.values()}
        names = (plain if number == 1 else f"{plain}.{number}" for number in count(1))
        return next(name for name in names if name not in taken)

    def _made(self, topic: str) -> bool:
        """It is there; True where it has messages of ours.  ConfigurationError where it has another's."""
        opened = self._open()
        partitions = opened.topics.partitions(topic)
        if not partitions:
            opened.topics.make(topic, self._config.partitions, KEPT)
            return False
        used = opened.topics.used(topic, partitions)
        if used and opened.positions.now().owners.get(topic) != self._replicator:
            raise _foreign(topic)
        return used

    def _drop(self, table: TargetTable, held: Held | None) -> str:
        """The topic stays, and says that the rows are gone."""
        if held is None:
            return SKIPPED
        schema = self._known(table).schemas[table]
        with self._transaction(table, None) as transaction:
            if not held.blank:
                self._void(transaction, held, schema, held.position.loaded + 1)
            transaction.send(self._applied, record_key("schema", table), None)
        return "drop"

    def _rename(self, table: TargetTable, new: TargetTable, seen: str | None) -> str:
        """The topic stays: it cannot be renamed, and what follows belongs to what it holds."""
        self._producers.fence(new)
        held = self._as_seen(table, seen)
        if held is None or table == new:
            return SKIPPED
        known = self._known(table)
        if (other := known.tables.get(new)) is not None and other.load != held.load:
            raise TargetConflict(f"{new} is still in use by another table in the target.", table=str(table))
        schema = known.schemas[table]
        with self._transaction(table, None) as transaction:
            transaction.send(self._applied, record_key("schema", table), None)
            transaction.send(self._applied, record_key("table", new), held.value)
            transaction.send(self._applied, record_key("schema", new), json.dumps(schema.to_dict()))
        return "rename"

    def _evolve(self, table: TargetTable, held: Held, change: Evolve) -> str:
        """What follows has these columns; the topic of schemas says which of them had another name."""
        if held.schema_version == change.version:
            return SKIPPED
        held = replace(held, schema_version=change.version)
        with self._transaction(table, held) as transaction:
            self._tell_schema(transaction, table, held, change.schema, change.renamed)
        return "evolve"

    def _delete_below(self, table: TargetTable, held: Held, change: DeleteBelow) -> str:
        """Send one truncation for each place: a reload sent that of its sweep when it began."""
        already_sent = held.below >= change.below or held.blank
        if held.applied >= change.upto and held.below >= change.below:
            return SKIPPED
        after = replace(held, applied=max(held.applied, change.upto), below=max(held.below, change.below))
        if change.upto > held.applied:
            after = replace(after, item=item_of(change))
        schema = self._known(table).schemas[table]
        with self._transaction(table, after) as transaction:
            if not already_sent:
                self._void(transaction, held, schema, change.below)
        return "nothing" if already_sent else "truncate"

    def _rows(self, table: TargetTable, held: Held, change: Append | Merge | Replace) -> tuple[str, Counts]:
        match change:
            case Append():
                above, after = held.position.loaded, replace(held, loaded=change.loaded)
                done = above >= change.loaded
            case Merge():
                above, after = held.applied, replace(held, applied=change.upto)
                done = above >= change.upto
            case Replace():
                above, done = -1, held.load == change.load and held.loaded >= change.loaded
                after = replace(held, applied=change.applied, loaded=change.loaded, load=change.load)
                after = replace(after, schema_version=change.version, below=max(held.below, change.applied + 1))
        if done:
            return SKIPPED, NOTHING
        segments = [segment for segment in change.segments if segment.last_sequence > above]
        replaces = isinstance(change, Replace)
        version = segments[0].schema_version if segments else after.schema_version
        untold = version != after.schema_version  # a table that was renamed
        blank = not segments and (held.blank or replaces)
        after = replace(after, schema_version=version, blank=blank, item=item_of(change))
        with self._transaction(table, after) as transaction:
            if untold:
                self._tell_schema(transaction, table, after, change.schema, begins=held.applied + 1)
            if replaces and not held.blank:
                self._void(transaction, after, change.schema, after.below)
            counts = self._send(transaction, held, change.schema, segments, above)
        return type(change).__name__.lower(), counts

    # Messages

    @contextmanager
    def _transaction(self, table: TargetTable, held: Held | None) -> Iterator[Transaction]:
        """With the table's record as its last message; None: the table is gone."""
        reach("apply.stage.before")
        with self._producers.transaction(table) as transaction:
            yield transaction
            value = None if held is None else held.value
            transaction.send(self._applied, record_key("table", table), value)
            reach("apply.publish.before")
        reach("apply.publish.after")

    def _send(
        self, transaction: Transaction, held: Held, schema: TableSchema, segments: Sequence[Segment], above: int
    ) -> Counts:
        """Rows with a greater number than `above`, in order, some MiB at a time."""
        if not segments:
            return NOTHING
        encoder = self._encoder(held.topic, schema, segments[0].schema_version)
        arrived = updated = deleted = 0
        reach("apply.read.after")
        for segment in segments:
            for batch in read(self._storage, segment, schema, columns(schema)):
                for part in _parts(batch.filter(pc.greater(batch.column(SEQUENCE), above))):
                    found = events(part, schema, flat=self._config.envelope == "flat")
                    self._send_all(transaction, held.topic, encoder.messages(found, _now()))
                    counts = found.counts
                    arrived, updated, deleted = arrived + counts[0], updated + counts[1], deleted + counts[2]
        return arrived, updated, deleted

    def _send_all(
        self, transaction: Transaction, topic: str, messages: Iterable[tuple[Text | None, Text, str]]
    ) -> None:
        """Rows without key all go to the first partition, so that they have an order."""
        for key, value, op in messages:
            transaction.send(topic, key, value, FIRST if key is None else ANY_PARTITION)
            if op == DELETE and key is not None and self._config.tombstones:
                transaction.send(topic, key, None)
        transaction.check()

    def _void(self, transaction: Transaction, held: Held, schema: TableSchema, sequence: int) -> None:
        """Rows with a smaller sequence number are gone: in each partition, for who reads one of them only."""
        value = self._encoder(held.topic, schema, held.schema_version).truncated(sequence, _now())
        for partition in range(self._open().topics.partitions(held.topic)):
            transaction.send(held.topic, None, value, partition)

    def _tell_schema(
        self,
        transaction: Transaction,
        table: TargetTable,
        held: Held,
        schema: TableSchema,
        renamed: Mapping[str, str] = NO_NAMES,
        begins: int | None = None,
    ) -> None:
        """begins: the sequence number from which it holds; None: behind what is there."""
        subject = self._subject(held.topic, schema, held.schema_version)
        record = json.dumps(
            schema_record(subject, self._config, renamed, held.applied + 1 if begins is None else begins),
            ensure_ascii=False,
        )
        transaction.send(self._schemas, f"{held.topic}/{held.schema_version}/{digest(record)}", record)
        transaction.send(self._applied, record_key("schema", table), json.dumps(schema.to_dict()))

    def _encoder(self, topic: str, schema: TableSchema, version: int) -> Encoder:
        return encoder(self._config, self._subject(topic, schema, version))

    def _subject(self, topic: str, schema: TableSchema, version: int) -> MessageContext:
        return MessageContext(self._connector, self._replicator, topic, schema, version)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Some MiB each (invariant 9)."""
    rows = max(1, batch.num_rows * SLICE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _foreign(topic: str) -> ConfigurationError:
    message = f"The topic {topic} has messages that this replicator did not write."
    return ConfigurationError(
        message, remedy="Delete the topic, then select Retry. Or create another replicator with another topic prefix."
    )
