"""From which snapshot on a table's log is whole.

What a transaction wrote before its table was published is not in the log, so all that were open when the addition was
committed must have ended.  After each addition the publication's comment is written again: by a transaction whose
number is beyond all of those, a barrier.  The comment keeps the barriers before it, so that a table that was added
long ago does not wait for what the newest waits for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from replicator.sources.postgres.xid_snapshot import Snapshot

_KEPT = 20
_LIST = re.compile(r"; barriers ([\d ]+)$")


def listed_in(comment: str) -> list[str]:
    """The barriers before the comment itself."""
    found = _LIST.search(comment)
    return found[1].split() if found else []


def with_barriers(text: str, before: str, touched: str | None, added: Iterable[str], now: Snapshot) -> str:
    """The new comment.

    `before`, `touched`: the present one and the transaction that wrote it; `added`: those of the additions just made.

    No barrier may lie behind an addition that was not committed then: another worker's.
    """
    least = min((now.full(int(xid)) for xid in added), default=None)
    known = [xid for xid in (*listed_in(before), touched) if xid is not None]
    kept = [xid for xid in known if least is None or now.full(int(xid)) < least][-_KEPT:]
    return f"{text}; barriers {' '.join(kept)}" if kept else text


def whole_from(added: str | None, touched: str | None, comment: str, snapshot: Snapshot) -> int | None:
    """A snapshot must be beyond this transaction: the first barrier behind the addition.

    None: of nothing that is known.  `added` is None for a table that is published without being named.
    """
    if added is None:
        return None if touched is None else snapshot.full(int(touched))
    own = snapshot.full(int(added))
    barriers = [snapshot.full(int(xid)) for xid in (*listed_in(comment), touched) if xid is not None]
    return min((barrier for barrier in barriers if barrier > own), default=own)
