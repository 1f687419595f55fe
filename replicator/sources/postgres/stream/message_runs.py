"""Runs of row messages of known relations, framed by a kernel: nothing is done for each of them but what its bytes ask
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replicator.sources.postgres.rows.row_messages import CommittedTransaction, TableRows
from replicator.sources.postgres.wire.frame_kernel import frame
from replicator.sources.postgres.wire.message_buffer import MessageBuffer

Places = npt.NDArray[np.int64]
_ROOM = 16_384  # rows in one run
_TRANSACTIONS = 4096


class KnownRelations:
    """The relations that were met, and where their rows are gathered."""

    def __init__(self, known: Mapping[bytes, TableRows | None]) -> None:
        """None: its rows are not wanted.  The names are the relations' numbers, as rows have them."""
        names = sorted(known)
        self.rows = [known[name] for name in names]
        self.oids = np.array([int.from_bytes(name, "big") for name in names], np.int64)
        self.wanted = np.array([rows is not None for rows in self.rows], np.bool_)
        self.found = np.empty((3, _ROOM), np.int64)  # for what is found in one run, until the next
        self.transactions = np.empty((_TRANSACTIONS, 6), np.int64)


class RowMessageRun(NamedTuple):
    """Row messages data[begin:end] of wanted relations (`slots`: by their place) in their order, and the transactions
    they are of.

    transactions: a row of each, with the columns that `frame_kernel` names.  `open`: the last of them has not ended.
    All of it holds until the next run is looked for.
    """

    data: npt.NDArray[np.uint8]
    slots: Places
    begins: Places
    ends: Places
    transactions: Places
    open: bool


def plain_run(
    arrived: MessageBuffer,
    known: KnownRelations,
    inside: CommittedTransaction | None,
    *,
    start: int,
    limit: int,
    whole: bool,
) -> RowMessageRun | None:
    """The plain messages that come next are taken; None where there was none.

    `inside` the transaction whose messages these are first.  `start`, `limit` and `whole` are explained in `frame`.
    """
    (slots, begins, ends), transactions = known.found, known.transactions
    if inside is not None:
        transactions[0] = (0, inside.xid, inside.commit_us, inside.record, 0, 0)
    at, rows, count, is_open = frame(
        arrived.data, arrived.at, arrived.end, arrived.LEAD, arrived.MARK, inside is not None, whole, start, limit,
        known.oids, known.wanted, slots, begins, ends, transactions,
    )  # fmt: skip
    if at == arrived.at:
        return None
    arrived.at = at
    return RowMessageRun(arrived.data, slots[:rows], begins[:rows], ends[:rows], transactions[:count], is_open)
