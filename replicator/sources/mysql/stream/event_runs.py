"""Runs of plain events, framed by a kernel: nothing is done for each of them but what its bytes ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from replicator.sources.mysql.rows.columns import Bytes, Places
from replicator.sources.mysql.rows.row_events import RowEventRun, TableRows
from replicator.sources.mysql.rows.table_map import table_id
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire import frame_kernel as f
from replicator.sources.mysql.wire.events import EventParser
from replicator.sources.mysql.wire.packet_stream import PacketStream

PLAIN = frozenset(
    {
        e.MARIADB_GTID,
        e.GTID,
        e.TABLE_MAP,
        *range(e.WRITE_V1, e.DELETE_V1 + 1),
        *range(e.WRITE_V2, e.DELETE_V2 + 1),
        e.ANNOTATE_ROWS,
        e.ROWS_QUERY,
    }
)
_EVENTS = 8192  # in one run
_RANGES = 64  # of GTIDs
_TAIL = 64  # bytes, in which an XID event has room


class KnownTables:
    """The TABLE_MAPs that were met, and where their rows are gathered."""

    def __init__(self, known: Sequence[tuple[bytes, TableRows | None, bool]]) -> None:
        """Of each: the event's body, the rows (None: not wanted), and whether its rows need more than gathering."""
        self.rows = [rows for _, rows, _ in known]
        self.maps = np.frombuffer(b"".join(body for body, _, _ in known) or b"\0", np.uint8)
        self.bounds = np.zeros(len(known) + 1, np.int64)
        np.cumsum([len(body) for body, _, _ in known], out=self.bounds[1:])
        self.ids = np.array([table_id(body) for body, _, _ in known] or [-1], np.int64)
        self.places = _places(self.ids)
        self.columns = np.array([0 if rows is None else len(rows.log_columns) for rows in self.rows], np.int64)
        states = [f.SLOW if special else f.PASSED if rows is None else f.WANTED for _, rows, special in known]
        self.states = np.array(states or [f.SLOW], np.int64)
        self.events = np.empty((f.EVENT_FIELDS, _EVENTS), np.int64)  # what a run's kernel fills


def _places(numbers: Places) -> Places:
    """Where in `numbers` each is: at its lowest bits, or at the next place that is free (-1).

    At most half are taken.
    """
    places = [-1] * (1 << (2 * len(numbers)).bit_length())
    for index, number in enumerate(numbers.tolist()):
        place = number % len(places)
        while places[place] >= 0:
            place = (place + 1) % len(places)
        places[place] = index
    return np.array(places, np.int64)


class GtidRange(NamedTuple):
    """Transactions of one source that followed each other, by their numbers; `source` is all of a GTID before that."""

    source: str
    low: int
    high: int


class WholeTransactions(NamedTuple):
    """What a run says where it is of whole transactions: their GTIDs, and of the last one its end, its commit time and
    its last bytes.
    """

    gtids: list[GtidRange]
    end: int
    commit_us: int
    tail: bytes
    checksum: bool


class DecodedRun(NamedTuple):
    """A run, None where there was none; `cut`: the next transaction has begun to arrive, and not yet ended."""

    run: RowEventRun | None
    whole: WholeTransactions | None
    cut: bool


def plain_run(stream: PacketStream, parser: EventParser, known: KnownTables, most: int, *, inside: bool) -> DecodedRun:
    """The plain events that come next, of `most` bytes, are taken from the stream.

    Those of the transaction that one is `inside` of, else whole transactions.
    """
    events, ranges = known.events, np.empty((_RANGES, f.RANGE_FIELDS), np.int64)
    end = min(stream.end, stream.at + most)
    at, position, count, reached, commit_us, cut = f.frame(
        stream.data, stream.at, end, parser.position, parser.checksum, inside,
        known.maps, known.bounds, known.ids, known.places, known.columns, known.states, events, ranges,
    )  # fmt: skip
    short = bool(cut) and end == stream.end
    if at == stream.at:
        return DecodedRun(None, None, short)
    stream.at, parser.position = at, position
    gtids = [_gtid_range(stream.data, *numbers) for numbers in ranges[:reached].tolist()]
    run = RowEventRun(stream.data, events[:, :count].copy(), [one.source for one in gtids], parser.file)
    if inside:
        return DecodedRun(run, None, short)
    tail = stream.data[max(at - _TAIL, 0) : at].tobytes()
    return DecodedRun(run, WholeTransactions(gtids, position, commit_us, tail, parser.checksum), short)


def _gtid_range(data: Bytes, domain: int, server: int, low: int, high: int) -> GtidRange:
    if domain >= 0:
        return GtidRange(f"{domain}-{server}-", low, high)
    return GtidRange(f"{e.uuid_text(data[server : server + 16].tobytes())}:", low, high)
