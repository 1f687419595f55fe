"""The Delta Lake target."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from replicator.errors import TargetConflict, TargetError
from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.staging.storage import Storage
from replicator.targets.base import (
    FOREIGN_TABLE,
    NO_TABLE,
    Append,
    ApplyResult,
    Counts,
    Create,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    Replace,
    RowChange,
    TargetChange,
    TargetTable,
    remaining,
)
from replicator.targets.delta import apply, dropped_tables, maintenance, schema_update
from replicator.targets.delta.apply import SKIPPED, Outcome
from replicator.targets.delta.destination import CAPABILITIES, DeltaStore
from replicator.targets.delta.table import OWNER, OpenTable

DEFAULT_RETENTION = Retention.parse()


class DeltaTarget:
    """Tables of one replicator below one location.  Thread-safe: each change re-reads the log."""

    capabilities = CAPABILITIES

    def __init__(
        self, store: DeltaStore, storage: Storage, replicator: str, retention: Retention = DEFAULT_RETENTION
    ) -> None:
        """`storage`: where segments lie; `replicator`: the id that marks its tables.  Nothing is read before the first
        use.
        """
        self._store, self._storage, self._replicator, self._retention = store, storage, replicator, retention
        self._running: set[threading.Event] = set()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Nothing takes its time to start."""

    def position(self, table: TargetTable) -> Position | None:
        """See `Target`."""
        found = self._own(self._load(table))
        return None if found is None else found.position

    def apply(self, table: TargetTable, change: TargetChange, seen: str | None = None) -> ApplyResult:
        """See `Target`."""
        started = time.monotonic()
        with self._interruptible() as stop:
            how, counts = self._apply(table, change, seen, stop)
        took = time.monotonic() - started
        return ApplyResult(counts.inserted, counts.updated, counts.deleted, how, took)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        """See `Target`."""
        del busy
        found = self._own(self._load(table))
        return "" if found is None else maintenance.maintain(found, self._retention)

    def interrupt(self) -> None:
        """See `Target`."""
        with self._lock:
            for one in self._running:
                one.set()

    def close(self) -> None:
        """Nothing stays open."""

    @contextmanager
    def _interruptible(self) -> Iterator[threading.Event]:
        stop = threading.Event()
        with self._lock:
            self._running.add(stop)
        try:
            yield stop
        finally:
            with self._lock:
                self._running.discard(stop)

    def _load(self, table: TargetTable) -> OpenTable | None:
        """Also one that was dropped.  TargetConflict for one that this replicator did not make."""
        found = OpenTable.load(self._store, table)
        if found is not None and not found.dropped and found.configuration.get(OWNER) != self._replicator:
            message = f"{table} exists at {found.uri} and was not created by this replicator."
            raise TargetConflict(message, table=str(table), remedy=FOREIGN_TABLE)
        return found

    def _own(self, found: OpenTable | None) -> OpenTable | None:
        return None if found is None or found.dropped else found

    def _seen(self, table: TargetTable, seen: str | None) -> OpenTable | None:
        """TargetConflict where it is not the table that the caller has seen."""
        found = self._load(table)
        own = self._own(found)
        if seen is None or (NO_TABLE if own is None else own.position.load) == seen:
            return found
        message = f"{table} was recreated or dropped by another worker."
        raise TargetConflict(message, table=str(table))

    def _required(self, table: TargetTable, seen: str | None) -> OpenTable:
        if (found := self._own(self._seen(table, seen))) is None:
            raise TargetError(f"{table} does not exist in the target.", table=str(table))
        return found

    def _apply(self, table: TargetTable, change: TargetChange, seen: str | None, stop: threading.Event) -> Outcome:
        match change:
            case Create():
                reach("apply.create.before")
                older = self._seen(table, seen)
                schema_update.create(self._store, table, older, change, self._replicator, self._retention)
                how = "create" if self._own(older) is None else "recreate"
                reach("apply.create.after")
            case Drop():
                reach("apply.drop.before")
                if (found := self._own(self._seen(table, seen))) is not None:
                    dropped_tables.drop(self._store, found, self._retention)
                how = SKIPPED if found is None else "drop"
                reach("apply.drop.after")
            case Rename():
                reach("apply.rename.before")
                found = self._own(self._seen(table, seen))
                done = schema_update.rename(self._store, found, change, self._replicator, self._retention)
                how = "rename" if done else SKIPPED
                reach("apply.rename.after")
            case Evolve():
                reach("apply.evolve.before")
                how = "evolve" if schema_update.evolve(self._required(table, seen), change, stop) else SKIPPED
                reach("apply.evolve.after")
            case _:
                return self._rows(self._required(table, seen), change, stop)
        return how, Counts()

    def _rows(self, table: OpenTable, change: RowChange, stop: threading.Event) -> Outcome:
        todo = remaining(change, table.position, table.name, dict(table.columns))
        if todo is None:
            return apply.SKIPPED, Counts()
        change, after = todo
        match change:
            case Append():
                return apply.append(self._storage, table, change, after, stop)
            case Merge():
                return apply.merge(self._storage, table, change, after, stop)
            case Replace():
                return apply.replace_all(self._storage, table, change, after, stop)
            case DeleteBelow():
                return apply.delete_below(table, change, after, stop)
