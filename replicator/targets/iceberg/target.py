"""The Iceberg target."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from replicator.errors import PositionLost, TargetConflict, TargetError, TargetUnauthorized
from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.staging.storage import Storage
from replicator.targets.base import (
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
from replicator.targets.iceberg import apply
from replicator.targets.iceberg.destination import CAPABILITIES, lake_catalog
from replicator.targets.iceberg.direct.result import SKIPPED, ChangeOutcome
from replicator.targets.iceberg.direct.writer import DirectLimits
from replicator.targets.iceberg.jvm.session import SparkPool, guarded
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.shared_tables import SharedTables
from replicator.targets.iceberg.table import schema_update
from replicator.targets.iceberg.table.catalog import DROPPED, IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.layout import SOURCE, follow
from replicator.targets.iceberg.table.parts import PartRefused, check, copy_schema, part_position
from replicator.targets.iceberg.table.position import position
from replicator.targets.iceberg.table.types import from_iceberg
from replicator.targets.iceberg.upkeep import dropped_tables, maintenance
from replicator.targets.kind import Opening

ATTEMPTS = 10  # at a change of a part of a shared table
BACKOFF_SECONDS = 0.01
DEFAULT_LAYOUT = Layout()
DEFAULT_RETENTION = Retention.parse()
NOTHING: Mapping[str, str] = {}


class IcebergTarget:
    """Tables of one replicator in an Iceberg JDBC catalog, changed by Spark.  Thread-safe."""

    capabilities = CAPABILITIES

    def __init__(
        self,
        spark: SparkPool,
        storage: Storage,
        replicator: str,
        limits: DirectLimits = apply.LIMITS,
        retention: Retention = DEFAULT_RETENTION,
        layout: Layout = DEFAULT_LAYOUT,
    ) -> None:
        """`storage`: where segments lie; `replicator`: the id that marks its tables.

        Nothing starts before the first use.

        limits: what is applied without Spark.  retention: the default, where a table has none.
        layout: partitions, sort order and properties of tables.
        """
        self._storage = storage
        self._spark = spark
        self._catalog = IcebergCatalog(spark, replicator)
        self._limits = limits
        self._retention = retention
        self._layout = layout
        self._shared = SharedTables(self._catalog, storage, limits, retention, layout)
        self._turns: dict[TargetTable, threading.Lock] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """See `Target`."""
        with self._guarded():
            self._spark.catalog()

    def position(self, table: TargetTable) -> Position | None:
        """See `Target`."""
        with self._guarded():
            return self._position(self._load(table))

    def apply(self, table: TargetTable, change: TargetChange, seen: str | None = None) -> ApplyResult:
        """See `Target`."""
        started = time.monotonic()
        if table.part:
            outcome = self._apply_to_part(table, change, seen)
        else:
            with self._guarded():
                outcome = self._apply(table, change, seen)
        return _result(outcome, time.monotonic() - started)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        """See `Target`."""
        table = table.whole
        with self._turn(table), self._guarded():
            found = self._catalog.load(table)
            if found is None:
                return ""
            if follow(found, self._layout.of(found.properties.get(SOURCE, str(table)))):
                found = self._catalog.require(table)
            return maintenance.maintain(self._catalog, found, self._retention, busy=busy)

    def interrupt(self) -> None:
        """See `Target`."""
        self._catalog.interrupt()

    def close(self) -> None:
        """Spark is the process's."""

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with guarded():
                yield
        except TargetUnauthorized:
            self._catalog.reset()
            raise

    @contextmanager
    def _turn(self, table: TargetTable) -> Iterator[None]:
        """One change at a time of a table that several source tables share: each would be refused for the other."""
        with self._lock:
            turn = self._turns.setdefault(table.whole, threading.Lock())
        with turn:
            yield

    def _apply_to_part(self, table: TargetTable, change: TargetChange, seen: str | None) -> ChangeOutcome:
        """Apply a change to a part of a shared table.

        A commit that came in between (of another part, by a worker that lost its lease, of another program) is not an
        error: the table is re-read and the change decided again.
        """
        for attempt in range(ATTEMPTS):
            try:
                with self._turn(table), self._guarded():
                    return self._apply(table, change, seen)
            except PartRefused:
                raise
            except TargetConflict:
                if attempt == ATTEMPTS - 1:
                    raise
            time.sleep(random.uniform(0, BACKOFF_SECONDS * 2**attempt))  # noqa: S311 - no secret
        raise AssertionError(table)

    def _create(self, table: TargetTable, older: IcebergTable | None, change: Create) -> str:
        if table.part:
            self._shared.create(table, older, change)
            return "create" if older is None else "create in a shared table"
        schema_update.create(self._catalog, table, older, change, self._retention, self._layout)
        return "create" if older is None else "recreate"

    def _apply(self, table: TargetTable, change: TargetChange, seen: str | None) -> ChangeOutcome:
        match change:
            case Create():
                reach("apply.create.before")
                how = self._create(table, self._as_seen(table, seen), change)
                reach("apply.create.after")
            case Drop():
                reach("apply.drop.before")
                found = self._as_seen(table, seen)
                if found is not None and table.part:
                    found = found if part_position(found) or change.whole else None
                if found is not None and table.part:
                    self._shared.drop(found, change)
                elif found is not None:
                    dropped_tables.drop(self._catalog, found, self._retention)
                how = SKIPPED if found is None else "drop"
                reach("apply.drop.after")
            case Rename():
                reach("apply.rename.before")
                if table.part and table != change.new:
                    raise TargetError(f"{table} cannot be renamed: other tables share it.", table=str(table))
                how = "rename" if schema_update.rename(self._catalog, self._as_seen(table, seen), change) else SKIPPED
                reach("apply.rename.after")
            case Evolve():
                reach("apply.evolve.before")
                found = self._required(table, seen)
                if table.part:
                    done = self._shared.evolve(found, change)
                else:
                    done = schema_update.evolve(self._catalog, found, change, self._layout)
                how = "evolve" if done else SKIPPED
                reach("apply.evolve.after")
            case _:
                return self._rows(self._required(table, seen), change)
        return ChangeOutcome(how, NOTHING)

    def _as_seen(self, table: TargetTable, seen: str | None) -> IcebergTable | None:
        """The table; TargetConflict where it, or its part, is not the one that the caller has seen."""
        found = self._load(table)
        if seen is None:
            return found
        at = self._position(found)
        if (NO_TABLE if at is None else at.load) == seen:
            return found
        message = f"{table} was recreated or dropped by another worker."
        raise PartRefused(message, table=str(table)) if table.part else TargetConflict(message, table=str(table))

    def _load(self, table: TargetTable) -> IcebergTable | None:
        found = self._catalog.load(table)
        if found is not None:
            check(found)
        return found

    def _position(self, table: IcebergTable | None) -> Position | None:
        """Return the table's or the part's position; None where it does not exist."""
        if table is None:
            return None
        if table.name.part:
            return part_position(table)
        try:
            return position(table)
        except PositionLost as error:
            return Position(-1, -1, 0, "", table.mode, error=error)

    def _required(self, table: TargetTable, seen: str | None) -> IcebergTable:
        found = self._as_seen(table, seen) or self._catalog.require(table)
        if table.part and part_position(found) is None:
            raise TargetError(f"The target table {table} does not exist.", table=str(table))
        return found

    def _rows(self, table: IcebergTable, change: RowChange) -> ChangeOutcome:
        if table.name.part and not isinstance(change, DeleteBelow):
            change = replace(change, schema=copy_schema(table, change.schema))
        at = position(table)
        todo = remaining(change, at, table.name, {name: from_iceberg(text) for name, text in table.columns})
        if todo is None:
            return ChangeOutcome(SKIPPED, NOTHING)
        change, after = todo
        changes = apply.RowChanges(self._catalog, self._storage, table, at, after, self._limits)
        match change:
            case Append():
                return changes.append(change)
            case Merge():
                return changes.merge(change)
            case Replace():
                return changes.replace_all(change)
            case DeleteBelow():
                return changes.delete_below(change)


def clean(opening: Opening, now: float) -> int:
    """See `TargetKind`.  Nothing is started where nothing is due."""
    from replicator.targets.iceberg import reading  # noqa: PLC0415 - merges do not need pyiceberg

    lake = lake_catalog(opening.config, opening.lake)
    if not dropped_tables.due(reading.names(lake, DROPPED), now):
        return 0
    with guarded():
        return dropped_tables.delete_due(IcebergCatalog(opening.spark(lake), opening.replicator), now)


def _result(outcome: ChangeOutcome, seconds: float) -> ApplyResult:
    """Counts are our own for a direct change, Spark's for a MERGE, the commit's for everything else."""
    did = outcome.did
    if isinstance(did, Counts):
        return ApplyResult(did.inserted, did.updated, did.deleted, str(outcome), seconds, outcome.upto)

    def count(name: str) -> int:
        return int(did.get(name, 0))

    merged = "spark.merge-into.num-target-rows-"
    if f"{merged}inserted" in did:
        found = count(f"{merged}inserted"), count(f"{merged}updated"), count(f"{merged}deleted")
    else:
        found = count("added-records"), 0, count("deleted-records") + count("added-position-deletes")
    return ApplyResult(*found, str(outcome), seconds)
