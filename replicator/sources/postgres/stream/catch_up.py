"""A long way of the log at once: what a copy of the slot gives by COPY, a slice after the other, instead of the stream.

The server's sender gives a message at a time to the network, which is most of its work; COPY sends them by the block.
The slot itself is left alone: its copies are temporary, end with their connections, and may be moved on freely
(invariant 1 is the slot's). Two connections take turns: while the rows of one slice come, the other decodes the next,
on a copy of the first one's slot as that stands behind its slice.  A slice ends behind a transaction, and the next
begins with what was committed after it, as a stream that is begun there would:
https://www.postgresql.org/docs/current/logicaldecoding-explanation.html
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress

import psycopg2

from replicator.errors import LogCorrupt, TidemarkError
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, literal, read_rows, server_version, translated
from replicator.sources.postgres.offset import lsn_text, parse_lsn
from replicator.sources.postgres.stream.catalog_observer import now
from replicator.sources.postgres.wire.message_buffer import HEAD, MessageBuffer
from replicator.sources.postgres.wire.messages import XLOG_HEADER
from replicator.sources.postgres.wire.socket_stream import ERROR, SocketState, said

FAR = 64 << 20  # bytes of the log behind its end from which on the stream is too slow
_NEAR = 16 << 20
# Messages in a slice, but for what its last transaction has more: each slice is twice as large as the one before, up to
# _MOST, and further up to _LARGEST while what one reads of the log again, from where decoding begins, is not a small
# part (_PART) of what it gives.
_FIRST, _MOST, _LARGEST, _PART = 50_000, 800_000, 12_800_000, 4
_REACH = 1 << 30  # bytes of the log in a slice, or _PART times what it reads again: the server puts a slice aside
_HELD = 8 << 30  # bytes by which an open transaction may hold the decoding's start back: beyond, the stream is faster
_KEPT = 256 << 20  # bytes that are durable here before the slot itself advances; or as many as it reads for that
_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER, _TRAILER = len(_SIGNATURE) + 8, b"\xff\xff"
_ROW = 6  # a count of columns, and the value's size
_READY, _QUERY, _COPY_OUT = b"ZQH"
_CHECKED_SINCE = 140000


class CaughtUp(Exception):
    """The log was read up to `position`; from there on the stream is to be read."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class SliceFailed(Exception):
    """The server cannot do it this way."""


def catch_up(
    config: PostgresConfig, control: Connection, slot: str, start: int, confirmed: int, options: Mapping[str, str]
) -> Backlog | None:
    """None where the stream will do, or the server has no other way.  `confirmed`: where the slot stands."""
    standbys = "SELECT pg_catalog.current_setting('synchronized_standby_slots', true)"
    [[wait]] = read_rows(control, standbys, config.where)
    if wait or now(control, config.where).lsn - start < FAR:  # a copy of the slot waits for no standby
        return None
    try:
        return Backlog(config, control, slot, confirmed, options)
    except (TidemarkError, SliceFailed):
        return None


