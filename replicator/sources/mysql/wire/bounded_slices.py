"""Slices of untrusted bytes: the sizes that they state are checked against the bytes that are there."""

from __future__ import annotations

import zlib

_MAX_DEFLATE_RATIO = 1040  # zlib makes one byte of this many at best


def part(data: bytes, at: int, size: int) -> bytes:
    """`size` bytes from `at`; IndexError where there are fewer."""
    if size > len(data) - at:
        message = f"{size} bytes at {at} of {len(data)}"
        raise IndexError(message)
    return data[at : at + size]


def inflate(data: bytes) -> bytes:
    """MariaDB's compressed part: one byte (0x80 | size of the length), the length big-endian, zlib data."""
    width = data[0] & 0x07
    if (data[0] >> 4) & 0x07:
        message = "compression algorithm"
        raise IndexError(message)
    return decompressed(data[1 + width :], int.from_bytes(part(data, 1, width), "big"))


def decompressed(data: bytes, size: int, *, wbits: int = 15) -> bytes:
    """Deflated data that must give `size` bytes: not one more is made."""
    message = "compressed length"
    if size > len(data) * _MAX_DEFLATE_RATIO:
        raise IndexError(message)
    stream = zlib.decompressobj(wbits)
    result = stream.decompress(data, size + 1)
    if len(result) != size or not stream.eof:
        raise IndexError(message)
    return result
