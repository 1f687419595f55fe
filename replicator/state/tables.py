"""The life of a table in a replicator: states and legal moves."""

from __future__ import annotations

from enum import StrEnum


class TableState(StrEnum):
    """Where a table stands.

    WAITING    selected, nothing read yet (capture does not see it yet, or its snapshot is queued)
    LOADING    initial load: chunks are appended to the target, its log segments wait
    RELOADING  a later snapshot runs: its rows and the log are merged in order; ends with a sweep of rows gone meanwhile
    STREAMING  the log alone
    FAILED     stopped with an error; the other tables go on (invariant 7)
    SKIPPED    stopped by a user, who wants the others to go on; read again when it is resumed
    DROPPED    gone from the source
    """

    WAITING = "waiting"
    LOADING = "loading"
    RELOADING = "reloading"
    STREAMING = "streaming"
    FAILED = "failed"
    SKIPPED = "skipped"
    DROPPED = "dropped"


HALTED = frozenset({TableState.FAILED, TableState.SKIPPED})  # not followed, read or applied until a user says so

LEGAL_MOVES: dict[TableState, frozenset[TableState]] = {
    TableState.WAITING: frozenset(
        {TableState.LOADING, TableState.STREAMING, TableState.FAILED, TableState.SKIPPED, TableState.DROPPED}
    ),
    TableState.LOADING: frozenset(
        {TableState.LOADING, TableState.STREAMING, TableState.FAILED, TableState.SKIPPED, TableState.DROPPED}
    ),
    TableState.RELOADING: frozenset(
        {
            TableState.RELOADING,
            TableState.STREAMING,
            TableState.LOADING,
            TableState.FAILED,
            TableState.SKIPPED,
            TableState.DROPPED,
        }
    ),
    TableState.STREAMING: frozenset(
        {TableState.RELOADING, TableState.LOADING, TableState.FAILED, TableState.SKIPPED, TableState.DROPPED}
    ),
    TableState.FAILED: frozenset(
        {TableState.WAITING, TableState.LOADING, TableState.RELOADING, TableState.SKIPPED, TableState.DROPPED}
    ),
    TableState.SKIPPED: frozenset({TableState.LOADING, TableState.RELOADING, TableState.DROPPED}),
    TableState.DROPPED: frozenset({TableState.WAITING, TableState.STREAMING}),
}


def may_move(old: TableState, new: TableState) -> bool:
    """True if `old` → `new` is legal."""
    return new in LEGAL_MOVES[old]