class Backlog(MessageBuffer):
    """See above."""

    LEAD, MARK = HEAD + _ROW, 0

    def __init__(
        self, config: PostgresConfig, control: Connection, slot: str, confirmed: int, options: Mapping[str, str]
    ) -> None:
        """`control`: to look at the slots.  TidemarkError, SliceFailed."""
        super().__init__()
        self._control, self._slot, self._where = control, slot, config.where
        self._options = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
        self._connections: list[Connection] = []
        self._lines: list[SocketState] = []
        name = f"tidemark_{secrets.token_hex(8)}"
        self._names = [f"{name}_{number}" for number in range(2)]
        self._made: list[str] = [slot]
        self._turn, self._changes = 0, _FIRST
        self._expects_header = self._is_last = False
        self._position, self._again = confirmed, 0
        self._durable = self._confirmed = confirmed
        try:
            for _ in self._names:
                self._connect(config)
            self._ask(0)
        except BaseException:
            self.close()
            raise

    def _connect(self, config: PostgresConfig) -> None:
        connection = connect(config)
        self._connections.append(connection)
        if connection.info.ssl_in_use:
            raise SliceFailed("what comes over TLS is libpq's to read")
        if server_version(connection) >= _CHECKED_SINCE:
            with translated(self._where), connection.cursor() as cursor:
                cursor.execute("SET client_connection_check_interval = '1s'")
        self._lines.append(SocketState(connection))

    def fill(self, seconds: float) -> bool:
        """As `MessageBuffer` says; CaughtUp, SliceFailed."""
        self._make_room()
        received = self._lines[self._turn].receive(self._view[self.end :], seconds)
        self.end += received or 0
        return received is not None

    def next(self) -> bytes | None:
        """As in the stream."""
        while (row := super().next()) is not None:
            if self._expects_header:
                if row[: len(_SIGNATURE)] != _SIGNATURE:
                    raise LogCorrupt("Unexpected server data: the log is not a COPY stream.")
                row = row[_HEADER:]
                self._expects_header = False
                self._decoded()
            if row != _TRAILER:
                return b"w" + bytes(XLOG_HEADER - 1) + row[_ROW:]
        return None

    def feedback(self, received: int, durable: int, *, reply: bool = False) -> None:
        """Note what is durable.  A later slice advances the slot, for which the server has to read the log."""
        del received, reply
        self._durable = durable

    def close(self) -> None:
        for line in self._lines:
            line.close()
        for connection in self._connections:
            with suppress(psycopg2.Error):
                connection.close()

    def _send(self, message: bytes) -> None:
        raise NotImplementedError(message)

    def _other(self, kind: int, body: bytes) -> None:
        if kind == ERROR:
            raise SliceFailed(said(body))
        if kind == _COPY_OUT:
            self._expects_header = True
        elif kind == _READY:
            if not self._is_last:
                self._turn = 1 - self._turn
            elif self._durable - self._confirmed > _NEAR:  # the stream would decode all of that once more
                self._lines[self._turn].send(_QUERY, self._tell().encode() + b"\0")
            else:
                raise CaughtUp(self._position)

    def _decoded(self) -> None:
        """All of this turn's slice is, and its rows begin to come."""
        found = read_rows(
            self._control,
            "SELECT s.confirmed_flush_lsn::text, s.restart_lsn::text FROM pg_catalog.pg_replication_slots s "
            f"WHERE s.slot_name = {literal(self._names[self._turn])}",
            self._where,
        )
        if not found:
            raise SliceFailed("the copy of the slot no longer exists")
        position, begins = (parse_lsn(place) for place in found[0])
        given, self._again = position - self._position, position - begins
        self._position = position
        far = now(self._control, self._where).lsn - position
        self._is_last = far <= _NEAR or self._again > _HELD
        self._changes = min(2 * self._changes, _LARGEST if _PART * self._again > given else max(_MOST, self._changes))
        if not self._is_last:
            self._ask(1 - self._turn)

    def _tell(self) -> str:
        """SQL that moves the slot itself to what is durable; the server reads the log up to there for it."""
        self._confirmed = self._durable
        lsn = lsn_text(self._durable)
        return f"SELECT pg_catalog.pg_replication_slot_advance({literal(self._slot)}, '{lsn}')"

    def _ask(self, number: int) -> None:
        """For the next slice: on a copy of the slot that the last one was read from, which has moved behind it."""
        name = self._names[number]
        steps = [f"SELECT pg_catalog.pg_drop_replication_slot({literal(name)})"] if name in self._made else []
        if self._durable - self._confirmed > max(_KEPT, self._again):
            steps.append(self._tell())
        end = min(now(self._control, self._where).lsn, self._position + max(_REACH, _PART * self._again))
        steps += [
            f"SELECT pg_catalog.pg_copy_logical_replication_slot({literal(self._made[-1])}, {literal(name)}, true)",
            (
                "COPY (SELECT data FROM pg_catalog.pg_logical_slot_get_binary_changes("
                f"{literal(name)}, '{lsn_text(end)}', {self._changes}, {self._options})) TO STDOUT (FORMAT binary)"
            ),
        ]
        self._lines[number].send(_QUERY, "; ".join(steps).encode() + b"\0")
        self._made.append(name)
