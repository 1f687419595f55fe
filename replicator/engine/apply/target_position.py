"""Where a table's target stands: what it holds, whether it has to be made, and what the journal does not know of it."""

from __future__ import annotations

from replicator.engine.apply.table_session import NOTHING, LeaseLostDuringApply, TableSession
from replicator.engine.apply.target_names import TargetNames
from replicator.errors import TargetConflict, TargetTableGone, ValuesLost
from replicator.model.mode import Mode
from replicator.state.journal import EventKind, Segment, TableEvent
from replicator.state.tables import TableState
from replicator.targets.base import Create, Drop, Evolve, Position


class TargetPosition:
    """Of one table, at the beginning of one pass."""

    def __init__(self, session: TableSession, names: TargetNames) -> None:
        self._session, self._names = session, names

    def find(self) -> Position | None:
        """The target's own word; the table is made (again) where it is missing or of an older generation.

        None where there is nothing to make it of yet.
        """
        session, table = self._session, self._session.table
        position = session.position()
        if position is not None and position.load == table.load:
            if position.error is not None:
                raise position.error
            return position
        if (renamed := self._names.find_renamed()) is not None:
            return renamed  # before anything is made: another table may have the old name by now
        if position is not None and position.load in table.others:
            message = f"{session.name} is still in use by another table that is about to be renamed; retrying."
            raise TargetConflict(message, table=str(table.table))
        loading = table.keyless and table.made and table.state is TableState.LOADING
        if loading and position is not None and position.mode is table.mode and position.error is None:
            return position  # the old rows stay readable until `Replace`
        if self._had_rows():
            raise self._lost(position)
        version = self._first_version()
        if version == 0:
            return None
        load = "" if table.keyless and table.state is TableState.LOADING else table.load
        session.apply(Create(session.schema(version), version, table.live_from, load, table.mode))
        self._take_back()
        return Position(table.live_from, -1, version, load, table.mode)

    def catch_up(self, position: Position) -> None:
        """The worker before us died after the target's commit: the journal does not know of it yet.

        ValuesLost where it never will, or no longer has what the target lacks.
        """
        session, table = self._session, self._session.table
        if position.load == table.load and self._lacks_collected(position):
            self._bring_columns(position)
            message = f"{session.name} is in a state from before changes that the journal no longer has."
            raise ValuesLost(f"{message} The table is resnapshotted.", table=str(table.table))
        ahead = position.applied > table.applied or position.loaded > table.loaded
        if not ahead or position.load != table.load:
            return
        places = (position.applied, position.loaded)
        if position.item and position.item not in session.store.holders(table.table, places):
            session.store.skip(max(places))
            message = (
                f"{session.name} holds changes that are missing in the restored metadata database. The table is"
                " resnapshotted."
            )
            raise ValuesLost(message, table=str(table.table))
        done = session.store.items(table.table, table.applied)
        swept = [item for item in done if isinstance(item, TableEvent) and item.kind is EventKind.SWEEP]
        if table.state is TableState.RELOADING and any(item.sequence <= position.applied for item in swept):
            session.move(TableState.STREAMING)
        session.mark(NOTHING, position)

    def _lacks_collected(self, position: Position) -> bool:
        """True for a target that was restored to where the journal does not reach back; not where all rows come
        again.
        """
        table = self._session.table
        if table.state is TableState.RELOADING and table.reload_from > table.collected:
            return False
        part = position.loaded < table.loaded and not self._session.target.capabilities.unfolded
        return position.applied < table.collected or part

    def _bring_columns(self, position: Position) -> None:
        """A restored table may lack changes of its columns, too: it gets those that the next change is made for."""
        session = self._session
        version = session.table.schema_version
        for item in session.items(position.applied):
            if isinstance(item, Segment):
                version = item.schema_version
                break
            if item.kind is EventKind.ALTER_TABLE and item.schema_version:
                version = item.schema_version - 1
                break
        if version > position.schema_version:
            session.apply(Evolve(session.schema(version), version))

    def _had_rows(self) -> bool:
        """Are there rows that nothing brings again?  The journal keeps what was applied for some hours only."""
        table = self._session.table
        match table.state:
            case TableState.LOADING:
                return table.loaded > -1
            case TableState.RELOADING:  # all come again that came before it began
                return table.applied >= table.reload_from
            case TableState.STREAMING:
                return table.applied > table.live_from or table.loaded > -1
        return False

    def _lost(self, position: Position | None) -> ValuesLost | TargetTableGone:
        table = self._session.table
        if position is not None and position.error is not None:
            lost = position.error.message
            if table.mode is Mode.MIRROR:
                return ValuesLost(f"{lost} The table is resnapshotted.", table=str(table.table))
            return TargetTableGone(lost, table=str(table.table))
        what = "no longer exists" if position is None else "was replaced by another table"
        message = f"{self._session.name} {what} in the target. Its rows are lost"
        if table.mode is Mode.MIRROR:
            return ValuesLost(f"{message}. The table is resnapshotted.", table=str(table.table))
        return TargetTableGone(f"{message}, including older rows.", table=str(table.table))

    def _take_back(self) -> None:
        """Drop a table made after the lease may have expired, where the journal wants another load of it, or none."""
        session = self._session
        if session.keep() or not session.store.superseded(session.table.table):
            return
        session.apply(Drop())
        raise LeaseLostDuringApply

    def _first_version(self) -> int:
        """The schema under which the first item was written; the newest where there is none."""
        for item in self._session.items(self._session.table.live_from):
            if item.schema_version:
                return item.schema_version
        return self._session.table.schema_version
