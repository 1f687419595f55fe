"""What a table is called in the target: names chosen by people, renames in the source, and names that are taken
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replicator.engine.apply.table_session import TableSession
from replicator.errors import TargetConflict
from replicator.model.identifiers import TableId
from replicator.state.journal import EventKind, Segment, TableEvent
from replicator.targets.base import Drop, Position, Rename, TargetTable


class TargetNames:
    """Of one table, during one pass."""

    def __init__(self, session: TableSession) -> None:
        self._session = session

    @property
    def wanted(self) -> TargetTable:
        """What it is to be called in the end."""
        return TargetTable(*self._session.table.target_name)

    def skip_renames(self) -> None:
        """A table that is made (again) needs not go through the renames before: nothing of it stays under its old
        name.
        """
        session = self._session
        if self.wanted in (session.name, TargetTable("", "")):
            return
        position = session.position()
        ours = position is not None and position.load == session.table.load
        if ours or self.find_renamed() is not None:
            return
        if position is not None and position.load not in session.table.others:
            session.apply(Drop())
        session.move_target(self.wanted)

    def find_renamed(self) -> Position | None:
        """A rename reached the target, but not the journal."""
        session = self._session
        if session.table.own:
            return self._adopted(self.wanted)
        for item in session.items(session.table.live_from):
            if isinstance(item, TableEvent) and item.kind is EventKind.RENAME_TABLE:
                new = self._renamed(item)
                for name in (new, self._temporary(new)):
                    if (position := self._adopted(name)) is not None:
                        return position
        return None

    def take_chosen(self, position: Position) -> None:
        """Rename the target's table to the name that a user has chosen."""
        session, wanted = self._session, self.wanted
        if not session.table.own or wanted == session.name or position.load != session.table.load:
            return
        if session.position_of(wanted) is not None:
            message = f"{session.name} cannot be renamed to {wanted} in the target: a table with that name exists."
            raise TargetConflict(message, table=str(session.table.table))
        session.apply(Rename(wanted))
        session.move_target(wanted)

    def has_passed(self, event: TableEvent, todo: Sequence[Segment | TableEvent]) -> bool:
        """A rename that leads, through others, to where the table was made in the first place."""
        if event.kind is not EventKind.RENAME_TABLE or self._session.name != self.wanted:
            return False
        return self._renamed(_renames(todo)[-1]) == self._session.name

    def resolve(self, event: TableEvent, later: Sequence[Segment | TableEvent]) -> TargetTable:
        """Return the name that a rename gives, or a temporary one where that is taken and the table leaves it later.

        The table that has the name may have been created under it directly (`skip_renames`) and never leave it, so
        waiting for that would be in vain.
        """
        session, new = self._session, self._renamed(event)
        position = session.position_of(new)
        if position is None or position.load == session.table.load:
            return new
        if event.detail.get("replaces_dropped") and position.load not in session.table.others:
            session.target.apply(new, Drop(), position.load)  # dropped before, and its own pass has not removed it
            return new
        return self._temporary(new) if _renames(later) else new

    def _adopted(self, name: TargetTable) -> Position | None:
        """The table is there under this name, and the journal knows it from here on; else None."""
        position = self._session.position_of(name)
        if position is None or position.load != self._session.table.load:
            return None
        self._session.adopt(name, position)
        return position

    def _renamed(self, event: TableEvent) -> TargetTable:
        return TargetTable(*self._session.table.target_name_as(TableId(*event.detail["new"])))

    def _temporary(self, name: TargetTable) -> TargetTable:
        """In its place, and no other table's."""
        return replace(name, name=f"{name.name}~{self._session.table.load[:8]}")


def _renames(items: Sequence[Segment | TableEvent]) -> list[TableEvent]:
    return [item for item in items if isinstance(item, TableEvent) and item.kind is EventKind.RENAME_TABLE]
