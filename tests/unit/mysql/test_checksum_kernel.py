"""CRC-32 of events, both ways, beside zlib's."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numba
import numpy as np
import pytest

from replicator.kernel_bytes import CARRYLESS
from replicator.sources.mysql.wire import frame_kernel

LEAST, MOST = 19, 700  # an event's header is of 19 bytes


def _compiled(piece: Any) -> Any:
    @numba.njit
    def crc(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - compiled
        return piece(data, at, end)

    return crc


@pytest.mark.parametrize(
    "way", ["_tabled", pytest.param("_folded", marks=pytest.mark.skipif(not CARRYLESS, reason="no PCLMULQDQ"))]
)
def test_checksums_are_those_of_zlib(way: str) -> None:
    crc = _compiled(getattr(frame_kernel, way))
    source = random.Random(20261122)
    data = np.frombuffer(source.randbytes(MOST + 64), np.uint8)
    for size in range(LEAST, MOST):
        at = source.randrange(64)
        assert crc(data, at, at + size) == zlib.crc32(data[at : at + size].tobytes()), size
    for octet in (0, 0xFF):
        same = np.full(100, octet, np.uint8)
        assert crc(same, 0, 100) == zlib.crc32(same.tobytes())
