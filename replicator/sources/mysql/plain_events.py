"""Runs of rows events of known tables, framed by a kernel: nothing is done for each of them but what its bytes ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replicator.sources.mysql import events as e
from replicator.sources.mysql.column_arrays import Bytes, Places
from replicator.sources.mysql.events import EventParser
from replicator.sources.mysql.frame_kernel import END, NUMBER, PASSED, PLACE, SLOW, TIME, WANTED, frame
from replicator.sources.mysql.packets import PacketStream
from replicator.sources.mysql.row_image import Committed, Run, TableRows
from replicator.sources.mysql.table_map import table_id

PLAIN = frozenset({e.MARIADB_GTID, e.GTID}) | frozenset(
    {
        e.TABLE_MAP,
        *range(e.WRITE_V1, e.DELETE_V1 + 1),
        *range(e.WRITE_V2, e.DELETE_V2 + 1),
        e.ANNOTATE_ROWS,
        e.ROWS_QUERY,
    }
)
_ROOM = 8192  # rows events in one run
_TRANSACTIONS = 2048


class KnownTables:
    """The TABLE_MAPs that were met, and where their rows are gathered."""

    def __init__(self, known: Sequence[tuple[bytes, TableRows | None, bool]]) -> None:
        """Of each: the event's body, the rows (None: not wanted), and whether its rows need more than gathering."""
        self.rows = [rows for _, rows, _ in known]
        self.maps = np.frombuffer(b"".join(body for body, _, _ in known) or b"\0", np.uint8)
        self.bounds = np.zeros(len(known) + 1, np.int64)
        np.cumsum([len(body) for body, _, _ in known], out=self.bounds[1:])
        self.ids = np.array([table_id(body) for body, _, _ in known], np.int64)
        self.columns = np.array([0 if rows is None else len(rows.log_columns) for rows in self.rows], np.int64)
        states = [SLOW if special else PASSED if rows is None else WANTED for _, rows, special in known]
        self.states = np.array(states, np.int64)


def plain_run(stream: PacketStream, parser: EventParser, known: KnownTables, most: int, *, inside: bool) -> Run | None:
    """The plain events that come next, of `most` bytes, are taken from the stream; None where there was none.

    Those of the transaction that one is `inside` of, else whole transactions.
    """
    operations, slots, begins, ends, places = np.empty((5, _ROOM), np.int64)
    commits = np.empty((1 if inside else _TRANSACTIONS, 6), np.int64)
    at, position, count, transactions = frame(
        stream.data, stream.at, min(stream.end, stream.at + most), parser.position, parser.checksum, inside,
        known.maps, known.bounds, known.ids, known.columns, known.states,
        operations, slots, begins, ends, places, commits,
    )  # fmt: skip
    if at == stream.at:
        return None
    stream.at, parser.position = at, position
    return Run(
        stream.data, operations[:count], slots[:count], begins[:count], ends[:count], places[:count], parser.file,
        _committed(stream.data, commits[:transactions]),
    )  # fmt: skip


def _committed(data: Bytes, commits: Places) -> Committed:
    texts = [
        f"{domain}-{server}-{number}"
        if domain >= 0
        else f"{e.uuid_text(data[server : server + 16].tobytes())}:{number}"
        for number, domain, server in commits[:, NUMBER:].tolist()
    ]
    return Committed(texts, commits[:, END], commits[:, PLACE], commits[:, TIME])
