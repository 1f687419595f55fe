"""The target of all SQL dialects."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from replicator.faults import reach
from replicator.staging.storage import Storage
from replicator.targets.base import (
    Append,
    ApplyResult,
    Capabilities,
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
from replicator.targets.warehouse.changes import SKIPPED, Outcome, RowChanges, RowsByMode, changes_read
from replicator.targets.warehouse.dialect import Definitions, Dialect, Session
from replicator.targets.warehouse.position import Positions
from replicator.targets.warehouse.schema_update import DefinitionChanges
from replicator.targets.warehouse.stepwise import MarkedPositions, StepwiseSchemaChanges

IDLE_SECONDS = 5.0  # afterwards a connection is asked whether it is alive before it is used


Schemas = DefinitionChanges | StepwiseSchemaChanges


def _definitions(dialect: Dialect, replicator: str) -> tuple[Positions, Schemas]:
    if dialect.stepwise:
        marked = MarkedPositions(dialect, replicator)
        return marked, StepwiseSchemaChanges(dialect, marked)
    positions = Positions(dialect, replicator)
    return positions, DefinitionChanges(dialect, positions)


@dataclass
class _Idle:
    session: Session
    since: float


class DatabaseTarget:
    """Tables of one replicator in one database.  Thread-safe: concurrent changes use different connections."""

    def __init__(
        self, dialect: Definitions, capabilities: Capabilities, positions: Positions, schemas: Schemas, rows: RowsByMode
    ) -> None:
        """Connects at the first use.  positions, schemas, rows: how each kind of change is made."""
        self.capabilities = capabilities
        self._dialect, self._positions, self._schemas, self._rows = dialect, positions, schemas, rows
        self._idle: list[_Idle] = []
        self._busy: set[Session] = set()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Nothing takes its time to start."""

    def position(self, table: TargetTable) -> Position | None:
        """See `Target`."""
        with self._session() as session:
            return self._positions.position(session, table)

    def apply(self, table: TargetTable, change: TargetChange, seen: str | None = None) -> ApplyResult:
        """See `Target`."""
        started = time.monotonic()
        with self._session() as session:
            how, counts = self._apply(session, table, change, seen)
        took = time.monotonic() - started
        return ApplyResult(counts.inserted, counts.updated, counts.deleted, how, took)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        """The database looks after its tables itself."""
        del table, busy
        return ""

    def interrupt(self) -> None:
        """See `Target`."""
        with self._lock:
            busy = list(self._busy)
        for one in busy:
            one.interrupt()

    def close(self) -> None:
        """See `Target`."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.session.close()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """One that failed is not used again: the server may still be at work for it."""
        session = self._connected()
        with self._lock:
            self._busy.add(session)
        try:
            yield session
            self._dialect.discard(session)
        except BaseException:
            session.close()
            raise
        else:
            with self._lock:
                self._idle.append(_Idle(session, time.monotonic()))
        finally:
            with self._lock:
                self._busy.discard(session)

    def _connected(self) -> Session:
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                return self._dialect.connect()
            if time.monotonic() - idle.since < IDLE_SECONDS or idle.session.usable():
                return idle.session
            idle.session.close()

    def _apply(self, session: Session, table: TargetTable, change: TargetChange, seen: str | None) -> Outcome:
        match change:
            case Create():
                reach("apply.create.before")
                how = self._schemas.create(session, table, change, seen)
                reach("apply.create.after")
            case Drop():
                reach("apply.drop.before")
                how = "drop" if self._schemas.drop(session, table, seen) else SKIPPED
                reach("apply.drop.after")
            case Rename():
                reach("apply.rename.before")
                how = "rename" if self._schemas.rename(session, table, change, seen) else SKIPPED
                reach("apply.rename.after")
            case Evolve():
                reach("apply.evolve.before")
                how = "evolve" if self._schemas.evolve(session, table, change, seen) else SKIPPED
                reach("apply.evolve.after")
            case _:
                return self._change_rows(session, table, change, seen)
        return how, Counts()

    def _change_rows(
        self,
        session: Session,
        table: TargetTable,
        change: RowChange,
        seen: str | None,
    ) -> Outcome:
        found = self._positions.required(session, table, seen)
        todo = remaining(change, found.position, found.name, dict(found.columns))
        if todo is None:
            return SKIPPED, Counts()
        change, after = todo
        changes_read()
        match change:
            case Append():
                return self._rows.append(session, found, change, after)
            case Merge():
                return self._rows.merge(session, found, change, after)
            case Replace():
                return self._rows.replace(session, found, change, after)
            case DeleteBelow():
                return self._rows.delete_below(session, found, change, after)


class WarehouseTarget(DatabaseTarget):
    """By the statements of an SQL dialect."""

    def __init__(self, dialect: Dialect, capabilities: Capabilities, storage: Storage, replicator: str) -> None:
        """`storage`: where segments lie; `replicator`: the id that marks its tables."""
        positions, schemas = _definitions(dialect, replicator)
        super().__init__(dialect, capabilities, positions, schemas, RowChanges(positions, storage, dialect))
