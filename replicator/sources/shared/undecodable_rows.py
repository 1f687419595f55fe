"""Finding the rows of a batch that cannot be decoded.  Nothing here runs while all of them can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.errors import TableError, TooManyDeadLetters
from replicator.model.change import Operation, UndecodableRow

Places = npt.NDArray[np.int64]
MAX_BAD = 1000  # of one batch
KEPT_BYTES = 64 * 1024  # of one row


class DecodeSplit(NamedTuple):
    """The rows that can be decoded, as one batch, and the places of the others with what is wrong."""

    batch: pa.RecordBatch
    bad: list[tuple[int, TableError]]


def bisect_undecodable(count: int, convert: Callable[[Places], pa.RecordBatch], schema: pa.Schema) -> DecodeSplit:
    """`convert` makes a batch with `schema` of the rows at some places (0 … count - 1), or raises TableError where one
    cannot be decoded.

    By halving: each bad row costs some conversions of ever fewer rows.  TooManyDeadLetters.
    """
    good: list[pa.RecordBatch] = []
    bad: list[tuple[int, TableError]] = []
    todo = [np.arange(count)]
    while todo:
        places = todo.pop()
        try:
            good.append(convert(places))
        except TableError as error:
            if len(places) > 1:
                todo += [places[len(places) // 2 :], places[: len(places) // 2]]
                continue
            bad.append((int(places[0]), error))
            if len(bad) > MAX_BAD:
                raise too_many(MAX_BAD, bad[0][1]) from None
    return DecodeSplit(pa.concat_batches(good) if good else pa.RecordBatch.from_pylist([], schema=schema), bad)


def too_many(most: int, error: TableError) -> TooManyDeadLetters:
    """For a table with more than `most` of them; `error` is one of theirs."""
    message = (
        f"More than {most:,} rows of a table cannot be decoded, which is the limit of dead-letter rows. One of them:"
        f" {error.message}"
    )
    return TooManyDeadLetters(message, remedy=error.remedy, table=error.table, column=error.column)


def undecodable_row(
    stamps: Sequence[pa.Array],
    error: TableError,
    data: npt.NDArray[np.uint8],
    keys: Callable[[], Iterable[Mapping[str, Any]]],
) -> UndecodableRow:
    """One row; `stamps` are the columns of it that every change has, in their order.

    `keys` decodes its key before and after the change, values by column, or raises TableError.
    """
    ordinal, operation, commit_ts, txn_id, offset = (stamp[0].as_py() for stamp in stamps)
    kept = data[:KEPT_BYTES].tobytes()
    return UndecodableRow(
        ordinal, Operation(operation), commit_ts, txn_id, offset, error, kept, len(data), keys=_known(keys)
    )


def _known(keys: Callable[[], Iterable[Mapping[str, Any]]]) -> tuple[Mapping[str, str], ...]:
    """As texts, each once."""
    try:
        found = [{column: _text(value) for column, value in key.items()} for key in keys()]
    except (TableError, ValueError):
        return ()
    return tuple(key for place, key in enumerate(found) if key not in found[:place])


def _text(value: Any) -> str:
    """Return a key value as text; ValueError for null, and for text that cannot be stored."""
    text = value.hex() if isinstance(value, bytes) else str(value)
    text.encode()
    if value is None or "\0" in text:
        raise ValueError(text)
    return text
