"""Where messages of the Postgres protocol begin and end: a byte of type, then a length that counts itself (docs:
protocol-overview).
"""

from __future__ import annotations

HEAD = 5
TAIL = 4  # of the head: the length
ANSWERS = b"SNG"  # one byte to a request for TLS or GSSAPI, before the first message


class Frames:
    """Follows what a server sends, fed block by block."""

    def __init__(self) -> None:
        self._head = self._kind = b""
        self._left = 0  # bytes of the message under way, after its head
        self._begun = False

    def feed(self, block: bytes | memoryview, types: bytes = b"") -> list[tuple[int, int]]:
        """(first, last) byte of what lies in this block of the body of each message of these types (all, where empty).

        A body is what follows the length; messages without one are left out.
        """
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(block):
            if not self._begun:
                self._begun = True
                if block[at] in ANSWERS:
                    self._begun = False
                    at += 1
                    continue
            if self._left == 0:
                taken = bytes(block[at : at + HEAD - len(self._head)])
                self._head += taken
                at += len(taken)
                if len(self._head) < HEAD:
                    break
                self._kind = self._head[:1]
                self._left = int.from_bytes(self._head[1:], "big") - TAIL
                self._head = b""
                continue
            count = min(self._left, len(block) - at)
            if not types or self._kind in types:
                found.append((at, at + count - 1))
            at += count
            self._left -= count
        return found
