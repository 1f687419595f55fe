"""The journal entry under way, and the numbering of changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TidemarkError
from replicator.model.change import ChangeBatch, UndecodableRow
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import SEQUENCE
from replicator.staging.writer import SegmentWriter
from replicator.state.journal import (
    Checkpoint,
    ClosedChunk,
    DdlSeen,
    DeadLetter,
    EventKind,
    JournalEntry,
    ReloadRequest,
    SchemaVersion,
    Signal,
    TableEvent,
)

DEAD_LETTER_BYTES = 64 * 1024 * 1024  # of the rows that one entry has, kept in memory until it is journaled


class JournalEntryBuilder:
    """Collects what the next journal commit makes durable.

    A reader counts ordinals from 0; `shift` turns them into sequence numbers.  Everything that capture itself puts in
    between (snapshot rows, sweeps) moves the shift on, so that numbers never meet.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Numbers go on from `checkpoint.next_sequence`."""
        self.next_sequence = checkpoint.next_sequence
        self.shift = checkpoint.next_sequence
        self.source_ts: datetime | None = None
        self.begin(checkpoint)

    def begin(self, checkpoint: Checkpoint) -> None:
        """An empty entry behind `checkpoint`."""
        self.checkpoint = checkpoint
        self.events: list[TableEvent] = []
        self.schemas: list[SchemaVersion] = []
        self.closed: list[ClosedChunk] = []
        self.reopened: list[tuple[int, str]] = []
        self.bases: dict[tuple[int, str], int] = {}
        self.plans: set[str] = set()
        self.unplanned: set[int] = set()
        self.reloads: list[ReloadRequest] = []
        self.failures: list[tuple[TableId, TidemarkError]] = []
        self.dead_letters: list[DeadLetter] = []
        self._dead_letter_room = DEAD_LETTER_BYTES
        self.seen: list[DdlSeen] = []
        self.signals: list[Signal] = []
        self.created: list[TableId] = []
        self.dropped: list[TableId] = []
        self.renamed: list[tuple[TableId, TableId]] = []
        self.carried: list[tuple[TableId, TableId]] = []

    def number(self, batch: ChangeBatch) -> pa.RecordBatch:
        """The batch's data with sequence numbers in place of ordinals."""
        numbers = pc.add(batch.data.column(SEQUENCE), pa.scalar(self.shift, pa.int64()))
        self.reached(pc.max(numbers).as_py())
        return batch.data.set_column(0, batch.data.schema.field(SEQUENCE), numbers)

    def skip(self, batch: ChangeBatch) -> None:
        """The rows are not kept; their numbers are used up all the same."""
        if batch.data.num_rows:
            self.reached(pc.max(batch.data.column(SEQUENCE)).as_py() + self.shift)

    def add_dead_letter(self, table: TableId, row: UndecodableRow) -> None:
        """The row is kept as its bytes, as far as there is room (invariant 9)."""
        sequence = row.ordinal + self.shift
        self.reached(sequence)
        kept = replace(row, data=row.data[: self._dead_letter_room])
        self._dead_letter_room -= len(kept.data)
        self.dead_letters.append(DeadLetter(table, sequence, kept))

    def reached(self, sequence: int) -> None:
        """`sequence` is taken."""
        self.next_sequence = max(self.next_sequence, sequence + 1)

    def take(self, count: int = 1) -> int:
        """Numbers for `count` changes of capture's own, at a place where the reader has handed out all it had read.

        Returns the first.
        """
        first = self.next_sequence
        self.next_sequence += count
        self.shift += count
        return first

    def leap(self, ordinal: int) -> int:
        """A number in the midst of a reader's batches, before the change with this ordinal; leaves a gap behind it."""
        sequence = self.next_sequence
        self.next_sequence += 1
        self.shift = self.next_sequence - ordinal
        return sequence

    def create(self, table: TableId) -> None:
        """What was to happen to one of this name after this entry does not happen to the new one."""
        self.created.append(table)
        self._forget(table)

    def drop(self, table: TableId) -> None:
        """The table is gone, and with it what was to happen to it after this entry."""
        self.dropped.append(table)
        self._forget(table)

    def _forget(self, table: TableId) -> None:
        self.reloads = [request for request in self.reloads if request.table != table]
        self.failures = [failure for failure in self.failures if failure[0] != table]

    def rename(self, old: TableId, new: TableId) -> None:
        """What is to happen to the table after this entry happens to it under its new name, and nothing to one that had
        the name.
        """
        self._forget(new)
        self.renamed.append((old, new))
        self.reloads = [replace(one, table=new) if one.table == old else one for one in self.reloads]
        self.failures = [(new if table == old else table, error) for table, error in self.failures]

    def present(self, table: TableId) -> TableId | None:
        """The name at this place of the log of what the journal knows as `table`; None where it was dropped
        meanwhile.
        """
        name = table
        for event in self.events:
            if event.table == name and event.kind is EventKind.DROP_TABLE:
                return None
            if event.table == name and event.kind is EventKind.RENAME_TABLE:
                name = TableId(*event.detail["new"])
        return name

    def moved(self, table: TableId) -> bool:
        """What the journal knows as `table` had another name meanwhile, even if it came back: its run is planned
        again.
        """
        return any(event.table == table and event.kind is EventKind.RENAME_TABLE for event in self.events)

    def read_again(self, request: ReloadRequest) -> bool:
        """A load after all that is asked for already; False where it takes the place of one that began earlier."""
        others = [one for one in self.reloads if one.table != request.table or not one.again]
        new = len(others) == len(self.reloads)
        self.reloads = [*others, request]
        return new

    def superseded(self, table: TableId) -> bool:
        """The snapshot run that the journal knows ends with this entry: another one begins."""
        return any(request.table == table and not request.again for request in self.reloads)

    def urgent(self) -> bool:
        """Something that others wait for."""
        parts = (
            self.events, self.closed, self.reopened, self.bases, self.reloads, self.failures, self.seen,
            self.signals, self.unplanned,
            self.created, self.dropped, self.carried,
        )  # fmt: skip
        return any(parts)

    def pending(self, writer: SegmentWriter) -> bool:
        """Is there anything to commit?"""
        return writer.rows > 0 or self.urgent() or bool(self.schemas or self.dead_letters or self.plans)

    def build(self, boundary: Offset) -> JournalEntry:
        """The entry as it stands, with a checkpoint at `boundary`; the next one begins.

        Its segments come when their files are durable.
        """
        entry = JournalEntry(
            checkpoint=Checkpoint(boundary.to_dict(), self.next_sequence, self.checkpoint.identity),
            events=tuple(self.events),
            schemas=tuple(self.schemas),
            closed=tuple(self.closed),
            reopened=tuple(self.reopened),
            bases=dict(self.bases),
            plans=frozenset(self.plans),
            unplanned=frozenset(self.unplanned),
            reloads=tuple(self.reloads),
            failures=tuple(self.failures),
            dead_letters=tuple(self.dead_letters),
            seen=tuple(self.seen),
            signals=tuple(self.signals),
            created=tuple(self.created),
            dropped=tuple(self.dropped),
            renamed=tuple(self.renamed),
            carried=tuple(self.carried),
            source_ts=self.source_ts,
        )
        self.begin(entry.checkpoint)
        return entry
