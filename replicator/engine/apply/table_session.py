"""One table's target and journal, as one pass of the apply loop sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from replicator.engine.reporting import Level, Reporter
from replicator.errors import TidemarkError
from replicator.faults import reach
from replicator.model.schema import TableSchema
from replicator.state.journal import Applied, ApplyStore, ApplyTable, Place, Segment, TableEvent
from replicator.state.lease import Lease
from replicator.state.tables import TableState
from replicator.targets.base import (
    NO_TABLE,
    ApplyResult,
    Create,
    Position,
    Replace,
    Target,
    TargetChange,
    TargetTable,
)

NOTHING = ApplyResult(0, 0, 0, "skip", 0.0)


class LeaseLostDuringApply(Exception):
    """What another owner has made since this pass was planned would be taken for something older, and replaced."""


class TableSession:
    """What a pass asks, and what it does.

    table: as the journal knew it when the pass began, with what the pass has changed of it since
    name: of its table in the target
    commits: target commits so far
    """

    def __init__(
        self,
        *,
        target: Target,
        store: ApplyStore,
        lease: Lease,
        keep: Callable[[], bool],
        report: Reporter,
        table: ApplyTable,
    ) -> None:
        self.target, self.store, self.keep, self.report = target, store, keep, report
        self.table, self.name, self.commits = table, TargetTable(*table.target), 0
        self._lease = lease
        self._seen = NO_TABLE  # the load of the target's table as this pass knows it
        self._schemas: dict[int, TableSchema] = {}
        self._asked: tuple[int | None, Sequence[Segment | TableEvent]] = (None, ())

    def items(self, after: int) -> Sequence[Segment | TableEvent]:
        """Of the journal, which ends for this pass where it did when its turn began: what was asked last is not asked
        again.
        """
        if self._asked[0] != after:
            self._asked = after, self.store.items(self.table.table, after)
        return self._asked[1]

    def schema(self, version: int) -> TableSchema:
        """Asked for once."""
        if version not in self._schemas:
            self._schemas[version] = self.store.schema(self.table.table, version)
        return self._schemas[version]

    def position(self) -> Position | None:
        """Of the target's table, which is changed from here on only as it is now; None where there is none."""
        position = self.position_of(self.name)
        self._seen = NO_TABLE if position is None else position.load
        return position

    def position_of(self, name: TargetTable) -> Position | None:
        """LeaseLostDuringApply where the lease is over meanwhile."""
        position = self.target.position(name)
        if not self.keep():
            raise LeaseLostDuringApply
        return position

    def adopt(self, name: TargetTable, position: Position) -> None:
        """The table is under this name: in the target already, in the journal from here on."""
        self._seen = position.load
        self.move_target(name)

    def apply(self, change: TargetChange) -> ApplyResult:
        """One commit."""
        result = self.target.apply(self.name, change, self._seen)
        if isinstance(change, Create | Replace):
            self._seen = change.load
        self.commits += 1
        detail = {"how": result.how, "seconds": round(result.seconds, 3)}
        counts = {"inserted": result.inserted, "updated": result.updated, "deleted": result.deleted}
        rows = ", ".join(f"{number:,} {word}" for word, number in counts.items() if number)
        text = f"{rows or 'no row changed'} in {result.seconds:.1f} s: {result.how}"
        self.report.log(Level.DEBUG, text, table=self.table.table, **detail)
        return result

    def mark(
        self, result: ApplyResult, position: Position, *, gone: bool = False, state: TableState | None = None
    ) -> None:
        """The journal knows of the commit; with `state`, of what the table is from here on, too."""
        outcome = Applied(
            table=self.table.table,
            applied=position.applied,
            loaded=position.loaded,
            seconds=result.seconds,
            how=result.how,
            queryable_at=datetime.now(UTC),
            gone=gone,
            state=state,
        )
        reach("apply.mark.before")
        self.store.applied(self._lease, outcome)
        reach("apply.mark.after")
        if state is not None:
            self.table = replace(self.table, state=state)

    def failed(self, error: TidemarkError) -> None:
        """The journal knows what stopped the table."""
        self.store.failed(self._lease, self.table.table, error)

    def move(self, state: TableState) -> None:
        """The table is in another state from here on."""
        self._moved(state, None)
        self.table = replace(self.table, state=state)

    def move_target(self, new: TargetTable) -> None:
        """The target's table has another name from here on."""
        place = (new.namespace, new.name, new.part)
        self._moved(self.table.state, place)
        self.name = new
        self.table = replace(self.table, target=place)

    def _moved(self, state: TableState, target: Place | None) -> None:
        reach("apply.move.before")
        self.store.move(self._lease, self.table.table, state, target)
        reach("apply.move.after")
