"""What a Postgres server once sent of its log, read and decoded again without it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from unittest.mock import patch

from replicator.model.change import LogMessage
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.stream import reader as live
from replicator.sources.postgres.stream.decoder import Decoder
from replicator.sources.postgres.stream.reader import PgOutputReader
from replicator.sources.postgres.wire.message_buffer import COPY_DATA, MessageBuffer

_NOWHERE = PostgresConfig("", 0, "", "", "")


def recorded(
    config: PostgresConfig,
    name: str,
    start: Offset,
    tables: TableSet,
    schemas: Mapping[TableId, TableSchema],
    last: str,
) -> list[bytes]:
    """The messages (CopyData) up to our mark `last`."""
    reader = PgOutputReader(config, ReadOptions(), name)
    seen: list[bytes] = []
    take = reader._take
    reader._take = lambda message: (seen.append(message), take(message))[1]  # type: ignore[method-assign]
    with patch.object(live, "IN_RUNS", new=False):
        for message in reader.read(start, tables, schemas):
            if getattr(message, "token", "") == last:
                break
    reader.close()
    return [message for message in seen if message[:1] == b"w"]


class Replayed(MessageBuffer):
    """Messages that arrive in pieces of any size, cut anywhere."""

    def __init__(self, messages: Sequence[bytes], rng: random.Random) -> None:
        super().__init__()
        wire = b"".join(bytes([COPY_DATA]) + (4 + len(one)).to_bytes(4, "big") + one for one in messages)
        largest = rng.choice((40, 1000, 50_000, 1_000_000))
        cuts = [0]
        while cuts[-1] < len(wire):
            cuts.append(min(cuts[-1] + rng.randint(1, largest), len(wire)))
        self._pieces = [wire[first:last] for first, last in pairwise(cuts)]

    def fill(self, seconds: float) -> bool:
        """False at the end."""
        del seconds
        self._make_room()
        if not self._pieces:
            return False
        room = len(self.data) - self.end
        piece = self._pieces.pop(0)
        if len(piece) > room:
            self._pieces.insert(0, piece[room:])
        self._view[self.end : self.end + len(piece[:room])] = piece[:room]
        self.end += len(piece[:room])
        return True

    def close(self) -> None:
        pass

    def _send(self, message: bytes) -> None:
        pass


def decoded(
    decoder: Decoder,
    messages: Sequence[bytes],
    rng: random.Random,
    *,
    in_runs: bool,
    boundaries: Callable[[], bool] = lambda: False,
) -> Iterator[LogMessage]:
    """What the reader makes of them.  `boundaries`: is the end of a transaction waited for now?"""
    stream = Replayed(messages, rng)
    reader = PgOutputReader(_NOWHERE, ReadOptions(), "replayed")
    reader._decoder, reader._stream = decoder, stream
    with patch.object(live, "IN_RUNS", new=in_runs):
        while True:
            settling = boundaries()
            if not reader._advance(stream, settling=settling) and not stream.fill(0):
                break
            if settling and decoder.waiting and not decoder.in_transaction:
                decoder.boundary()
            yield from reader._drain()
    if not decoder.in_transaction:
        decoder.boundary()
    yield from reader._drain()
