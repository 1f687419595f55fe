"""Rows of a result: ROW, and NBCROW where values are NULL ([MS-TDS] 2.2.7.15, 2.2.7.19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from testing.servers.sqlserver.wire.types import Column

AT_ONCE = 1 << 16
ROW, ROW_WITH_NULLS = b"\xd1", b"\xd2"


def rows(result: Any, columns: Sequence[Column]) -> Iterator[bytearray]:
    """result: Postgres', binary.  Tokens of its rows, some at a time."""
    encoders = [one.encode for one in columns]
    fields, value, size = range(len(encoders)), result.get_value, (len(encoders) + 7) // 8
    made = bytearray()
    for row in range(result.ntuples):
        cells = [value(row, at) for at in fields]
        if None in cells:
            nulls = sum(1 << at for at in fields if cells[at] is None)
            made += ROW_WITH_NULLS + nulls.to_bytes(size, "little")
            for at in fields:
                if cells[at] is not None:
                    made += encoders[at](cells[at])
        else:
            made += ROW
            for at in fields:
                made += encoders[at](cells[at])
        if len(made) > AT_ONCE:
            yield made
            made = bytearray()
    yield made
