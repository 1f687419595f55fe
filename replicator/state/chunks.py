"""Snapshot runs and chunks as the planner and the readers see them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from replicator.errors import TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.base import KeyRange

EVIDENCE = b"tidemark.evidence"  # in the metadata of a raw chunk's file: `Chunk.evidence`
# Numbers have the ASCII digits that the journal writes.  Without an attempt, it would be a mark of a chunk that is not
# being read.
_MARK = re.compile(r"([LOHP]):([0-9]{1,18}):([0-9]{1,18}):([^:]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RunToPlan:
    """A run whose chunk bounds are not all known.

    `position` is the last bound planned; `end` is fixed at the start; `ahead` chunks are planned and not read yet.
    condition: only rows for which it is true are read.
    """

    run: int
    table: TableId
    end: tuple[str, ...] | None
    position: tuple[str, ...] | None
    started: bool
    chunk_rows: int
    ahead: int = 0
    condition: str = ""


@dataclass(frozen=True, slots=True)
class ChunkToRead:
    """A chunk claimed for one attempt.  `keyless`: the whole table in one consistent read.

    staged: a reader that is gone has staged it.  Whether it wrote the high mark is unknown, so the mark is to be
    written.
    """

    chunk: int
    run: int
    table: TableId
    attempt: str
    bounds: KeyRange
    keyless: bool
    staged: bool = False


@dataclass(frozen=True, slots=True)
class RawChunk:
    """A chunk that was read: its staged file (relative path), rows, bytes, seconds, and the schema it was read under.

    schema: names the table as it was read; `chunk.table` is its present name in the journal.

    base: keyless tables only: the sequence number that the rows stand for, once capture has met the opened mark.
    reload_from: the sequence number at which the run began, where the table is being reloaded; None in an initial load,
    and where a part of the table is read.
    plan: the token of the run's plan mark, where capture has not met that yet; empty where it has, or needs not.
    """

    chunk: ChunkToRead
    path: str
    rows: int
    size: int
    seconds: float
    schema: TableSchema
    base: int | None = None
    reload_from: int | None = None
    plan: str = ""


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """The next chunk of a run.  `end`: the run's greatest key; `done`: it is the run's last chunk.

    plan: what `begin_plan` gave, where it is the first one.
    """

    run: int
    end: tuple[str, ...] | None
    bounds: KeyRange
    done: bool
    keyless: bool = False
    plan: str = ""


class ChunkStore(Protocol):
    """The snapshot loop's view of the state store, bound to one replicator."""

    def to_plan(self, ahead: int = sys.maxsize, limit: int | None = None) -> list[RunToPlan]:
        """At most `limit` runs of which fewer than `ahead` chunks are planned and not read, the oldest first."""
        ...

    def begin_plan(self, runs: Sequence[int]) -> str:
        """The token of the mark that is to be in the log before anything is asked for these runs, which are not
        started.
        """
        ...

    def planned(self, chunks: Sequence[PlannedChunk]) -> None:
        """Store chunks of different runs, each by compare-and-set on its run's position, the first on its plan.

        A run that another transaction holds is left as it is: it will be planned again.
        """
        ...

    def planning(self, run: int) -> bool:
        """False: its bounds are not wanted any more (paused, cancelled, planned by another)."""
        ...

    def claim(self, owner: str, seconds: float = 60.0) -> ChunkToRead | None:
        """A planned chunk, or one whose reader is gone; None where there is nothing, or too many wait for capture.

        `owner`: `<lease's owner>/<reader>`: only one lease's readers work at a time, so that all others are gone.
        """
        ...

    def wanted(self, chunk: ChunkToRead) -> bool:
        """Renews the claim; False: stop reading it (paused, cancelled, reopened, taken over)."""
        ...

    def read(self, raw: RawChunk) -> bool:
        """Make the raw chunk known, before its high mark is written.  False: no longer wanted.

        The run's chunk size follows (`snapshot.sizing.next_chunk_rows`).
        """
        ...

    def failed(self, chunk: ChunkToRead, error: TidemarkError) -> None:
        """Count it; the chunk is read again later, or the table fails (retry policy; TableError at once).

        Where a part of the table is read, the run ends instead, and the table goes on.
        """
        ...

    def run_failed(self, run: RunToPlan, error: TidemarkError) -> None:
        """The same for planning."""
        ...


class RawChunkStore(Protocol):
    """Capture's view of raw chunks."""

    def raw(self, chunk: int, attempt: str) -> RawChunk | None:
        """Return the raw chunk; None where the attempt is no longer the chunk's present one."""
        ...

    def table_of(self, chunk: int, attempt: str) -> TableId | None:
        """Return the chunk's table under its present name; None for a cancelled chunk or an older attempt.

        Only a chunk's reader knows its attempt, so this tells a mark of Tidemark from one that another program wrote.
        """
        ...


def low_mark(chunk: ChunkToRead) -> str:
    """Watermark token before the SELECT."""
    return f"L:{chunk.run}:{chunk.chunk}:{chunk.attempt}"


def opened_mark(chunk: ChunkToRead) -> str:
    """Watermark token right after a keyless table's consistent view was opened."""
    return f"O:{chunk.run}:{chunk.chunk}:{chunk.attempt}"


def high_mark(chunk: ChunkToRead) -> str:
    """Watermark token after the SELECT."""
    return f"H:{chunk.run}:{chunk.chunk}:{chunk.attempt}"


def plan_mark(plan: str) -> str:
    """Watermark token before runs' ends are asked for: where the log has it not, they are of a future that the source
    lost.
    """
    return f"P:0:0:{plan}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A watermark token taken apart."""

    kind: str
    run: int
    chunk: int
    attempt: str


def parse_mark(token: str) -> Mark | None:
    """None for a token that is not a chunk's (a heartbeat, another version's)."""
    found = _MARK.fullmatch(token)
    return None if found is None else Mark(found[1], int(found[2]), int(found[3]), found[4])


def chunk_detail(chunk: ChunkToRead) -> dict[str, Any]:
    """For log lines."""
    return {"table": str(chunk.table), "chunk": chunk.chunk, "attempt": chunk.attempt}
