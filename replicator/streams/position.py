"""A place in a shard, and its text: the checkpoint that clients keep."""

from __future__ import annotations

import re
from typing import NamedTuple

from replicator.errors import ConfigurationError

ROW = 1 << 40  # the offset of a change itself at its sequence number: what is put before it has smaller ones
_TEXT = re.compile(r"([0-9a-z]{1,20})-([0-9]{1,4})-([0-9]{1,18})-([0-9]{1,18})")


class StreamPosition(NamedTuple):
    """Everything before it was given.  `offset` counts within one sequence number: a change may give several rows."""

    sequence: int
    offset: int = 0


def checkpoint(stream: str, shard: int, position: StreamPosition) -> str:
    """Opaque to clients.  `stream` is its uid."""
    return f"{stream}-{shard}-{position.sequence}-{position.offset}"


def parse(text: str, stream: str, shard: int) -> StreamPosition:
    """Parse a checkpoint; ConfigurationError where it is not one of this shard."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            "Not a checkpoint of a stream.", remedy="Pass a checkpoint exactly as returned by a previous response."
        )
    if (found[1], int(found[2])) != (stream, shard):
        raise ConfigurationError(
            "The checkpoint belongs to another stream or shard.", remedy="Store one checkpoint per shard."
        )
    return StreamPosition(int(found[3]), int(found[4]))
