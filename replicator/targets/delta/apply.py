"""Append, merge, replace and delete: what changes rows.  Each is one commit, or none.

The changes, and where they leave the table, are those of `targets.base.remaining`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from replicator.folding import changelog, staged_changes
from replicator.folding.unchanged_values import UNBOUNDED, ValuesUnknown
from replicator.model.mode import Mode
from replicator.staging.storage import Storage
from replicator.state.journal import EventKind
from replicator.targets.base import Append, Counts, DeleteBelow, Merge, Position, Replace
from replicator.targets.delta import merging
from replicator.targets.delta.live_files import LiveFiles
from replicator.targets.delta.table import OpenTable

MEMORY = 128 * 1024 * 1024  # of changes that are folded at a time
SKIPPED = "skip"
Outcome = tuple[str, Counts]


def append(storage: Storage, table: OpenTable, change: Append, after: Position, stop: threading.Event) -> Outcome:
    """READ rows, as they are."""
    files = LiveFiles(table, stop)

    def rows() -> Iterator[pa.Table]:
        for segment in change.segments:
            for batch in staged_changes.rows(storage, segment, change.schema, table.position.loaded):
                yield staged_changes.as_read(batch, segment, table.mode)

    with files.discarded_on_failure():
        files.opened()
        count = files.rewrite({}, rows())
    files.commit(after)
    return "append", Counts(inserted=count)


def merge(storage: Storage, table: OpenTable, change: Merge, after: Position, stop: threading.Event) -> Outcome:
    """Fold, and apply."""
    files = LiveFiles(table, stop)
    with files.discarded_on_failure():
        if table.mode is Mode.CHANGELOG:
            counts = _unfolded(storage, files, table, change)
        else:
            counts = _folded(storage, files, table, change)
    files.commit(after)
    return "merge" if counts.updated or counts.deleted else "append", counts


def _unfolded(storage: Storage, files: LiveFiles, table: OpenTable, change: Merge) -> Counts:
    def rows() -> Iterator[pa.Table]:
        for segment in change.segments:
            yield from staged_changes.unfolded(storage, segment, change.schema, table.position.applied)

    files.opened()
    return Counts(inserted=files.rewrite({}, rows()))


def _folded(storage: Storage, files: LiveFiles, table: OpenTable, change: Merge) -> Counts:
    """In parts: a batch that is cut anywhere gives the same rows (ADR 25), each part on the files that those before it
    have left.

    A value that an UPDATE left out may be where only a later part tells that it does not count: then all are one.
    """
    try:
        return _parts(storage, files, table, change, MEMORY)
    except ValuesUnknown:
        files.restart()
    try:
        return _parts(storage, files, table, change, UNBOUNDED)
    except ValuesUnknown:
        raise merging.values_lost(table, change.schema) from None


def _parts(storage: Storage, files: LiveFiles, table: OpenTable, change: Merge, memory: int) -> Counts:
    counts, schema = Counts(), change.schema
    keeps = table.mode is not Mode.MIRROR
    for part in staged_changes.parts(
        storage, change.segments, schema, table.position.applied, memory, timed=keeps, partial=schema.partial
    ):
        files.opened()
        files.go_on()
        counts += merging.merge(files, table, schema, part, emptied=change.emptied)
    return counts


def replace_all(storage: Storage, table: OpenTable, change: Replace, after: Position, stop: threading.Event) -> Outcome:
    """The rows become exactly those of the segments; a changelog gets them, and a marker of what is over."""
    files = LiveFiles(table, stop)

    def rows() -> Iterator[pa.Table]:
        for segment in change.segments:
            for batch in staged_changes.rows(storage, segment, change.schema, -1):
                yield staged_changes.as_read(batch, segment, table.mode)
        if table.mode is Mode.CHANGELOG and something:
            yield changelog.marker(change.applied, change.applied + 1, EventKind.SWEEP)

    something = bool(files.files)
    with files.discarded_on_failure():
        files.opened()
        if table.mode is not Mode.CHANGELOG:
            files.clear()
        count = files.rewrite({}, rows())
    files.commit(after)
    return "replace", Counts(inserted=count)


def delete_below(table: OpenTable, change: DeleteBelow, after: Position, stop: threading.Event) -> Outcome:
    """Rows with an older number go, or end where the mode keeps them."""
    files = LiveFiles(table, stop)
    with files.discarded_on_failure():
        files.opened()
        match table.mode:
            case Mode.MIRROR:
                how, counts = "delete", merging.delete_below(files, change.below)
            case Mode.CHANGELOG:
                how, counts = (
                    "append",
                    Counts(
                        inserted=files.rewrite(
                            {}, [changelog.marker(change.upto, change.below, change.operation, change.at)]
                        )
                    ),
                )
            case _:
                how, counts = "mark", merging.end_below(files, table, change)
    files.commit(after)
    return how, counts
