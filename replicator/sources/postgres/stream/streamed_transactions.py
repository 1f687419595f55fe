"""Transactions that the server sends before they end, because they are large: kept aside, in a file beyond a megabyte.

https://www.postgresql.org/docs/current/protocol-logical-replication.html#PROTOCOL-LOGICAL-MESSAGES-FLOW
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from replicator.sources.postgres.wire.messages import number

IN_MEMORY = 1024 * 1024
_CHANGES = frozenset(b"IUDTM")
_HEAD = struct.Struct("<II")


@dataclass
class _Part:
    """One transaction: its messages, each with the subtransaction it is of; which of these change anything, or were
    rolled back.
    """

    file: IO[bytes] = field(default_factory=lambda: tempfile.SpooledTemporaryFile(IN_MEMORY, prefix="tidemark-"))  # noqa: SIM115
    changing: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)


class StreamedTransactions:
    """Memory is bounded by a megabyte for each open transaction (invariant 9)."""

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}
        self._current: _Part | None = None

    @property
    def inside(self) -> bool:
        """Between a Stream Start and its Stop."""
        return self._current is not None

    def start(self, payload: bytes) -> None:
        """S."""
        self._current = self._parts.setdefault(number(payload, 1), _Part())

    def stop(self) -> None:
        """E."""
        self._current = None

    def add(self, payload: bytes) -> None:
        """A message inside; what it would be outside is kept."""
        assert self._current is not None
        xid = number(payload, 1)
        if payload[0] in _CHANGES:
            self._current.changing.add(xid)
        self._current.file.write(_HEAD.pack(xid, len(payload) - 4) + payload[:1] + payload[5:])

    def abort(self, payload: bytes) -> None:
        """A: the transaction, or a part of it."""
        whole, part = number(payload, 1), number(payload, 5)
        if whole == part:
            self.forget(whole)
        elif whole in self._parts:
            self._parts[whole].aborted.add(part)

    def changes(self, xid: int) -> bool:
        """Is there any change, or word, in what was not rolled back?"""
        part = self._parts.get(xid)
        return part is not None and not part.changing <= part.aborted

    def forget(self, xid: int) -> None:
        """It does not matter how it ends."""
        self._close(self._parts.pop(xid, None))

    def commit(self, xid: int) -> Iterator[bytes]:
        """Its messages in order, without those that were rolled back."""
        part = self._parts.pop(xid, None)
        if part is None:
            return
        try:
            part.file.seek(0)
            while head := part.file.read(_HEAD.size):
                owner, size = _HEAD.unpack(head)
                payload = part.file.read(size)
                if owner not in part.aborted:
                    yield payload
        finally:
            self._close(part)

    def close(self) -> None:
        """Forget all."""
        for part in self._parts.values():
            self._close(part)
        self._parts.clear()
        self._current = None

    @staticmethod
    def _close(part: _Part | None) -> None:
        if part is not None:
            part.file.close()
