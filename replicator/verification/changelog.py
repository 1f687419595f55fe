"""What the changes of a changelog come to, one after the other in the order of their numbers.

Memory is bounded: SQLite's, on disk.
"""

from __future__ import annotations

import json
import marshal
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pyiceberg.expressions import GreaterThanOrEqual, NotNull

from replicator.verification.digests import MARSHAL_VERSION, Row
from replicator.verification.target import PinnedTable, batches, rows

BATCH = 10_000
OWN = ("_sequence_num", "_operation", "_unchanged", "_below")
UNKNOWN = b"\0a value that no change tells"


def folded(target: PinnedTable, names: Sequence[str], key: Sequence[int], folder: Path) -> Iterator[list[Row]]:
    """Rows that the changes leave; `key`: places of the key among `names`."""
    with closing(sqlite3.connect(folder / "changelog")) as store:
        store.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE change (seq INTEGER, deletes INTEGER, unchanged BLOB, below INTEGER, cells BLOB);"
            "CREATE TABLE state (key BLOB PRIMARY KEY, seq INTEGER, cells BLOB) WITHOUT ROWID;"
        )
        for batch in batches(target, (*names, *OWN)):
            store.executemany("INSERT INTO change VALUES (?, ?, ?, ?, ?)", map(_stored, rows(batch, (*names, *OWN))))
        store.execute("CREATE INDEX in_order ON change (seq, deletes DESC)")
        _play(store, names, key)
        found = store.execute("SELECT cells FROM state")
        while batch_of := found.fetchmany(BATCH):
            yield [marshal.loads(cells) for (cells,) in batch_of]  # noqa: S302 - our own


def _stored(row: Row) -> tuple[int, bool, bytes | None, int | None, bytes]:
    *cells, seq, operation, unchanged, below = row
    number = int(seq or b"-1")
    said = None if below is None else int(below)
    return number, operation == b"DELETE", unchanged, said, marshal.dumps(tuple(cells), MARSHAL_VERSION)


def _play(store: sqlite3.Connection, names: Sequence[str], key: Sequence[int]) -> None:
    """A DELETE stands before the other change of its number: the row has moved, and takes what was left out along."""
    left: tuple[int, Row | None] = (-1, None)
    changes = store.cursor().execute(
        "SELECT seq, deletes, unchanged, below, cells FROM change ORDER BY seq, deletes DESC"
    )
    for seq, deletes, unchanged, below, stored in changes:
        if below is not None:
            store.execute("DELETE FROM state WHERE seq < ?", (below,))
            continue
        cells: Row = marshal.loads(stored)  # noqa: S302 - our own
        place = marshal.dumps(tuple(cells[i] for i in key), MARSHAL_VERSION)
        if unchanged is not None or deletes:
            held = store.execute("SELECT cells FROM state WHERE key = ?", (place,)).fetchone()
            before: Row | None = None if held is None else marshal.loads(held[0])  # noqa: S302 - our own
        if deletes:
            left = (seq, before)
            store.execute("DELETE FROM state WHERE key = ?", (place,))
            continue
        if unchanged is not None:
            before = left[1] if left[0] == seq else before
            kept = set(json.loads(unchanged))
            cells = tuple(
                (before[i] if before else UNKNOWN) if name in kept else cells[i] for i, name in enumerate(names)
            )
        state = marshal.dumps(cells, MARSHAL_VERSION)
        store.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (place, seq, state))


def counted(target: PinnedTable) -> int:
    """Rows that are left of a table without key: those that came less those that went, since the last TRUNCATE or
    reload.
    """
    marks = (
        int(row[0] or b"-1")
        for batch in batches(target, ("_below",), NotNull("_below"))
        for row in rows(batch, ("_below",))
    )
    since = GreaterThanOrEqual("_sequence_num", max(marks, default=-1))
    signs = {b"INSERT": 1, b"READ": 1, b"DELETE": -1}
    return sum(
        signs.get(operation or b"", 0)
        for batch in batches(target, ("_operation",), since)
        for (operation,) in rows(batch, ("_operation",))
    )
