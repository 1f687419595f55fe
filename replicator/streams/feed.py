"""What the journal has for a stream from a position on, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replicator.model.schema import TableSchema
from replicator.state.journal import Segment

LOAD = "LOAD"  # a kind of event beside the journal's: a table is read again, what was given of it before is void


@dataclass(frozen=True, slots=True)
class StreamSegment:
    """A segment of one of the stream's tables.

    `table` identifies the table regardless of its name; `schema` has the name it had then.

    above: rows up to this number are covered by a snapshot and left out.
    place: all rows lie before the change with this number, and not at their own numbers (the snapshot of a table
    without key).
    """

    table: int
    segment: Segment
    schema: TableSchema
    above: int = -1
    place: int | None = None

    @property
    def begins(self) -> int:
        return self.segment.first_sequence if self.place is None else self.place

    @property
    def ends(self) -> int:
        """The last number, or place, of its rows."""
        return self.segment.last_sequence if self.place is None else self.place


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """DDL, the end of a reload (SWEEP) or the begin of a load (LOAD), in the order of changes; each shard has it.

    LOAD lies before the change with its number, the others have their numbers for themselves.
    detail: CREATE_TABLE and ALTER_TABLE `schema`, ALTER_TABLE `renamed_columns`; RENAME_TABLE `new`; LOAD and SWEEP
    `below`.
    """

    table: int | None
    database: str
    name: str
    sequence: int
    kind: str
    schema_version: int | None = None
    commit_ts: datetime | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Everything below `upto` is here, or before the position it was asked for.

    `more`: the journal goes on after it.
    """

    parts: tuple[StreamSegment, ...]
    events: tuple[StreamEvent, ...]
    upto: int
    more: bool = False
