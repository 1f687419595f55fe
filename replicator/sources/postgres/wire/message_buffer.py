"""Messages of the server as they have arrived: bytes in one buffer, framed as on the wire, and how more of them come.

https://www.postgresql.org/docs/current/protocol-message-formats.html: a type, the size from there on, what it says.
"""

# ruff: noqa: PLR2004 - sizes of the wire format, which the source above defines

from __future__ import annotations

import struct
import time
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from replicator.errors import LogCorrupt
from replicator.sources.postgres.wire.messages import XLOG_HEADER

_ROOM = 4 << 20
_SIZE = struct.Struct(">i")
_EPOCH = 946_684_800  # 2000-01-01
_FEEDBACK = struct.Struct(">cqqqqb")
HEAD = 5
SEND_SECONDS = 10.0  # a server that takes nothing for so long is lost
COPY_DATA = ord("d")


class MessageBuffer(ABC):
    """What has arrived is data[at:end], whole messages and the beginning of one; who has read it moves `at` on.

    One thread.

    Of a message of the log, pgoutput's part begins at LEAD, and there is MARK behind the head.
    """

    LEAD, MARK = HEAD + XLOG_HEADER, ord("w")

    def __init__(self) -> None:
        self.at = self.end = 0
        self._confirmed = 0
        self._room(bytearray(_ROOM))

    @abstractmethod
    def fill(self, seconds: float) -> bool:
        """Wait until something comes, and take what is there; False if nothing has come.

        Not while a whole message is unread.

        EOFError, with what the server has said, where the stream has ended; SourceUnreachable.
        """

    @abstractmethod
    def close(self) -> None:
        """The connection is its owner's; who closes that does this first."""

    @abstractmethod
    def _send(self, message: bytes) -> None:
        """As CopyData.  SourceUnreachable."""

    def next(self) -> bytes | None:
        """What the next message of the log says; None where it has not wholly arrived.  EOFError as `fill` has it."""
        while self._whole():
            kind, start = self._view[self.at], self.at + HEAD
            self.at += 1 + self._size()
            if kind == COPY_DATA:
                return bytes(self._view[start : self.at])
            self._other(kind, bytes(self._view[start : self.at]))
        return None

    def feedback(self, received: int, durable: int, *, reply: bool = False) -> None:
        """Send a standby status update; `reply`: the server answers with a keepalive at once.

        The last message never reports what is durable.  On shutdown, a server waits until all of its log is durable, if
        that is reported; but the end of the last commit is held back (`log_identity`).  Without a report it waits until
        all was received.
        """
        now = int((time.time() - _EPOCH) * 1_000_000)
        if durable > self._confirmed:
            self._confirmed = durable
            self._send(_FEEDBACK.pack(b"r", max(received, durable), durable, durable, now, 0))
        self._send(_FEEDBACK.pack(b"r", max(received, durable), 0, 0, now, reply))

    def _other(self, kind: int, body: bytes) -> None:
        """A message that is not the log's."""
        raise LogCorrupt(f"The source sent a message of kind {chr(kind)!r} in its log, with {len(body)} bytes.")

    def _size(self) -> int:
        size: int = _SIZE.unpack_from(self._view, self.at + 1)[0]
        if size < 4:
            raise LogCorrupt(f"The source sent a message whose size is {size}.")
        return size

    def _whole(self) -> bool:
        there = self.end - self.at
        return there >= HEAD and there >= 1 + self._size()

    def _room(self, buffer: bytearray) -> None:
        self._view = memoryview(buffer)
        self.data: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)

    def _make_room(self, more: int = 0) -> None:
        """Make room for at least the rest of the message that has begun, and for `more` bytes."""
        there = self.end - self.at
        begun = 1 + self._size() if there >= HEAD else HEAD
        needed = max(begun, there + more)
        if needed > len(self.data) or len(self.data) > max(_ROOM, 4 * needed):
            buffer = bytearray(max(_ROOM, needed))
            buffer[:there] = self._view[self.at : self.end]
            self._room(buffer)
        elif self.at:
            self.data[:there] = self.data[self.at : self.end].copy()
        self.at, self.end = 0, there
