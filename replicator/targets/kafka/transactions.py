"""One transactional producer per table: its id fences earlier writers of the table.

A producer that failed is discarded.  The next one ends the transaction that it left open, committed or aborted, and the
position is read afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from replicator.errors import TargetError
from replicator.targets.base import TargetTable
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.failures import translated

MAX_PRODUCERS = 32  # each has threads and connections
BEGIN_SECONDS = 20.0
COMMIT_SECONDS = 60.0
ABORT_SECONDS = 5.0
ANY_PARTITION = -1


@dataclass
class _Slot:
    producer: Producer
    failures: list[KafkaError]
    used: float = field(default_factory=time.monotonic)
    busy: bool = False


class Transaction:
    """What is sent in it becomes readable together, or not at all."""

    def __init__(self, producer: Producer, failures: list[KafkaError], stopping: threading.Event) -> None:
        """`failures`: filled by the producer while it is polled."""
        self._producer, self._failures, self._stopping = producer, failures, stopping

    def send(
        self, topic: str, key: str | bytes | None, value: str | bytes | None, partition: int = ANY_PARTITION
    ) -> None:
        """Queued; waits where the queue is full (invariant 9).  Raises KafkaException."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
            except BufferError:
                self._producer.poll(0.05)
                self.check()
            else:
                return

    def check(self) -> None:
        """Raises what came of messages that could not be delivered; TargetError where the work is to stop."""
        if self._stopping.is_set():
            raise TargetError("The worker is stopping.")
        if self._failures:
            raise KafkaException(self._failures[0])


class Producers:
    """Of one replicator.  Thread-safe; a table is used by one thread at a time."""

    def __init__(self, config: KafkaConfig, replicator: str) -> None:
        """Nothing is connected yet."""
        self._config, self._replicator = config, replicator
        self._slots: dict[TargetTable, _Slot] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def interrupt(self) -> None:
        """End all work for good: the next owner has other producers."""
        self._stopping.set()

    def fence(self, table: TargetTable, *, again: bool = False) -> None:
        """Fence earlier writers of the table, and end the transaction that one left open.

        Does nothing where this process has done so already.

        again: do it again nevertheless, unless a transaction of this process is under way.
        """
        with self._lock:
            slot = self._slots.get(table)
            if slot is not None and (slot.busy or not again):
                return
            self._slots.pop(table, None)
        if slot is not None:
            slot.producer.close()
        with translated(self._config, str(table)):
            slot = self._begun(table)
        with self._lock:
            self._slots[table] = slot
            spare = self._spare()
        for one in spare:
            one.producer.close()

    @contextmanager
    def transaction(self, table: TargetTable) -> Iterator[Transaction]:
        """Committed at the end of the block.

        Raises TargetConflict where another has fenced us, TargetError, TableError.
        """
        slot = self._take(table)
        try:
            with translated(self._config, str(table)):
                slot.producer.begin_transaction()
                yield Transaction(slot.producer, slot.failures, self._stopping)
                self._commit(slot)
        except BaseException:
            self._forget(table, slot)
            raise
        slot.busy, slot.used = False, time.monotonic()

    def close(self) -> None:
        """What is open is left to time, or to the next owner."""
        with self._lock:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            slot.producer.close()

    def _take(self, table: TargetTable) -> _Slot:
        with self._lock:
            slot = self._slots.get(table)
            if slot is None:
                raise TargetError(
                    f"The transactional producer of {table} was closed and will be recreated.", table=str(table)
                )
            slot.busy = True
            return slot

    def _begun(self, table: TargetTable) -> _Slot:
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        name = f"tidemark.{self._replicator}.{table}"
        producer = Producer(self._config.producer(name) | {"on_delivery": delivered})
        try:
            producer.init_transactions(BEGIN_SECONDS)
        except BaseException:
            producer.close()
            raise
        return _Slot(producer, failures)

    def _spare(self) -> list[_Slot]:
        """Those longest unused, beyond what there may be.  Under the lock."""
        idle = sorted((name for name, slot in self._slots.items() if not slot.busy), key=lambda n: self._slots[n].used)
        return [self._slots.pop(name) for name in idle[: max(0, len(self._slots) - MAX_PRODUCERS)]]

    def _commit(self, slot: _Slot) -> None:
        deadline = time.monotonic() + COMMIT_SECONDS
        while True:
            try:
                slot.producer.commit_transaction(max(1.0, deadline - time.monotonic()))
            except KafkaException as error:
                if slot.failures:  # why it must be aborted
                    raise KafkaException(slot.failures[0]) from error
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _forget(self, table: TargetTable, slot: _Slot) -> None:
        """Ended here if that goes quickly."""
        with self._lock:
            if self._slots.get(table) is slot:
                del self._slots[table]
        slot.producer.purge(in_queue=True, in_flight=True, blocking=False)
        with suppress(KafkaException):
            slot.producer.abort_transaction(ABORT_SECONDS)
        with suppress(KafkaException, SystemError):  # its failure was reported already
            slot.producer.close()
