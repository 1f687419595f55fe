"""One table's turn in the apply loop: from the position that its target tells to the end of what is journaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from replicator.engine.apply.table_session import NOTHING, LeaseLostDuringApply, TableSession
from replicator.engine.apply.target_names import TargetNames
from replicator.engine.apply.target_position import TargetPosition
from replicator.engine.reporting import Level
from replicator.errors import TidemarkError
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.state.journal import (
    ApplyTable,
    EventKind,
    Segment,
    SegmentKind,
    TableEvent,
)
from replicator.state.tables import TableState
from replicator.targets.base import (
    Append,
    ApplyResult,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    Replace,
)

# With a chunk, one commit of a table that is loaded takes no more: the log's changes behind it wait until it is made.
MERGED_CHUNK_ROWS = 65_536
BEHIND = timedelta(seconds=60)  # a table whose newest change was committed before that is far behind


class TableApplier:
    """One table, from its position to the end of what is journaled."""

    def __init__(self, session: TableSession, max_rows: int) -> None:
        """`max_rows`: about as many changes go into one target commit, at most."""
        self._session, self._max_rows = session, max_rows
        self._names = TargetNames(session)
        self._target = TargetPosition(session, self._names)
        self._unfolded = session.target.capabilities.unfolded
        self._emptied = False  # True: the target was emptied for the reload under way
        self._newest: datetime | None = None  # of the log's changes that this pass has merged: its commit

    @property
    def table(self) -> TableId:
        """As the journal knew it when the pass began."""
        return self._table.table

    @property
    def commits(self) -> int:
        """Target commits so far."""
        return self._session.commits

    @property
    def _table(self) -> ApplyTable:
        return self._session.table

    def run(self) -> int:
        """Apply one pass; return the number of target commits.  Raises any error that stops the table."""
        try:
            return self._run() if self._session.keep() else 0
        except LeaseLostDuringApply:
            return self.commits

    def _run(self) -> int:
        if self._table.state is TableState.DROPPED:
            return self._drop()
        self._names.skip_renames()
        position = self._target.find()
        reach("apply.position.after")
        if position is None:
            return self.commits
        self._target.catch_up(position)
        self._names.take_chosen(position)
        if self._table.state is TableState.LOADING:
            position = self._load(position)
        if self._table.state in {TableState.STREAMING, TableState.RELOADING}:
            self._follow(position)
        if self.commits:
            self._maintain()
        return self.commits

    def _maintain(self) -> None:
        reach("apply.maintain.before")
        behind = self._newest is not None and datetime.now(UTC) - self._newest > BEHIND
        busy = behind or self._table.state is TableState.RELOADING
        if done := self._session.target.maintain(self._session.name, busy=busy):
            self._session.report.log(Level.INFO, done, table=self._table.table)
        reach("apply.maintain.after")

    def failed(self, error: TidemarkError) -> None:
        """Tell the store and the log."""
        stack = {"stack": error.stack} if error.stack else {}
        self._session.report.log(Level.ERROR, error.message, table=self._table.table, code=error.code, **stack)
        self._session.failed(error)

    # Initial load

    def _load(self, position: Position) -> Position:
        """Append chunks as they come; log segments wait until the run is complete, unless the target takes all in
        order.
        """
        if self._table.keyless:
            return self._replace(position)
        if self._unfolded:
            return self._load_in_order(position)
        chunks = self._chunks(position.loaded)
        while self._session.keep():
            if not chunks:
                break
            group = self._group(chunks)
            self._evolve_to(group[0].schema_version, position)
            loaded = group[-1].last_sequence
            result = self._session.apply(Append(group, self._session.schema(group[0].schema_version), loaded))
            position = replace(position, loaded=loaded, schema_version=group[0].schema_version)
            chunks = self._chunks(loaded)
            if self._table.run_complete and not chunks:
                return self._loaded(result, position)
            self._session.mark(result, position)
        else:
            return position
        if self._table.run_complete:
            self._session.move(TableState.STREAMING)
        return position

    def _chunks(self, loaded: int) -> list[Segment]:
        """Of the present load, behind what is loaded."""
        items = self._session.store.items(self._table.table, loaded, chunks_only=True)
        return [item for item in items if isinstance(item, Segment) and item.first_sequence > self._table.live_from]

    def _loaded(self, result: ApplyResult, position: Position) -> Position:
        """With the last chunk's mark the table streams; it is as far as the log's first change, if there is one."""
        items = self._session.items(position.applied)
        if items and all(_loaded_already(item, position) for item in items):
            position = replace(position, applied=_last(items[-1]))
        self._session.mark(result, position, state=TableState.STREAMING)
        return position

    def _load_in_order(self, position: Position) -> Position:
        position, whole = self._follow(position)
        if whole and self._table.run_complete:
            self._session.move(TableState.STREAMING)
        return position

    def _replace(self, position: Position) -> Position:
        """Keyless: the rows of the whole run take the place of what is there, in one commit."""
        if not self._table.run_complete:
            return position
        items = self._session.store.items(self._table.table, self._table.live_from, chunks_only=True)
        chunks = [item for item in items if isinstance(item, Segment)]
        version = chunks[0].schema_version if chunks else self._table.schema_version
        loaded = chunks[-1].last_sequence if chunks else self._table.live_from
        self._evolve_to(version, position)
        change = Replace(
            chunks, self._session.schema(version), version, self._table.live_from, loaded, self._table.load
        )
        result = self._session.apply(change)
        position = Position(self._table.live_from, loaded, version, self._table.load, self._table.mode)
        self._session.mark(result, position)
        self._session.move(TableState.STREAMING)
        return position

    def _evolve_to(self, version: int, position: Position) -> None:
        if position.schema_version != version:
            self._session.apply(Evolve(self._session.schema(version), version))

    # Following the log

    def _follow(self, position: Position) -> tuple[Position, bool]:
        """To the end of what is journaled: where that is, and whether it was reached."""
        while self._session.keep():
            items = self._session.items(position.applied)
            todo = [item for item in items if not _loaded_already(item, position)]
            if not todo:
                if items:
                    self._session.mark(NOTHING, replace(position, applied=_last(items[-1])))
                return position, True
            position = self._step(self._reloading(todo, position), position)
        return position, False

    def _reloading(self, todo: Sequence[Segment | TableEvent], position: Position) -> Sequence[Segment | TableEvent]:
        """Return what to apply next, up to where a reload begins.

        There, an `unfolded` target, which keeps no rows, is emptied: all rows are read again.  It ignores a
        repeated request.
        """
        begin = self._table.reload_from
        if not self._unfolded or self._table.state is not TableState.RELOADING or begin < 0:
            return todo
        before = list(takewhile(lambda item: _last(item) < begin, todo))
        if not before and not self._emptied:
            self._session.apply(DeleteBelow(begin, position.applied))
            self._emptied = True
        return before or todo

    def _drop(self) -> int:
        """Gone from the source: the target's table goes too, unless the policy keeps it (then with its last
        changes).
        """
        position = self._session.position()
        items = self._session.store.items(self._table.table, self._table.live_from)
        kept = any(
            isinstance(item, TableEvent) and item.kind is EventKind.DROP_TABLE and item.detail.get("keep")
            for item in items
        )
        if kept and position is not None and position.load == self._table.load:
            self._follow(position)
        elif items:
            theirs = position is not None and position.load in self._table.others  # the name is another table's by now
            result = NOTHING if theirs else self._session.apply(Drop())
            done = Position(_last(items[-1]), position.loaded if position else -1, 0, self._table.load)
            self._session.mark(result, done, gone=True)
        return self.commits

    def _step(self, todo: Sequence[Segment | TableEvent], position: Position) -> Position:
        head = todo[0]
        if isinstance(head, TableEvent):
            result = NOTHING if self._names.has_passed(head, todo) else self._event(head, todo[1:])
            position = self._reached(position, head.sequence)
            self._session.mark(result, position)
            return position
        schema = self._session.schema(head.schema_version)
        # A row may have changed its key before a chunk read the one that took its place there: only the whole log knows
        # both.
        group = self._group(todo, whole_to=position.loaded if schema.partial else -1)
        upto, self._newest = group[-1].last_sequence, group[-1].last_commit_ts
        follows = todo[len(group)] if len(group) < len(todo) else None
        emptied = isinstance(follows, TableEvent) and follows.kind is EventKind.TRUNCATE_TABLE
        result = self._session.apply(Merge(group, schema, upto, emptied, whole_to=position.loaded))
        position = self._reached(position, upto if result.upto is None else result.upto)
        self._session.mark(result, position)
        return position

    def _reached(self, position: Position, applied: int) -> Position:
        loaded = max(position.loaded, applied) if self._unfolded else position.loaded
        return replace(position, applied=applied, loaded=loaded)

    def _group(self, items: Sequence[Segment | TableEvent], whole_to: int = -1) -> list[Segment]:
        """Segments of one schema up to the next event or as many rows as one commit takes; each ends at a transaction's
        end (invariant 6).

        No number of rows parts what lies at or below `whole_to`.
        """
        group: list[Segment] = []
        rows, most = 0, self._max_rows
        for item in items:
            if isinstance(item, TableEvent) or (group and item.schema_version != group[0].schema_version):
                break
            if item.kind is SegmentKind.CHUNK and self._table.state is not TableState.LOADING:
                most = min(most, MERGED_CHUNK_ROWS)
            if group and rows + item.rows > most and item.first_sequence > whole_to:
                break
            group.append(item)
            rows += item.rows
        return group

    def _event(self, event: TableEvent, later: Sequence[Segment | TableEvent]) -> ApplyResult:
        nothing = ApplyResult(0, 0, 0, event.kind.value.lower(), 0.0)
        match event.kind:
            case EventKind.ALTER_TABLE if event.schema_version:
                renamed, keep = event.detail.get("renamed_columns", {}), bool(event.detail.get("keep_dropped"))
                version = event.schema_version
                return self._session.apply(Evolve(self._session.schema(version), version, renamed, keep_dropped=keep))
            case EventKind.TRUNCATE_TABLE:
                return self._session.apply(_ended(event, event.sequence))
            case EventKind.SWEEP:
                result = self._session.apply(_ended(event, int(event.detail["below"])))
                self._session.move(TableState.STREAMING)
                return result
            case EventKind.RENAME_TABLE if not self._table.own:
                new = self._names.resolve(event, later)
                result = self._session.apply(Rename(new))
                self._session.move_target(new)
                return result
        return nothing


def _ended(event: TableEvent, below: int) -> DeleteBelow:
    """A sweep has no commit time: what it finds gone is gone since some time before now."""
    return DeleteBelow(below, event.sequence, event.kind.value, event.commit_ts or datetime.now(UTC), event.token)


def _loaded_already(item: Segment | TableEvent, position: Position) -> bool:
    """A chunk that the initial load appended."""
    return isinstance(item, Segment) and item.kind is SegmentKind.CHUNK and item.last_sequence <= position.loaded


def _last(item: Segment | TableEvent) -> int:
    return item.last_sequence if isinstance(item, Segment) else item.sequence
