"""Messages of the log up to the next one that is not plain, compiled.

Plain are rows of known relations, and the beginning and end of the transactions that they are of.  All others, and all
that is not as it should be, is left to `decoding`, which knows what to say.
https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html One kernel per file: numba does not
notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004 - compiled: types are in the decorators; sizes and codes of the format,
# named in messages
from __future__ import annotations

import numba
import numpy as np

from replicator.kernels import kernel, part

END, XID, TIME, RECORD, LAST, STAMP = range(6)
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_STOPPED = numba.types.Tuple((numba.int64, numba.int64, numba.int64, numba.boolean))
_EPOCH_US = 946_684_800_000_000


@part
def _big_endian(data, at, size):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for byte in range(size):
        value = value << 8 | np.int64(data[at + byte])
    return value


@part
def _place(sorted_, value):  # type: ignore[no-untyped-def]
    """-1 where it is not there."""
    low, high = 0, sorted_.shape[0]
    while low < high:
        middle = (low + high) // 2
        if sorted_[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < sorted_.shape[0] and sorted_[low] == value else -1


@kernel(
    _STOPPED(
        _BYTES, numba.int64, numba.int64, numba.int64, numba.int64, numba.boolean, numba.boolean, numba.int64,
        numba.int64,
        _PLACES, numba.boolean[::1], numba.int64[::1], numba.int64[::1], numba.int64[::1], numba.int64[:, ::1],
    )
)  # fmt: skip
def frame(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one pass over the messages
    data, at, end, lead, mark, inside, whole, start, limit, oids, wanted, slots, begins, ends, transactions
):  # fmt: skip
    """Plain messages of those in data[at:end], which are framed as on the wire: pgoutput's part begins at `lead`, and
    there is `mark` behind the head.

    `inside` a transaction: transactions[0] is that one.  `whole`: where a transaction has ended, those behind it that
    have not are left.  It stops behind the first transaction that ends at the place `limit` of the log or later, and
    before one from before `start`.
    oids: sorted, of relations whose rows are `wanted` or else passed over.  Of each row that is wanted: the relation by
    its place in `oids`, and its message data[begins:ends].  Of each transaction a row of `transactions`: how many rows
    there are up to its END, its XID, its TIME in microseconds since 1970, its commit RECORD, and of its end the place
    behind it, LAST, and the time once more, STAMP. Returns (where it stopped, rows, transactions, has the last of them
    not ended?).
    """
    count, room, known = 0, slots.shape[0], 1 if inside else 0
    oid, slot = np.int64(-1), np.int64(-1)
    done_at, done_count, done_known, ended = at, 0, known, False
    while end - at > lead:
        following = at + 1 + _big_endian(data, at + 1, 4)
        body = at + lead
        left = following - body
        if data[at] != 100 or following > end or left < 5 or data[at + 5] != mark:  # d
            break
        kind = data[body]
        if kind == 73 or kind == 85 or kind == 68:  # noqa: PLR1714 - I, U, D
            if not inside:
                break
            number = _big_endian(data, body + 1, 4)
            if number != oid:
                oid, slot = number, _place(oids, number)
            if slot < 0:
                break
            if wanted[slot]:
                if count == room:
                    break
                slots[count], begins[count], ends[count] = slot, body, following
                count += 1
        elif kind == 66:  # B
            if inside or left < 21 or known == transactions.shape[0]:
                break
            record = _big_endian(data, body + 1, 8)
            if record < start:
                break
            transactions[known, RECORD] = record
            transactions[known, TIME] = _big_endian(data, body + 9, 8) + _EPOCH_US
            transactions[known, XID] = _big_endian(data, body + 17, 4)
            known += 1
            inside = True
        elif kind == 67:  # C
            if not inside or left < 26:
                break
            transactions[known - 1, END] = count
            transactions[known - 1, LAST] = _big_endian(data, body + 10, 8)
            transactions[known - 1, STAMP] = _big_endian(data, body + 18, 8) + _EPOCH_US
            inside = False
            ended = True
            done_at, done_count, done_known = following, count, known
            if transactions[known - 1, LAST] >= limit:
                at = following
                break
        else:
            break
        at = following
    if inside:
        if whole and ended:
            return done_at, done_count, done_known, False
        transactions[known - 1, END] = count
    return at, count, known, inside
