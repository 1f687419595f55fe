"""One table's turn in the apply loop: from the position that its target tells to the end of what is journaled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile

from replicator.engine.reporting import Level, Reporter
from replicator.errors import TargetConflict, TargetTableGone, TidemarkError, ValuesLost
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.state.journal import (
    Applied,
    ApplyStore,
    ApplyTable,
    EventKind,
    Segment,
    SegmentKind,
    TableEvent,
)
from replicator.state.lease import Lease
from replicator.state.tables import TableState
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
    Target,
    TargetChange,
    TargetTable,
)

NOTHING = ApplyResult(0, 0, 0, "skip", 0.0)
# With a chunk, one commit of a table that is loaded takes no more: the log's changes behind it wait until it is made.
MERGED_CHUNK_ROWS = 65_536


class _NoLongerOursError(Exception):
    """What another owner has made since this pass was planned would be taken for something older, and replaced."""


class TablePass:
    """One table, from its position to the end of what is journaled."""

    def __init__(
        self,
        target: Target,
        store: ApplyStore,
        lease: Lease,
        keep: Callable[[], bool],
        max_rows: int,
        report: Reporter,
        table: ApplyTable,
    ) -> None:
        """`max_rows`: about as many changes go into one target commit, at most."""
        self._target, self._store, self._lease = target, store, lease
        self._keep, self._max_rows, self._report = keep, max_rows, report
        self._table = table
        self._name = TargetTable(*table.target)
        self._schemas: dict[int, TableSchema] = {}
        self._seen = NO_TABLE  # the load of the target's table as this pass knows it
        self._unfolded = target.capabilities.unfolded
        self._emptied = False  # told for the reload under way
        self._asked: tuple[int | None, Sequence[Segment | TableEvent]] = (None, ())
        self.commits = 0

    @property
    def table(self) -> TableId:
        """As the journal knew it when the pass began."""
        return self._table.table

    def run(self) -> int:
        """Returns the number of target commits.  Raises whatever stops the table."""
        try:
            return self._run() if self._keep() else 0
        except _NoLongerOursError:
            return self.commits

    def _run(self) -> int:
        if self._table.state is TableState.DROPPED:
            return self._drop()
        self._go_home()
        position = self._position()
        reach("apply.position.after")
        if position is None:
            return self.commits
        self._catch_up(position)
        self._move_to_own_name(position)
        if self._table.state is TableState.LOADING:
            position = self._load(position)
        if self._table.state in {TableState.STREAMING, TableState.RELOADING}:
            self._follow(position)
        if self.commits:
            self._maintain()
        return self.commits

    def _maintain(self) -> None:
        reach("apply.maintain.before")
        reloading = self._table.state is TableState.RELOADING
        if done := self._target.maintain(self._name, reloading=reloading):
            self._report.log(Level.INFO, done, table=self._table.table)
        reach("apply.maintain.after")

    def failed(self, error: TidemarkError) -> None:
        """Tell the store and the log."""
        stack = {"stack": error.stack} if error.stack else {}
        self._report.log(Level.ERROR, error.message, table=self._table.table, code=error.code, **stack)
        self._store.failed(self._lease, self._table.table, error)

    # Where the target stands

    def _go_home(self) -> None:
        """A table that is made (anew) needs not go through the renames before: nothing of it stays under its old name."""
        home = TargetTable(*self._table.home)
        if home in (self._name, TargetTable("", "")):
            return
        position = self._look(self._name)
        ours = position is not None and position.load == self._table.load
        if ours or self._already_renamed() is not None:
            return
        if position is not None and position.load not in self._table.others:
            self._apply(Drop())
        self._move_target(home)

    def _position(self) -> Position | None:
        """The target's own word; the table is made (anew) where it is missing or of an older generation."""
        table = self._table
        position = self._look(self._name)
        if position is not None and position.load == table.load:
            return position
        if (renamed := self._already_renamed()) is not None:
            return renamed  # before anything is made: another table may have the old name by now
        if position is not None and position.load in table.others:
            message = f"{self._name} is still another table's in the target, which has its new name soon."
            raise TargetConflict(message, table=str(table.table))
        loading = table.keyless and table.made and table.state is TableState.LOADING
        if loading and position is not None and position.mode is table.mode:
            return position  # the old rows stay readable until `Replace`
        if self._had_rows():
            what = "is gone" if position is None else "was replaced by another"
            message = f"{self._name} {what} in the target, with the rows that it had"
            if table.mode is Mode.MIRROR:
                raise ValuesLost(f"{message}: it is read anew.", table=str(table.table))
            raise TargetTableGone(f"{message}, and with what it kept of older ones.", table=str(table.table))
        version = self._first_version()
        if version == 0:
            return None
        load = "" if table.keyless and table.state is TableState.LOADING else table.load
        self._apply(Create(self._schema(version), version, table.live_from, load, table.mode))
        self._take_back()
        return Position(table.live_from, -1, version, load, table.mode)

    def _had_rows(self) -> bool:
        """Are there rows that nothing brings again?  The journal keeps what was applied for some hours only."""
        table = self._table
        match table.state:
            case TableState.LOADING:
                return table.loaded > -1
            case TableState.RELOADING:  # all come again that came before it began
                return table.applied >= table.reload_from
            case TableState.STREAMING:
                return table.applied > table.live_from or table.loaded > -1
        return False

    def _take_back(self) -> None:
        """A table made after the lease may have run out is nobody's where the journal wants another generation by now, or none."""
        if self._keep() or not self._store.superseded(self._table.table):
            return
        self._apply(Drop())
        raise _NoLongerOursError

    def _move_to_own_name(self, position: Position) -> None:
        """Somebody has chosen another name for it in the target."""
        home = TargetTable(*self._table.home)
        if not self._table.own or home == self._name or position.load != self._table.load:
            return
        if self._read(home) is not None:
            message = f"{self._name} cannot be called {home} in the target: there is a table of that name."
            raise TargetConflict(message, table=str(self._table.table))
        self._apply(Rename(home))
        self._move_target(home)

    def _catch_up(self, position: Position) -> None:
        """The worker before us died after the target's commit: the journal does not know of it yet.  ValuesLost where it never will."""
        ahead = position.applied > self._table.applied or position.loaded > self._table.loaded
        if not ahead or position.load != self._table.load:
            return
        places = (position.applied, position.loaded)
        if position.item and position.item not in self._store.ends(self._table.table, places):
            self._store.skip(max(places))
            message = f"{self._name} holds changes that are not in the metadata database, which was restored: it is read anew."
            raise ValuesLost(message, table=str(self._table.table))
        done = self._store.items(self._table.table, self._table.applied)
        swept = [item for item in done if isinstance(item, TableEvent) and item.kind is EventKind.SWEEP]
        if self._table.state is TableState.RELOADING and any(item.sequence <= position.applied for item in swept):
            self._move(TableState.STREAMING)
        self._mark(NOTHING, position)

    def _already_renamed(self) -> Position | None:
        """A rename reached the target, but not the journal."""
        if self._table.own:
            return self._found(TargetTable(*self._table.home))
        for item in self._items(self._table.live_from):
            if isinstance(item, TableEvent) and item.kind is EventKind.RENAME_TABLE:
                new = self._renamed(item)
                for name in (new, self._stand_in(new)):
                    if (position := self._found(name)) is not None:
                        return position
        return None

    def _found(self, name: TargetTable) -> Position | None:
        """The table is there under this name, and the journal knows it from here on; else None."""
        position = self._read(name)
        if position is None or position.load != self._table.load:
            return None
        self._seen = position.load
        self._move_target(name)
        return position

    def _first_version(self) -> int:
        """The schema under which the first item was written; the newest where there is none."""
        for item in self._items(self._table.live_from):
            if item.schema_version:
                return item.schema_version
        return self._table.schema_version

    # Initial load

    def _load(self, position: Position) -> Position:
        """Append chunks as they come; log segments wait until the run is complete, unless the target takes all in order."""
        if self._table.keyless:
            return self._replace(position)
        if self._unfolded:
            return self._load_in_order(position)
        chunks = self._chunks(position.loaded)
        while self._keep():
            if not chunks:
                break
            group = self._group(chunks)
            self._evolve_to(group[0].schema_version, position)
            loaded = group[-1].last_sequence
            result = self._apply(Append(group, self._schema(group[0].schema_version), loaded))
            position = replace(position, loaded=loaded, schema_version=group[0].schema_version)
            chunks = self._chunks(loaded)
            if self._table.run_complete and not chunks:
                return self._loaded(result, position)
            self._mark(result, position)
        else:
            return position
        if self._table.run_complete:
            self._move(TableState.STREAMING)
        return position

    def _chunks(self, loaded: int) -> list[Segment]:
        """Of the present load, behind what is loaded."""
        items = self._store.items(self._table.table, loaded, chunks_only=True)
        return [item for item in items if isinstance(item, Segment) and item.first_sequence > self._table.live_from]

    def _loaded(self, result: ApplyResult, position: Position) -> Position:
        """With the last chunk's mark the table streams; it is as far as the log's first change, if there is one."""
        items = self._items(position.applied)
        if items and all(_loaded_already(item, position) for item in items):
            position = replace(position, applied=_last(items[-1]))
        self._mark(result, position, state=TableState.STREAMING)
        self._table = replace(self._table, state=TableState.STREAMING)
        return position

    def _load_in_order(self, position: Position) -> Position:
        position, whole = self._follow(position)
        if whole and self._table.run_complete:
            self._move(TableState.STREAMING)
        return position

    def _replace(self, position: Position) -> Position:
        """Keyless: the rows of the whole run take the place of what is there, in one commit."""
        if not self._table.run_complete:
            return position
        items = self._store.items(self._table.table, self._table.live_from, chunks_only=True)
        chunks = [item for item in items if isinstance(item, Segment)]
        version = chunks[0].schema_version if chunks else self._table.schema_version
        loaded = chunks[-1].last_sequence if chunks else self._table.live_from
        self._evolve_to(version, position)
        change = Replace(chunks, self._schema(version), version, self._table.live_from, loaded, self._table.load)
        result = self._apply(change)
        position = Position(self._table.live_from, loaded, version, self._table.load, self._table.mode)
        self._mark(result, position)
        self._move(TableState.STREAMING)
        return position

    def _evolve_to(self, version: int, position: Position) -> None:
        if position.schema_version != version:
            self._apply(Evolve(self._schema(version), version))

    # Following the log

    def _follow(self, position: Position) -> tuple[Position, bool]:
        """To the end of what is journaled: where that is, and whether it was reached."""
        while self._keep():
            items = self._items(position.applied)
            todo = [item for item in items if not _loaded_already(item, position)]
            if not todo:
                if items:
                    self._mark(NOTHING, replace(position, applied=_last(items[-1])))
                return position, True
            position = self._step(self._reloading(todo, position), position)
        return position, False

    def _reloading(self, todo: Sequence[Segment | TableEvent], position: Position) -> Sequence[Segment | TableEvent]:
        """What comes next, up to where a reload begins; a target without rows of its own is emptied there: all are read again.

        It knows whether that was told before.
        """
        begin = self._table.reload_from
        if not self._unfolded or self._table.state is not TableState.RELOADING or begin < 0:
            return todo
        before = list(takewhile(lambda item: _last(item) < begin, todo))
        if not before and not self._emptied:
            self._apply(DeleteBelow(begin, position.applied))
            self._emptied = True
        return before or todo

    def _drop(self) -> int:
        """Gone from the source: the target's table goes too, unless the policy keeps it (then with its last changes)."""
        position = self._look(self._name)
        items = self._store.items(self._table.table, self._table.live_from)
        kept = any(
            isinstance(item, TableEvent) and item.kind is EventKind.DROP_TABLE and item.detail.get("keep")
            for item in items
        )
        if kept and position is not None and position.load == self._table.load:
            self._follow(position)
        elif items:
            theirs = position is not None and position.load in self._table.others  # the name is another table's by now
            result = NOTHING if theirs else self._apply(Drop())
            done = Position(_last(items[-1]), position.loaded if position else -1, 0, self._table.load)
            self._mark(result, done, gone=True)
        return self.commits

    def _step(self, todo: Sequence[Segment | TableEvent], position: Position) -> Position:
        head = todo[0]
        if isinstance(head, TableEvent):
            result = NOTHING if self._on_the_way_home(head, todo) else self._event(head, todo[1:])
            position = self._reached(position, head.sequence)
            self._mark(result, position)
            return position
        schema = self._schema(head.schema_version)
        # A row may have changed its key before a chunk read the one that took its place there: only the whole log knows both.
        group = self._group(todo, whole_to=position.loaded if schema.partial else -1)
        upto = group[-1].last_sequence
        follows = todo[len(group)] if len(group) < len(todo) else None
        emptied = isinstance(follows, TableEvent) and follows.kind is EventKind.TRUNCATE_TABLE
        result = self._apply(Merge(group, schema, upto, emptied))
        position = self._reached(position, upto)
        self._mark(result, position)
        return position

    def _reached(self, position: Position, applied: int) -> Position:
        loaded = max(position.loaded, applied) if self._unfolded else position.loaded
        return replace(position, applied=applied, loaded=loaded)

    def _on_the_way_home(self, event: TableEvent, todo: Sequence[Segment | TableEvent]) -> bool:
        """A rename that leads, through others, to where the table was made in the first place."""
        if event.kind is not EventKind.RENAME_TABLE or (self._name.namespace, self._name.name) != self._table.home:
            return False
        return self._renamed(_renames(todo)[-1]) == self._name

    def _group(self, items: Sequence[Segment | TableEvent], whole_to: int = -1) -> list[Segment]:
        """Segments of one schema up to the next event or as many rows as one commit takes; each ends at a transaction's end (invariant 6).

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
                return self._apply(Evolve(self._schema(version), version, renamed, keep_dropped=keep))
            case EventKind.TRUNCATE_TABLE:
                return self._apply(_ended(event, event.sequence))
            case EventKind.SWEEP:
                result = self._apply(_ended(event, int(event.detail["below"])))
                self._move(TableState.STREAMING)
                return result
            case EventKind.RENAME_TABLE if not self._table.own:
                new = self._free_name(event, leaves=bool(_renames(later)))
                result = self._apply(Rename(new))
                self._move_target(new)
                return result
        return nothing

    def _free_name(self, event: TableEvent, *, leaves: bool) -> TargetTable:
        """The name that the event gives; another for the meantime where that one is taken and the table leaves it again.

        Whoever has it may have been made there at once (`_go_home`), and never goes: it would be waited for in vain.
        """
        new = self._renamed(event)
        position = self._read(new)
        if position is None or position.load == self._table.load:
            return new
        if event.detail.get("replaces_dropped") and position.load not in self._table.others:
            self._target.apply(new, Drop(), position.load)  # dropped before, and its own pass has not removed it
            return new
        return self._stand_in(new) if leaves else new

    # Small steps

    def _items(self, after: int) -> Sequence[Segment | TableEvent]:
        """Of the journal, which ends for this pass where it did when its turn began: what was asked last is not asked again."""
        if self._asked[0] != after:
            self._asked = after, self._store.items(self._table.table, after)
        return self._asked[1]

    def _look(self, name: TargetTable) -> Position | None:
        position = self._read(name)
        self._seen = NO_TABLE if position is None else position.load
        return position

    def _read(self, name: TargetTable) -> Position | None:
        position = self._target.position(name)
        if not self._keep():
            raise _NoLongerOursError
        return position

    def _apply(self, change: TargetChange) -> ApplyResult:
        result = self._target.apply(self._name, change, self._seen)
        if isinstance(change, Create | Replace):
            self._seen = change.load
        self.commits += 1
        detail = {"how": result.how, "seconds": round(result.seconds, 3)}
        counts = {"inserted": result.inserted, "updated": result.updated, "deleted": result.deleted}
        rows = ", ".join(f"{number:,} {word}" for word, number in counts.items() if number)
        text = f"{rows or 'no row changed'} in {result.seconds:.1f} s: {result.how}"
        self._report.log(Level.DEBUG, text, table=self._table.table, **detail)
        return result

    def _mark(
        self, result: ApplyResult, position: Position, *, gone: bool = False, state: TableState | None = None
    ) -> None:
        outcome = Applied(
            table=self._table.table,
            applied=position.applied,
            loaded=position.loaded,
            seconds=result.seconds,
            how=result.how,
            queryable_at=datetime.now(UTC),
            gone=gone,
            state=state,
        )
        reach("apply.mark.before")
        self._store.applied(self._lease, outcome)
        reach("apply.mark.after")

    def _schema(self, version: int) -> TableSchema:
        if version not in self._schemas:
            self._schemas[version] = self._store.schema(self._table.table, version)
        return self._schemas[version]

    def _renamed(self, event: TableEvent) -> TargetTable:
        database, name = event.detail["new"]
        prefix = self._table.home[0].removesuffix(self._table.table.database)
        return TargetTable(prefix + database, name)

    def _stand_in(self, name: TargetTable) -> TargetTable:
        """In its place, and nobody else's."""
        return replace(name, name=f"{name.name}~{self._table.load[:8]}")

    def _move(self, state: TableState) -> None:
        self._moved(state, None)
        self._table = replace(self._table, state=state)

    def _move_target(self, new: TargetTable) -> None:
        self._moved(self._table.state, (new.namespace, new.name))
        self._name = new
        self._table = replace(self._table, target=(new.namespace, new.name))

    def _moved(self, state: TableState, target: tuple[str, str] | None) -> None:
        reach("apply.move.before")
        self._store.move(self._lease, self._table.table, state, target)
        reach("apply.move.after")


def _ended(event: TableEvent, below: int) -> DeleteBelow:
    """A sweep has no commit time: what it finds gone is gone since some time before now."""
    return DeleteBelow(below, event.sequence, event.kind.value, event.commit_ts or datetime.now(UTC), event.token)


def _loaded_already(item: Segment | TableEvent, position: Position) -> bool:
    """A chunk that the initial load appended."""
    return isinstance(item, Segment) and item.kind is SegmentKind.CHUNK and item.last_sequence <= position.loaded


def _renames(items: Sequence[Segment | TableEvent]) -> list[TableEvent]:
    return [item for item in items if isinstance(item, TableEvent) and item.kind is EventKind.RENAME_TABLE]


def _last(item: Segment | TableEvent) -> int:
    return item.last_sequence if isinstance(item, Segment) else item.sequence
